"""Instructions per packet-hop: a measure of speed that a busy machine does not disturb.

Runs each scenario under callgrind twice, once for half as long, and divides the difference of the
instructions by the difference of the packet-hops: building and starting cancel out. Numbers depend on the
compiler, not on the machine's load.

    python benches/instructions.py [NAME...] [--program PATH]
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

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


def build() -> pathlib.Path:
    """The program that runs a scenario."""
    command = ["cargo", "build", "--release", "-q", "-p", "tidegate-lab", "--example", "speed"]
    subprocess.run(command, cwd=ROOT, check=True)
    return ROOT / "target/release/examples/speed"


def count(program: pathlib.Path, file: pathlib.Path) -> tuple[int, int]:
    """Instructions and packet-hops of one run."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, file]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    collected = re.search(r"Collected : (\d+)", run.stderr)
    if collected is None:
        sys.exit(f"callgrind said nothing of what it collected:\n{run.stderr}")
    return int(collected[1]), json.loads(run.stdout)["packet_hops"]


def measure(program: pathlib.Path, name: str) -> tuple[float, int]:
    """Instructions per packet-hop of one scenario, and over how many packet-hops."""
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
            counts.append(count(program, file))
    (instructions, hops), (instructions_half, hops_half) = counts
    return (instructions - instructions_half) / (hops - hops_half), hops - hops_half


def main() -> None:
    """Measures what the command line names, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCENARIOS)}; default all")
    parser.add_argument("--program", type=pathlib.Path, help="the built example `speed`; default: build it")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in SCENARIOS:
            parser.error(f"{name}: no such scenario; there are {', '.join(SCENARIOS)}")
    program = arguments.program or build()
    for name in arguments.names or SCENARIOS:
        per_hop, hops = measure(program, name)
        print(f"{name:10} {per_hop:8.1f} instructions per packet-hop (over {hops} packet-hops)", flush=True)


if __name__ == "__main__":
    main()
