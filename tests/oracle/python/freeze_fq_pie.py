"""Writes the verdicts of the reference (../verdicts/fq_pie.json); with --check compares them with what is there.

The arrivals of a trace are those of `freeze_fq_codel.py`, its random numbers those of draws.json, from the first. Of its packets the
file has what became of each: s sent, m sent with a mark, d dropped early, o dropped by a full queue, with a number in front for more
than one. `digest` is of the instants of all packets, and of how many queues are new and old after each 25 arrivals.
"""

import random
from pathlib import Path

from freeze_codel import digest, letter, shorten
from freeze_fq_codel import PACKETS, arrivals
from frozen import hashes, keep
from reference_fq_pie import FqPie
from reference_world import Draws, Packet, run

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts" / "fq_pie.json"
SCRIPTS = [
    "flow_lists.py",
    "freeze_codel.py",
    "freeze_fq_codel.py",
    "freeze_fq_pie.py",
    "reference_fq_pie.py",
    "reference_pie.py",
    "reference_world.py",
]
VERSION, TRACES = 1, 240


def config(r, nanos_per_byte):
    # In units of the time that a typical packet takes, so that the law moves within a trace.
    unit = 780 * nanos_per_byte
    target = unit * r.choice([2, 5, 20])
    gain = r.choice([0.5, 5, 50]) * 1e9 / (1e4 * target)
    return {
        "queues": r.choice([1, 2, 5, 128]),
        "quantum": r.choice([300, 1000, 1514, 4000]),
        "limit": r.choice([15, 60, 10_240]),
        "memory_limit": r.choice([20_000, 80_000, 32 << 20]),
        "target": target,
        "t_update": unit * r.choice([1, 3, 8]) + r.randrange(1000),
        "max_burst": r.choice([0, 10, 50]) * unit,
        "alpha": 0.125 * gain,
        "beta": 1.25 * gain,
        "mark_ecnth": r.choice([0.1, 0.3, 0.8]),
        "ecn": r.random() < 0.7,
        "derandomize": r.random() < 0.6,
        "by_size": r.random() < 0.3,
        "high": target * r.choice([3, 50]),
        "mtu": r.choice([1500, 500]),
    }


def trace(seed):
    r = random.Random(seed)
    nanos_per_byte = r.choice([80, 800, 8000])
    made = {
        "seed": seed,
        "nanos_per_byte": nanos_per_byte,
        "ect_percent": r.choice([0, 50, 100]),
        "flows": r.choice([2, 6, 30]),
        "config": config(r, nanos_per_byte),
    }
    given = arrivals(seed, nanos_per_byte, made["ect_percent"], made["flows"])
    packets = [Packet(n, flow, size, ect) for n, (_, flow, size, ect) in enumerate(given)]

    def watch(fq):
        return len(fq.new) << 32 | len(fq.old)

    fq = FqPie(made["config"], Draws())
    _, lists = run(fq, packets, [gap for gap, *_ in given], nanos_per_byte, watch)
    made["outcomes"] = shorten(letter(packet) for packet in packets)
    made["digest"] = digest([packet.at for packet in packets] + lists)
    return made


def main():
    scripts = hashes(HERE / name for name in SCRIPTS)
    head = {"made_by": "tests/oracle/python/freeze_fq_pie.py", "version": VERSION, "scripts_sha256": scripts}
    made = head | {"packets": PACKETS, "fq_pie": [trace(seed) for seed in range(TRACES)]}
    keep(OUT, made)


if __name__ == "__main__":
    main()
