"""Sites over paths with faults that seeds draw: simulates SECONDS gateway-seconds, and reduces what fails.

A gateway-second is a second of one edge: each case has two of them. A seed that fails is printed with the
command that repeats it, and left as a scenario with as few faults as still fail. Exit code 1 if one did.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import pathlib
import sys
import time
from collections.abc import Callable

from .case import DURATION, Case, draw
from .judge import broken

# One case in so many runs twice.
AGAIN_EVERY = 10


def look(seed: int) -> tuple[int, list[str]]:
    """What does not hold in the case of `seed`."""
    return seed, broken(draw(seed), again=seed % AGAIN_EVERY == 0)


def reduce(case: Case, fails: Callable[[Case], object] = broken) -> Case:
    """The case with as few faults as still fail."""
    number = 0
    while number < len(case.faults):
        fewer = case.without(number)
        if fails(fewer):
            case = fewer
        else:
            number += 1
    return case


def main() -> int:
    """The whole of it."""
    parser = argparse.ArgumentParser(prog="swarm", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20_000, help="gateway-seconds to simulate")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--only", type=int, help="one seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=int, default=3, help="how many failures are reduced")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/swarm"))
    options = parser.parse_args()
    count = max(1, round(options.seconds / (2 * DURATION)))
    seeds = [options.only] if options.only is not None else range(options.first, options.first + count)
    began, failed = time.monotonic(), []
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        for number, (seed, told) in enumerate(pool.map(look, seeds, chunksize=4), 1):
            if told:
                failed.append(seed)
                print(f"seed {seed}: {'; '.join(told)}\n  again: python -m swarm --only {seed}", flush=True)
            if sys.stderr.isatty():
                print(f"\r\033[K{number} of {len(seeds)}, {len(failed)} failed", end="", file=sys.stderr)
    for seed in failed[: options.keep]:
        small = reduce(draw(seed))
        options.out.mkdir(parents=True, exist_ok=True)
        path = options.out / f"{seed}.toml"
        path.write_text(small.text(), encoding="utf-8")
        print(f"seed {seed} with {len(small.faults)} of {len(draw(seed).faults)} faults: {path}")
    simulated = 2 * DURATION * len(seeds)
    took = time.monotonic() - began
    print(f"{len(seeds)} cases, {simulated:.0f} gateway-seconds in {took:.0f} s, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
