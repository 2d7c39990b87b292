"""Several cores for one simulation, beside one: how many times as fast, in pairs of runs.

Runs the scenarios of `benches/scenarios/cores` with the example `speed`, first on one core, then on
several, so many times, and prints the ratio of their times by the clock with its 95 % interval: of the run,
and of everything, dividing and building the network included. Where one core is taken the reason is
printed. Results are the same bytes, which `tests/python/test_cores.py` shows. It needs cores that nobody
else uses: parts wait for each other, so that another program on one of them stops all.

    python benches/cores.py [--cores 2] [--repeats 5] [--json FILE] [NAME...]
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from tidegate import stats  # noqa: E402

SCENARIOS = ROOT / "benches/scenarios/cores"
SPEED = ROOT / "target/release/examples/speed"


def measure(name: str, cores: int) -> dict:
    """One run."""
    command = [SPEED, "--cores", str(cores), SCENARIOS / f"{name}.toml"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def ratio(pairs: list[tuple[float, float]]) -> str:
    """By how much the second is smaller, with the 95 % interval of its geometric mean."""
    estimate = stats.estimate([math.log(one / several) for one, several in pairs])
    text = f"{math.exp(estimate.mean):.2f}"
    if estimate.low is not None and estimate.high is not None:
        text += f" ({math.exp(estimate.low):.2f} to {math.exp(estimate.high):.2f})"
    return text


def main() -> None:
    """All of them, and a table."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    known = sorted(path.stem for path in SCENARIOS.glob("*.toml"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; default all")
    parser.add_argument("--cores", type=int, default=2, help="at most so many (2)")
    parser.add_argument("--repeats", type=int, default=5, help="pairs of runs (5)")
    parser.add_argument("--json", type=pathlib.Path, help="write all numbers to this file")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in known:
            parser.error(f"there is no {name}: {', '.join(known)}")
    build = ["cargo", "build", "--release", "-q", "-p", "tidegate-lab", "--example", "speed"]
    subprocess.run(build, cwd=ROOT, check=True)
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; {arguments.repeats} pairs\n")
    print(f"{'':8}{'hops/s, one core':>18}{'cores':>7}{'hops/s':>9}  {'run: times as fast':24}all of it")
    found = {}
    for name in arguments.names or known:
        pairs = [(measure(name, 1), measure(name, arguments.cores)) for _ in range(arguments.repeats)]
        found[name] = pairs
        of_run = ratio([(one["run_s"], several["run_s"]) for one, several in pairs])
        whole = [tuple(run["build_s"] + run["run_s"] for run in pair) for pair in pairs]
        speeds = [
            sum(pair[which]["packet_hops_per_s"] for pair in pairs) / len(pairs) / 1e6 for which in (0, 1)
        ]
        cores = pairs[0][1]["cores"]
        print(f"{name:8}{speeds[0]:16.1f} M{cores:7}{speeds[1]:7.1f} M  {of_run:24}{ratio(whole)}")
        if (why := pairs[0][1]["undivided"]) is not None:
            print(f"{'':8}one core: {why}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
