"""Random networks: dumbbells and parking lots, as scenario number `index` of a generator's `seed`.

Every third or so is deterministic: nothing is drawn while it runs, and both sides are compared packet by
packet.
"""

from __future__ import annotations

import dataclasses
import random

from . import theirs
from .scenario import ENDLESS, FORCED_ONLY, MEAN, MS, SECOND, STEP, Flow, Hop, Queue, Scenario

# Four bytes take a multiple of 125 ns, and all sizes are multiples of four bytes.
SLOW = (1_000_000, 1_280_000, 1_600_000, 2_000_000, 2_560_000, 4_000_000)
ACCESS = (8_000_000, 16_000_000, 32_000_000, 64_000_000, 128_000_000)
SIZES = (500, 1000, 1000, 1000, 1500)
VARIANTS = ("tahoe", "reno", "newreno", "sack")

# Microseconds between datagrams. With most sizes they give whole bit/s.
GAPS_US = (
    1600,
    2000,
    2500,
    3200,
    4000,
    5000,
    6400,
    8000,
    10_000,
    12_800,
    16_000,
    20_000,
    32_000,
    40_000,
    64_000,
)

# How often each queue is drawn.
QUEUES = {"droptail": 30, "red": 42, "adaptive-red": 8, "sfq": 10, "drr": 10}
DETERMINISTIC = 0.3
FIXED = ("droptail", "red", "sfq", "drr")

# What a run should carry over all its bottlenecks, in packets of 1000 bytes: some tenths of a second of
# ns-2's time.
PACKETS = 7_000


def scenarios(seed: int, count: int) -> list[Scenario]:
    """The first `count` scenarios of the generator with `seed` that both sides can be told."""
    found, index = [], 0
    while len(found) < count:
        one = scenario(seed, index)
        index += 1
        # ns-2's hashes of addresses put flows together that Tidegate keeps apart.
        if not theirs.shares_a_queue(one):
            found.append(one)
    return found


def scenario(seed: int, index: int, fixed: bool | None = None) -> Scenario:
    """Scenario `index` of the generator with `seed`; `fixed`: whether it is deterministic, or drawn."""
    draw = random.Random(f"scenario {seed} {index}")
    is_fixed = draw.random() < DETERMINISTIC
    if fixed is not None:
        is_fixed = fixed
    length = draw.choice((1, 1, 1, 2, 3, 4))
    queue = _fixed_queue(draw) if is_fixed else _queue(draw, tuple(QUEUES))
    hops = tuple(_hop(draw, queue, length) for _ in range(length))
    flows = _flows(draw, hops, is_fixed)
    capacity = sum(hop.rate for hop in hops)
    seconds = min(max(PACKETS * 8000 / capacity, 12), 45)
    stop = round(seconds) * SECOND
    begin = 0 if is_fixed else stop // 4
    return Scenario(f"{seed}.{index}", hops, flows, begin, stop)


def _queue(draw: random.Random, kinds: tuple[str, ...]) -> Queue:
    kind = draw.choices(kinds, [QUEUES[kind] for kind in kinds])[0]
    if kind == "droptail":
        return Queue("droptail", limit=draw.choice((5, 8, 12, 20, 30, 50)))
    if kind in ("sfq", "drr"):
        return Queue(kind, limit=draw.choice((40, 64, 100)), buckets=draw.choice((16, 32)))
    low = draw.choice((4, 5, 8, 10))
    high = low * draw.choice((2, 3, 4))
    return Queue(
        kind,
        limit=high + draw.choice((10, 20, 60)),
        low=low,
        high=high,
        max_p=draw.choice((0.02, 0.05, 0.1, 0.2)),
        weight=draw.choice((0.002, 0.005, 0.02)),
        gentle=kind == "red" and draw.random() < 0.3,
    )


