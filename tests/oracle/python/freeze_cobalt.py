"""Writes the verdicts of the reference (../verdicts/cobalt.json); with --check compares them with what is there.

As `freeze_codel.py`, whose arrivals these are; b is a packet that BLUE dropped, and `digest` is of the instants of all packets and
then of `count` and of the probability of BLUE after each 25 arrivals.
"""

import random
from pathlib import Path

from freeze_codel import arrivals, digest, shorten
from frozen import hashes, keep
from reference_cobalt import Cobalt
from reference_world import Packet, run

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts" / "cobalt.json"
SCRIPTS = ["freeze_cobalt.py", "freeze_codel.py", "reference_cobalt.py", "reference_world.py"]
VERSION = 1
TRACES, MICRO = 240, 1000


def config(r):
    return {
        "target": r.choice([200, 1000, 5000]) * MICRO,
        "interval": r.choice([2000, 7000, 20_000, 100_000]) * MICRO,
        "limit": r.choice([10, 40, 200]),
        "mtu": r.choice([500, 1500]),
        "p_inc": r.choice([1 << 24, 1 << 28, 1 << 30]),
        "p_dec": r.choice([1 << 20, 1 << 27]),
    }


def letter(packet):
    fates = {"s": "m" if packet.mark else "s", "d-early": "d", "d-overflow": "o", "d-blue": "b"}
    return fates[packet.fate]


def trace(seed):
    r = random.Random(seed)
    made = {
        "seed": seed,
        "nanos_per_byte": r.choice([80, 800, 8000]),
        "ect_percent": r.choice([0, 50, 100]),
        "config": config(r),
    }
    given = arrivals(seed, made["nanos_per_byte"], made["ect_percent"])
    packets = [Packet(n, 0, size, ect) for n, (_, size, ect) in enumerate(given)]
    cobalt = Cobalt(made["config"], made["nanos_per_byte"])
    gaps = [gap for gap, _, _ in given]
    _, seen = run(cobalt, packets, gaps, made["nanos_per_byte"], lambda c: c.count << 32 | c.p_drop)
    made["outcomes"] = shorten(letter(packet) for packet in packets)
    made["digest"] = digest([packet.at for packet in packets] + seen)
    return made


def main():
    scripts = hashes(HERE / name for name in SCRIPTS)
    head = {"made_by": "tests/oracle/python/freeze_cobalt.py", "version": VERSION, "scripts_sha256": scripts}
    made = head | {"packets": 800, "cobalt": [trace(seed) for seed in range(TRACES)]}
    keep(OUT, made)


if __name__ == "__main__":
    main()
