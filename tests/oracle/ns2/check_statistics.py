#!/usr/bin/env python3
"""RED, Adaptive RED, SFQ and DRR against ns-2.35: the same network, the same TCPs, many seeds; statistics must agree.

For each case the mean queue, the share of packets notified (marks, and drops) and the utilization are measured on both
sides in SEEDS runs with start times uniform on 0 to 5 s. The 95 % confidence interval of the difference of the means
must lie within 5 % of ns-2's mean. Prints a table; exits with 1 if a difference is larger.

Needs ns-2.35 as the command `ns`, and the package `tidegate`. Two processes at a time; two to three minutes.

    python check_statistics.py [--seeds N] [--only CASE]...
"""

import argparse
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
SEEDS = 20
FROM, STOP = 10, 90
TOLERANCE = 0.05
T_95 = {20: 2.024, 40: 1.991}  # Student's t for two samples of so many seeds

# With thresholds 20 and 80 and weight 0.002 each run of Adaptive RED stays where its start put it: 2000 runs are needed then
# (README.md, "RED and Adaptive RED").
# flows, ECN, adaptive, limit, min, max, max_p, weight
CASES = {
    "red-8-ecn": (8, 1, 0, 100, 10, 40, 0.1, 0.002),
    "red-8-drops": (8, 0, 0, 100, 10, 40, 0.1, 0.002),
    "red-32-ecn": (32, 1, 0, 120, 20, 80, 0.25, 0.002),
    "red-32-drops": (32, 0, 0, 120, 20, 80, 0.25, 0.002),
    "adaptive-8-ecn": (8, 1, 1, 120, 10, 30, 0.02, 0.01),
    "adaptive-32-ecn": (32, 1, 1, 120, 20, 50, 0.02, 0.01),
    "adaptive-32-drops": (32, 0, 1, 120, 20, 80, 0.02, 0.002),
}

# Cases in which a run stays where its start put it (README.md): the mean needs more runs than SEEDS.
SEEDS_OF = {"adaptive-32-drops": 100}

# flows, kind, buckets, limit in packets of 1000 bytes
FAIR_CASES = {
    "sfq-8": (8, "SFQ", 16, 100),
    "sfq-16": (16, "SFQ", 64, 256),
    "drr-8": (8, "DRR", 128, 100),
    "drr-32": (32, "DRR", 128, 100),
}

# A mark at a window of one stops ns-2.35's sender for a time-out: its integer half of one is a window of zero.
ECN = ", ecn = true, ecn_timeout = true"

SCENARIO = """
duration = "{stop}s"
warmup = "{begin}s"
nodes = {{ hosts = ["s{{1..{flows}}}", "d{{1..{flows}}}"], routers = ["r0", "r1"] }}

[links]
slow = {{ between = ["r0", "r1"], rate = "10Mbit", delay = "20ms", queue = {{ kind = "droptail", limit = "10000p" }}, forward = {{ queue = {queue} }} }}
{access}

[flows]
{sources}
"""


def queue_of(case):
    if case in FAIR_CASES:
        _, kind, buckets, limit = FAIR_CASES[case]
        if kind == "SFQ":
            return f'{{ kind = "sfq", buckets = {buckets}, hash = "modulo", limit = "{limit}p" }}'
        return f'{{ kind = "drr", quantum = "1000B", limit = "{limit}kB" }}'
    _, ecn, adaptive, limit, lo, hi, max_p, weight = CASES[case]
    kind = "adaptive-red" if adaptive else "red"
    bounds = ", floor = 1e-9, ceiling = 1.0" if adaptive else ""
    return (
        f'{{ kind = "{kind}", limit = "{limit}p", min = "{lo}p", max = "{hi}p", max_p = {max_p}, weight = {weight}, '
        f'mean_packet = "1000B", gap = "ns", flavor = "ns", ecn = {str(bool(ecn)).lower()}, mark_forced = false{bounds} }}'
    )


