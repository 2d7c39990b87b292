"""Writes the verdicts of the references (../../verdicts/controls.json); with --check compares them with what is there.

A sender whose window is the reference's, on a path that holds `pipe` segments; what is beyond waits, with others now and then. Of each event
the file has [kind, ns since the one before, segments acknowledged, segments delivered, round trip or 0, bytes under way, bits]: 1 it
opens the window, 2 losses are being repaired. Rows are the windows afterwards, in segments. Bytes acknowledged, `SND.NXT` and the
smoothed round trip follow from the events on both sides.
"""

import json
import random
import sys
from pathlib import Path

from reference_controls import CONTROLS
from reference_prr import trace

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from frozen import hashes  # noqa: E402

OUT = HERE.parents[1] / "verdicts" / "controls.json"
SCRIPTS = ["freeze_controls.py", "reference_controls.py", "reference_prr.py"]
MSS = 1000
EVENTS = 1000
BASE_RTT = 40_000_000


class World:
    def __init__(self, name, seed):
        self.r = random.Random(f"{name} {seed}")
        self.control = CONTROLS[name]()
        self.pipe = self.r.choice([20, 60, 150])
        self.now = self.number = self.srtt = 0
        self.others = 0
        self.events, self.rows = [], []

    def note(self, *event):
        self.events.append(list(event))
        self.rows.append(float(f"{self.control.cwnd:.11g}"))

    def step(self, repairs, opens):
        r, cwnd = self.r, self.control.cwnd
        if r.random() < 0.01:
            self.others = r.choice([0, 0, 0, self.pipe // 2, self.pipe * 3])
        waiting = max(0, cwnd - self.pipe) + self.others
        rtt = int(BASE_RTT * (1 + waiting / self.pipe)) + r.randrange(1, 200_000)
        acked = r.choice([1, 2, 2]) if opens else 0
        gap = int(rtt * max(acked, 1) / cwnd)
        if r.random() < 0.002:
            gap += r.randrange(5 * 10**9)
        self.now += gap
        sample = rtt if r.random() < 0.95 else 0
        if sample:
            self.srtt += (sample - self.srtt) // 8 if self.srtt else sample
        flight = int(cwnd * MSS) if r.random() < 0.9 else int(cwnd * MSS * r.random())
        self.number += acked * MSS
        self.control.ack(
            {
                "now": self.now,
                "acked": acked,
                "delivered": max(acked, 1),
                "rtt": sample,
                "srtt": self.srtt,
                "flight": flight / MSS,
                "number": self.number,
                "sent": self.number + flight,
                "opens": opens,
                "repairs": repairs,
            }
        )
        self.note("ack", gap, acked, max(acked, 1), sample, flight, opens + 2 * repairs)

    def congestion(self, kind):
        flight = int(self.control.cwnd * MSS)
        self.control.congestion(kind, flight / MSS, self.srtt, self.now)
        self.note(kind, 0, 0, 0, 0, flight, 0)

    def run(self):
        calm = 0
        while len(self.events) < EVENTS:
            self.step(False, True)
            calm += 1
            if calm < 250 or self.r.random() > 0.02:
                continue
            calm = self.r.randrange(250)
            kind = self.r.choice(["loss", "loss", "echo", "timeout", "idle"])
            self.congestion(kind)
            if kind == "loss":
                for _ in range(self.r.randrange(3, 30)):
                    self.step(True, False)
                flight = int(self.control.cwnd * MSS * self.r.choice([1, 1, 0.3]))
                self.control.recovered(flight / MSS)
                self.note("recovered", 0, 0, 0, 0, flight, 0)
            elif kind == "timeout":
                for _ in range(self.r.randrange(3, 30)):
                    self.step(True, True)
        return {"pipe": self.pipe, "events": self.events, "rows": self.rows}


def main():
    scripts = hashes(HERE / name for name in SCRIPTS)
    head = {"made_by": "tests/oracle/python/tcp/freeze_controls.py", "version": 1, "scripts_sha256": scripts}
    cases = [{"control": name} | World(name, seed).run() for name in CONTROLS for seed in range(4)]
    made = head | {"cases": cases, "prr": [trace(seed) for seed in range(60)]}
    text = json.dumps(made, separators=(",", ":")).replace('},{"', '},\n{"') + "\n"
    if "--check" not in sys.argv:
        OUT.write_text(text)
    elif not OUT.exists() or OUT.read_text() != text:
        sys.exit(f"{OUT.name} differs from what the scripts give")


if __name__ == "__main__":
    main()
