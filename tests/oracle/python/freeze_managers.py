"""Writes the verdicts of PIE, the step, PI, REM, AVQ and CHOKe (../verdicts/KIND.json); with --check compares them with what is
there, and with --count says how often each branch was taken.

The arrivals of a trace follow from its seed (`arrivals`), on both sides, and its random numbers are those of draws.json, from the
first. Of its packets the file has what became of each: s sent, m sent with a mark, d dropped early, o dropped by a full queue, f
dropped for the share of its flow, with a number in front for more than one. `digest` is of the instants of all packets.
`watched` is an inner variable after each 100 arrivals.
"""

import json
import random
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path

from frozen import hashes
from reference_avq import Avq
from reference_choke import Choke
from reference_pi import Pi
from reference_pie import Pie
from reference_rem import Rem
from reference_step import Step
from reference_world import Draws, Packet, run

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts"
VERSION = 1
TRACES, PACKETS, PHASE, WATCHED_EVERY = 240, 800, 40, 100
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


def arrivals(seed, nanos_per_byte, ect_percent, flows):
    """[ns since the one before, bytes, whether ECN-capable, flow]: phases of bursts, overload, full load and half load."""
    below, made, load = splitmix(seed), [], 0
    for number in range(PACKETS):
        if number % PHASE == 0:
            load = below(5)
        size = SIZES[below(4)]
        ect = below(100) < ect_percent
        unit = size * nanos_per_byte
        most = [1, unit * 3 // 2, unit * 3 // 2, unit * 2, unit * 4][load]
        made.append((below(most), size, ect, below(flows)))
    return made


def limit(r):
    if r.random() < 0.3:
        return ["bytes", r.randrange(10_000, 150_000)]
    return ["packets", r.randrange(10, 200)]


def pie(r, nanos_per_byte):
    # In units of the time that a typical packet takes, so that the law moves within a trace.
    unit = 780 * nanos_per_byte
    target = unit * r.choice([2, 5, 20])
    gain = r.choice([0.5, 5, 50]) * 1e9 / (1e4 * target)
    return {
        "limit": limit(r),
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
        "estimator": r.choice(["timestamps", "departure-rate"]),
        "dq_threshold": r.choice([2000, 4096, 16384]),
        "on_demand": r.random() < 0.3,
        "mtu": r.choice([1500, 500]),
    }


def step(r, nanos_per_byte):
    thresholds = [
        ["packets", r.randrange(1, 40)],
        ["bytes", r.randrange(1000, 40_000)],
        ["nanos", 780 * nanos_per_byte * r.randrange(1, 40)],
    ]
    return {
        "limit": limit(r),
        "threshold": r.choice(thresholds),
        "ecn": r.random() < 0.8,
        "others": r.choice(["drop", "pass"]),
    }


def pi(r, nanos_per_byte):
    b = r.choice([1e-4, 1e-3, 1e-2])
    return {
        "limit": limit(r),
        "a": b * r.choice([1.01, 1.2, 2.0]),
        "b": b,
        "q_ref": r.choice([2, 10, 30]),
        "period": 780 * nanos_per_byte * r.choice([1, 4]) + r.randrange(1000),
        "mode": r.choice(["packets", "bytes"]),
        "mean_packet": r.choice([500, 1000]),
        "ecn": r.random() < 0.7,
    }


def rem(r, nanos_per_byte):
    return {
        "limit": limit(r),
        "gamma": r.choice([0.05, 0.5, 2.0]),
        "alpha": r.choice([0.05, 0.1, 1.0]),
        "phi": r.choice([1.001, 1.01, 1.1]),
        "b_ref": r.choice([2, 10, 20]),
        "w": r.choice([1.0, 0.2]),
        "period": 780 * nanos_per_byte * r.choice([1, 4]) + r.randrange(1000),
        "mode": r.choice(["packets", "bytes"]),
        "mean_packet": r.choice([500, 1000]),
        "nanos_per_byte": nanos_per_byte,
        "ecn": r.random() < 0.7,
    }


def avq(r, nanos_per_byte):
    return {
        "limit": limit(r),
        "virtual_bytes": r.randrange(3000, 60_000),
        "alpha": r.choice([0.15, 5.0, 100.0, 1000.0]),
        "gamma": r.choice([0.98, 0.8, 1.0]),
        "start": r.choice([0.8, 1.0]),
        "nanos_per_byte": nanos_per_byte,
        "ecn": r.random() < 0.7,
    }


def choke(r, nanos_per_byte):
    min_th = r.choice([1.0, 3.0, 5.0])
    return {
        "limit": limit(r),
        "min_th": min_th,
        "max_th": min_th + r.choice([3.0, 10.0]),
        "w": r.choice([0.02, 0.2]),
        "max_p": r.choice([0.02, 0.3]),
        "packet_bytes": 1000,
        "unit": "packets",
        "gap_law": r.choice(["paper", "wait"]),
        "flavor": "floyd_1993",
        "gentle": r.random() < 0.3,
        "victim": r.choice(["arriving", "random"]),
        "ecn": r.random() < 0.7,
        "ecn_when_forced": r.random() < 0.5,
    }


def make_choke(c, draws, nanos_per_byte):
    return Choke(c, draws, 8e9 / nanos_per_byte)


# By kind: configurations, the reference, what is watched, how many flows there are, and the reference's files.
KINDS = {
    "pie": (pie, lambda c, d, _: Pie(c, d), lambda q: q.drop_prob, 1, ["reference_pie.py"]),
    "step": (step, lambda c, d, _: Step(c, d), lambda q: len(q.queue), 1, ["reference_step.py"]),
    "pi": (pi, lambda c, d, _: Pi(c, d), lambda q: q.p, 1, ["reference_pi.py"]),
    "rem": (rem, lambda c, d, _: Rem(c, d), lambda q: q.price, 1, ["reference_rem.py"]),
    "avq": (avq, lambda c, d, _: Avq(c, d), lambda q: q.C_virtual * 8, 1, ["reference_avq.py"]),
    "choke": (choke, make_choke, lambda q: q.avg, 6, ["reference_choke.py", "reference_red.py"]),
}
LETTERS = {"d-early": "d", "d-forced": "d", "d-overflow": "o", "d-fair_share": "f"}


def letter(packet):
    return ("m" if packet.mark else "s") if packet.fate == "s" else LETTERS[packet.fate]


def shorten(letters):
    runs = ((each, len(list(of))) for each, of in groupby(letters))
    return "".join(each if n == 1 else f"{n}{each}" for each, n in runs)


def digest(values):
    result = 0xCBF29CE484222325
    for value in values:
        result = ((result ^ value) * 0x100000001B3) & MASK
    return f"{result:016x}"


def trace(kind, seed, counts):
    r = random.Random(f"{kind} {seed}")
    config, reference, watch, flows, _ = KINDS[kind]
    nanos_per_byte, ect_percent = r.choice([80, 800, 8000]), r.choice([0, 50, 100])
    made = {
        "seed": seed,
        "nanos_per_byte": nanos_per_byte,
        "ect_percent": ect_percent,
        "config": config(r, nanos_per_byte),
    }
    given = arrivals(seed, nanos_per_byte, ect_percent, flows)
    packets = [Packet(n, flow, size, ect) for n, (_, size, ect, flow) in enumerate(given)]
    gaps = [gap for gap, *_ in given]
    queue = reference(made["config"], Draws(), nanos_per_byte)
    _, watched = run(queue, packets, gaps, nanos_per_byte, watch, WATCHED_EVERY)
    made["outcomes"] = shorten(letter(packet) for packet in packets)
    made["digest"] = digest(packet.at for packet in packets)
    made["watched"] = watched
    counts.update(letter(packet) for packet in packets)
    counts["traces that act"] += any(letter(packet) in "mdf" for packet in packets)
    counts.update(getattr(queue, "seen", {}))
    return made


def freeze(kind):
    names = ["freeze_managers.py", "reference_world.py", *KINDS[kind][4]]
    scripts = hashes(HERE / name for name in names)
    head = {
        "made_by": "tests/oracle/python/freeze_managers.py",
        "version": VERSION,
        "scripts_sha256": scripts,
    }
    counts = Counter()
    traces = [trace(kind, seed, counts) for seed in range(TRACES)]
    text = json.dumps(
        head | {"packets": PACKETS, "flows": KINDS[kind][3], "traces": traces}, separators=(",", ":")
    )
    return text.replace('},{"seed', '},\n{"seed') + "\n", counts


def main():
    for kind in KINDS:
        text, counts = freeze(kind)
        out = OUT / f"{kind}.json"
        if "--count" in sys.argv:
            print(kind, dict(sorted(counts.items())))
        elif "--check" not in sys.argv:
            out.write_text(text)
        elif not out.exists() or out.read_text() != text:
            sys.exit(f"{out.name} differs from what the scripts give")


if __name__ == "__main__":
    main()
