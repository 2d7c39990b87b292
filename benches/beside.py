"""What flows with BBR or with pacing cost the others, in instructions that callgrind counts.

In `benches/scenarios/beside.toml` each flow has hosts and a bottleneck of its own, so that a flow does the
same whoever else is there. Counted are networks of plain flows (Reno, CUBIC), of paced ones, and of half of
each, all of the same size and each as the second half of a run (as in `instructions.py`). If nobody pays for
others, the third takes per packet-hop what the first two do, each for its part; whatever it takes above that
is charged to the plain ones. How the events of a network happen to lie in the event queue moves single
numbers by some 2 %, and now and then by 5, so that the claim is about the mean over several sizes: paced
flows cost plain ones at most 2 % of what these take among themselves.

    python benches/beside.py [--flows 6 10 16 26] [--seconds 6] [--program PATH]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from instructions import INSTRUCTIONS, ROOT, build, count

PLAIN = {
    "reno": '{ kind = "tcp" }',
    "cubic": '{ kind = "tcp", control = { kind = "cubic" } }',
}
PACED = {
    "bbr": '{ kind = "tcp", control = { kind = "bbr" } }',
    "bbr3": '{ kind = "tcp", control = { kind = "bbr3" } }',
    "reno by timer": '{ kind = "tcp", pacing = "timer" }',
}
# What plain flows may pay for paced ones, as a part of what they take among themselves.
CLAIM = 0.02


@dataclass(frozen=True)
class Cost:
    """What the second half of a run took: instructions, and packet-hops of either half of the flows."""

    instructions: int
    hops: tuple[int, int]

    @property
    def per_hop(self) -> float:
        """Instructions per packet-hop."""
        return self.instructions / sum(self.hops)


def paid(plain: Cost, paced: Cost, mixed: Cost) -> float:
    """What plain flows pay for the paced ones in `mixed`, as a part of what they take in `plain`.

    The first half of the flows of `mixed` is plain.
    """
    own, others = (hops * of.per_hop for hops, of in zip(mixed.hops, (plain, paced), strict=True))
    return (mixed.instructions - others) / own - 1


def scenario(kinds: tuple[str | None, str | None], flows: int, seconds: float) -> str:
    """The network with so many flows of each of two kinds; none of what is `None`."""
    plain, other = (flows if kind else 0 for kind in kinds)
    transports = [
        f'[flows."{name}{{i}}"]\ntransport = {(PLAIN | PACED)[kind]}\n'
        for name, kind in zip(("plain", "other"), kinds, strict=True)
        if kind
    ]
    return (
        'include = "../../benches/scenarios/beside.toml"\n'
        f'duration = "{seconds * 1000:g}ms"\nwarmup = "0s"\n'
        f"[parameters]\nplain = {plain}\nother = {other}\n" + "".join(transports)
    )


def measure(program: pathlib.Path, kinds: tuple[str, str], flows: int, seconds: float) -> Cost:
    """A network of so many flows of each kind."""
    instructions, hops = [], []
    # An include is a path relative to its file.
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder:
        file = pathlib.Path(folder) / "scenario.toml"
        for part in (1.0, 0.5):
            alone = []
            for half in ((kinds[0], None), (None, kinds[1])):
                file.write_text(scenario(half, flows, seconds * part), encoding="utf-8")
                run = subprocess.run([program, file], check=True, capture_output=True, text=True)
                alone.append(json.loads(run.stdout)["packet_hops"])
            file.write_text(scenario(kinds, flows, seconds * part), encoding="utf-8")
            counted, together = count(program, file, INSTRUCTIONS)
            if together != sum(alone):
                sys.exit(f"{kinds}: {together} packet-hops together, {alone} alone: flows disturb each other")
            instructions.append(counted)
            hops.append(alone)
    differences = (whole - half for whole, half in zip(*hops, strict=True))
    return Cost(instructions[0] - instructions[1], (next(differences), next(differences)))


def main() -> None:
    """Prints a table for each size and the means; says by the exit status whether the claim holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flows", type=int, nargs="+", default=[6, 10, 16, 26], help="in each half")
    parser.add_argument("--seconds", type=float, default=6.0, help="that a run simulates; default 6")
    parser.add_argument("--program", type=pathlib.Path, help="the built example `speed`; default: build it")
    arguments = parser.parse_args()
    program = arguments.program or build()
    parts: dict[tuple[str, str], list[float]] = {}
    for flows in arguments.flows:
        print(
            f"{2 * flows} flows: instructions per packet-hop, and what plain ones pay for half of them",
            flush=True,
        )
        alone = {kind: measure(program, (kind, kind), flows, arguments.seconds) for kind in PLAIN | PACED}
        print("  plain: " + ", ".join(f"{kind} {alone[kind].per_hop:.1f}" for kind in PLAIN), flush=True)
        for paced in PACED:
            for plain in PLAIN:
                mixed = measure(program, (plain, paced), flows, arguments.seconds)
                parts.setdefault((plain, paced), []).append(paid(alone[plain], alone[paced], mixed))
            told = ", ".join(f"{plain} {parts[plain, paced][-1]:+.1%}" for plain in PLAIN)
            print(f"  {paced}: {alone[paced].per_hop:.1f}; {told}", flush=True)
    means = {names: statistics.fmean(of) for names, of in parts.items()}
    print(f"On average, where at most {CLAIM:.0%} are allowed:")
    for (plain, paced), mean in means.items():
        print(f"  {plain} pays {mean:+.2%} for {paced}{'' if mean <= CLAIM else ': too much'}")
    sys.exit(1 if max(means.values()) > CLAIM else 0)


if __name__ == "__main__":
    main()
