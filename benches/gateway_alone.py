"""Two real gateways alone on their path, and the same in the simulator: delay, goodput, and the path's queue.

What `experiments/gateway/alone.toml` has at 20 Mb/s and 35 ms with path control and FQ-CoDel: four
downloads of CUBIC, short transfers and a ping through a FIFO of four bandwidth-delay products. In the
real world the path is the emulator's. At each end of it a namespace is site and gateway: its daemon, TCP
of its kernel (iperf3), and a ping whose ways are timed one by one, for both ends have one clock. In the
simulator packets are as long as they are between real gateways, the tunnel's headers included. In both
worlds delay is added to that of a ping over a path like it which has no gateways and nobody else, so that
what gateways take for themselves counts. `--path` takes a path that changes, of the experiments beside: a
capacity that falls to a fifth and comes back, a cell, satellites. Needs root, iperf3 and iproute2.

    sudo python benches/gateway_alone.py [--path capacity] [--runs 4] [--json FILE]
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gateway_alone_files import CONFIGURATION, DELAYS, LATER, NARROW, REAL, SERIES, SIMULATED

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

import tidegate  # noqa: E402
from tidegate import stats  # noqa: E402
from tidegate.two_sites import INNER, PORT, network_of, obstacle, quantile  # noqa: E402

# Of the daemon: packets of so many bytes inside, and what is around them outside: padding, tunnel, UDP, IPv4.
MTU = 1420
TUNNEL = 32 + 28
# TCP of Linux: IPv4, TCP and time stamps.
HEADERS = 52
IDLE_S, WARM_UP_S, LOADED_S = 5.0, 10.0, 50.0
# On a path that changes downloads of the simulator begin when those between real gateways do, about, for both
# are to meet the same changes. It is looked at until so long after the beginning.
BEGINS_S, ENDS_S = 7.0, 60.0
# Of what falls at 20 s and comes back at 40: a second later, and five.
NARROW_S, WIDE_S = (21.0, 40.0), (45.0, 60.0)
PING_BYTES, PING_EVERY_S, PING_PORT = 100, 0.0125, 7008
WEB_BYTES, WEB_EVERY_S, WEB_PORT = 20_000, 0.4, 7009
STEADY, FALLS = "path-20", "capacity"
# And how many downloads they have.
PATHS = {STEADY: "4", FALLS: "4", "cell": "2", "satellite": "4"}
SEEDS = 8
SAMPLES = {
    "added delay ms, mean": "added_mean_ms",
    "added delay ms, p95": "added_p95_ms",
    "added delay ms, p99": "added_p99_ms",
    "downloads Mb/s": "goodput_mbps",
    "in the path's queue ms, mean": "queue_ms",
    # What the machine does to packets that the simulator knows nothing of.
    "without gateways, p95 above mean, ms": "machine_p95_ms",
    "without gateways, p99 above mean, ms": "machine_p99_ms",
    "at 10 Mb/s: added delay ms, p99": "narrow_p99_ms",
    "at 10 Mb/s: downloads Mb/s": "narrow_mbps",
    "at 50 again, after 5 s: downloads": "wide_mbps",
}


# What runs at a site.


def configure(folder: Path, program: Path) -> None:
    """Keys for both sites; the rest of a configuration needs addresses."""
    (folder / "tidegatectl").symlink_to(program)
    (folder / "tidegate-gateway").symlink_to(program)
    for site in "ab":
        made = subprocess.run(
            [folder / "tidegatectl", "keygen", folder / f"{site}.key"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        (folder / f"{site}.pub").write_text(made.stdout.strip())


@contextlib.contextmanager
def daemon(folder: Path, site: str):
    """The gateway of `site`, in control of the path."""
    other = "b" if site == "a" else "a"
    file = folder / f"{site}.toml"
    file.write_text(
        CONFIGURATION.format(
            folder=folder, site=site, other=other, mtu=MTU, inner=INNER[site],
            theirs=network_of(INNER[other], 24),
            public=(folder / f"{other}.pub").read_text(), port=PORT,
            outer=os.environ[f"TIDEGATE_ADDRESS_{other.upper()}"],
        )
    )  # fmt: skip
    with (folder / f"{site}.log").open("wb") as log:
        runs = subprocess.Popen([folder / "tidegate-gateway", "run", file], stdout=log, stderr=log)
    try:
        control = [folder / "tidegatectl", "--socket", folder / f"{site}.sock", "status", "--json"]
        until = time.monotonic() + 10
        while True:
            answer = subprocess.run(control, capture_output=True, text=True)
            if answer.returncode == 0 and json.loads(answer.stdout)["sites"][0]["state"] == "controlled":
                break
            if time.monotonic() > until or runs.poll() is not None:
                sys.exit(f"the gateway of {site} does not come up:\n{(folder / f'{site}.log').read_text()}")
            time.sleep(0.05)
        yield
    finally:
        runs.terminate()
        runs.wait()


class Heard(asyncio.DatagramProtocol):
    """Notes when each ping was sent and came."""

    def __init__(self) -> None:
        self.ways: list[tuple[float, float]] = []

    def datagram_received(self, data: bytes, _sender: object) -> None:
        """One has come."""
        (sent,) = struct.unpack_from("d", data)
        self.ways.append((sent, time.monotonic() - sent))


async def hear(folder: Path, site: str) -> None:
    """At b, or d: what comes is taken, until somebody ends it."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 16):
            pass
        writer.close()

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    _, heard = await loop.create_datagram_endpoint(Heard, ("0.0.0.0", PING_PORT))
    server = await asyncio.start_server(take, "0.0.0.0", WEB_PORT)
    iperf = subprocess.Popen(["iperf3", "-s", "-J"], stdout=subprocess.DEVNULL)
    (folder / f"{site}.hears").touch()
    while not ended.is_set() and not (folder / "done").exists():
        await asyncio.sleep(0.1)
    server.close()
    iperf.terminate()
    (folder / f"{site}.ways.json").write_text(json.dumps(heard.ways))


