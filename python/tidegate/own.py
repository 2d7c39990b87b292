"""Queue managers and congestion controls of your own, in Python: slow, for trying things.

class Threshold(tidegate.QueueManager):
    def on_arrival(self, packet, queue, now):
        return "mark" if queue.packets >= 20 else "accept"

tidegate.run("dumbbell.toml", queues={"bottleneck": Threshold})

Each packet costs a call into Python; docs/own-mechanism.md has measurements. What a method raises stops the
run and comes out of `run` with its traceback. For speed, write it in Rust (same page).
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from tidegate import errors

if TYPE_CHECKING:
    from tidegate import _core

Verdict = str | None


@dataclass(frozen=True)
class QueueContext:
    """Where a queue manager works, given to `start`."""

    place: str
    """The link, `NAME` or `NAME.reverse`."""
    link_rate_bps: int
    """Its rate when the run starts."""
    mtu_bytes: int
    """The largest packet, in bytes."""
    seed: int
    """A seed for random numbers of its own: results stay the same for the same seed of the run."""


@dataclass(frozen=True)
class ControlContext:
    """Whose window a congestion control decides, given to `start`."""

    place: str
    """The flow."""
    segment_bytes: int
    """Payload of a full segment."""
    initial_window_segments: int
    """With what the profile of this TCP begins."""
    receive_window_bytes: int
    """The receiver's window: no control exceeds it."""


class QueueManager:
    """Accept, mark or drop? Subclass it and override what you need; times are seconds of simulated time.

    One instance is made for each place, without arguments. Verdicts are `"accept"` (or `None`), `"mark"`
    (which drops packets whose `can_mark` is false) and `"drop"`.
    """

    limit_packets: int = 100
    """How many packets may wait; above it packets are dropped unasked."""

    def start(self, context: QueueContext) -> None:
        """Called once, before the first packet."""

    def on_arrival(self, packet: "_core.Packet", queue: "_core.Backlog", now: float) -> Verdict:
        """`packet` arrives and finds `queue` waiting, itself not counted."""

    def on_departure(self, packet: "_core.Packet", queue: "_core.Backlog", now: float) -> None:
        """`packet` left for transmission; `queue` still waits."""

    def at_head(self, packet: "_core.Packet", queue: "_core.Backlog", now: float) -> Verdict:
        """`packet` is next to be sent; `queue` counts it. May drop or mark it, as CoDel does."""

    def on_idle(self, now: float) -> None:
        """The last packet was sent and nothing waits."""

    def timer_at(self) -> float | None:
        """When `on_timer` wants to run; asked after each other call."""

    def on_timer(self, now: float) -> None:
        """The timer is due."""


class CongestionControl:
    """Who decides the window of a TCP sender. Subclass it; times are seconds of simulated time.

    One instance is made for each flow, without arguments. After each call `cwnd_segments` and `pacing_bps`
    are looked at: what may be in flight (at least one segment, at most the receiver's window), and how fast
    payload goes out (`None`: as acknowledgments come). Loss recovery is that of the flow's TCP.
    """

    cwnd_segments: float = 10.0
    pacing_bps: float | None = None

    def start(self, context: ControlContext) -> None:
        """Called once, when the connection is made."""
        self.cwnd_segments = float(context.initial_window_segments)

    def on_ack(self, ack: "_core.Ack", now: float) -> None:
        """An acknowledgment arrived, in recovery too."""

    def on_congestion(self, event: "_core.Congestion", now: float) -> None:
        """The network is congested: `event.signal` is `loss`, `loss-restart`, `timeout`, `idle` or `ecn`."""

    def on_recovered(self, flight_bytes: int, now: float) -> None:
        """Fast recovery ends with `flight_bytes` still under way."""


Makes = Callable[[], Any]
Own = Mapping[str, Makes]


def places(given: Own | None, names: Iterable[str], what: str, base: type) -> list[tuple[str, Makes]]:
    """What makes the mechanism at each of `names` that a pattern of `given` matches; the last one counts.

    What is made gets its context, and is taken apart into the methods that it overrides.
    """
    known = list(names)
    chosen: dict[str, Makes] = {}
    for pattern, make in (given or {}).items():
        if isinstance(make, base) or not callable(make):
            raise TypeError(
                f"{what} {pattern!r}: expected a class (or a function that makes one), not {make!r}"
            )
        found = [name for name in known if fnmatchcase(name, pattern)]
        if not found:
            raise errors.UsageError(
                f"there is no {what} {pattern!r}; there are: {', '.join(known) or 'none'}"
            )
        chosen |= dict.fromkeys(found, make)
    return [(name, _maker(make, base)) for name, make in chosen.items()]


def _maker(make: Makes, base: type) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What the core calls for each place: makes the mechanism, starts it, and names its methods."""
    kind: Callable[..., QueueContext | ControlContext]
    kind = QueueContext if base is QueueManager else ControlContext

    def made(about: dict[str, Any]) -> dict[str, Any]:
        own = make()
        if not isinstance(own, base):
            raise TypeError(f"{make!r} made {own!r}, which is no tidegate.{base.__name__}")
        own.start(kind(**about))
        _require_known(own, base)
        hooks: dict[str, Any] = {"object": own}
        if isinstance(own, QueueManager):
            if not 0 < own.limit_packets < 1 << 32:
                raise ValueError(f"limit_packets is {own.limit_packets}: at least one packet must have room")
            hooks["limit_packets"] = own.limit_packets
        for name in _hooks(base):
            if getattr(type(own), name) is not getattr(base, name):
                hooks[name] = getattr(own, name)
        return hooks

    return made


def _hooks(kind: type) -> list[str]:
    """The methods of `kind` that are called while a run goes on."""
    return [name for name in dir(kind) if name.startswith(("on_", "at_", "timer_"))]


def _require_known(own: Any, base: type) -> None:
    """Refuse methods that nobody calls, and attributes that nobody reads: they are misspelt."""
    known = _hooks(base)
    strange = [name for name in _hooks(type(own)) if name not in known]
    # Whatever else is its own affair, unless it is all but the name of something.
    read = [name for name, value in vars(base).items() if not name.startswith("_") and not callable(value)]
    for name in [*vars(type(own)), *vars(own)]:
        if name not in read and not name.startswith("_") and difflib.get_close_matches(name, read, 1, 0.85):
            strange.append(name)
    if strange:
        close = difflib.get_close_matches(strange[0], [*known, *read], 1)
        meant = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"
        raise errors.UsageError(
            f"{type(own).__name__}.{strange[0]} is nothing that a {base.__name__} is asked for; {meant}"
            " (names of its own begin with an underscore)"
        )
