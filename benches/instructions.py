"""Instructions per packet-hop: a measure of speed that a busy machine does not disturb.

Runs each scenario under callgrind twice, once for half as long, and divides the difference of the
instructions by the difference of the packet-hops: building and starting cancel out. Numbers depend on the
compiler, not on the machine's load. With `--misses` it counts, under cachegrind, what a cache of 512 KB (as
the second level of many processors has it, behind a first level as this one's) has to fetch.

    python benches/instructions.py [NAME...] [--misses] [--program PATH]
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The file, and for how many seconds it runs.
SCENARIOS: dict[str, tuple[str, float]] = {
    "s1": ("benches/scenarios/s1.toml", 40),
    "s2": ("benches/scenarios/s2.toml", 10),
    "s3": ("benches/scenarios/s3.toml", 6),
    "s4": ("benches/scenarios/s4.toml", 3),
    "s5": ("benches/scenarios/s5.toml", 0.8),
    "s5-drr": ("benches/scenarios/s5-drr.toml", 0.8),
    "sfb": ("experiments/feng/_fig4.4-sfb.toml", 12),
    "gfc2-nbp": ("experiments/nbp/_gfc2-nbp.toml", 4),
}


@dataclass(frozen=True)
class Tool:
    """A tool of valgrind, and where it says what it counted."""

    what: str
    options: tuple[str, ...]
    says: str


INSTRUCTIONS = Tool(
    "instructions", ("--tool=callgrind", "--callgrind-out-file=/dev/null"), r"Collected : (\d+)"
)
MISSES = Tool(
    "misses of 512 KB",
    ("--tool=cachegrind", "--cache-sim=yes", "--LL=524288,8,64", "--cachegrind-out-file=/dev/null"),
    r"LL misses: +([\d,]+)",
)


def build() -> pathlib.Path:
    """The program that runs a scenario."""
    command = ["cargo", "build", "--release", "-q", "-p", "tidegate-lab", "--example", "speed"]
    subprocess.run(command, cwd=ROOT, check=True)
    return ROOT / "target/release/examples/speed"


def count(program: pathlib.Path, file: pathlib.Path, tool: Tool) -> tuple[int, int]:
    """What is counted of one run, and its packet-hops."""
    command = ["valgrind", *tool.options, program, file]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    counted = re.search(tool.says, run.stderr)
    if counted is None:
        sys.exit(f"valgrind said nothing of what it counted:\n{run.stderr}")
    return int(counted[1].replace(",", "")), json.loads(run.stdout)["packet_hops"]


def measure(program: pathlib.Path, name: str, tool: Tool) -> tuple[float, int]:
    """What is counted per packet-hop of one scenario, and over how many packet-hops."""
    path, seconds = SCENARIOS[name]
    counts = []
    # An include is a path relative to its file.
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder:
        for part in (1.0, 0.5):
            file = pathlib.Path(folder) / "scenario.toml"
            file.write_text(
                f'include = "../../{path}"\ntitle = "{name}"\n'
                f'duration = "{seconds * part * 1000:g}ms"\nwarmup = "0s"\n',
                encoding="utf-8",
            )
            counts.append(count(program, file, tool))
    (whole, hops), (half, hops_half) = counts
    return (whole - half) / (hops - hops_half), hops - hops_half


def main() -> None:
    """Measures what the command line names, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCENARIOS)}; default all")
    parser.add_argument("--program", type=pathlib.Path, help="the built example `speed`; default: build it")
    parser.add_argument("--misses", action="store_true", help="count what misses a cache of 512 KB")
    arguments = parser.parse_args()
    tool = MISSES if arguments.misses else INSTRUCTIONS
    for name in arguments.names:
        if name not in SCENARIOS:
            parser.error(f"{name}: no such scenario; there are {', '.join(SCENARIOS)}")
    program = arguments.program or build()
    for name in arguments.names or SCENARIOS:
        per_hop, hops = measure(program, name, tool)
        print(f"{name:10} {per_hop:8.1f} {tool.what} per packet-hop (over {hops} packet-hops)", flush=True)


if __name__ == "__main__":
    main()
