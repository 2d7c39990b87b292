"""Writes the verdicts of the reference (../../verdicts/backpressure.json); with --check compares them with what is there."""

import json
import random
import sys
from pathlib import Path

from reference_backpressure import run

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from frozen import hashes  # noqa: E402

OUT = HERE.parents[1] / "verdicts" / "backpressure.json"
MILLI = 1_000_000
FULL = 18_750_000  # 150 Mbit/s
BASE = {
    "period_ns": 10 * MILLI,
    "hold_ns": 25 * MILLI,
    "tolerance": 0.0,
    "reserved": 0.7,
    "lowest": 8_000,
    "measured": False,
    "over_told": False,
}
CONFIGS = {
    "text": BASE,
    "measured": BASE | {"measured": True},
    "tolerant": BASE | {"tolerance": 0.1},
    "over_told": BASE | {"over_told": True},
    "unreserved": BASE | {"reserved": 0.0},
    "short_period": BASE | {"period_ns": 3 * MILLI, "hold_ns": 3 * MILLI},
}
CIRCUIT = {"rate": FULL, "mcr": 2_500_000}
PLAIN = {"rate": 1_250_000, "mcr": None}
ROUTERS = {
    "circuits": [CIRCUIT] * 4,
    "plain": [PLAIN] * 3,
    "mixed": [CIRCUIT, PLAIN, CIRCUIT | {"mcr": 5_000_000}],
}
MILLIS = 100


def events(r, ports):
    """Inputs whose rates to each output change every 20 ms, some silent; answers to RM cells; questions in between."""
    made, places = [], [None, *range(len(ports))]
    for begins in range(0, MILLIS, 20):
        for output, port in enumerate(ports):
            for place in places:
                if place == output or r.random() < 0.35:
                    continue
                rate = r.choice([0.05, 0.2, 0.4, 0.7]) * port["rate"]
                at = begins * MILLI + r.randrange(MILLI)
                while at < (begins + 20) * MILLI:
                    size = r.choice([40, 988, 1064, 1064, 1500])
                    made.append([at, "packet", place, output, size])
                    at += int(size / rate * 1e9 * r.uniform(0.5, 1.5)) + 1
    for at in range(2, MILLIS, 3):
        for output, port in enumerate(ports):
            er = r.choice([port["rate"], r.randrange(port["rate"]), r.randrange(port["rate"] // 3), 100])
            made.append([at * MILLI + 13 + output, "rm", output, er])
            if r.random() < 0.7:
                er = r.choice([2**32 - 1, r.randrange(port["rate"])])
                made.append([at * MILLI + 200_000 + r.randrange(2 * MILLI), "ask", output, er])
    made.sort(key=lambda event: event[0])
    # No two at one instant: which of them is first would be a convention.
    return [event for event, after in zip(made, made[1:]) if event[0] < after[0]]


def build():
    r = random.Random(1)
    routers = []
    for router, ports in ROUTERS.items():
        made = events(r, ports)
        cases = [{"name": name, "config": c, "answers": run(c, ports, made)} for name, c in CONFIGS.items()]
        routers.append({"router": router, "ports": ports, "events": made, "cases": cases})
    return {"backpressure": routers}


def main():
    scripts = sorted(HERE.glob("*.py"))
    digest = hashes(scripts)
    head = {"made_by": "tests/oracle/python/backpressure/freeze_backpressure.py", "scripts_sha256": digest}
    text = json.dumps(head | build(), separators=(",", ":")).replace('},{"', '},\n{"') + "\n"
    if "--check" not in sys.argv:
        OUT.write_text(text)
    elif not OUT.exists() or OUT.read_text() != text:
        sys.exit(f"{OUT.name} differs from what the scripts give")


if __name__ == "__main__":
    main()
