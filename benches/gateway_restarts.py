"""How soon two gateways have their rate again: after `kill -9` of either and a start, and when one moves.

Between two namespaces and a third one that forwards through a slow FIFO, four CUBIC connections of iperf3 go
from one site to the other. What comes out of the tunnel is counted ten times a second. After each event it is
told when the first second began in which nine tenths of the rate before it came (its mean over three
seconds), and how long nothing came. A clock that is a second behind or ahead is that of a daemon that starts
anew: a library that is compiled here shifts it. Needs root, iperf3, iproute2 and a C compiler.

    sudo python benches/gateway_restarts.py [--rate 50mbit] [--repeats 3] [--program FILE] [--json FILE]
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from tidegate.two_sites import INNER, OUTER, ROUTER, TwoSites, obstacle  # noqa: E402

RATES = '{ floor = "1Mbit", max = "1Gbit", fallback = "5Mbit" }'
# 100 ms of the link.
QUEUE_S = 0.1
EVERY_S, BEFORE_S, APART_S = 0.1, 3.0, 9.0
PART = 0.9
# Where the site that moves is then, of which no file knows.
ELSEWHERE = "198.19.7"
SHIFT = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *at) {
    long told = syscall(SYS_clock_gettime, id, at);
    if (told == 0 && id == CLOCK_REALTIME) at->tv_sec += atol(getenv("SHIFT_S"));
    return told;
}
"""


class Meter(threading.Thread):
    """Counts what comes out of the tunnel at b."""

    def __init__(self, sites: TwoSites) -> None:
        super().__init__(daemon=True)
        self.sites, self.samples, self.ends = sites, [], threading.Event()

    def run(self) -> None:
        """Until it is told to end."""
        # Of all devices in that namespace, one line each; bytes received come first.
        file = Path(f"/proc/{self.process().pid}/net/dev")
        known, total = 0, 0
        while not self.ends.wait(EVERY_S):
            lines = [line.split() for line in file.read_text().splitlines() if "tidegate" in line]
            count = int(lines[0][1]) if lines else 0
            # A daemon that starts anew makes a device anew.
            total += count - known if count >= known else count
            known = count
            self.samples.append((time.monotonic(), total))

    def process(self) -> subprocess.Popen:
        """One that stays in the namespace of b, however often the daemon starts."""
        stays = subprocess.Popen(self.sites.within("b", "sleep", "100000"))
        self.sites.others.append(stays)
        # Until it is there, and not still where it was started.
        time.sleep(0.3)
        return stays

    def bps(self, begin: float, seconds: float) -> float:
        """The mean rate of what came in these seconds."""
        inside = [(at, total) for at, total in self.samples if begin <= at <= begin + seconds]
        return (inside[-1][1] - inside[0][1]) * 8 / (inside[-1][0] - inside[0][0])

    def recovery(self, event: float) -> tuple[float, float]:
        """After how long the first second of nine tenths of the rate begins, and how long nothing came."""
        before = self.bps(event - BEFORE_S, BEFORE_S)
        after = [(at, total) for at, total in self.samples if event <= at < event + APART_S]
        silent, longest = after[0], 0.0
        for at, total in after:
            if total > silent[1]:
                longest, silent = max(longest, at - silent[0]), (at, total)
        starts = [at for at, _ in after if at + 1 <= after[-1][0]]
        found = [at for at in starts if self.bps(at, 1.0) >= PART * before]
        return (found[0] - event if found else float("inf")), longest


def restart(sites: TwoSites, site: str, shift_s: int = 0) -> None:
    """Kills the daemon of `site`, and starts another one, with a clock that is shifted."""
    sites.daemons[site].send_signal(signal.SIGKILL)
    sites.daemons[site].wait()
    shifted = {"LD_PRELOAD": str(sites.folder / "shift.so"), "SHIFT_S": str(shift_s)} if shift_s else {}
    sites.start(site, env={**os.environ, **shifted})


def main() -> None:
    """Measure and print."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--rate", type=int, default=50, help="of the link in between, Mbit/s")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/tidegate-gateway")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    arguments = parser.parse_args()
    if why := obstacle():
        sys.exit(why)
    if missing := [name for name in ("iperf3", "cc") if shutil.which(name) is None]:
        sys.exit(f"install {' and '.join(missing)} first")
    told: dict[str, list[tuple[float, float]]] = {}
    queue_bytes = int(arguments.rate * 1e6 / 8 * QUEUE_S)
    with TwoSites(arguments.program.resolve(), f"{arguments.rate}mbit", queue_bytes) as sites:
        (sites.folder / "shift.c").write_text(SHIFT)
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", sites.folder / "shift.so", sites.folder / "shift.c"],
            check=True,
        )
        sites.configure(RATES)
        for site in "ab":
            sites.start(site)
        sites.wait_for("controlled")
        events: dict[str, Callable[[], None]] = {
            "the sender is killed, and started": lambda: restart(sites, "a"),
            "the receiver": lambda: restart(sites, "b"),
            "the sender, its clock 1 s behind then": lambda: restart(sites, "a", -1),
            "the sender, its clock 1 s ahead then": lambda: restart(sites, "a", 1),
            "the sender moves to another address": lambda: sites.move(
                "a", f"{ELSEWHERE}.2", f"{ELSEWHERE}.1"
            ),
            "the receiver is killed, and started, then": lambda: restart(sites, "b"),
            "the sender moves back": lambda: sites.move("a", OUTER["a"], ROUTER["a"]),
        }
        meter = Meter(sites)
        meter.start()
        seconds = APART_S * (1 + arguments.repeats * len(events)) + 5
        load = sites.load(INNER["b"], seconds)
        times: list[tuple[str, float]] = []
        for _ in range(arguments.repeats):
            for name, event in events.items():
                time.sleep(APART_S)
                times.append((name, time.monotonic()))
                event()
        time.sleep(APART_S)
        meter.ends.set()
        meter.join()
        for name, at in times:
            told.setdefault(name, []).append(meter.recovery(at))
        load.finish()
    print(
        f"{arguments.rate} Mbit/s, {arguments.repeats} times each; s: nine tenths of the rate, nothing came"
    )
    for name, runs in told.items():
        again, silent = zip(*runs, strict=True)
        each = ", ".join(f"{one:.1f}" for one in again)
        print(f"{name:40} {statistics.median(again):4.1f} ({each})   {statistics.median(silent):.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
