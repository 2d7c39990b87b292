"""Many flows: what 10^2 to 10^6 TCP flows cost that are all active, in time to build, memory and speed.

Runs `benches/scenarios/many.toml` (S1 of `bench.py` with 100 kb/s of the core for each flow, four flows
between two hosts) and writes `results/many.json` and `results/many.svg`. Few flows run for longer, until
two million packet-hops or so; no number runs for less than 750 ms, of which flows start in the first 250,
so that each has been through several round trips. Times are those of the processor, not the clock's, so
that others on the machine disturb them less (they still take cache and memory from it). That of building
is from reading the file until the first event. Memory is the most that the process had, results included.
A million flows lie far apart in memory; `--huge` lets the C library ask for huge pages (glibc 2.35 or
later), which saves misses of the TLB.

    python benches/many.py [--flows 100 1000 10000 100000 1000000] [--huge]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from tidegate import draw_static
from tidegate.figure import PALETTE, Figure, Trace

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLOWS = (100, 1_000, 10_000, 100_000, 1_000_000)
# Packet-hops of a flow per second of its share: 12 packets of 1040 bytes over three links, an
# acknowledgment for every second one.
HOPS_PER_FLOW_S = 54
FLOWS_PER_HOST = 4
HOPS_WANTED = 2_000_000
SECONDS_MIN = 0.75
# What the project wants of a million flows; see `verdict`.
BUILD_S_MAX, PEAK_BYTES_MAX, RATE_PART_MIN = 30.0, 8e9, 1 / 3
TICKS = [(float(flows), f"$10^{power}$") for power, flows in enumerate(FLOWS, start=2)]


def build() -> pathlib.Path:
    """The program that runs a scenario."""
    command = ["cargo", "build", "--release", "-q", "-p", "tidegate-lab", "--example", "speed"]
    subprocess.run(command, cwd=ROOT, check=True)
    return ROOT / "target/release/examples/speed"


def measure(program: pathlib.Path, flows: int, is_huge: bool) -> dict:
    """One run with so many flows."""
    seconds = max(SECONDS_MIN, HOPS_WANTED / HOPS_PER_FLOW_S / flows)
    environment = dict(os.environ)
    if is_huge:
        environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    # An include is a path relative to its file.
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder:
        file = pathlib.Path(folder) / "many.toml"
        file.write_text(
            'include = "../../benches/scenarios/many.toml"\ntitle = "many"\n'
            f'duration = "{round(seconds * 1000)}ms"\nparameters = {{ hosts = {flows // FLOWS_PER_HOST} }}\n',
            encoding="utf-8",
        )
        run = subprocess.run([program, file], check=False, capture_output=True, text=True, env=environment)
    if run.returncode != 0:
        sys.exit(f"{flows} flows: exit status {run.returncode}\n{run.stderr}")
    said = json.loads(run.stdout)
    return {
        "flows": flows,
        "huge_pages": is_huge,
        "simulated_s": seconds,
        "build_cpu_s": said["build_cpu_s"],
        "run_cpu_s": said["run_cpu_s"],
        "peak_bytes": said["peak_rss_kb"] * 1024,
        "packet_hops": said["packet_hops"],
        "packet_hops_per_cpu_s": said["packet_hops"] / said["run_cpu_s"],
    }


def curves(points: list[dict]) -> Figure:
    """The figure: speed, memory and time to build over the number of flows."""
    panels = ["packet-hops per second (millions)", "peak memory (GB)", "time to build (s)"]
    # Huge pages change neither memory nor the time to build by much.
    parts = [
        (0, "speed", False, "packet_hops_per_cpu_s", 1e6),
        (0, "speed with huge pages", True, "packet_hops_per_cpu_s", 1e6),
        (1, "memory", False, "peak_bytes", 1e9),
        (2, "time to build", False, "build_cpu_s", 1.0),
    ]
    traces = []
    for order, (panel, label, is_huge, key, unit) in enumerate(parts):
        some = [point for point in points if point["huge_pages"] == is_huge]
        if some:
            x = [float(point["flows"]) for point in some]
            # What was too short to be measured has no place on a logarithmic axis.
            y = [point[key] / unit or None for point in some]
            traces.append(Trace(label, x, y, colour=PALETTE[order], dash=int(is_huge), panel=panel))
    return Figure(
        id="many",
        title="TCP flows that are all active, one core",
        kind="lines",
        x_label="flows",
        x_log=True,
        y_log=True,
        ticks=TICKS,
        panels=panels,
        traces=traces,
    )


def verdict(points: list[dict]) -> list[str]:
    """Whether what the project wants of a million flows is met; nothing without the runs that it takes."""
    lines = []
    for is_huge in (False, True):
        by_flows = {point["flows"]: point for point in points if point["huge_pages"] == is_huge}
        if not {10_000, 1_000_000} <= by_flows.keys():
            continue
        million, base = by_flows[1_000_000], by_flows[10_000]
        part = million["packet_hops_per_cpu_s"] / base["packet_hops_per_cpu_s"]
        each = [
            (million["build_cpu_s"] < BUILD_S_MAX, f"built in {million['build_cpu_s']:.1f} s (below 30)"),
            (million["peak_bytes"] < PEAK_BYTES_MAX, f"{million['peak_bytes'] / 1e9:.2f} GB (below 8)"),
            (part >= RATE_PART_MIN, f"{part:.2f} of the speed at 10^4 (at least 0.33)"),
        ]
        lines.append("10^6 flows" + (", huge pages:" if is_huge else ":"))
        lines += [f"  {'met' if is_met else 'MISSED'}: {words}" for is_met, words in each]
    return lines


def main() -> None:
    """Measures, prints, draws."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flows", type=int, nargs="+", default=list(FLOWS), metavar="N")
    parser.add_argument("--huge", action="store_true", help="each number once more, with huge pages")
    parser.add_argument("--program", type=pathlib.Path, help="the built example `speed`; default: build it")
    arguments = parser.parse_args()
    program = (arguments.program or build()).resolve()
    print(f"{'flows':>9}{'pages':>7}{'build s':>9}{'MB':>8}{'kB/flow':>9}{'M hops':>8}{'M hops/s':>10}")
    points = []
    for flows in arguments.flows:
        for is_huge in (False, True) if arguments.huge else (False,):
            point = measure(program, flows, is_huge)
            points.append(point)
            print(
                f"{flows:9}{'huge' if is_huge else '':>7}{point['build_cpu_s']:9.2f}"
                f"{point['peak_bytes'] / 1e6:8.0f}{point['peak_bytes'] / 1e3 / flows:9.1f}"
                f"{point['packet_hops'] / 1e6:8.1f}{point['packet_hops_per_cpu_s'] / 1e6:10.2f}",
                flush=True,
            )
    print("\n".join(verdict(points)))
    folder = ROOT / "results"
    folder.mkdir(exist_ok=True)
    (folder / "many.json").write_text(json.dumps(points, indent=1) + "\n", encoding="utf-8")
    draw_static.draw(curves(points), folder / "many.svg")


if __name__ == "__main__":
    main()
