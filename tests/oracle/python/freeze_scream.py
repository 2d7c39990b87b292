"""Writes the verdicts of the reference (../verdicts/scream.json); with --check compares them with what is there.

A sender with frames every 20 ms over a made-up path whose capacity, other traffic, losses and marks change at random; the queue follows from
what the reference sends. Of each event the file has [kind, ns since the one before, ...]: "r", a report, with round trip and delay of the
queue in ns (-1 where nothing new came), data units, those marked, bytes, those marked, losses, bytes under way; "f", a frame, with ns that
the oldest one waited and bytes. `windows` are `ref_wnd` afterwards; of every eighth event `rows` has `target_bitrate`, what may be under way,
`t_pace` of 1000 bytes in us, 10^6 times `l4s_alpha` and `qdelay_target` in us; `drifts` is how often base delays were to be measured anew.
"""

import json
import random
import sys
from pathlib import Path

from frozen import hashes
from reference_scream import Scream

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts" / "scream.json"
SCRIPTS = ["freeze_scream.py", "reference_scream.py"]
TRACES, EVENTS, PERIOD = 60, 240, 20_000_000
# In every tenth trace a queue stands that others keep, for longer.
STANDING, STANDING_EVENTS = 10, 600


class MadePath:
    """What the made-up path does: it keeps a queue of `waiting` bytes."""

    def __init__(self, r):
        self.r = r
        self.base = r.choice([4, 12, 40, 90, 250]) * 1_000_000
        self.waiting = 0.0
        self.change()

    def stand(self):
        self.base, self.capacity, self.loss, self.mark_above = 4_000_000, 1e6, 0, 9
        self.others, self.limit = 1.2 * self.capacity, 0.1 * self.capacity

    def change(self):
        r = self.r
        self.capacity = r.choice([0.3e6, 1e6, 3e6, 10e6, 40e6]) / 8
        self.others = r.choice([0, 0, 0, 0.3, 0.7, 1.2]) * self.capacity
        self.loss = r.choice([0, 0, 0, 0.002, 0.03])
        self.mark_above = r.choice([-1, 0.001, 0.005, 0.02, 9])
        self.limit = r.choice([0.02, 0.1, 0.4]) * self.capacity

    def pass_(self, seconds, sent):
        self.waiting += sent + (self.others - self.capacity) * seconds
        over = self.waiting > self.limit
        self.waiting = min(max(self.waiting, 0.0), self.limit)
        return over or self.r.random() < self.loss


def trace(seed):
    r = random.Random(seed)
    is_l4s, competing = r.random() < 0.6, r.random() < 0.7
    least, most = r.choice([50_000, 150_000]), r.choice([500_000, 2_000_000, 20_000_000, 1_000_000_000])
    stands = seed % STANDING == STANDING - 1
    competing = competing and not stands
    reduce_jitter = seed % 2 == 1
    scream, path = Scream(is_l4s, competing, reduce_jitter, least, most), MadePath(r)
    if stands:
        path.stand()
    now, before, events, windows, rows = r.randrange(10**9), 0, [], [], []
    frame_at = now

    def note(*event):
        events.append(list(event))
        windows.append(short(scream.ref_wnd))
        if len(events) % 8 == 0:
            rows.append(row(scream))

    while len(events) < (STANDING_EVENTS if stands else EVENTS):
        if not stands and r.random() < 0.02:
            path.change()
        gap = int(r.choice([2, 5, 10, 20, 40, 45]) * 1_000_000 * r.uniform(0.5, 1)) + r.randrange(1000)
        if not stands and r.random() < 0.004:
            gap += r.randrange(10**10)
        now += gap
        if frame_at <= now:
            waited = r.choice([0, 0, 0, 3, 18, 60]) * 1_000_000 + r.randrange(1000)
            size = max(41, int(scream.target_bitrate * PERIOD / 8e9 * r.choice([1, 1, 1, 0.7, 1.3, 4])))
            scream.frame(waited / 1e9, size, PERIOD / 1e9)
            note("f", now - before, waited, size)
            before, frame_at = now, now + PERIOD
            continue
        seconds = gap / 1e9
        bytes_ = (
            int(min(scream.target_bitrate / 8, path.capacity) * min(seconds, 0.2) * r.uniform(0.5, 1.2)) + 1
        )
        lost = path.pass_(seconds, bytes_)
        delay = path.waiting / path.capacity
        units = max(1, bytes_ // 1000)
        marked = sum(r.random() < 0.3 for _ in range(units)) if delay > path.mark_above else 0
        flight = int(scream.target_bitrate / 8 * (path.base / 1e9 + delay) * r.choice([1, 1, 1.2, 1.7, 0.4]))
        if r.random() < 0.03:
            given = [-1, -1, 0, 0, 0, 0, int(lost), flight]
        else:
            rtt = path.base + int(delay * 1e9) + r.randrange(1_000_000)
            queue = int(delay * 1e9) + r.choice([0, 0, 0, r.randrange(8_000_000)])
            given = [rtt, queue, units, marked, bytes_, bytes_ * marked // units, int(lost), flight]
        rtt, queue = (None if value < 0 else value / 1e9 for value in given[:2])
        scream.feedback(now / 1e9, rtt, queue, *given[2:6], bool(given[6]), given[7])
        note("r", now - before, *given)
        before = now
    head = {
        "seed": seed,
        "l4s": is_l4s,
        "competing": competing,
        "reduce_jitter": reduce_jitter,
        "least": least,
        "most": most,
    }
    return head | {"drifts": scream.drifts, "events": events, "windows": windows, "rows": rows}


def short(value):
    return float(f"{value:.9g}")


def row(scream):
    found = [scream.target_bitrate, scream.send_limit(), scream.t_pace(1000) * 1e6]
    return [short(value) for value in [*found, scream.l4s_alpha * 1e6, scream.qdelay_target * 1e6]]


def main():
    scripts = hashes(HERE / name for name in SCRIPTS)
    head = {"made_by": "tests/oracle/python/freeze_scream.py", "version": 1, "scripts_sha256": scripts}
    made = head | {"traces": [trace(seed) for seed in range(TRACES)]}
    if "--count" in sys.argv:
        reports = [event for case in made["traces"] for event in case["events"] if event[0] == "r"]
        print(len(reports), "reports,", sum(event[8] for event in reports), "with losses,", end=" ")
        print(sum(event[5] > 0 for event in reports), "with marks,", end=" ")
        print(sum(case["drifts"] for case in made["traces"]), "drifts")
        return
    text = json.dumps(made, separators=(",", ":")).replace('},{"', '},\n{"') + "\n"
    if "--check" not in sys.argv:
        OUT.write_text(text)
    elif not OUT.exists() or OUT.read_text() != text:
        sys.exit(f"{OUT.name} differs from what the scripts give")


if __name__ == "__main__":
    main()
