"""Writes the verdicts of the reference (../verdicts/autorate.json); with --check compares them with what is there.

A shaper before a made-up path whose capacity, load and other delays change at random; the queue follows from the
rate of the reference. Of each event the file has [us since the one before, kbit/s] for a measured rate, and [us since
the one before, pinger, us] for a response with its delay. `rates` are the shaper's rates afterwards, run by run; of
every eighth event `rows` has the baseline of the pinger (of the first one for a rate), the mean excess, bufferbloat and
load; `pingers` are the events after which pingers start or stop. `config` are the values of the script that are not its
defaults.
"""

import json
import random
import sys
from itertools import groupby
from pathlib import Path

from frozen import hashes
from reference_autorate import DEFAULTS, Autorate

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts" / "autorate.json"
SCRIPTS = ["freeze_autorate.py", "reference_autorate.py"]
TRACES, EVENTS, PLAIN = 60, 700, 15


def config(r):
    """Values that somebody might have set."""
    base = r.choice([300, 2000, 20000, 333333])
    least, most = base // r.choice([1, 4, 20]), base * r.choice([1, 2, 7])
    given = {
        "min_shaper_rate_kbps": least,
        "base_shaper_rate_kbps": base,
        "max_shaper_rate_kbps": most,
        "connection_active_thr_kbps": max(least // r.choice([1, 3, 10]), 1),
        "connection_stall_thr_kbps": r.choice([1, 10]),
        "max_wire_packet_size_bits": 8 * r.choice([100, 1500, 9000]),
        "no_pingers": r.choice([1, 4, 6]),
        "avg_owd_delta_max_adjust_up_thr_us": r.choice([0, 5000, 10000, 40000]),
        "owd_delta_delay_thr_us": r.choice([5000, 30000]),
        "avg_owd_delta_max_adjust_down_thr_us": r.choice([20000, 60000]),
        "enable_sleep_function": r.choice([0, 1, 1]),
        "sustained_idle_sleep_thr_us": r.choice([2000000, 5000000]),
        "min_shaper_rates_enforcement": r.choice([0, 1]),
        "alpha_baseline_increase": r.choice([1000, 20000]),
        "alpha_baseline_decrease": r.choice([900000, 300000, 1000000]),
        "shaper_rate_min_adjust_up_load_high": r.choice([1000, 1010]),
        "shaper_rate_max_adjust_up_load_high": r.choice([1020, 1040, 1200]),
        "high_load_thr_percent": r.choice([50, 75]),
        "bufferbloat_refractory_period_us": r.choice([0, 300000]),
        "decay_refractory_period_us": r.choice([200000, 1000000]),
        "global_ping_response_timeout_us": r.choice([3000000, 10000000]),
        "owd": r.choice([0, 0, 1]),
    }
    given["bufferbloat_detection_window"] = window = r.choice([1, 4, 6, 9])
    given["bufferbloat_detection_thr"] = r.randint(1, window)
    return {key: value for key, value in given.items() if value != DEFAULTS[key]}


class MadePath:
    """What lies behind the shaper: it keeps a queue of `waiting` kbit."""

    def __init__(self, r, shaper):
        self.r, self.shaper = r, shaper
        self.way = r.choice([2000, 15000, 40000, 130000, 600000])
        self.ahead = r.choice([0, 0, -(10**7), 4 * 10**8]) if shaper.owd else 0
        self.waiting = 0.0
        self.is_deaf = False
        self.change()

    def change(self):
        r, base = self.r, self.shaper.base_shaper_rate_kbps
        self.capacity = base * r.choice([0.1, 0.4, 0.9, 1.5, 4])
        self.load = base * r.choice([0, 0, 0.004, 0.2, 0.8, 20, 20, 20])
        self.is_deaf = r.random() < 0.06
        if r.random() < 0.1:
            self.way = max(1000, int(self.way * r.choice([0.3, 0.8, 1.5, 4])))
        if self.shaper.owd and r.random() < 0.1:
            self.ahead += r.choice([-1, 1]) * r.choice([5000, 2 * 10**9, 4 * 10**9, 10**12])

    def pass_(self, micros):
        """What enters in this time, kbit/s."""
        enters = min(self.load, self.shaper.shaper_rate)
        self.waiting += (enters - self.capacity) * micros / 1e6
        self.waiting = min(max(self.waiting, 0.0), 0.4 * self.capacity)
        return enters

    def delay(self):
        jitter = int(self.r.expovariate(1 / 1500)) if self.r.random() < 0.8 else self.r.randrange(60000)
        return self.way + self.ahead + int(self.waiting / self.capacity * 1e6) + jitter


def trace(seed):
    r = random.Random(seed)
    given = {} if seed < PLAIN else config(r)
    now = before = r.randrange(10**9)
    shaper = Autorate(now, **given)
    path = MadePath(r, shaper)
    # The first ones are on the grid of the timers, so that periods end to the microsecond.
    is_exact = seed % 3 == 0
    gap = shaper.reflector_ping_interval_us // shaper.no_pingers
    load_at, ping_at, pinger, sent = now + 200000, now, 0, 0.0
    events, rates, rows, pingers = [], [], [], []
    while len(events) < EVENTS:
        if r.random() < 0.015:
            path.change()
        at = min(load_at, ping_at)
        sent += path.pass_(at - now) * (at - now)
        now = at
        if now == load_at:
            rate = int(sent / 200000 * r.choice([1, 1, 1, 0.9, 1.1]))
            if r.random() < 0.003:
                rate = r.choice([0, 10**9])
            sent, load_at = 0.0, now + 200000
            shaper.sars(rate, now)
            events.append([now - before, rate])
        else:
            ping_at = now + gap + (0 if is_exact else r.randrange(-gap // 3, gap // 3))
            pinger = (pinger + 1) % shaper.no_pingers
            if path.is_deaf or r.random() < 0.03 or shaper.main_state == "IDLE":
                continue
            delay = path.delay()
            shaper.response(pinger, delay, now)
            events.append([now - before, pinger, delay])
        before = now
        rates.append(shaper.shaper_rate)
        pingers += [[len(events) - 1, what] for what in shaper.pingers]
        shaper.pingers = []
        if len(events) % 8 == 0:
            baseline = shaper.owd_baselines[events[-1][1] if len(events[-1]) == 3 else 0]
            rows.append([baseline, shaper.avg_owd_delta, int(shaper.bufferbloat_detected), shaper.load_state])
    runs = [[rate, len(list(run))] for rate, run in groupby(rates)]
    return {"seed": seed, "config": given, "events": events, "rates": runs, "rows": rows, "pingers": pingers}


def main():
    scripts = hashes(HERE / name for name in SCRIPTS)
    head = {"made_by": "tests/oracle/python/freeze_autorate.py", "version": 1, "scripts_sha256": scripts}
    made = head | {"traces": [trace(seed) for seed in range(TRACES)]}
    if "--count" in sys.argv:
        runs = [case["rates"] for case in made["traces"]]
        steps = [new[0] - old[0] for rates in runs for old, new in zip(rates, rates[1:], strict=False)]
        rows = [row for case in made["traces"] for row in case["rows"]]
        told = [what for case in made["traces"] for _, what in case["pingers"]]
        rises, falls = sum(step > 0 for step in steps), sum(step < 0 for step in steps)
        print(TRACES * EVENTS, "events,", rises, "rises,", falls, "falls;", end=" ")
        print(sum(row[2] for row in rows), "of", len(rows), "rows with bufferbloat;", end=" ")
        print({load: sum(row[3] == load for row in rows) for load in ("idle", "low", "high")}, end="; ")
        print(told.count("stop"), "sleeps and", told.count("start"), "starts")
        return
    text = json.dumps(made, separators=(",", ":")).replace('},{"', '},\n{"') + "\n"
    if "--check" not in sys.argv:
        OUT.write_text(text)
    elif not OUT.exists() or OUT.read_text() != text:
        sys.exit(f"{OUT.name} differs from what the scripts give")


if __name__ == "__main__":
    main()
