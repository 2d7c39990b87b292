"""Writes the verdicts of the reference (../verdicts/cake.json); with --check compares them with that file.

The arrivals of a trace follow from its seed (`arrivals`), its random numbers are those of draws.json, from
the first. Of its packets the file has what became of each: s sent, m sent with a mark, d dropped early, b
dropped by BLUE, o dropped for want of memory, a an ACK that a later one made needless, with a number in front
for more than one. `digest` is of the instants of all packets, and of how many flows are sparse and bulk, over
all tins, after each 25 arrivals.
"""

import random
from collections import Counter
from pathlib import Path

from freeze_codel import SIZES, digest, shorten, splitmix
from frozen import hashes, keep
from reference_cake import Cake, CakePacket

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts" / "cake.json"
SCRIPTS = [
    "freeze_cake.py",
    "freeze_codel.py",
    "reference_cake.py",
    "reference_cobalt.py",
    "reference_world.py",
]
VERSION = 1
TRACES, PACKETS, PHASE = 240, 600, 40
CODEPOINTS = [0, 0, 8, 46, 34, 56, 10, 26]
EVERY = 25


def arrivals(seed, nanos_per_byte, ect_percent, flows):
    """[ns since the one before, packet]: the phases of `freeze_fq_codel.py`. What has 40 bytes is an ACK."""
    below, made, load, senders, acked = splitmix(seed), [], 0, 1, Counter()
    for number in range(PACKETS):
        if number % PHASE == 0:
            load, senders = below(5), 1 + below(flows)
        # The first flow of a phase sends half of it.
        flow = below(senders) if below(2) else 0
        size = SIZES[below(4)]
        ect = below(100) < ect_percent
        unit = size * nanos_per_byte
        most = [1, unit * 3 // 2, unit * 3 // 2, unit * 2, unit * 4][load]
        gap = below(most)
        dscp = CODEPOINTS[below(8)]
        ack = None
        if size == 40:
            acked[flow] += below(3) * 1000
            flags = 1 if below(10) == 0 else 0
            hole = acked[flow] + 2000
            sacks = ((hole, hole + 1000 * (1 + below(3))),) if below(4) == 0 else ()
            ack = (acked[flow], flags, sacks)
        hosts = {"src": flow % 3, "dst": flow // 3 % 4}
        made.append((gap, CakePacket(number, flow, size, ect, dscp=dscp, ack=ack, **hosts)))
    return made


def run(cake, given, nanos_per_byte):
    """As `run` of `reference_world.py`; but a look may send nothing: with ingress, drops use up the rate."""
    now, free_at, look_at, seen = 0, 0, None, []

    def look(at):
        nonlocal free_at, look_at
        packet = cake.next(at)
        if packet is None:
            look_at = cake.ready(at)
        else:
            packet.fate, packet.at = "s", at
            free_at = look_at = at + packet.size * nanos_per_byte

    for gap, packet in given:
        now += gap
        while look_at is not None and look_at <= now:
            look(look_at)
        cake.arrive(packet, now)
        if free_at <= now:
            look(now)
        if packet.number % EVERY == EVERY - 1:
            seen.append(sum(tin.sparse for tin in cake.tins) << 32 | sum(tin.bulk for tin in cake.tins))
    while look_at is not None:
        look(look_at)
    return seen


def config(r, nanos_per_byte):
    ways = r.choice([1, 1, 4, 8])
    tins = ["besteffort", "diffserv3", "diffserv3", "diffserv4", "diffserv8", "precedence"]
    share = r.choice([0, 0, 50, 50, 80, 80, 95])
    target, interval = r.choice([(100_000, 2_000_000), (1_000_000, 20_000_000), (5_000_000, 100_000_000)])
    modes = ["flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost"]
    return {
        "bandwidth": 8 * 10**9 // nanos_per_byte * share // 100 or None,
        "overhead": r.choice([0, 18, 44, -4]),
        "mpu": r.choice([0, 64, 84]),
        "framing": r.choice(["none", "atm", "ptm"]),
        "diffserv": r.choice(tins),
        "flow_mode": "triple-isolate" if r.random() < 0.4 else r.choice(modes),
        "queues": ways * r.choice([1, 2, 2, 5, 128]),
        "ways": ways,
        "memory_limit": r.choice([20_000, 80_000, 32 << 20]),
        "target": target,
        "interval": interval,
        "mtu": 1500,
        "ack_filter": r.choice(["no", "filter", "aggressive"]),
        "ingress": r.random() < 0.5,
        "wash": r.random() < 0.5,
    }


def letter(packet):
    fates = {"d-early": "d", "d-blue": "b", "d-overflow": "o", "d-ack": "a"}
    return fates.get(packet.fate) or {"s": "m" if packet.mark else "s"}[packet.fate]


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
    seen = run(Cake(made["config"]), given, nanos_per_byte)
    made["outcomes"] = shorten(letter(packet) for _, packet in given)
    made["digest"] = digest([packet.at for _, packet in given] + seen)
    return made


def main():
    scripts = hashes(HERE / name for name in SCRIPTS)
    head = {"made_by": "tests/oracle/python/freeze_cake.py", "version": VERSION, "scripts_sha256": scripts}
    made = head | {"packets": PACKETS, "cake": [trace(seed) for seed in range(TRACES)]}
    keep(OUT, made)


if __name__ == "__main__":
    main()
