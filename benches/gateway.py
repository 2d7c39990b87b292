"""What the gateway costs beside `wireguard-go`, in one run: processor time of two daemons, and added latency.

Between two namespaces and a third one that forwards, TCP of iperf3 goes from one site to the other, through
each pair in turn, so that what else the machine does meets all alike: pacing itself to a rate, through a
link of that rate, and as fast as it goes. A daemon's seconds are user and system time of its process, in
which is what the kernel does for its packets on the way, up to the next queue. `softirq` and `machine` are
what the whole machine spent on it and on everything, whoever it was for. A ratio is that of a round, ours by
theirs; its interval is that of Student's t of the logarithms, 95 of 100. What is added to a round trip is the
median of rounds, with an interval likewise; beside it is what a round trip around the gateways takes, which
says how the machine was at the time, and what two `socat` add, where these are installed: the least that a
program adds which sleeps in between. Without path control our daemons use packets of 1280 bytes, whatever
`--mtu` says, which is more of them: `--mtu 1280` makes all alike. Needs root, iperf3, iproute2, and
`wireguard-go` (or Go, with which it is made).

    sudo nice -n -15 python benches/gateway.py [--rate 500mbit] [--seconds 6] [--repeats 4] [--json FILE]
"""

import argparse
import base64
import json
import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from tidegate.two_sites import INNER, OUTER, PORT, TwoSites, obstacle, quantile  # noqa: E402

PEER_MODULE = "golang.zx2c4.com/wireguard@v0.0.0-20260522210424-ecfc5a8d5446"
RATES = '{{ floor = "{}", max = "10Gbit", fallback = "{}" }}'
LEAST = "1Mbit"
# What the shaper with a fixed rate has of the link's: the queue is here then, and headers have room.
FIXED_PART = 0.96
# And of TCP's, where that paces itself: packets are spaced, and none is dropped.
PACED_PART = 1.25
FLOWS = 4
MTU = 1420
# Packets of a connection stay together; see `docs/gateway.md`.
LONG_TURNS = '{ kind = "fq-codel", quantum = "12kB" }'
WAYS = {
    "paced": "TCP that paces itself to {} in all",
    "link": "through a link of {}, which takes packets one by one",
    "open": "as fast as it goes",
}
# The queue of the link.
QUEUE_S = 0.05
WARM_UP_S = 2
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Two-sided, 95 of 100, by degrees of freedom.
STUDENT = (math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)

# Asks two addresses in turn, and says how long each took to answer, in seconds.
IN_TURN = """
import json, socket, sys, time
count, every = int(sys.argv[1]), float(sys.argv[2])
asks = []
for address in sys.argv[3:]:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.connect((address, 7007))
    one.settimeout(0.5)
    asks.append(one)
took = [[] for _ in asks]
for number in range(count):
    for one, told in zip(asks, took):
        sent = time.monotonic()
        try:
            one.send(str(number).encode())
            while int(one.recv(100)) != number:
                pass
        except OSError:
            pass
        told.append(time.monotonic() - sent)
        time.sleep(every)
print(json.dumps(took))
"""


@dataclass
class Run:
    """What one run of one pair has shown."""

    pair: str
    goodput_bps: float
    # Per Gbit of what TCP delivered.
    seconds: float
    seconds_of: dict[str, float]
    softirq: float
    machine: float
    resident_mb: float


class Apart(TwoSites):
    """The same, each site on a processor of its own: what comes from the other one wakes it, as for sites.

    Where both share them, who wakes up where depends on what the other site happens to do.
    """

    def within(self, site: str, *command: str) -> list[str]:
        """`command` as it runs in the namespace of `site`."""
        return super().within(site, "taskset", "-c", str("ab".index(site)), *command)


