"""Writes the verdicts of the reference (../verdicts/pi2.json); with --check compares them with what is there, and with --count says
what the traces reach.

Arrivals and letters are those of `freeze_dualpi2.py`, random numbers those of draws.json, from the first. `digest` is of the instants
of all packets, `watched` the probability of scalable packets after each 100 arrivals.
"""

import json
import random
import sys
from collections import Counter
from pathlib import Path

from freeze_codel import digest, shorten
from freeze_dualpi2 import PACKETS, arrivals, letter
from frozen import hashes
from reference_dualpi2 import EcnPacket
from reference_pi2 import Pi2
from reference_world import Draws, run

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts" / "pi2.json"
SCRIPTS = [
    "freeze_codel.py",
    "freeze_dualpi2.py",
    "freeze_pi2.py",
    "reference_dualpi2.py",
    "reference_pi2.py",
    "reference_world.py",
]
VERSION = 1
TRACES, WATCHED_EVERY = 240, 100
MIXES = [[0, 0, 100], [100, 100, 100], [50, 50, 100], [30, 50, 95], [20, 60, 90], [0, 50, 100]]


def config(r, nanos_per_byte):
    # In units of the time that a typical packet takes, so that the law moves within a trace.
    unit = 780 * nanos_per_byte
    target = unit * r.choice([2, 5, 20])
    gain = r.choice([0.2, 2, 20]) * 1e9 / (1e4 * target)
    in_bytes = r.random() < 0.3
    return {
        "limit": ["bytes", r.randrange(10_000, 150_000)] if in_bytes else ["packets", r.randrange(10, 300)],
        "target": target,
        "t_update": unit * r.choice([1, 3, 8]) + r.randrange(1000),
        "alpha": 0.3125 * gain,
        "beta": 3.125 * gain,
        "k": r.choice([0.8, 1.19, 2.0, 2.0, 3.0]),
        "scalable": r.choice(["ect1", "ect1", "ect", "none"]),
        "ecn": r.random() < 0.8,
        "mtu": r.choice([500, 1500]),
    }


def trace(seed, counts):
    r = random.Random(f"pi2 {seed}")
    nanos_per_byte = r.choice([80, 800, 8000])
    made = {"seed": seed, "nanos_per_byte": nanos_per_byte, "mix": r.choice(MIXES)}
    made["config"] = config(r, nanos_per_byte)
    given = arrivals(seed, nanos_per_byte, made["mix"])
    packets = [EcnPacket(n, 0, size, ecn=ecn) for n, (_, size, ecn) in enumerate(given)]
    queue = Pi2(made["config"], Draws())
    gaps = [gap for gap, *_ in given]
    _, watched = run(queue, packets, gaps, nanos_per_byte, lambda q: q.prob, WATCHED_EVERY)
    made["outcomes"] = shorten(letter(packet) for packet in packets)
    made["digest"] = digest(packet.at for packet in packets)
    made["watched"] = watched
    counts.update(letter(packet) for packet in packets)
    counts.update(f"p_s {'one' if p >= 1 else 'zero' if p == 0 else 'between'}" for p in watched)
    return made


def main():
    scripts = hashes(HERE / name for name in SCRIPTS)
    head = {"made_by": "tests/oracle/python/freeze_pi2.py", "version": VERSION, "scripts_sha256": scripts}
    counts = Counter()
    traces = [trace(seed, counts) for seed in range(TRACES)]
    text = json.dumps(head | {"packets": PACKETS, "traces": traces}, separators=(",", ":"))
    text = text.replace('},{"seed', '},\n{"seed') + "\n"
    if "--count" in sys.argv:
        print(dict(sorted(counts.items())))
    elif "--check" not in sys.argv:
        OUT.write_text(text)
    elif not OUT.exists() or OUT.read_text() != text:
        sys.exit(f"{OUT.name} differs from what the scripts give")


if __name__ == "__main__":
    main()