def scenario_of(case):
    flows, ecn = (FAIR_CASES[case][0], 0) if case in FAIR_CASES else CASES[case][:2]
    plain = 'queue = { kind = "droptail", limit = "10000p" }'
    access, sources = [], []
    for i in range(flows):
        access.append(
            f'u{i} = {{ between = ["s{i + 1}", "r0"], rate = "100Mbit", delay = "{2 + i % 8}ms", {plain} }}'
        )
        access.append(f'v{i} = {{ between = ["r1", "d{i + 1}"], rate = "100Mbit", delay = "1ms", {plain} }}')
        tcp = f'{{ kind = "tcp", profile = "ns-1999", variant = "reno", window = "60p"{ECN if ecn else ""} }}'
        sources.append(
            f'f{i} = {{ from = "s{i + 1}", to = "d{i + 1}", transport = {tcp}, start = {{ uniform = ["0s", "5s"] }} }}'
        )
    return SCENARIO.format(
        stop=STOP,
        begin=FROM,
        flows=flows,
        queue=queue_of(case),
        access="\n".join(access),
        sources="\n".join(sources),
    )


def of_tidegate(loaded, seed):
    link = loaded.run(seed=seed).links["slow"]
    notified = (link["marked_packets"] + link["dropped_packets"]) / link["arrived_packets"]
    # ns-2 counts what waits; here the packet in transmission is in the queue as well.
    return link["queue_packets"]["mean"] - link["utilization"], notified, link["utilization"]


def seed_of_ns(seed):
    """ns's random numbers are linear in its seed: of seeds in step, the starting times of the runs would lie on a lattice."""
    return random.Random(seed).randrange(1, 2**31 - 1)


def of_ns(case, seed):
    script, settings = ("fair.tcl", FAIR_CASES[case]) if case in FAIR_CASES else ("red.tcl", CASES[case])
    arguments = [str(value) for value in (seed_of_ns(seed), *settings, FROM, STOP)]
    run = subprocess.run(["ns", script, *arguments], cwd=HERE, capture_output=True, text=True, check=True)
    utilization, queue, marks, drops, arrivals = map(float, run.stdout.split())
    return queue, (marks + drops) / arrivals, utilization


def compare(case, seeds, pool):
    """Rows of the table: quantity, both means, the interval of the relative difference, whether it is small."""
    import tidegate

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{case}.toml"
        path.write_text(scenario_of(case))
        loaded = tidegate.load(path)
        ours = list(pool.map(lambda seed: of_tidegate(loaded, seed), range(1, seeds + 1)))
    theirs = list(pool.map(lambda seed: of_ns(case, seed), range(1, seeds + 1)))
    for name, mine, other in zip(("mean queue", "notified", "utilization"), zip(*ours), zip(*theirs)):
        mean, reference = statistics.fmean(mine), statistics.fmean(other)
        half = T_95.get(seeds, 2.1) * math.sqrt(
            (statistics.variance(mine) + statistics.variance(other)) / seeds
        )
        low, high = (mean - half) / reference - 1, (mean + half) / reference - 1
        yield name, mean, reference, low, high, -TOLERANCE <= low and high <= TOLERANCE


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", action="append", choices=CASES | FAIR_CASES)
    options = parser.parse_args()
    failed = 0
    print(f"{'case':18} {'quantity':12} {'Tidegate':>10} {'ns-2':>10}  difference (95 %)")
    with ThreadPoolExecutor(2) as pool:
        for case in options.only or CASES | FAIR_CASES:
            for name, mean, reference, low, high, good in compare(
                case, options.seeds or SEEDS_OF.get(case, SEEDS), pool
            ):
                verdict = "ok" if good else "DIFFERS"
                shown = f"{100 * low:+6.2f} % to {100 * high:+6.2f} %"
                print(f"{case:18} {name:12} {mean:10.5g} {reference:10.5g}  {shown}  {verdict}", flush=True)
                failed += not good
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
