"""What recording a gateway costs, and whether what was recorded replays.

Two daemons in namespaces, and TCP of iperf3 between them. First in turn with and without a recording, for the
processor time of both daemons per Gbit that arrived: their processes', with what the kernel does for them and
with the thread that sends the recording away; that of `tidegatectl` is apart. Then one recording of each for
`--seconds`, which both are replayed. It ends with 1 if a verdict differs. Needs root, iperf3 and iproute2.

    sudo python benches/gateway_recording.py [--rate 50mbit] [--seconds 600] [--rounds 4] [--json FILE]
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from tidegate.two_sites import INNER, TwoSites, obstacle  # noqa: E402

RATES = '{ floor = "1Mbit", max = "1Gbit", fallback = "8Mbit" }'
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FLOWS = 4
WARM_UP_S = 3
# A load ends this much later than the recordings in it.
MARGIN_S = 4


def spent_s(sites: TwoSites) -> float:
    """User and system time of both daemons."""
    total = 0
    for daemon in sites.daemons.values():
        fields = Path(f"/proc/{daemon.pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_S


def begin_recordings(sites: TwoSites, name: str, seconds: int) -> list[subprocess.Popen[str]]:
    """Begins one of each daemon."""
    begun = []
    for site in ("a", "b"):
        command = [str(sites.folder / "tidegatectl"), "--socket", str(sites.socket(site)), "record"]
        command += ["-o", str(sites.folder / f"{site}-{name}.tgr"), "--seconds", str(seconds), "--force"]
        begun.append(subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    return begun


def end_recordings(begun: list[subprocess.Popen[str]], seconds: int) -> None:
    """Until those of so long are over."""
    for recorder in begun:
        _, complaint = recorder.communicate(timeout=seconds + 60)
        if recorder.returncode != 0:
            sys.exit(complaint)


def round_of(sites: TwoSites, seconds: int, pace: float, *, is_recorded: bool) -> dict:
    """A load of so long: seconds of processor per Gbit, of the daemons and of `tidegatectl`."""
    load = sites.load(INNER["b"], seconds + WARM_UP_S + MARGIN_S, FLOWS, pace)
    time.sleep(WARM_UP_S)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    before, bytes_before = spent_s(sites), sites.status("b")["received_bytes"]
    begun = begin_recordings(sites, "round", seconds) if is_recorded else []
    if is_recorded:
        end_recordings(begun, seconds)
    else:
        time.sleep(seconds)
    spent = spent_s(sites) - before
    gbit = (sites.status("b")["received_bytes"] - bytes_before) * 8 / 1e9
    if gbit < 0 or is_recorded:
        # Another core counts anew.
        gbit = sites.status("b")["received_bytes"] * 8 / 1e9
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    control = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    load.finish()
    return {"daemons_s_per_gbit": spent / gbit, "control_s_per_gbit": control / gbit, "gbit": gbit}


def replay(program: Path, file: Path) -> dict:
    """What the replay says, and how long it took."""
    began = time.monotonic()
    ended = subprocess.run([str(program), "replay", "--json", str(file)], capture_output=True, text=True)
    if not ended.stdout:
        sys.exit(ended.stderr)
    found = json.loads(ended.stdout)
    return {**found, "file_bytes": file.stat().st_size, "replay_s": time.monotonic() - began}


def main() -> int:
    """Measure, print, and keep it where `--json` says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", default="50mbit", help="of the link between the sites")
    parser.add_argument("--pace", type=float, default=45e6, help="bit/s that TCP paces itself to in all")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--round-seconds", type=int, default=15)
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/tidegate-gateway")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if why := obstacle():
        sys.exit(why)
    pace = given.pace / FLOWS
    with TwoSites(given.program, given.rate) as sites:
        sites.configure(RATES)
        for site in ("a", "b"):
            sites.start(site)
        sites.wait_for("controlled")
        rounds = []
        for number in range(given.rounds):
            pair = {}
            for is_recorded in (number % 2 == 0, number % 2 == 1):
                pair[is_recorded] = round_of(sites, given.round_seconds, pace, is_recorded=is_recorded)
            rounds.append({"with": pair[True], "without": pair[False]})
            print(json.dumps(rounds[-1]), flush=True)
        ratios = [one["with"]["daemons_s_per_gbit"] / one["without"]["daemons_s_per_gbit"] for one in rounds]
        load = sites.load(INNER["b"], given.seconds + MARGIN_S, FLOWS, pace)
        end_recordings(begin_recordings(sites, "long", given.seconds), given.seconds)
        load.finish()
        replays = {site: replay(given.program, sites.folder / f"{site}-long.tgr") for site in ("a", "b")}
    result = {
        "rate": given.rate,
        "rounds": rounds,
        "cost_ratio": math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None,
        "cost_ratios": sorted(ratios),
        "load_average": os.getloadavg(),
        "replays": replays,
    }
    print(json.dumps(result, indent=1))
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(one["identical"] for one in replays.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
