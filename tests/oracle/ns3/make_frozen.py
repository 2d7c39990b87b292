"""Runs controls.cc on the settings of the comparison and freezes what it prints: `make_frozen.py PROGRAM`.

PROGRAM is controls.cc compiled against ns-3; README.md says how. Our own code never makes these numbers.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
VERSION = "ns-3.44 (PyPI package ns3 3.44.post0)"

DCTCP = {"control": "dctcp", "rate": "50Mbit", "rtt_ms": 10, "flows": 1, "queue": 1_502_000, "warmup_s": 2, "duration_s": 22}
BBR = {"control": "bbr", "threshold": 0, "queue": 1_502_000, "warmup_s": 10, "duration_s": 70}
SETTINGS = [
    DCTCP | {"threshold": 5},
    DCTCP | {"threshold": 20},
    DCTCP | {"threshold": 20, "flows": 4},
    DCTCP | {"threshold": 0, "sojourn_ms": 1},
    DCTCP | {"threshold": 0, "sojourn_ms": 1, "device": 3},
    *(
        BBR | dumbbell | {"renew": renew, "streams": streams, "seeds": 5}
        for dumbbell in (
            {"rate": "10Mbit", "rtt_ms": 40, "flows": 1},
            {"rate": "50Mbit", "rtt_ms": 20, "flows": 2},
            {"rate": "20Mbit", "rtt_ms": 60, "flows": 4},
        )
        for renew, streams in ((0, 0), (1, 0), (1, 1))
    ),
]


def run(program: str, settings: dict[str, object]) -> list[dict[str, object]]:
    """What ns-3 makes of one setting, with each of its seeds."""
    options = {
        "control": settings["control"],
        "rate": str(settings["rate"]).replace("bit", "bps"),
        "rtt": f"{settings['rtt_ms']}ms",
        "flows": settings["flows"],
        "queue": settings["queue"],
        "threshold": settings["threshold"],
        "duration": settings["duration_s"],
        "warmup": settings["warmup_s"],
        "renew": settings.get("renew", 0),
        "streams": settings.get("streams", 0),
        "sojourn": f"{settings.get('sojourn_ms', 0)}ms",
        "device": settings.get("device", 1),
    }
    command = [program, *(f"--{name}={value}" for name, value in options.items())]
    seeds = range(1, int(str(settings.get("seeds", 1))) + 1)
    runs = [
        subprocess.run([*command, f"--RngRun={seed}"], check=True, capture_output=True, text=True)
        for seed in seeds
    ]
    return [json.loads(run.stdout) for run in runs]


def main() -> None:
    """Freezes all settings."""
    frozen = {
        "made_by": VERSION,
        "controls_cc_sha256": hashlib.sha256((HERE / "controls.cc").read_bytes()).hexdigest(),
        "cases": [{"settings": each, "results": run(sys.argv[1], each)} for each in SETTINGS],
    }
    (HERE / "frozen" / "controls.json").write_text(json.dumps(frozen, indent=2) + "\n")


if __name__ == "__main__":
    main()
