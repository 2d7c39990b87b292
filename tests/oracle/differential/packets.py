"""Packets of both sides side by side, and the first one that differs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple


class Event(NamedTuple):
    """A packet at the far end of a link (`arrive`), or dropped in front of it (`drop`). Sequences count packets."""

    time: int
    link: str
    what: str
    flow: int
    kind: str
    sequence: int

    def __str__(self) -> str:
        number = "" if self.sequence < 0 else f" {self.sequence}"
        return f"{self.time / 1e9:.9f} s  {self.what:6} {self.link:14} flow {self.flow} {self.kind}{number}"


@dataclass(frozen=True)
class Divergence:
    """The first event that only one side has. `matched` counts the events before it."""

    matched: int
    ours: Event | None
    theirs: Event | None
    is_tie: bool

    @property
    def time(self) -> int:
        """When it is."""
        return min(event.time for event in (self.ours, self.theirs) if event)

    def __str__(self) -> str:
        lines = [f"{self.matched} events are the same; then"]
        lines += [
            f"  {side:9} {event if event else 'has nothing then'}"
            for side, event in (("Tidegate", self.ours), ("ns-2", self.theirs))
        ]
        if self.is_tie:
            lines.append("  A tie: a packet came in the very instant in which a transmission of that queue ended.")
        return "\n".join(lines)


def first_divergence(
    ours: list[Event], theirs: list[Event], transmission_ends: set[tuple[str, int]] | None = None
) -> Divergence | None:
    """Where two runs part, instant by instant: what happens in one instant may stand in any order.

    `transmission_ends`: links and instants at which a transmission ended (`ties`). A drop at such an instant, or the lack of
    one, is a tie.
    """
    at, matched = 0, 0
    ours, theirs = sorted(ours), sorted(theirs)
    while at < len(ours) and at < len(theirs) and ours[at] == theirs[at]:
        at += 1
    matched = at
    mine, other = ours[at:], theirs[at:]
    if not mine and not other:
        return None
    time = min(events[0].time for events in (mine, other) if events)
    here = [Counter(event for event in events if event.time == time) for events in (mine, other)]
    only = [sorted((here[0] - here[1]).elements()), sorted((here[1] - here[0]).elements())]
    firsts = [events[0] if events else None for events in only]
    ends = transmission_ends or set()
    is_tie = any((event.link, event.time) in ends for events in only for event in events if event.what == "drop")
    return Divergence(matched, firsts[0], firsts[1], is_tie)


def ties(events: list[Event], delays: dict[str, int]) -> set[tuple[str, int]]:
    """Links and instants at which the last bit of a packet left: its arrival at the far end less the way there."""
    return {(event.link, event.time - delays[event.link]) for event in events if event.what == "arrive"}
