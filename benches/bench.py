"""Speed: Tidegate on S1 to S5 next to ns-2 and ns-3, and queue disciplines next to drop-tail, in one run.

Prints a table of packet-hops per second of the run phase (one thread) and the ratios (medians of pairs with
their 95 % interval: each run of a peer is between two of ours), then nanoseconds per packet of every
discipline with 1, 100 and 10,000 flows, and writes `results/bench.json`. ns-2 runs with its default queue of
events, a calendar, and with its splay tree. Peers that are not installed are named and left out. What the
project wants: 5 times ns-2 as it is and 3 times with the splay tree on S1, S2, S4 and S5, 4 times on S3
(`GOALS`). The floors that it set itself before: 2.5 times ns-2 and 40 times ns-3 on every scenario; with
building included ten times ns-2 on S2 and S3. Numbers of a busy machine mean little: look at the spread that
is printed.

    python benches/bench.py [--peers ns2,ns3] [--scenarios s1 s2] [--repeat 5]
"""

import argparse
import itertools
import json
import math
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from tidegate import stats  # noqa: E402

SCENARIOS = {
    "s1": "s1",
    "s2": "s2",
    "s3": "s3",
    "s4": "s4",
    "s5-fifo": "s5",
    "s5-drr": "s5-drr",
}
# How many times ns-2 the project wants, by its scheduler. With DRR none is wanted.
GOALS = {
    "Calendar": {"s1": 5.0, "s2": 5.0, "s3": 4.0, "s4": 5.0, "s5-fifo": 5.0},
    "Splay": {"s1": 3.0, "s2": 3.0, "s3": 4.0, "s4": 3.0, "s5-fifo": 3.0},
}


def build() -> pathlib.Path:
    """The program that runs a scenario of ours."""
    command = ["cargo", "build", "--release", "-q", "-p", "tidegate-lab", "--example", "speed"]
    subprocess.run(command, cwd=ROOT, check=True)
    return ROOT / "target/release/examples/speed"


def command_of(speed: pathlib.Path, name: str) -> list[pathlib.Path]:
    """What runs one scenario of ours."""
    return [speed, ROOT / f"benches/scenarios/{SCENARIOS[name]}.toml"]


def ours(speed: pathlib.Path, name: str, repeat: int) -> list[dict]:
    """Runs of our own of one scenario."""
    return [
        json.loads(subprocess.run(command_of(speed, name), check=True, capture_output=True, text=True).stdout)
        for _ in range(repeat)
    ]


def medians(runs: list[dict]) -> dict:
    """What several runs of one scenario say together."""
    rates = [run["packet_hops_per_s"] for run in runs]
    return {
        "hops_per_s": statistics.median(rates),
        "hops_per_s_all": rates,
        "packet_hops": runs[0]["packet_hops"],
        "build_s": statistics.median(run["build_s"] for run in runs),
        "run_s": statistics.median(run["run_s"] for run in runs),
        "peak_rss_kb": max(run["peak_rss_kb"] for run in runs),
    }


def theirs(speed: pathlib.Path, peers: list[str], schedulers: str, name: str, repeat: int) -> list[dict]:
    """Runs of one scenario of the peers that are installed, each between two of ours."""
    script = ROOT / "benches/peers/run_peers.py"
    command = [sys.executable, script, "--build-dir", ROOT / "target/peers", "--peers", ",".join(peers)]
    command += ["--repeat", str(repeat), "--scenarios", name, "--ns2-schedulers", schedulers]
    command += ["--beside", json.dumps([str(part) for part in command_of(speed, name)])]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def ratios(peer: dict) -> list[float]:
    """How many times as fast ours was, by each run of a peer: the run before it and the one after, together.

    Machines change their speed from one second to the next, more so the virtual ones.
    """
    around = itertools.pairwise(run["packet_hops_per_s"] for run in peer["beside"])
    return [
        math.sqrt(before * after) * run_s / peer["packet_hops"]
        for (before, after), run_s in zip(around, peer["run_s_all"], strict=True)
    ]


