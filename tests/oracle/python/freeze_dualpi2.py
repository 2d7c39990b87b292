"""Writes the verdicts of the reference (../verdicts/dualpi2.json); with --check compares them with what is there.

The arrivals of a trace follow from its seed (`arrivals`), on both sides. Of its packets the file has what became of each: s sent, m
sent with a mark of the coupled probability, n with one of L's own, d dropped early, f dropped by overload, o dropped by a full
queue, with a number in front for more than one. `digest` is of the instants of all packets and then of the bits of p' after each 25
arrivals. Where the law is drawn (`random`) there are only the counts of each fate, over all packets of all such traces.
"""

import random
import struct
from pathlib import Path

from freeze_codel import digest, shorten, splitmix
from frozen import hashes, keep
from reference_dualpi2 import CE, ECT0, ECT1, NOT_ECT, DualPi2, EcnPacket
from reference_world import run

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts" / "dualpi2.json"
SCRIPTS = ["freeze_codel.py", "freeze_dualpi2.py", "reference_dualpi2.py", "reference_world.py"]
VERSION = 1
TRACES, DRAWN, PACKETS, PHASE = 260, 120, 800, 40
SIZES = [40, 576, 1000, 1500]
MICRO = 1000
LETTERS = {"d-early": "d", "d-forced": "f", "d-overflow": "o"}


def arrivals(seed, nanos_per_byte, mix):
    """[ns since the one before, bytes, ECN field]: phases of bursts, overload, full load and half load; `mix` has how many of 100
    packets are at most not-ECT, ECT(0), ECT(1)."""
    below, made, load = splitmix(seed), [], 0
    for number in range(PACKETS):
        if number % PHASE == 0:
            load = below(5)
        size = SIZES[below(4)]
        draw = below(100)
        ecn = NOT_ECT if draw < mix[0] else ECT0 if draw < mix[1] else ECT1 if draw < mix[2] else CE
        unit = size * nanos_per_byte
        most = [1, unit * 3 // 2, unit * 3 // 2, unit * 2, unit * 4][load]
        made.append([below(most), size, ecn])
    return made


def config(r, law):
    in_bytes = r.random() < 0.3
    rtt_max = r.choice([2000, 10_000, 30_000, 100_000])
    return {
        "limit": ["bytes", r.randrange(10_000, 150_000)] if in_bytes else ["packets", r.randrange(10, 300)],
        "target": r.choice([300, 1000, 5000, 15_000]) * MICRO,
        "rtt_max": rtt_max * MICRO,
        "tupdate": r.choice([None, None, r.randrange(200, 4000) * MICRO]),
        "k": r.choice([1.0, 1.5, 2.0, 2.0]),
        "min_th": r.choice([0, 300, 800, 2500]) * MICRO,
        "range": r.choice([0, 400, 400, 3000]) * MICRO,
        "th_len": r.choice([0, 1, 1, 3]),
        "scheduler": r.choice(["wrr", "wrr", "tsf"]),
        "classic_percent": r.choice([5, 10, 25, 50, 80]),
        "tshift": r.choice([1000, 10_000, 50_000]) * MICRO,
        "mtu": r.choice([500, 1500]),
        "law": law,
    }


def letter(packet):
    if packet.fate == "s":
        return {None: "s", "early": "m", "step": "n"}[packet.mark]
    return LETTERS[packet.fate]


def bits(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def played(seed, law):
    r = random.Random(seed)
    made = {
        "seed": seed,
        "nanos_per_byte": r.choice([80, 800, 8000]),
        "mix": r.choice(
            [[0, 0, 100], [100, 100, 100], [50, 50, 100], [30, 50, 95], [20, 60, 90], [0, 50, 100]]
        ),
        "config": config(r, law),
    }
    given = arrivals(seed, made["nanos_per_byte"], made["mix"])
    packets = [EcnPacket(n, 0, size, ecn=ecn) for n, (_, size, ecn) in enumerate(given)]
    gaps = [gap for gap, _, _ in given]
    queue = DualPi2(made["config"] | {"draws": seed})
    _, probabilities = run(queue, packets, gaps, made["nanos_per_byte"], lambda d: bits(d.p))
    return made, packets, probabilities


def trace(seed):
    made, packets, probabilities = played(seed, "recur")
    made["outcomes"] = shorten(letter(packet) for packet in packets)
    made["digest"] = digest([packet.at for packet in packets] + probabilities)
    return made


def drawn(seed):
    made, packets, _ = played(seed, "random")
    letters = [letter(packet) for packet in packets]
    return made, {each: letters.count(each) for each in "smndfo"}


def main():
    scripts = hashes(HERE / name for name in SCRIPTS)
    head = {"made_by": "tests/oracle/python/freeze_dualpi2.py", "version": VERSION, "scripts_sha256": scripts}
    by_chance = [drawn(1000 + seed) for seed in range(DRAWN)]
    made = head | {
        "packets": PACKETS,
        "dualpi2": [trace(seed) for seed in range(TRACES)],
        "random": [each for each, _ in by_chance],
        "counts": {each: sum(counts[each] for _, counts in by_chance) for each in "smndfo"},
    }
    keep(OUT, made)


if __name__ == "__main__":
    main()
