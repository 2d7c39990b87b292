"""Writes the verdicts of the reference (../verdicts/fq_codel.json); with --check compares them with what is there.

The arrivals of a trace follow from its seed (`arrivals`), on both sides: the flows that send change every 40 packets. Of its
packets the file has what became of each, as `freeze_codel.py` does; `digest` is of the instants of all packets, and of how many
queues are new and old after each 25 arrivals.
"""

import random
from pathlib import Path

from freeze_codel import SIZES, digest, letter, shorten, splitmix
from frozen import hashes, keep
from reference_fq_codel import FqCodel
from reference_world import Packet, run

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts" / "fq_codel.json"
SCRIPTS = [
    "flow_lists.py",
    "freeze_codel.py",
    "freeze_fq_codel.py",
    "reference_codel.py",
    "reference_codel_linux.py",
    "reference_fq_codel.py",
    "reference_world.py",
]
VERSION = 1
TRACES, PACKETS, PHASE = 240, 600, 40
MICRO = 1000


def arrivals(seed, nanos_per_byte, ect_percent, flows):
    """[ns since the one before, flow, bytes, whether ECN-capable]: phases of bursts, overload, full load and half load."""
    below, made, load, senders = splitmix(seed), [], 0, 1
    for number in range(PACKETS):
        if number % PHASE == 0:
            load, senders = below(5), 1 + below(flows)
        # The first flow of a phase sends half of it.
        flow = below(senders) if below(2) else 0
        size = SIZES[below(4)]
        ect = below(100) < ect_percent
        unit = size * nanos_per_byte
        most = [1, unit * 3 // 2, unit * 3 // 2, unit * 2, unit * 4][load]
        made.append([below(most), flow, size, ect])
    return made


def config(r):
    ways = r.choice([1, 1, 4, 8])
    return {
        "queues": ways * r.choice([1, 2, 5, 128]),
        "ways": ways,
        "quantum": r.choice([300, 1000, 1514, 4000]),
        "limit": r.choice([15, 60, 10_240]),
        "memory_limit": r.choice([20_000, 80_000, 32 << 20]),
        "drop_batch": r.choice([1, 8, 64]),
        "target": r.choice([200, 1000, 5000]) * MICRO,
        "interval": r.choice([2000, 7000, 20_000, 100_000]) * MICRO,
        "maxpacket": r.choice([500, 1500]),
        "ecn": r.random() < 0.6,
        "ce_threshold": r.choice([None, None, 1000 * MICRO]),
        "reentry": r.choice(["last-drops", "two-less"]),
        "variant": r.choice(["rfc", "linux"]),
        "backlog": r.choice(["queue", "all"]),
    }


def trace(seed):
    r = random.Random(seed)
    made = {
        "seed": seed,
        "nanos_per_byte": r.choice([80, 800, 8000]),
        "ect_percent": r.choice([0, 50, 100]),
        "flows": r.choice([2, 6, 30]),
        "config": config(r),
    }
    given = arrivals(seed, made["nanos_per_byte"], made["ect_percent"], made["flows"])
    packets = [Packet(n, flow, size, ect) for n, (_, flow, size, ect) in enumerate(given)]
    gaps = [gap for gap, *_ in given]

    def watch(fq):
        return len(fq.new) << 32 | len(fq.old)

    _, lists = run(FqCodel(made["config"]), packets, gaps, made["nanos_per_byte"], watch)
    made["outcomes"] = shorten(letter(packet) for packet in packets)
    made["digest"] = digest([packet.at for packet in packets] + lists)
    return made


def main():
    scripts = hashes(HERE / name for name in SCRIPTS)
    head = {
        "made_by": "tests/oracle/python/freeze_fq_codel.py",
        "version": VERSION,
        "scripts_sha256": scripts,
    }
    made = head | {"packets": PACKETS, "fq_codel": [trace(seed) for seed in range(TRACES)]}
    keep(OUT, made)


if __name__ == "__main__":
    main()
