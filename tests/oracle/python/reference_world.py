"""One link at a constant rate, and the given random numbers."""

import json
from dataclasses import dataclass
from pathlib import Path

DRAWS = Path(__file__).parent.parent / "verdicts" / "draws.json"


@dataclass
class Packet:
    number: int
    flow: int
    size: int
    ect: bool = False
    label: int = 0
    mark: str | None = None
    fate: str | None = None
    at: int = 0

    def outcome(self):
        mark = f"m-{self.mark} " if self.mark else ""
        return f"{mark}{self.fate} {self.at}"


class Draws:
    """The random numbers, from the first one."""

    def __init__(self):
        self.bits = iter(int(word, 16) for word in json.loads(DRAWS.read_text())["bits"])

    def chance(self, probability):
        if probability <= 0:
            return False
        if probability >= 1:
            return True
        return (next(self.bits) >> 11) / 2**53 < probability

    def uniform(self):
        return (next(self.bits) >> 11) / 2**53

    def below(self, n):
        return next(self.bits) * n >> 64


def drop(packet, why, now):
    packet.fate, packet.at = f"d-{why}", now


def run(discipline, packets, gaps, nanos_per_byte, watch=None, every=25):
    """Offers `packets` to `discipline`; the outcome of each, and what `watch` says after each `every` arrivals.

    A discipline has `arrive(packet, now)`, `next(now)` (a packet or None) and `idle(now)`; one that may hold packets back also
    `ready(now)`, when the next one may go, or None if nothing waits.
    """
    now, free_at, busy, looked_at, seen = 0, 0, False, 0, []

    def start(at):
        nonlocal looked_at
        looked_at = at
        packet = discipline.next(at)
        if packet is None:
            return None
        packet.fate, packet.at = "s", at
        return at + packet.size * nanos_per_byte

    def serve_until(end):
        nonlocal free_at, busy
        while True:
            serve_busy(end)
            ready = discipline.ready(looked_at) if hasattr(discipline, "ready") else None
            if busy or ready is None or (end is not None and ready > end):
                return
            free_at = start(ready)
            busy = True

    def serve_busy(end):
        nonlocal free_at, busy
        while busy and (end is None or free_at <= end):
            after = start(free_at)
            if after is None:
                busy = False
                discipline.idle(free_at)
            else:
                free_at = after

    for packet, gap in zip(packets, gaps):
        now += gap
        serve_until(now)
        discipline.arrive(packet, now)
        if not busy:
            after = start(now)
            if after is not None:
                busy, free_at = True, after
        if watch and packet.number % every == every - 1:
            seen.append(watch(discipline))
    serve_until(None)
    return [packet.outcome() for packet in packets], seen