async def send_pings(to: str, until: float, chance: random.Random) -> None:
    """At a, or c: as regular as a game's, by half a step."""
    pings = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    at = time.monotonic()
    while at < until:
        await asyncio.sleep(at + chance.uniform(0, PING_EVERY_S / 2) - time.monotonic())
        # 28 of the bytes are headers.
        pings.sendto(struct.pack("d", time.monotonic()).ljust(PING_BYTES - 28), (to, PING_PORT))
        at += PING_EVERY_S


async def send_transfers(until: float, chance: random.Random) -> None:
    """At a: short transfers that come by chance."""

    async def transfer() -> None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(INNER["b"], WEB_PORT)
            writer.write(bytes(WEB_BYTES))
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    running = set()
    while (now := time.monotonic()) < until:
        await asyncio.sleep(min(chance.expovariate(1 / WEB_EVERY_S), until - now))
        running.add(asyncio.create_task(transfer()))
    for one in running:
        one.cancel()


async def until_heard(folder: Path, site: str) -> None:
    """Until `site` hears."""
    while not (folder / f"{site}.hears").exists():
        await asyncio.sleep(0.05)


async def send_alone(folder: Path, seed: int) -> None:
    """At c: the ping of the path that nobody else uses, as long as there is anything."""
    await until_heard(folder, "d")
    to = os.environ["TIDEGATE_ADDRESS_D"]
    pings = asyncio.create_task(send_pings(to, float("inf"), random.Random(seed)))
    while not (folder / "done").exists():
        await asyncio.sleep(0.1)
    pings.cancel()


