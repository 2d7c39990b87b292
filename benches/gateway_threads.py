"""What two packet threads cost and give: a gateway with two busy sites, one on each thread, beside one.

The gateway and four sites are in namespaces of one machine (`tests/system/star.py`); hosts at the gateway
send to two of the sites at once. `paced`: TCP that paces itself; `open`: as fast as it goes; `one-way`:
UDP, of which the kernel does not know the thread any more some 3 s after iperf3's greeting was answered,
so that with two threads half of it is handed over from then on. A round is all gateways in turn (with
`--before` also one by another program), so that what else the machine does meets all alike. Seconds are
user and system time of the gateway's process; the other ends are on the same machine, so that on two
processors two threads cannot have two. A ratio is that of a round, to one thread; its interval is that of
Student's t of the logarithms, 95 of 100. Needs root, iperf3 and iproute2.

    sudo nice -n -15 python benches/gateway_threads.py [--rate 400] [--seconds 4] [--before FILE]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "system"), str(ROOT / "benches")]

from gateway import ratio, spent  # noqa: E402
from star import HUB, SPOKES, Star  # noqa: E402

# With two threads they are on one each.
BUSY = SPOKES[:2]
FLOWS = 4
RATES = '{ floor = "2Gbit", max = "10Gbit", fallback = "2Gbit" }'
WARM_UP_S = 1
UDP_BYTES = 1200
UDP_FLOWS = 8


@dataclass
class Run:
    """What one gateway did in one round."""

    goodput_bps: float
    # Processor seconds for a Gbit.
    seconds: float
    handed_over: int
    lost_between: int


def send(star: Star, way: str, mbps: float, seconds: float) -> float:
    """Bits that came, of what hosts at the gateway sent to both sites at once."""
    servers = [
        subprocess.Popen(star.within(site, "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL) for site in BUSY
    ]
    time.sleep(0.4)
    of_each = mbps * 1e6 / len(BUSY)
    options = {
        "paced": ["-P", str(FLOWS), "-C", "cubic", "--fq-rate", f"{of_each / FLOWS:.0f}"],
        "open": ["-P", str(FLOWS), "-C", "cubic"],
        "one-way": ["-u", "-P", str(UDP_FLOWS), "-b", f"{of_each / UDP_FLOWS:.0f}", "-l", str(UDP_BYTES)],
    }[way]
    command = ["-t", f"{seconds:g}", "-J", *options]
    clients = [
        subprocess.Popen(
            star.within(HUB, "iperf3", "-c", star.inner(site), *command), text=True, stdout=subprocess.PIPE
        )
        for site in BUSY
    ]
    bits = 0.0
    for client in clients:
        end = json.loads(client.communicate(timeout=seconds + 60)[0])["end"]
        received = end.get("sum_received") or end["sum"]
        bits += received["bytes"] * 8 * (1 - received.get("lost_percent", 0) / 100)
    for server in servers:
        server.wait(timeout=10)
    return bits


def measured(star: Star, way: str, mbps: float, seconds: float) -> Run:
    """What the gateway that is up costs while hosts send."""
    send(star, way, mbps, WARM_UP_S)
    time.sleep(0.5)
    before, wire = spent(star.daemons[HUB].pid), star.status()["wire"]
    bits = send(star, way, mbps, seconds)
    after = spent(star.daemons[HUB].pid)
    time.sleep(0.5)
    now = star.status()["wire"]
    grown = [now.get(key, 0) - wire.get(key, 0) for key in ("handed_over", "lost_between")]
    return Run(bits / seconds, (after - before) / bits * 1e9, *grown)


def main() -> None:
    """Measures, and prints a table for each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--program", type=Path, default=target / "release" / "tidegate-gateway")
    parser.add_argument("--before", type=Path, help="another program, which has one thread")
    parser.add_argument(
        "--rate", type=float, default=400, help="of both sites together where it is paced, Mbit/s"
    )
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--ways", nargs="+", default=["paced", "open", "one-way"])
    parser.add_argument("--control", default='"path"', help="of the gateway, as in its file")
    arguments = parser.parse_args()
    pairs = {"1 thread": (arguments.program, 1), "2 threads": (arguments.program, 2)}
    if arguments.before:
        pairs["before"] = (arguments.before, 1)
    for way in arguments.ways:
        runs: dict[str, list[Run]] = {name: [] for name in pairs}
        with Star(arguments.program) as star:
            star.spoke_rates(RATES)
            for site in BUSY:
                star.start(site)
            for number in range(arguments.repeats):
                # Nobody is always the first.
                order = list(pairs.items())
                for name, (program, threads) in order if number % 2 == 0 else order[::-1]:
                    more = dict.fromkeys(SPOKES, f"control = {arguments.control}\n")
                    star.configure_hub(threads, RATES, more)
                    if name == "before":
                        text = star.file(HUB).read_text()
                        star.file(HUB).write_text(text.replace("threads = 1\n", ""))
                    star.start(HUB, command=[str(program), "run", str(star.file(HUB))])
                    star.wait("controlled" if "path" in arguments.control else "fixed", BUSY)
                    runs[name].append(measured(star, way, arguments.rate, arguments.seconds))
                    star.daemons[HUB].terminate()
                    star.daemons[HUB].wait(timeout=10)
        print(f"{way} ({arguments.repeats} rounds of {arguments.seconds:g} s)")
        for name, all_runs in runs.items():
            base = [run.seconds for run in runs["1 thread"]]
            middle, low, high = ratio([run.seconds for run in all_runs], base)
            mean = {key: statistics.mean(getattr(run, key) for run in all_runs) for key in vars(all_runs[0])}
            print(
                f"  {name:9}  {mean['goodput_bps'] / 1e6:7.0f} Mbit/s  {mean['seconds']:.3f} s/Gbit  "
                f"{middle:.2f} ({low:.2f} to {high:.2f})  handed over {mean['handed_over']:.0f}, lost "
                f"{mean['lost_between']:.0f} in a round"
            )


if __name__ == "__main__":
    main()