class Peers:
    """Two daemons of `wireguard-go` at the two sites. A context."""

    def __init__(self, sites: TwoSites, program: Path, mtu: int = MTU) -> None:
        self.sites, self.program, self.mtu = sites, program, mtu

    def __enter__(self) -> "Peers":
        for site in "ab":
            self.start(site)
        return self

    def start(self, site: str) -> None:
        """That of `site`, for whoever is at the other one."""
        other = "b" if site == "a" else "a"
        said = subprocess.run(
            [self.sites.folder / "tidegatectl", "pubkey", self.sites.folder / f"{other}.key"],
            text=True, check=True, capture_output=True,
        )  # fmt: skip
        # Sockets of devices are of the machine, not of a namespace.
        device = f"tg{os.getpid()}{site}"
        with (self.sites.folder / f"{site}.log").open("ab") as log:
            self.sites.daemons[site] = subprocess.Popen(
                self.sites.within(site, str(self.program), "-f", device),
                env={**os.environ, "LOG_LEVEL": "error"}, stdout=log, stderr=log,
            )  # fmt: skip
        self._set(device, site, said.stdout.strip(), other)
        subprocess.run(
            self.sites.within(site, "ip", "address", "add", f"{INNER[site]}/24", "dev", device), check=True
        )
        subprocess.run(
            self.sites.within(site, "ip", "link", "set", "dev", device, "mtu", str(self.mtu), "up"),
            check=True,
        )
        subprocess.run(
            self.sites.within(site, "ip", "route", "add", f"{INNER[other]}/32", "dev", device), check=True
        )

    def _set(self, device: str, site: str, public: str, other: str) -> None:
        path = Path(f"/var/run/wireguard/{device}.sock")
        until = time.monotonic() + 10
        while not path.exists():
            if time.monotonic() > until:
                sys.exit(f"wireguard-go does not start:\n{self.sites.log(site)}")
            time.sleep(0.05)
        private = (self.sites.folder / f"{site}.key").read_text()
        hexadecimal = [base64.b64decode(key).hex() for key in (private, public)]
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(path))
            control.send(
                f"set=1\nprivate_key={hexadecimal[0]}\nlisten_port={PORT}\npublic_key={hexadecimal[1]}\n"
                f"endpoint={OUTER[other]}:{PORT}\nallowed_ip={INNER[other]}/24\n\n".encode()
            )
            if (answer := control.recv(100).decode().strip()) != "errno=0":
                sys.exit(f"wireguard-go: {answer}")

    def __exit__(self, *_: object) -> None:
        stop(self.sites)


class Pipes:
    """Two `socat`, which take packets from a device to a socket and back and do nothing else. A context.

    They are the least that a program which sleeps in between can be: what is above them is the gateway's.
    """

    def __init__(self, sites: TwoSites) -> None:
        self.sites = sites

    def __enter__(self) -> "Pipes":
        for site, other in ("ab", "ba"):
            ends = (
                f"UDP-DATAGRAM:{OUTER[other]}:{PORT},bind={OUTER[site]}:{PORT}",
                f"TUN:{INNER[site]}/24,tun-name=pipe,iff-no-pi,iff-up",
            )
            self.sites.daemons[site] = subprocess.Popen(self.sites.within(site, "socat", *ends))
            route = self.sites.within(site, "ip", "route", "add", f"{INNER[other]}/32", "dev", "pipe")
            until = time.monotonic() + 10
            while subprocess.run(route, capture_output=True).returncode:
                if time.monotonic() > until:
                    sys.exit("socat does not start")
                time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        stop(self.sites)


class Ours:
    """Two of our daemons, with `control`, the least rate `floor`, and `more` in `[gateway]`. A context."""

    def __init__(
        self, sites: TwoSites, control: str, floor: str = LEAST, mtu: int = MTU, more: tuple[str, ...] = ()
    ) -> None:
        self.sites, self.control = sites, control
        self.rates, self.gateway = RATES.format(floor, floor), [f"mtu = {mtu}", *more]

    def __enter__(self) -> "Ours":
        for site in "ab":
            file = self.sites.file(site)
            ours = ("control", "rate", "mtu", "queue", "busy_poll", "together")
            lines = [line for line in file.read_text().splitlines() if not line.startswith(ours)]
            lines[1:1] = self.gateway
            file.write_text("\n".join([*lines, f"control = {self.control}", f"rate = {self.rates}", ""]))
            self.sites.start(site)
        self.sites.wait_for("controlled" if "path" in self.control else "fixed")
        return self

    def __exit__(self, *_: object) -> None:
        stop(self.sites)


def stop(sites: TwoSites) -> None:
    """Ends both daemons."""
    for daemon in sites.daemons.values():
        daemon.terminate()
    for daemon in sites.daemons.values():
        daemon.wait(timeout=10)
    sites.daemons.clear()


def spent(process: int) -> float:
    """Processor seconds of `process`, user and system."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def machine() -> tuple[float, float]:
    """Processor seconds of the whole machine that were not idle, and those of them in softirq."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _waiting, irq, softirq, _stolen = fields
    return (user + nice + system + irq + softirq) / TICKS_PER_S, softirq / TICKS_PER_S