async def send(folder: Path, seed: int, path: str) -> None:
    """At a: first the ping alone, then with everything."""
    chance = random.Random(seed)
    await until_heard(folder, "b")
    begun = time.monotonic()
    loaded = begun + IDLE_S
    ended = loaded + WARM_UP_S + LOADED_S
    if path != STEADY:
        loaded, ended = started() + BEGINS_S, started() + ENDS_S
    pings = asyncio.create_task(send_pings(INNER["b"], ended, chance))
    await asyncio.sleep(loaded - time.monotonic())
    iperf = await asyncio.create_subprocess_exec(
        "iperf3", "-c", INNER["b"], "-P", PATHS[path], "-C", "cubic", "-J", "--get-server-output", "-i", "1",
        "-O", f"{WARM_UP_S:.0f}", "-t", f"{ended - loaded - WARM_UP_S:.0f}", stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    transfers = asyncio.create_task(send_transfers(ended, chance))
    said, _ = await iperf.communicate()
    await asyncio.gather(pings, transfers)
    (folder / "load.json").write_bytes(said)
    (folder / "times.json").write_text(json.dumps([begun, loaded, loaded + WARM_UP_S, ended, started()]))
    (folder / "done").touch()


def started() -> float:
    """When this process began, and so the emulation, by the clock of `time.monotonic`."""
    fields = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def at_site(site: str, folder: Path, seed: int, path: str) -> None:
    """All of a site, or of an end of the path without gateways."""
    does = {"a": lambda: send(folder, seed, path), "b": lambda: hear(folder, "b")}
    alone = {"c": lambda: send_alone(folder, seed), "d": lambda: hear(folder, "d")}
    if site in alone:
        asyncio.run(alone[site]())
        return
    with daemon(folder, site):
        asyncio.run(does[site]())


# Both worlds.


def beside_experiments(folder: Path, text: str) -> Path:
    """A scenario that includes what those of `gateway` do."""
    shutil.copytree(ROOT / "experiments/gateway", folder / "gateway")
    (folder / "gateway/this.toml").write_text(text)
    return folder / "gateway/this.toml"


def rates(samples: list[tuple[float, float]], flows: int = 1) -> dict[str, float]:
    """What downloads have while the path is narrow, and once it should be found wide again, in Mb/s."""

    def mean(window: tuple[float, float]) -> float:
        return flows * statistics.mean(rate for at, rate in samples if window[0] < at <= window[1]) / 1e6

    return {"narrow_mbps": mean(NARROW_S), "wide_mbps": mean(WIDE_S)}


def real(program: Path, path: str, seed: int) -> dict[str, float]:
    """One run with real gateways."""
    changes = path != STEADY
    with tempfile.TemporaryDirectory(prefix="tidegate-alone-") as name:
        folder = Path(name)
        # The daemon gives its rights away, and comes back for its file.
        folder.chmod(0o755)
        configure(folder, program)
        command = f"exec {sys.executable} {Path(__file__).resolve()} --folder {folder} --seed {seed}"
        seconds = IDLE_S + WARM_UP_S + LOADED_S + 10
        warm_up = (BEGINS_S + WARM_UP_S) if changes else IDLE_S + WARM_UP_S + 1
        command += f" --path {path}"
        text = REAL.format(seconds=seconds, warm_up=warm_up, command=command, path=path)
        scenario = beside_experiments(folder, text)
        ran = subprocess.run(
            [sys.executable, "-m", "tidegate", "emulate", scenario, "--json"],
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, capture_output=True, text=True,
        )  # fmt: skip
        if not all((folder / f"{site}.ways.json").exists() for site in "bd"):
            logs = "".join(path.read_text() for path in folder.glob("*.log"))
            sys.exit(f"no result:\n{ran.stderr[-2000:]}\n{logs}")
        summary = json.loads(ran.stdout)
        if not summary["emulation"]["kept_up"]:
            print("the machine did not keep up in this run", file=sys.stderr)
        begun, loaded, warm, ended, start = json.loads((folder / "times.json").read_text())
        ways, alone = (json.loads((folder / f"{site}.ways.json").read_text()) for site in "bd")
        load = json.loads((folder / "load.json").read_text())
        without = [took for sent, took in alone if warm < sent < ended]
        idle = statistics.mean(without)
        # The first seconds are those in which a new link learns.
        quiet = statistics.mean(took for sent, took in ways if begun + IDLE_S / 2 < sent < loaded)
        late = [took for sent, took in ways if warm < sent < ended]
        told = {}
        if path == FALLS:
            narrow = [took for sent, took in ways if NARROW_S[0] < sent - start < NARROW_S[1]]
            told["narrow_p99_ms"] = 1e3 * (quantile(narrow, 0.99) - idle)
            seconds = load["server_output_json"]["intervals"]
            seconds = [one["sum"] for one in seconds if not one["sum"]["omitted"]]
            told |= rates([(warm - start + one["end"], one["bits_per_second"]) for one in seconds])
        return told | {
            "added_mean_ms": 1e3 * (statistics.mean(late) - idle),
            "added_p95_ms": 1e3 * (quantile(late, 0.95) - idle),
            "added_p99_ms": 1e3 * (quantile(late, 0.99) - idle),
            "gateways_idle_ms": 1e3 * (quiet - idle),
            "machine_p95_ms": 1e3 * (quantile(without, 0.95) - idle),
            "machine_p99_ms": 1e3 * (quantile(without, 0.99) - idle),
            "goodput_mbps": load["end"]["sum_received"]["bits_per_second"] / 1e6,
            "queue_ms": summary["links"]["path"]["delay_ms"]["mean"],
        }


def outside(inside: int) -> int:
    """Bytes that a packet takes between the gateways."""
    return -(-inside // 16) * 16 + TUNNEL


def simulated(folder: Path, path: str, seed: int) -> dict[str, float]:
    """One run in the simulator."""
    scenario = folder / "gateway/this.toml"
    changes = path != STEADY
    if not scenario.exists():
        begins, ends = (BEGINS_S, ENDS_S) if changes else (0.0, WARM_UP_S + LOADED_S)
        text = SIMULATED + (LATER + SERIES if changes else "")
        text += DELAYS + NARROW if path == FALLS else ""
        text = text.format(
            path=path, seconds=ends, warm_up=begins + WARM_UP_S,
            packet=outside(MTU), header=outside(MTU) - (MTU - HEADERS), ack=outside(HEADERS),
            ping=outside(PING_BYTES), ping_rate=round(outside(PING_BYTES) * 8 / PING_EVERY_S),
        )  # fmt: skip
        beside_experiments(folder, text)
    flows = (result := tidegate.run(scenario, seed=seed)).flows
    idle = flows["idle"]["delay_ms"]["mean"]
    told = {}
    if path == FALLS:
        told["narrow_p99_ms"] = flows["narrow"]["delay_ms"]["p99"] - idle
        series = [zip(*result.series(name), strict=True) for name in result.series_names]
        told |= rates([sample for one in series for sample in one], len(series))
    return told | {
        "added_mean_ms": flows["ping"]["delay_ms"]["mean"] - idle,
        "added_p95_ms": flows["ping"]["delay_ms"]["p95"] - idle,
        "added_p99_ms": flows["ping"]["delay_ms"]["p99"] - idle,
        "goodput_mbps": sum(flow["goodput_bps"] for name, flow in flows.items() if name.startswith("tcp"))
        / 1e6,
        "queue_ms": result.links["path"]["delay_ms"]["mean"],
        # The simulator's machine is never late.
        "machine_p95_ms": 0.0,
        "machine_p99_ms": 0.0,
    }


def table(ours: list[dict[str, float]], ideal: list[dict[str, float]]) -> str:
    """Both, with the half width of the 95 % interval, and what is between them."""
    lines = [f"{'':36}{'real':>16}{'simulated':>16}{'difference':>12}"]
    for label, key in SAMPLES.items():
        if key not in ours[0]:
            continue
        cells, means = [], []
        for runs in (ours, ideal):
            estimate = stats.estimate([run[key] for run in runs])
            width = 0.0 if estimate.high is None else estimate.high - estimate.mean
            cells.append(f"{estimate.mean:.2f} ±{width:.2f}")
            means.append(estimate.mean)
        apart = f"{100 * (means[0] / means[1] - 1):+11.1f}%" if means[1] > 0.01 else ""
        lines.append(f"{label:36}{cells[0]:>16}{cells[1]:>16}{apart}")
    return "\n".join(lines)


def main() -> None:
    """Both worlds, and a table."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--path", choices=PATHS, default=STEADY, help="of the experiments with gateways")
    parser.add_argument("--runs", type=int, default=4, help="with real gateways, of 75 s each")
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/tidegate-gateway")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--site", choices=tuple("abcd"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.site:
        at_site(arguments.site, arguments.folder, arguments.seed, arguments.path)
        return
    if (why := obstacle()) or shutil.which("iperf3") is None:
        sys.exit(why or "install iperf3 first")
    with tempfile.TemporaryDirectory() as folder:
        ideal = [simulated(Path(folder), arguments.path, seed) for seed in range(1, SEEDS + 1)]
    ours = []
    for seed in range(1, arguments.runs + 1):
        print(f"run {seed} of {arguments.runs} with real gateways", file=sys.stderr)
        ours.append(real(arguments.program.resolve(), arguments.path, seed))
    print(table(ours, ideal))
    if arguments.json:
        arguments.json.write_text(json.dumps({"real": ours, "simulated": ideal}, indent=2) + "\n")


if __name__ == "__main__":
    main()
