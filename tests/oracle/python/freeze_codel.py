"""Writes the verdicts of the reference (../verdicts/codel.json); with --check compares them with what is there.

The arrivals of a trace follow from its seed (`arrivals`), on both sides. Of its packets the file has what became of each: s
sent, m sent with a mark, d dropped early, o dropped by a full queue, with a number in front for more than one. `digest` is of the
instants of all packets and then of `count` after each 25 arrivals.
"""

import random
from itertools import groupby
from pathlib import Path

from frozen import hashes, keep
from reference_codel import Codel
from reference_codel_linux import LinuxCodel
from reference_world import Packet, run

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts" / "codel.json"
SCRIPTS = ["freeze_codel.py", "reference_codel.py", "reference_codel_linux.py", "reference_world.py"]
VERSION = 2
TRACES, PACKETS, PHASE = 240, 800, 40
SIZES = [40, 576, 1000, 1500]
MICRO = 1000
MASK = 2**64 - 1


def splitmix(state):
    """SplitMix64: `below(n)` gives its next number modulo n."""

    def below(n):
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % n

    return below


def arrivals(seed, nanos_per_byte, ect_percent):
    """[ns since the one before, bytes, whether ECN-capable]: phases of bursts, overload, full load and half load."""
    below, made, load = splitmix(seed), [], 0
    for number in range(PACKETS):
        if number % PHASE == 0:
            load = below(5)
        size = SIZES[below(4)]
        ect = below(100) < ect_percent
        unit = size * nanos_per_byte
        most = [1, unit * 3 // 2, unit * 3 // 2, unit * 2, unit * 4][load]
        made.append([below(most), size, ect])
    return made


def config(r):
    in_bytes = r.random() < 0.3
    return {
        "target": r.choice([200, 1000, 5000]) * MICRO,
        "interval": r.choice([2000, 7000, 20_000, 100_000]) * MICRO,
        "limit": ["bytes", r.randrange(10_000, 150_000)] if in_bytes else ["packets", r.randrange(10, 200)],
        "maxpacket": r.choice([500, 1500]),
        "ecn": r.random() < 0.6,
        "reentry": r.choice(["last-drops", "two-less"]),
    }


def letter(packet):
    return {"s": "m" if packet.mark else "s", "d-early": "d", "d-overflow": "o"}[packet.fate]


def shorten(letters):
    runs = ((each, len(list(of))) for each, of in groupby(letters))
    return "".join(each if n == 1 else f"{n}{each}" for each, n in runs)


def digest(values):
    result = 0xCBF29CE484222325
    for value in values:
        result = ((result ^ value) * 0x100000001B3) & MASK
    return f"{result:016x}"


def trace(seed, codel=Codel):
    r = random.Random(seed)
    made = {
        "seed": seed,
        "nanos_per_byte": r.choice([80, 800, 8000]),
        "ect_percent": r.choice([0, 50, 100]),
        "config": config(r),
    }
    if codel is LinuxCodel:
        made["config"]["variant"] = "linux"
    given = arrivals(seed, made["nanos_per_byte"], made["ect_percent"])
    packets = [Packet(n, 0, size, ect) for n, (_, size, ect) in enumerate(given)]
    gaps = [gap for gap, _, _ in given]
    _, counts = run(codel(made["config"]), packets, gaps, made["nanos_per_byte"], lambda d: d.count)
    made["outcomes"] = shorten(letter(packet) for packet in packets)
    made["digest"] = digest([packet.at for packet in packets] + counts)
    return made


def main():
    scripts = hashes(HERE / name for name in SCRIPTS)
    head = {"made_by": "tests/oracle/python/freeze_codel.py", "version": VERSION, "scripts_sha256": scripts}
    made = head | {"packets": PACKETS, "codel": [trace(seed) for seed in range(TRACES)]}
    made["linux"] = [trace(seed, LinuxCodel) for seed in range(TRACES, 2 * TRACES)]
    keep(OUT, made)


if __name__ == "__main__":
    main()
