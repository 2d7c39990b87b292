"""Runs controls.cc on the settings of the comparison and freezes what it prints: `make_frozen.py PROGRAM [--check]`.

PROGRAM is controls.cc compiled against ns-3; README.md says how. Our own code never makes these numbers. With `--check` nothing
is written: what comes out must be what is frozen.
"""

import argparse
import hashlib
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ("controls.cc", "corrected.h")
VERSION = "ns-3.44 (PyPI package ns3 3.44.post0)"

DCTCP = {
    "control": "dctcp",
    "rate": "50Mbit",
    "rtt_ms": 10,
    "flows": 1,
    "queue": 1_502_000,
    "warmup_s": 2,
    "duration_s": 22,
}
BBR = {"control": "bbr", "threshold": 0, "queue": 1_502_000, "warmup_s": 10, "duration_s": 70}
CONTROLS = [
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

# Where queues are compared: flows start at random, and what they share is smaller than what they ask for.
SHARED = {"flows": 4, "jitter_ms": 100, "warmup_s": 10, "duration_s": 70}
# As ns-3 is, for the table alone, and corrected.
AS_IT_IS = {"sacked": 0, "delivered": 0, "seeds": 2}
CORRECTED = {"sacked": 1, "delivered": 1, "seeds": 5}
CUBIC = {"control": "cubic", "rate": "10Mbit", "rtt_ms": 40} | SHARED
RENO = {"control": "reno", "rate": "50Mbit", "rtt_ms": 20} | SHARED
# Buffers of one product of bandwidth and delay.
DROP_TAIL = {"rate": "20Mbit", "rtt_ms": 40, "queue": 100_000}
MANAGED = {"queue": 1_500_000}
SHARING = [
    CUBIC | DROP_TAIL,
    RENO | DROP_TAIL,
    *(
        control | MANAGED | {"manager": manager, "ecn": ecn}
        for manager in ("codel", "fq-codel", "pie")
        for control in (CUBIC, RENO)
        for ecn in (0, 1)
    ),
    # At 40 ms the flows of this one are between two rhythms.
    *(CUBIC | MANAGED | {"rtt_ms": 42, "manager": "fq-codel", "ecn": ecn} for ecn in (0, 1)),
]
QUEUES = [case | how for case in SHARING for how in (CORRECTED, AS_IT_IS)]

# Of which variables the course is kept; every tenth of a second, but for alpha, which moves within it.
SERIES = [
    (
        {
            "control": "cubic",
            "rate": "50Mbit",
            "rtt_ms": 50,
            "flows": 1,
            "queue": 312_500,
            "warmup_s": 10,
            "duration_s": 70,
        }
        | {"sacked": 1, "delivered": 1},
        ("window_segments", "queue_packets"),
    ),
    (DCTCP | {"threshold": 20, "series_ms": 10, "duration_s": 12}, ("alpha",)),
    (
        BBR
        | {
            "rate": "10Mbit",
            "rtt_ms": 40,
            "flows": 1,
            "renew": 1,
            "streams": 1,
            "warmup_s": 1,
            "duration_s": 31,
        },
        ("rate_mbps", "min_rtt_ms"),
    ),
]

SETTINGS = {
    "controls.json": [(each, ()) for each in CONTROLS],
    "queues.json": [(each, ()) for each in QUEUES],
    "series.json": [({"series_ms": 100} | each, kept) for each, kept in SERIES],
}


def seeds(settings: dict[str, object]) -> range:
    """Of the runs of one setting."""
    return range(1, int(str(settings.get("seeds", 1))) + 1)


def run(program: str, settings: dict[str, object], kept: tuple[str, ...], seed: int) -> dict[str, object]:
    """What ns-3 makes of one setting with one seed; of the series those named in `kept`."""
    options = {
        "control": settings["control"],
        "rate": str(settings["rate"]).replace("bit", "bps"),
        "rtt": f"{settings['rtt_ms']}ms",
        "flows": settings["flows"],
        "queue": settings["queue"],
        "threshold": settings.get("threshold", 0),
        "duration": settings["duration_s"],
        "warmup": settings["warmup_s"],
        "renew": settings.get("renew", 0),
        "streams": settings.get("streams", 0),
        "sojourn": f"{settings.get('sojourn_ms', 0)}ms",
        "device": settings.get("device", 1),
        "manager": settings.get("manager", "fifo"),
        "ecn": settings.get("ecn", 0),
        "sacked": settings.get("sacked", 0),
        "delivered": settings.get("delivered", 0),
        "jitter": f"{settings.get('jitter_ms', 0)}ms",
        "series": f"{settings.get('series_ms', 0)}ms",
        "RngRun": seed,
    }
    command = [program, *(f"--{name}={value}" for name, value in options.items())]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if kept:
        result["series"] = {name: result["series"][name] for name in kept}
    return result


def digest(path: Path) -> str:
    """What a frozen file says of a source."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def freeze(program: str, name: str, jobs: int) -> str:
    """The text of one frozen file."""
    with ThreadPoolExecutor(jobs) as pool:
        cases = [
            (settings, [pool.submit(run, program, settings, kept, seed) for seed in seeds(settings)])
            for settings, kept in SETTINGS[name]
        ]
        frozen = {
            "made_by": VERSION,
            "scripts_sha256": {source: digest(HERE / source) for source in SOURCES},
            "cases": [
                {"settings": settings, "results": [run.result() for run in runs]} for settings, runs in cases
            ],
        }
    # A list of numbers takes one line.
    text = json.dumps(frozen, indent=2)
    return re.sub(r"\[[^][{}]*\]", lambda found: json.dumps(json.loads(found[0])), text) + "\n"


def main() -> None:
    """Freezes all settings, or compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("names", nargs="*", default=list(SETTINGS), metavar="FILE")
    arguments = parser.parse_args()
    for name in arguments.names:
        path, text = HERE / "frozen" / name, freeze(arguments.program, name, arguments.jobs)
        if not arguments.check:
            path.write_text(text)
        elif path.read_text() != text:
            raise SystemExit(f"{path}: ns-3 gives other numbers now; look why before you freeze them anew")


if __name__ == "__main__":
    main()
