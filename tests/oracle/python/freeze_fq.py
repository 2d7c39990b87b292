"""Writes the verdicts of the reference (../verdicts/fq.json); with --check compares them with what is there, and
with --count says how many traces would be others without each of the departures from Linux.

The arrivals of a trace are those of `freeze_fq_codel.py`, all without ECN; the stamps of its packets follow from
its seed as well (`stamps`). Of its packets the file has what became of each: s sent, o dropped for want of room,
with a number in front for more than one. `digest` is of the instants of all packets, and of how many queues are new
and old after each 25 arrivals.
"""

import random
import sys
from dataclasses import dataclass
from pathlib import Path

from freeze_codel import digest, shorten, splitmix
from freeze_fq_codel import PACKETS, arrivals
from frozen import hashes, keep
from reference_fq import OURS, Fq
from reference_world import Packet, run

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts" / "fq.json"
SCRIPTS = ["freeze_codel.py", "freeze_fq.py", "freeze_fq_codel.py", "reference_fq.py", "reference_world.py"]
VERSION, TRACES = 1, 240


@dataclass
class Stamped(Packet):
    stamp: int | None = None


def config(r, nanos_per_byte):
    return {
        "limit": r.choice([15, 60, 10_000]),
        "flow_limit": r.choice([3, 20, 100]),
        "quantum": r.choice([300, 1000, 1514, 3028]),
        "initial_quantum": r.choice([300, 1514, 15_140]),
        "max_rate": r.choice([None, None, nanos_per_byte, 4 * nanos_per_byte, 10 * nanos_per_byte]),
    }


def stamps(made, given):
    """Of each packet, when its sender lets it go: up to `ahead` ns after it comes, for as many of 100 packets as
    are `stamped`; if they are `rising`, never before the one before of its flow."""
    below, now, last, found = splitmix(made["seed"] ^ 0xFFFF_FFFF), 0, {}, []
    for gap, flow, *_ in given:
        now += gap
        is_stamped, at = below(100) < made["stamped"], now + 1 + below(made["ahead"])
        if made["rising"]:
            at = max(at, last.get(flow, 0) + 1)
        if is_stamped:
            last[flow] = at
        found.append(at if is_stamped else None)
    return found


def played(seed, departures=OURS):
    r = random.Random(f"fq {seed}")
    nanos_per_byte = r.choice([80, 800, 8000])
    made = {
        "seed": seed,
        "nanos_per_byte": nanos_per_byte,
        "ect_percent": 0,
        "flows": r.choice([2, 6, 30]),
        "stamped": r.choice([0, 50, 100, 100]),
        "ahead": 1000 * nanos_per_byte * r.choice([3, 30, 200]),
        "rising": r.random() < 0.6,
        "config": config(r, nanos_per_byte),
    }
    given = arrivals(seed, nanos_per_byte, 0, made["flows"])
    packets = [
        Stamped(n, flow, size, stamp=stamp)
        for n, ((_, flow, size, _), stamp) in enumerate(zip(given, stamps(made, given)))
    ]

    def watch(fq):
        return len(fq.new) << 32 | len(fq.old)

    fq = Fq(made["config"], departures)
    _, lists = run(fq, packets, [gap for gap, *_ in given], nanos_per_byte, watch)
    made["outcomes"] = shorten("s" if packet.fate == "s" else "o" for packet in packets)
    made["digest"] = digest([packet.at for packet in packets] + lists)
    return made, [packet.at for packet in packets]


def traces():
    return [played(seed) for seed in range(TRACES)]


def count():
    ours = traces()
    for without in [[each] for each in sorted(OURS)] + [sorted(OURS)]:
        others = (played(made["seed"], OURS - set(without))[1] for made, _ in ours)
        differ = sum(instants != other for (_, instants), other in zip(ours, others))
        print(f"{differ} of {TRACES} others without {', '.join(without)}")


def main():
    if "--count" in sys.argv:
        count()
        return
    scripts = hashes(HERE / name for name in SCRIPTS)
    head = {"made_by": "tests/oracle/python/freeze_fq.py", "version": VERSION, "scripts_sha256": scripts}
    made = head | {"packets": PACKETS, "fq": [made for made, _ in traces()]}
    keep(OUT, made)


if __name__ == "__main__":
    main()