def measured(sites: TwoSites, pair: str, seconds: float, pace: float | None) -> Run:
    """What the pair that is up costs while TCP sends."""
    sites.load(INNER["b"], WARM_UP_S, FLOWS, pace).finish()
    processes = {site: daemon.pid for site, daemon in sites.daemons.items()}
    before = {site: spent(process) for site, process in processes.items()}
    all_before = machine()
    result = sites.load(INNER["b"], seconds, FLOWS, pace).finish()["end"]["sum_received"]
    all_after = machine()
    gigabits = result["bytes"] * 8 / 1e9
    of_site = {site: (spent(process) - before[site]) / gigabits for site, process in processes.items()}
    resident = [
        int(line.split()[1]) / 1e3
        for process in processes.values()
        for line in Path(f"/proc/{process}/status").read_text().splitlines()
        if line.startswith("VmRSS")
    ]
    return Run(
        pair=pair,
        goodput_bps=result["bits_per_second"],
        seconds=sum(of_site.values()),
        seconds_of=of_site,
        machine=(all_after[0] - all_before[0]) / gigabits,
        softirq=(all_after[1] - all_before[1]) / gigabits,
        resident_mb=max(resident),
    )


def ratio(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """The geometric mean of ratios, and its interval; see the module."""
    logarithms = [math.log(one / other) for one, other in zip(ours, theirs, strict=True)]
    middle, count = statistics.mean(logarithms), len(logarithms)
    if count < 2:
        return math.exp(middle), 0.0, math.inf
    half = STUDENT[min(count - 1, len(STUDENT) - 1)] * statistics.stdev(logarithms) / math.sqrt(count)
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def bits_per_second(text: str) -> float:
    """What `tc` takes for a rate."""
    for unit, factor in (("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)):
        if text.lower().endswith(unit):
            return float(text[: -len(unit)]) * factor
    sys.exit(f"`{text}` is no rate; 500mbit is one")


def rounds(arguments: argparse.Namespace, way: str) -> list[Run]:
    """All pairs in turn, as often as was asked for."""
    bps = bits_per_second(arguments.rate)
    link = arguments.rate if way == "link" else None
    pace = bps / FLOWS if way == "paced" else None
    fixed = round(bps * (FIXED_PART if way == "link" else PACED_PART) / 1e3)
    controls = {"none": '"none"', "fixed": f'{{ kind = "fixed", rate = "{fixed}kbit" }}', "path": '"path"'}
    controls["path-12kB"] = f'"path"\nqueue = {LONG_TURNS}'
    # Path control holds the rate, and works; but delays by what else the machine does are no reason to go
    # below that of the others.
    floor = f"{fixed}kbit"
    if way == "open":
        del controls["fixed"]
        floor = LEAST
    runs = []
    with TwoSites(arguments.program, link, int(bps / 8 * QUEUE_S)) as sites:
        sites.configure(RATES.format(LEAST, LEAST))
        for _ in range(arguments.repeats):
            with Peers(sites, arguments.peer, arguments.mtu):
                runs.append(measured(sites, "wireguard-go", arguments.seconds, pace))
            for name, control in controls.items():
                if name in arguments.pairs:
                    with Ours(sites, control, floor if "path" in control else LEAST, arguments.mtu):
                        runs.append(measured(sites, name, arguments.seconds, pace))
    return runs


def show(title: str, runs: list[Run]) -> dict[str, object]:
    """Prints what `runs` say; the ratios."""
    print(f"\n{title}\n{'':14}{'Mbit/s':>8}{'s/Gbit':>9}", end="")
    print(f"{'a':>7}{'b':>7}{'softirq':>9}{'machine':>9}{'MB':>6}   ratio")
    theirs = [run.seconds for run in runs if run.pair == "wireguard-go"]
    told: dict[str, object] = {"runs": [asdict(run) for run in runs]}
    for pair in dict.fromkeys(run.pair for run in runs):
        own = [run for run in runs if run.pair == pair]
        of = lambda key: statistics.median(key(run) for run in own)  # noqa: B023, E731
        middle, least, most = ratio([run.seconds for run in own], theirs)
        told[pair] = {"ratio": middle, "least": least, "most": most}
        print(
            f"{pair:14}{of(lambda run: run.goodput_bps) / 1e6:8.0f}{of(lambda run: run.seconds):9.3f}"
            f"{of(lambda run: run.seconds_of['a']):7.3f}{of(lambda run: run.seconds_of['b']):7.3f}"
            f"{of(lambda run: run.softirq):9.3f}{of(lambda run: run.machine):9.3f}"
            f"{of(lambda run: run.resident_mb):6.0f}   {middle:.2f} ({least:.2f} to {most:.2f})"
        )
    return told


def middle(values: list[float]) -> tuple[float, float, float]:
    """The median, and an interval of order statistics that has the true one in at least 95 of 100 cases.

    All of them where there are fewer than six: then it has it less often.
    """
    ordered, count = sorted(values), len(values)
    outside, least = 0.0, 0
    # So many of the smallest may be left out, and of the largest.
    while 2 * (outside + math.comb(count, least) / 2**count) <= 0.05:
        outside += math.comb(count, least) / 2**count
        least += 1
    low = max(least - 1, 0)
    return statistics.median(ordered), ordered[low], ordered[count - 1 - low]


def latency(arguments: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Round trips of probes on an idle path, around the gateways and through them, in turn."""
    parts = (50, 95, 99)
    added: dict[str, dict[str, list[float]]] = {}
    with (Apart if arguments.apart else TwoSites)(arguments.program, None) as sites:
        sites.configure(RATES.format(LEAST, LEAST))
        pairs: dict[str, Peers | Pipes | Ours] = {"wireguard-go": Peers(sites, arguments.peer)}
        if shutil.which("socat"):
            pairs["socat"] = Pipes(sites)
        for name in ("none", "path"):
            if name in arguments.pairs:
                pairs[name] = Ours(sites, f'"{name}"')
                # And without looking on after a packet.
                if f"{name}-sleeps" in arguments.pairs:
                    pairs[f"{name}-sleeps"] = Ours(sites, f'"{name}"', more=("busy_poll = 0",))
        sites.echo()
        where = ", sites apart" if arguments.apart else ""
        print(f"\nadded to round trips on an idle path, ms; {arguments.probes} of each in turn{where}")
        for _ in range(arguments.repeats):
            for name, pair in pairs.items():
                with pair:
                    time.sleep(1)
                    program = (sys.executable, "-c", IN_TURN, str(arguments.probes), "0.005")
                    asked = sites.within("a", *program, OUTER["b"], INNER["b"])
                    said = subprocess.run(asked, text=True, check=True, capture_output=True).stdout
                direct, through = json.loads(said)
                told = added.setdefault(
                    name, {f"{what}_p{part}_ms": [] for what in ("added", "around") for part in parts}
                )
                for part in parts:
                    around = 1e3 * quantile(direct, part / 100)
                    told[f"around_p{part}_ms"].append(around)
                    told[f"added_p{part}_ms"].append(1e3 * quantile(through, part / 100) - around)
        for name, told in added.items():
            for part in parts:
                values = told[f"added_p{part}_ms"]
                centre, low, high = middle(values)
                # What the machine itself takes to wake who is asked, and who asks.
                around = statistics.median(told[f"around_p{part}_ms"])
                print(
                    f"{name:14} p{part}  {centre:.3f} ({low:.3f} to {high:.3f}); around {around:.3f}  ",
                    end="",
                )
                print(" ".join(f"{value:.3f}" for value in sorted(values)))
    return added


def peer_program() -> Path:
    """`wireguard-go`: of the version named here, by Go; or else that of the machine, maybe slower."""
    folder = ROOT / "target/peers"
    made = folder / "wireguard"
    if not made.exists() and shutil.which("go"):
        environment = {**os.environ, "GOBIN": str(folder)}
        subprocess.run(["go", "install", PEER_MODULE], env=environment, check=True)
    if made.exists():
        return made
    if found := shutil.which("wireguard-go"):
        said = subprocess.run([found, "--version"], text=True, capture_output=True).stdout.splitlines()
        print(f"no Go to make {PEER_MODULE}: {' '.join(said[:1])} may be slower", file=sys.stderr)
        return Path(found)
    sys.exit("install Go or wireguard-go first (Debian: apt install wireguard-go)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", default="500mbit", help="of the link in between")
    parser.add_argument("--mtu", type=int, default=MTU, help="of the largest packet inside, for all")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--probes", type=int, default=1000)
    pairs = "none,fixed,path,path-12kB,none-sleeps,path-sleeps"
    parser.add_argument("--pairs", default=pairs, help="of ours; wireguard-go is there always")
    parser.add_argument("--only", choices=(*WAYS, "latency"))
    parser.add_argument(
        "--apart", action="store_true", help="each site on a processor of its own, for latency"
    )
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/tidegate-gateway")
    parser.add_argument("--peer", type=Path, help="wireguard-go")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    arguments = parser.parse_args()
    if why := obstacle():
        sys.exit(why)
    if shutil.which("iperf3") is None:
        sys.exit("install iperf3 first (Debian: apt install iperf3)")
    arguments.pairs = arguments.pairs.split(",")
    arguments.peer = arguments.peer or peer_program()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; ", end="")
    print(f"{arguments.repeats} rounds of {arguments.seconds:g} s")
    results: dict[str, object] = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "rate": arguments.rate}
    for way, title in WAYS.items():
        if arguments.only in (None, way):
            results[way] = show(title.format(arguments.rate), rounds(arguments, way))
    if arguments.only in (None, "latency"):
        results["latency"] = latency(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