def measure(
    speed: pathlib.Path, names: list[str], peers: list[str], schedulers: str, repeat: int
) -> tuple[dict[str, dict], list[dict]]:
    """Ours by scenario, and the peers'."""
    own, others = {}, []
    for name in names:
        found = theirs(speed, peers, schedulers, name, repeat) if peers else []
        others += found
        own[name] = medians([run for peer in found for run in peer["beside"]] or ours(speed, name, repeat))
        print(f"{name}: {own[name]['hops_per_s'] / 1e6:.1f} M hops/s", file=sys.stderr)
    return own, others


def cost() -> dict[str, dict[str, float]]:
    """Nanoseconds per packet, enqueue and dequeue, by discipline and number of flows."""
    command = ["cargo", "run", "--release", "-q", "-p", "tidegate-mechanism"]
    command += ["--example", "cost", "--", "--json"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def print_cost(disciplines: dict[str, dict[str, float]]) -> None:
    """The table of `cost`, in brackets as multiples of drop-tail's."""
    base = disciplines["droptail"]
    print("\nns per packet, enqueue and dequeue; in brackets as a multiple of drop-tail")
    print(f"{'flows':20}" + "".join(f"{int(flows):>16,}" for flows in base))
    for name, row in disciplines.items():
        cells = [f"{nanos:.1f} ({nanos / base[flows]:.1f})" for flows, nanos in row.items()]
        print(f"{name:20}" + "".join(f"{cell:>16}" for cell in cells))


def main() -> int:
    """Measures, prints, writes."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--peers", default="ns2,ns3", help="which peers, or an empty text for none")
    parser.add_argument("--ns2-schedulers", default="Calendar,Splay", help="queues of events of ns-2")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS), metavar="NAME")
    parser.add_argument("--no-cost", action="store_true", help="leave out the cost of queue disciplines")
    options = parser.parse_args()
    wanted = [peer for peer in options.peers.split(",") if peer]
    if "ns2" in wanted and not shutil.which("ns"):
        print("ns-2 is not installed (Debian: apt install ns2); left out", file=sys.stderr)
        wanted.remove("ns2")
    if "ns3" in wanted and not any(pathlib.Path("/usr/include").glob("ns3*")):
        print("ns-3 is not installed (Debian: apt install libns3-dev); left out", file=sys.stderr)
        wanted.remove("ns3")
    speed = build()
    own, peers = measure(speed, options.scenarios, wanted, options.ns2_schedulers, options.repeat)
    columns = f"{'peer':>18}{'M hops/s':>10}{'ratio':>22}{'with build':>12}{'wanted':>8}"
    print(f"{'scenario':10}{'Tidegate':>10}{'spread':>8}{columns}")
    for name, mine in own.items():
        rates = mine["hops_per_s_all"]
        spread = (max(rates) - min(rates)) / mine["hops_per_s"]
        head = f"{name:10}{mine['hops_per_s'] / 1e6:10.1f}{spread:8.0%}"
        rows = [peer for peer in peers if peer["scenario"] == name]
        if not rows:
            print(head)
        for peer in rows:
            pairs = stats.estimate_median([math.log(ratio) for ratio in ratios(peer)])
            ratio = math.exp(pairs.mean)
            between = ""
            if pairs.low is not None and pairs.high is not None:
                between = f" ({math.exp(pairs.low):.1f} to {math.exp(pairs.high):.1f})"
            per_hop = (mine["build_s"] + mine["run_s"]) / mine["packet_hops"]
            their_per_hop = (peer["build_s"] + peer["run_s"]) / peer["packet_hops"]
            scheduler, rate = peer["scheduler"], peer["hops_per_s"] / 1e6
            label = f"{peer['peer']} {scheduler}" if scheduler in GOALS else peer["peer"]
            goal = GOALS.get(scheduler, {}).get(name)
            verdict = "" if goal is None else f"{goal:8.1f} {'met' if ratio >= goal else 'missed'}"
            cells = f"{label:>18}{rate:10.2f}{f'{ratio:.1f}{between}':>22}{their_per_hop / per_hop:12.1f}"
            print(f"{head}{cells}{verdict}")
    disciplines = {} if options.no_cost else cost()
    if disciplines:
        print_cost(disciplines)
    folder = ROOT / "results"
    folder.mkdir(exist_ok=True)
    report = {"tidegate": own, "peers": peers, "cost": disciplines}
    (folder / "bench.json").write_text(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
