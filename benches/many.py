"""Many flows, many routers: 10^2 to 10^6 TCP flows that are all active, 10^2 to 10^5 routers in a mesh.

Prints time to build, memory and speed, and writes `results/many.json` and `results/many.svg`, or
`results/mesh.*`. Flows are those of `benches/scenarios/many.toml`: S1 of `bench.py` with 100 kb/s of the
core for each, four between two hosts. With `--mesh` it is `benches/scenarios/mesh.toml`: a host at each
router, with a flow to one that is anywhere. Few run for longer, until two million packet-hops or so; no
number runs for less than 750 ms, of which flows start in the first 250, so that each has been through
several round trips. Times are those of the processor, not the clock's, so that others on the machine
disturb them less (they still take cache and memory from it). That of building is from reading the file
until the first event. Memory is the most that the process had, results included. A million flows lie far
apart in memory, and the allocator asks for large pages, which saves misses of the TLB; `--small` measures
each number once more without.

    python benches/many.py [--mesh] [--counts 100 1000 10000 100000 1000000] [--small]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from tidegate import draw_static
from tidegate.figure import PALETTE, Figure, Trace

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Family:
    """Networks of one kind, in many sizes."""

    name: str
    # What there is much of.
    what: str
    title: str
    counts: tuple[int, ...]
    # The parameter of the scenario, and how many of `what` one of it brings.
    parameter: str
    each: int
    # Packet-hops of one of `what` in a simulated second.
    hops_per_s: float


FLOWS = Family(
    name="many",
    what="flows",
    title="TCP flows that are all active, one core",
    counts=(100, 1_000, 10_000, 100_000, 1_000_000),
    parameter="hosts",
    each=4,
    # 12 packets of 1040 bytes over three links, an acknowledgment for every second one.
    hops_per_s=54,
)
MESH = Family(
    name="mesh",
    what="routers",
    title="Routers in a mesh, a TCP flow from each, one core",
    counts=(100, 1_000, 10_000, 100_000),
    parameter="routers",
    each=1,
    # 6 packets and 3 acknowledgments in a round trip of some 50 ms, over some ten links.
    hops_per_s=1_500,
)
HOPS_WANTED = 2_000_000
SECONDS_MIN = 0.75
# What the project wants of a million flows; see `verdict`.
BUILD_S_MAX, PEAK_BYTES_MAX, RATE_PART_MIN = 30.0, 8e9, 1 / 3


def build() -> pathlib.Path:
    """The program that runs a scenario."""
    command = ["cargo", "build", "--release", "-q", "-p", "tidegate-lab", "--example", "speed"]
    subprocess.run(command, cwd=ROOT, check=True)
    return ROOT / "target/release/examples/speed"


def measure(program: pathlib.Path, family: Family, count: int, is_small: bool) -> dict:
    """One run with so many of them."""
    seconds = max(SECONDS_MIN, HOPS_WANTED / family.hops_per_s / count)
    environment = dict(os.environ)
    if is_small:
        environment["MIMALLOC_ALLOW_THP"] = "0"
    # An include is a path relative to its file.
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder:
        file = pathlib.Path(folder) / "many.toml"
        file.write_text(
            f'include = "../../benches/scenarios/{family.name}.toml"\ntitle = "{family.name}"\n'
            f'duration = "{round(seconds * 1000)}ms"\n'
            f"parameters = {{ {family.parameter} = {count // family.each} }}\n",
            encoding="utf-8",
        )
        run = subprocess.run([program, file], check=False, capture_output=True, text=True, env=environment)
    if run.returncode != 0:
        sys.exit(f"{count} {family.what}: exit status {run.returncode}\n{run.stderr}")
    said = json.loads(run.stdout)
    return {
        family.what: count,
        "small_pages": is_small,
        "simulated_s": seconds,
        "build_cpu_s": said["build_cpu_s"],
        "run_cpu_s": said["run_cpu_s"],
        "peak_bytes": said["peak_rss_kb"] * 1024,
        "packet_hops": said["packet_hops"],
        "packet_hops_per_cpu_s": said["packet_hops"] / said["run_cpu_s"],
    }


def curves(family: Family, points: list[dict]) -> Figure:
    """The figure: speed, memory and time to build over how many there are."""
    panels = ["packet-hops per second (millions)", "peak memory (GB)", "time to build (s)"]
    # Pages change neither memory nor the time to build by much.
    parts = [
        (0, "speed", False, "packet_hops_per_cpu_s", 1e6),
        (0, "speed with small pages", True, "packet_hops_per_cpu_s", 1e6),
        (1, "memory", False, "peak_bytes", 1e9),
        (2, "time to build", False, "build_cpu_s", 1.0),
    ]
    ticks = [(float(count), f"$10^{power}$") for power, count in enumerate(family.counts, start=2)]
    traces = []
    for order, (panel, label, is_small, key, unit) in enumerate(parts):
        some = [point for point in points if point["small_pages"] == is_small]
        if some:
            x = [float(point[family.what]) for point in some]
            # What was too short to be measured has no place on a logarithmic axis.
            y = [point[key] / unit or None for point in some]
            traces.append(Trace(label, x, y, colour=PALETTE[order], dash=int(is_small), panel=panel))
    return Figure(
        id=family.name,
        title=family.title,
        kind="lines",
        x_label=family.what,
        x_log=True,
        y_log=True,
        ticks=ticks,
        panels=panels,
        traces=traces,
    )


def verdict(points: list[dict]) -> list[str]:
    """Whether what the project wants of a million flows is met; nothing without the runs that it takes."""
    lines = []
    for is_small in (False, True):
        by_flows = {point.get("flows"): point for point in points if point["small_pages"] == is_small}
        if not {10_000, 1_000_000} <= by_flows.keys():
            continue
        million, base = by_flows[1_000_000], by_flows[10_000]
        part = million["packet_hops_per_cpu_s"] / base["packet_hops_per_cpu_s"]
        each = [
            (million["build_cpu_s"] < BUILD_S_MAX, f"built in {million['build_cpu_s']:.1f} s (below 30)"),
            (million["peak_bytes"] < PEAK_BYTES_MAX, f"{million['peak_bytes'] / 1e9:.2f} GB (below 8)"),
            (part >= RATE_PART_MIN, f"{part:.2f} of the speed at 10^4 (at least 0.33)"),
        ]
        lines.append("10^6 flows" + (", small pages:" if is_small else ":"))
        lines += [f"  {'met' if is_met else 'MISSED'}: {words}" for is_met, words in each]
    return lines


def main() -> None:
    """Measures, prints, draws."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mesh", action="store_true", help="routers in a mesh, in place of flows")
    parser.add_argument("--counts", type=int, nargs="+", metavar="N", help="how many; default: powers of ten")
    parser.add_argument("--small", action="store_true", help="each number once more, with small pages")
    parser.add_argument("--program", type=pathlib.Path, help="the built example `speed`; default: build it")
    arguments = parser.parse_args()
    family = MESH if arguments.mesh else FLOWS
    program = (arguments.program or build()).resolve()
    print(f"{family.what:>9}{'pages':>7}{'build s':>9}{'MB':>8}{'kB each':>9}{'M hops':>8}{'M hops/s':>10}")
    points = []
    for count in arguments.counts or family.counts:
        for is_small in (False, True) if arguments.small else (False,):
            point = measure(program, family, count, is_small)
            points.append(point)
            print(
                f"{count:9}{'small' if is_small else '':>7}{point['build_cpu_s']:9.2f}"
                f"{point['peak_bytes'] / 1e6:8.0f}{point['peak_bytes'] / 1e3 / count:9.1f}"
                f"{point['packet_hops'] / 1e6:8.1f}{point['packet_hops_per_cpu_s'] / 1e6:10.2f}",
                flush=True,
            )
    print("\n".join(verdict(points)))
    folder = ROOT / "results"
    folder.mkdir(exist_ok=True)
    (folder / f"{family.name}.json").write_text(json.dumps(points, indent=1) + "\n", encoding="utf-8")
    draw_static.draw(curves(family, points), folder / f"{family.name}.svg")


if __name__ == "__main__":
    main()
