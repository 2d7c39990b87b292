"""Packets of both sides side by side, and the first one that differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

# Two packets come to a queue in the very same instant. Which of them is first is no law, and the simulators
# differ there: known.toml beside ns-2's scripts says how.
SIMULTANEOUS = "simultaneous"


class Event(NamedTuple):
    """A packet at the far end of a link (`arrive`), or dropped in front of it (`drop`)."""

    time: int
    link: str
    what: str
    flow: int
    kind: str
    sequence: int

    @property
    def packet(self) -> tuple[int, str, int]:
        """Which packet it is."""
        return self.flow, self.kind, self.sequence

    def __str__(self) -> str:
        number = "" if self.sequence < 0 else f" {self.sequence}"
        return f"{self.time / 1e9:.9f} s  {self.what:6} {self.link:14} flow {self.flow} {self.kind}{number}"


@dataclass(frozen=True)
class Divergence:
    """The first event that only one side has, and how many there are before it. `cause` may be empty."""

    matched: int
    ours: Event | None
    theirs: Event | None
    cause: str

    @property
    def time(self) -> int:
        """When it is."""
        return min(event.time for event in (self.ours, self.theirs) if event)

    def __str__(self) -> str:
        lines = [f"{self.matched} events are the same; then" + (f" ({self.cause})" if self.cause else "")]
        lines += [
            f"  {side:9} {event if event else 'has nothing more'}"
            for side, event in (("Tidegate", self.ours), ("ns-2", self.theirs))
        ]
        return "\n".join(lines)


def first_divergence(
    ours: list[Event], theirs: list[Event], next_link: Callable[[Event], str | None]
) -> Divergence | None:
    """Where two runs part. What happens in one instant may stand in any order.

    `next_link` says to which queue a packet comes that has reached the far end of a link.
    """
    ours, theirs = sorted(ours), sorted(theirs)
    matched = 0
    while matched < min(len(ours), len(theirs)) and ours[matched] == theirs[matched]:
        matched += 1
    mine, other = ours[matched:], theirs[matched:]
    if not mine and not other:
        return None
    # The first on each side that the other side does not have in that instant, and what the other has on that
    # link instead.
    time = min(events[0].time for events in (mine, other) if events)
    here = [Counter(event for event in events if event.time == time) for events in (mine, other)]
    only = [
        min((here[0] - here[1]).elements(), default=None),
        min((here[1] - here[0]).elements(), default=None),
    ]
    link = next(event.link for event in only if event)
    firsts = [
        event or next((later for later in events if later.link == link), None)
        for event, events in zip(only, (mine, other), strict=True)
    ]
    both = all(firsts)
    cause = SIMULTANEOUS if both and _came_together(*firsts, theirs, next_link) else ""
    return Divergence(matched, firsts[0], firsts[1], cause)


def _came_together(
    one: Event, other: Event, events: list[Event], next_link: Callable[[Event], str | None]
) -> bool:
    """Whether both packets came to the queue of `one`'s link in the same instant."""
    until = max(one.time, other.time)
    instants: list[set[int]] = [set(), set()]
    for event in events:
        if event.time > until:
            break
        if event.what == "arrive" and next_link(event) == one.link:
            for packet, found in zip((one.packet, other.packet), instants, strict=True):
                if event.packet == packet:
                    found.add(event.time)
    return one.link == other.link and one.packet != other.packet and bool(instants[0] & instants[1])
