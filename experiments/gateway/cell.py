"""Makes `cell.trace`: when a cell may send 1500 bytes, in milliseconds, at a rate between 1 and 30 Mb/s.

As the trace of `examples/lte.toml`, longer and with other random numbers.
"""

import math
import random
from pathlib import Path


def instants(seconds: int, seed: int) -> list[int]:
    """When 1500 bytes may go."""
    dice = random.Random(seed)
    level, credit, found = 0.5, 0.0, []
    for ms in range(1, 1000 * seconds + 1):
        if ms % 100 == 1:
            level = min(max(level + dice.gauss(0, 0.15), 0), 1)
        credit += math.exp(level * math.log(30)) * 1e3 / 12000
        while credit >= 1:
            credit -= 1
            found.append(ms)
    return found


if __name__ == "__main__":
    lines = "".join(f"{ms}\n" for ms in instants(seconds=25, seed=11))
    Path(__file__).with_name("cell.trace").write_text(lines)
