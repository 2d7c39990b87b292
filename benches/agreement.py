"""The two worlds side by side: the table of `real/agreement`, from the folder of its results.

    tidegate sweep real/agreement -o results/agreement
    python benches/agreement.py results/agreement

For each queue and congestion control: what TCP of the kernel did on the emulated link, what the simulator's
did on the same link, and their ratio, with the 95 % interval over the repetitions. Ratios more than 10 % from
one are marked with `*`.
"""

import argparse
from collections import defaultdict
from pathlib import Path

from tidegate import measure, stats, store

MEASURES = {
    "throughput Mb/s": 'sum("flows.*.throughput_bps") / 1e6',
    "mean queue": "links.link.queue_packets.mean",
    "dropped %": "100 * links.link.dropped_packets / links.link.arrived_packets",
    "marked %": "100 * links.link.marked_packets / links.link.arrived_packets",
}
# Those of all experiments `real/agreement...`; of a folder, those that it has.
PAIRS = (
    "real-reno/simulated-reno",
    "real-reno/simulated-reno-linux",
    "real-cubic/simulated-cubic",
    "real-cubic/simulated-linux",
    "real-bbr/simulated-bbr",
)
# A ratio of two numbers as small as this says nothing.
LEAST = 0.01
FAR = 0.1


def both(values: list[float]) -> str:
    """Mean and half width of the interval."""
    estimate = stats.estimate(values)
    width = 0.0 if estimate.high is None else estimate.high - estimate.mean
    return f"{estimate.mean:.2f} ±{width:.2f}"


def table(folder: Path, pairs: list[tuple[str, str]]) -> str:
    """The table as Markdown; `pairs` are the variants that belong together, the real one first."""
    groups: dict[tuple[str, ...], list] = defaultdict(list)
    for point in store.read_result(folder).points:
        groups[(point.variant or "", *point.axes.values())].append(point)
    lines = ["| | " + " | ".join(MEASURES) + " |", "|---" * (len(MEASURES) + 1) + "|"]
    for real, simulated in pairs:
        for key in [key for key in groups if key[0] == real]:
            cells = []
            for expression in MEASURES.values():
                ours, theirs = (
                    [measure.evaluate(expression, point) for point in groups[(variant, *key[1:])]]
                    for variant in (real, simulated)
                )
                low = stats.mean(theirs)
                ratio = stats.mean(ours) / low if low > LEAST else None
                told = "" if ratio is None else f" ({ratio:.2f}{'*' if abs(ratio - 1) > FAR else ''})"
                cells.append(f"{both(ours)} / {both(theirs)}{told}")
            lines.append(f"| {real} / {simulated}: {', '.join(key[1:])} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def late(folder: Path) -> str:
    """How late the machine was."""
    points = store.read_result(folder).points
    real = [point.summary["emulation"] for point in points if "emulation" in point.summary]
    worst = max(kind["p99_us"] for each in real for kind in each["lateness"].values())
    discarded = sum(each["discarded_runs"] for each in real)
    return f"{len(real)} runs with real hosts, late by {worst:.0f} us at most (p99); {discarded} thrown away."


def main() -> None:
    """Print the table."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("results", type=Path, help="the folder of the results")
    help_of_pair = "variants that belong together (default: those of the experiment)"
    parser.add_argument("--pair", action="append", metavar="REAL/SIMULATED", help=help_of_pair)
    arguments = parser.parse_args()
    there = {point.variant for point in store.read_result(arguments.results).points}
    known = [pair for pair in PAIRS if there.issuperset(pair.split("/"))]
    pairs = [tuple(pair.split("/")) for pair in arguments.pair or known]
    print(table(arguments.results, pairs))
    print(f"\nReal / simulated (ratio). {late(arguments.results)}")


if __name__ == "__main__":
    main()