def _fixed_queue(draw: random.Random) -> Queue:
    """One that draws nothing. RED drops only when it must; DRR never, for of equals each cuts another."""
    queue = _queue(draw, FIXED)
    if queue.kind == "red":
        return dataclasses.replace(queue, max_p=FORCED_ONLY, gentle=False, mean_packet=MEAN)
    return dataclasses.replace(queue, limit=ENDLESS) if queue.kind == "drr" else queue


def _hop(draw: random.Random, queue: Queue, length: int) -> Hop:
    rate = draw.choice(SLOW if length == 1 else SLOW[:4])
    return Hop(rate, _time(draw, 2, 40 if length == 1 else 15), queue)


def _flows(draw: random.Random, hops: tuple[Hop, ...], is_fixed: bool) -> tuple[Flow, ...]:
    length, queue = len(hops), hops[0].queue
    ends = [(0, length)] * draw.randint(1, 5)
    if length > 1:
        ends += [(hop, hop + 1) for hop in range(length) for _ in range(draw.randint(0, 2))]
        ends += [(0, length - 1)] * draw.randint(0, 1)
    may_turn = queue.kind in ("droptail", "red") and draw.random() < 0.3
    if may_turn:
        ends += [(length, 0)] * draw.randint(1, 2)
    style = {
        "variant": draw.choice(VARIANTS) if draw.random() < 0.6 else None,
        "ecn": queue.is_random and draw.random() < 0.6,
        "delayed_ack": draw.random() < 0.25,
        "packet": 1000 if draw.random() < 0.6 else None,
        "window": draw.choice((10, 20, 30, 60, 100)),
    }
    flows = [_tcp(draw, a, b, style, is_fixed) for a, b in ends]
    if draw.random() < 0.4:
        hop = draw.randrange(length)
        enters, leaves = draw.choice(((hop, hop + 1), (0, length)))
        flows.append(_datagrams(draw, enters, leaves, hops[hop].rate, is_fixed))
    return tuple(flows)


def _place(draw: random.Random, enters: int, leaves: int, is_fixed: bool) -> dict:
    start = _time(draw, 0, 2000)
    return {
        "enters": enters,
        "leaves": leaves,
        "access_rate": draw.choice(ACCESS),
        "access_delay": _time(draw, 0.05, 12),
        "exit_delay": _time(draw, 0.1, 8),
        "start": (start, start) if is_fixed else (0, 3 * SECOND),
    }


def _time(draw: random.Random, from_ms: float, to_ms: float) -> int:
    return draw.randint(int(from_ms * MS / STEP), int(to_ms * MS / STEP)) * STEP


def _tcp(draw: random.Random, enters: int, leaves: int, style: dict, is_fixed: bool) -> Flow:
    return Flow(
        "tcp",
        **_place(draw, enters, leaves, is_fixed),
        variant=style["variant"] or draw.choice(VARIANTS),
        window=style["window"],
        packet=style["packet"] or draw.choice(SIZES),
        ecn=style["ecn"],
        delayed_ack=style["delayed_ack"],
        transfer=draw.randint(50, 800) if draw.random() < 0.1 else None,
    )


def _datagrams(draw: random.Random, enters: int, leaves: int, capacity: int, is_fixed: bool) -> Flow:
    kind = "cbr" if is_fixed else draw.choice(("cbr", "cbr", "poisson", "on-off"))
    packet = draw.choice(SIZES)
    wanted = draw.choice((0.1, 0.25, 0.5)) * capacity
    rates = [packet * 8_000_000 // gap for gap in GAPS_US if packet * 8_000_000 % gap == 0]
    rate = min(rates, key=lambda one: abs(one - wanted))
    return Flow(
        kind,
        **_place(draw, enters, leaves, is_fixed),
        packet=packet,
        rate=rate,
        jitter=kind == "cbr" and not is_fixed and draw.random() < 0.6,
        on=draw.choice((200, 500)) * MS if kind == "on-off" else 0,
        off=draw.choice((200, 500)) * MS if kind == "on-off" else 0,
    )
