"""A case of the swarm: a path, what happens to it, and the scenario that says so.

A case is drawn from its seed alone, and a fault can be taken out of it, so that a failure can be reduced.
"""

from __future__ import annotations

import dataclasses
import random

# The last fault comes by then, and what must hold again holds this much later, both in seconds.
FAULTS_END = 20.0
RECOVERY = 10.0
# How long is looked at then.
WATCH = 10.0
DURATION = FAULTS_END + RECOVERY + WATCH

# The rates that every virtual link keeps to.
RATE_MIN_BPS = 200_000
RATE_MAX_BPS = 200_000_000


_DOWNLOADS = """[flows."load{i}"]
repeat = "i = 1..3"
from = "A"
to = "B"
transport = "tcp"
start = { uniform = ["0s", "1s"] }
"""
_STREAM = """[flows.load1]
from = "A"
to = "B"
transport = "udp"
application = {{ kind = "cbr", rate = "{rate}Mbit", packet = "1000B" }}
"""
# A little the other way: it shows the rate that the virtual link has there.
_BACK = """[flows.back]
from = "B"
to = "A"
transport = "udp"
application = { kind = "cbr", rate = "8kbit", packet = "100B" }
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """What a seed draws. Rates are Mbit/s, times are milliseconds."""

    seed: int
    rate: float
    way: float
    buffer: int
    queue: str
    delays: str
    tcp: bool
    medium: tuple[str, ...]
    clocks: tuple[float, float]
    control_loss: float
    faults: tuple[str, ...]
    # Further keys of the mechanism.
    more: str = ""

    @property
    def final_rate(self) -> float:
        """The rate of the path after all faults, Mbit/s."""
        rates = [fault for fault in self.faults if "rate =" in fault]
        return float(rates[-1].split('rate = "')[1].split("Mbit")[0]) if rates else self.rate

    def without(self, number: int) -> Case:
        """The same without one fault, and what belongs to it."""
        return dataclasses.replace(self, faults=self.faults[:number] + self.faults[number + 1 :])

    def text(self) -> str:
        """The scenario."""
        medium = "".join(f", {one}" for one in self.medium)
        site = _DOWNLOADS if self.tcp else _STREAM.format(rate=4 * self.rate)
        # A FIFO of seconds would make TCP repeat what is not lost.
        held = self.buffer if self.queue == "droptail" else 1000
        queue = f'queue = {{ kind = "droptail", limit = "{self.buffer}p" }}'
        events = "\n".join(f"[[events]]\n{fault}\n" for fault in self.faults)
        return f"""# Seed {self.seed} of the swarm.
title = "swarm {self.seed}"
duration = "{DURATION:g}s"
warmup = "{FAULTS_END + RECOVERY:g}s"
seed = {self.seed}

[defaults]
link = {{ rate = "1Gbit", delay = "1ms", queue = {{ kind = "droptail", limit = "20000p" }} }}
tcp = {{ profile = "modern", control = {{ kind = "cubic" }}, rack = true, prr = true, window = "20000p" }}

[nodes]
hosts = ["A", "B"]
routers = ["GA", "L", "R", "GB"]

[links]
A-GA = {{ between = ["A", "GA"] }}
GA-L = {{ between = ["GA", "L"] }}
path = {{ between = ["L", "R"], rate = "{self.rate}Mbit", delay = "{self.way}ms", {queue}{medium} }}
R-GB = {{ between = ["R", "GB"] }}
GB-B = {{ between = ["GB", "B"] }}

{site}
{_BACK}
[domains.net]
edges = ["GA", "GB"]
core = ["L", "R"]
control_loss = {self.control_loss}

[domains.net.mechanism]
kind = "path"
delays = "{self.delays}"
rate_min = "{RATE_MIN_BPS}bit"
rate_max = "{RATE_MAX_BPS}bit"
shaper = {{ queue = {{ kind = "{self.queue}", limit = "{held}p" }} }}
{self.more}

[domains.net.clocks]
GA = {{ offset = "60min", drift_ppm = {self.clocks[0]} }}
GB = {{ offset = "60min", drift_ppm = {self.clocks[1]} }}

[record]
every = "100ms"
series = ["domains.net.*.ingress_rate_bps", "links.path.queue_bytes"]

{events}"""


def draw(seed: int) -> Case:
    """The case of `seed`."""
    dice = random.Random(seed)
    rate = round(2.0 * 25.0 ** dice.random(), 2)
    way = round(2.0 * 25.0 ** dice.random(), 2)
    product = rate * 1e6 * 2 * way * 1e-3 / 8 / 1500
    buffer = max(20, round(product * dice.choice([1, 2, 4])))
    medium = []
    if dice.random() < 0.3:
        medium.append(f'loss = {{ kind = "random", probability = {round(0.01 * dice.random(), 4)} }}')
    if dice.random() < 0.3:
        medium.append(f'jitter = {{ kind = "uniform", most = "{round(5 * dice.random(), 2)}ms" }}')
    if dice.random() < 0.2:
        part, delay = round(0.01 * dice.random(), 4), round(5 * dice.random(), 2)
        medium.append(f'reorder = {{ probability = {part}, delay = "{delay}ms" }}')
    if dice.random() < 0.2:
        medium.append(f"duplicate = {round(0.01 * dice.random(), 4)}")
    faults = [fault for _ in range(dice.randint(0, 4)) for fault in _fault(dice, rate, way)]
    return Case(
        seed=seed,
        rate=rate,
        way=way,
        buffer=buffer,
        queue=dice.choice(["droptail", "fq-codel", "sfb"]),
        delays=dice.choice(["one-way", "one-way", "round-trip"]),
        tcp=dice.random() < 0.5,
        medium=tuple(medium),
        clocks=(round(dice.uniform(-500, 500), 1), round(dice.uniform(-500, 500), 1)),
        control_loss=round(0.3 * dice.random(), 3) if dice.random() < 0.3 else 0.0,
        faults=tuple(sorted(faults, key=lambda fault: float(fault.split('"')[1][:-1]))),
    )


def _fault(dice: random.Random, rate: float, way: float) -> list[str]:
    """One thing that happens, as the events that it takes."""
    at = round(dice.uniform(3, FAULTS_END - 6), 2)
    edge = dice.choice(["GA", "GB"])
    kind = dice.choice(["partition", "restart", "reboot", "ahead", "back", "rate", "way"])
    if kind == "partition":
        up = round(min(FAULTS_END, at + dice.uniform(0.1, 5)), 2)
        return [f'at = "{at}s"\nlink = "path"\nstate = "down"', f'at = "{up}s"\nlink = "path"\nstate = "up"']
    if kind == "restart":
        return [f'at = "{at}s"\nedge = "{edge}"\nrestart = true']
    if kind == "reboot":  # with another idea of the time
        step = dice.choice(["ahead", "back"])
        by = round(dice.uniform(0.1, 1800), 1)
        return [f'at = "{at}s"\nedge = "{edge}"\nrestart = true\nclock_{step} = "{by}s"']
    if kind in ("ahead", "back"):
        return [f'at = "{at}s"\nedge = "{edge}"\nclock_{kind} = "{round(dice.uniform(0.01, 2), 3)}s"']
    if kind == "rate":
        other = round(rate * 2 ** dice.uniform(-2, 2), 2)
        return [f'at = "{at}s"\nlink = "path"\nrate = "{other}Mbit"']
    return [f'at = "{at}s"\nlink = "path"\ndelay = "{round(way * 2 ** dice.uniform(-2, 1), 2)}ms"']
