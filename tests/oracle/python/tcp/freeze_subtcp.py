"""Writes the verdicts of the reference (../../verdicts/subtcp.json); with --check compares them with what is there."""

import json
import random
import sys
from pathlib import Path

from reference_subtcp import run_ecn_timeouts, run_subtcp

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from frozen import hashes  # noqa: E402

OUT = HERE.parents[1] / "verdicts" / "subtcp.json"
FORMS = {
    "halving": ("halving", 0.0),
    "scaled": ("scaled", 0.25),
    "scaled_coarse": ("scaled", 0.7),
    "bandwidth": ("bandwidth", 0.01),
    "bandwidth_fast": ("bandwidth", 0.5),
}
# How often each kind of event comes: a free network, a crowded one, a hopeless one.
MIXES = {
    "free": {"ack": 30, "send": 10, "echo": 1, "loss": 0, "timeout": 0},
    "crowded": {"ack": 8, "send": 8, "echo": 2, "loss": 1, "timeout": 1},
    "hopeless": {"ack": 2, "send": 4, "echo": 2, "loss": 1, "timeout": 2},
}
EVENTS = 400
RTO, RTO_MAX = 300_000_000, 64_000_000_000


def events(r, mix):
    made = []
    for _ in range(EVENTS):
        kind = r.choices(list(mix), list(mix.values()))[0]
        made.append(
            [
                r.choice([0, 3_000_000, 40_000_000, r.randrange(2_000_000_000)]),
                kind,
                r.randrange(1, 900) * 1_000_003,
            ]
        )
    return made


def build():
    r = random.Random(1)
    subtcp = []
    for name, (form, parameter) in FORMS.items():
        for mix, weights in MIXES.items():
            made = events(r, weights)
            rows = run_subtcp(form, parameter, 20, made)
            case = {
                "name": f"{name}_{mix}",
                "form": form,
                "parameter": parameter,
                "events": made,
                "rows": rows,
            }
            subtcp.append(case)
    # The first acknowledgment brings the round-trip sample.
    echoes = [[False] + [r.random() < share for _ in range(60)] for share in (0.3, 0.7, 0.95)]
    echo_cases = [{"echoes": each, "pauses": run_ecn_timeouts(RTO, RTO_MAX, each)} for each in echoes]
    return {"subtcp": subtcp, "ecn_timeouts": echo_cases}


def main():
    scripts = sorted(HERE.glob("*.py"))
    digest = hashes(scripts)
    head = {"made_by": "tests/oracle/python/tcp/freeze_subtcp.py", "scripts_sha256": digest}
    text = json.dumps(head | build(), separators=(",", ":")).replace('},{"', '},\n{"') + "\n"
    if "--check" not in sys.argv:
        OUT.write_text(text)
    elif not OUT.exists() or OUT.read_text() != text:
        sys.exit(f"{OUT.name} differs from what the scripts give")


if __name__ == "__main__":
    main()
