#!/usr/bin/env python3
"""Runs the queues of ns-2 and writes frozen/queues.json: DRR, SFQ, CBQ, and RED without early drops.

Needs ns-2.35 as the command `ns`. Standard library only. `--check` compares instead of writing.

Each case has `arrivals` ([nanoseconds, source, bytes], when the last bit reaches the queue) and `events`, in order: n when
packet n arrives, "-n" when it leaves for transmission, "dn" when it is dropped.
"""

import json
import random
import subprocess
import sys
import tempfile

from make_frozen import FROZEN, HERE, peer_name, script_hashes

KINDS = [
    "drr",
    "drr_small",
    "red",
    "red_overflow",
    "sfq",
    "sfq_tight",
    "cbq_ancestor",
    "cbq_top",
    "cbq_formal",
]
# Without small common multiples: of two equally long queues ns-2 takes the first in the round, we the lowest number.
SIZES = [1000, 1039, 701, 533, 1499]
BITS_PER_SECOND = [1.0e6, 2.1e6, 3.2e6, 4.3e6, 6.4e6]  # 17 Mb/s for a link of 10
BUSY = [(100_000_000, 450_000_000), (800_000_000, 1_000_000_000)]  # nanoseconds


def schedule(seed):
    """[nanosecond of sending, source, bytes]: two busy times and a pause, in which the average of RED falls.

    Whole nanoseconds at random: transmissions take whole microseconds, so hardly ever do two things happen at once.
    """
    r = random.Random(seed)
    sent = []
    for source, (size, rate) in enumerate(zip(SIZES, BITS_PER_SECOND)):
        gap = size * 8e9 / rate
        for start, end in BUSY:
            at = start + r.uniform(0, 30e6)
            while at < end:
                sent.append([int(at), source, size])
                at += gap * r.uniform(0.5, 1.5)
    return sorted(sent)


def case(kind, seed):
    sent = schedule(seed)
    arrivals = sorted([at + size + 1_000_000, source, size] for at, source, size in sent)
    with tempfile.NamedTemporaryFile("w") as file:
        file.writelines(f"{at / 1e9:.9f} {source} {size}\n" for at, source, size in sent)
        file.flush()
        done = subprocess.run(
            ["ns", "queues.tcl", kind, file.name], cwd=HERE, capture_output=True, text=True, timeout=60
        )
    if done.returncode or done.stderr.strip():
        sys.exit(f"{kind}: {done.stderr}")
    events, number = [], {}
    for line in done.stdout.splitlines():
        what, _, _, _, _, size, _, _, source, _, _, uid = line.split()
        if what == "+":
            number[uid] = len(number)
            expected = arrivals[number[uid]]
            if [int(source.split(".")[0]), int(size)] != expected[1:]:
                sys.exit(f"{kind}: packet {number[uid]} is not the one of the schedule: {line}")
            events.append(number[uid])
        elif what in "-d":
            events.append(f"{what}{number[uid]}")
    return {"name": kind, "seed": seed, "arrivals": arrivals, "events": events}


def main():
    frozen = {
        "peer": peer_name(),
        "scripts_sha256": script_hashes("queues.tcl", "make_frozen_queues.py"),
        "cases": [case(kind, seed) for kind in KINDS for seed in (1, 2)],
    }
    text = json.dumps(frozen, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n"
    path = FROZEN / "queues.json"
    if "--check" in sys.argv:
        if path.read_text() != text:
            sys.exit("queues.json differs from what ns-2 gives")
    else:
        path.write_text(text)


if __name__ == "__main__":
    main()
