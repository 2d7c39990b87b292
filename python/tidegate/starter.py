"""Scenarios to begin with: what `tidegate new` writes, from a kind of network and a few quantities.

    import tidegate.starter

    text = tidegate.starter.text("dumbbell", rate="50Mbit", flows=8, queue="red")

The networks are templates of TOML (`templates/new`). Queues whose parameters depend on the link come from
`tidegate.design`, so that what is written suits the link that was asked for.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tidegate.errors import UsageError

FLOWS_MAX = 10_000
_Name = TypeVar("_Name", bound=StrEnum)
_RATE_MAX_BPS = 10e12
_DATA_PACKET = 1500  # bytes: the packet of TCP by default
_SFB_MEMORY = "3kB"
_ACCESS_DELAY_S = 0.001  # of the links that nobody waits for


class Network(StrEnum):
    """Kinds of networks."""

    dumbbell = "dumbbell"
    parking_lot = "parking-lot"
    three_domains = "three-domains"


class Queue(StrEnum):
    """Queues that need nothing but a link; the others of `tidegate list mechanisms` need more."""

    droptail = "droptail"
    red = "red"
    adaptive_red = "adaptive-red"
    blue = "blue"
    codel = "codel"
    fred = "fred"
    sfb = "sfb"
    drr = "drr"
    sfq = "sfq"
    wfq = "wfq"


class Control(StrEnum):
    """Congestion controls that need nothing but TCP."""

    reno = "reno"
    cubic = "cubic"
    dctcp = "dctcp"
    bbr = "bbr"
    bbr3 = "bbr3"


_TITLES = {
    Network.dumbbell: "{flows} TCP flows share one link",
    Network.parking_lot: "{flows} TCP flows over three links, each with a flow of its own",
    Network.three_domains: "Three domains in a row, with {flows} TCP flows and a stream that nobody stops",
}
# One way of a TCP flow that goes all the way: how many of the shared links, and how many others.
_LINKS = {Network.dumbbell: (1, 2), Network.parking_lot: (3, 2), Network.three_domains: (1, 5)}
# Those that can mark packets instead of dropping them; CoDel marks as well.
_MARKS = {Queue.red, Queue.adaptive_red, Queue.blue, Queue.codel, Queue.sfb}


@dataclass(frozen=True)
class Choice:
    """What is asked for, checked. Rate in bit/s, times in seconds, and as they were written."""

    network: Network
    rate: str
    rate_bps: float
    delay: str
    delay_s: float
    flows: int
    queue: Queue
    control: Control
    duration: str
    duration_s: float


def text(
    network: str,
    rate: str = "10Mbit",
    delay: str = "10ms",
    flows: int = 4,
    queue: str = "droptail",
    control: str = "cubic",
    duration: str = "30s",
) -> str:
    """A commented scenario.

    Args:
        network: `dumbbell`, `parking-lot` or `three-domains`.
        rate: of the links that flows share, like `10Mbit`.
        delay: of these links, one way, like `10ms`.
        flows: TCP flows, 1 to 10000.
        queue: the kind of queue in front of these links.
        control: the congestion control of the TCP flows.
        duration: of a run, like `30s`; statistics start after a sixth of it.

    Raises:
        UsageError: one of them makes no sense; the text names it.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    choice = checked(network, rate, delay, flows, queue, control, duration)
    environment = Environment(
        loader=PackageLoader("tidegate", "templates/new"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    line, comments = _queue(choice)
    rendered = environment.get_template(f"{choice.network}.toml").render(
        title=_TITLES[choice.network].format(flows=flows),
        choice=choice,
        warmup=_span(math.floor(choice.duration_s / 6 * 1000)),
        queue=line,
        queue_comments=comments,
        access_rate=_bits(min(10 * choice.rate_bps, _RATE_MAX_BPS)),
        narrow_rate=_bits(max(choice.rate_bps // 10, 1)),
        stream_rate=_bits(max(choice.rate_bps // 2, 1)),
        start=_span(math.ceil(min(choice.duration_s / 10, 1) * 1000)),
        ecn=choice.queue in _MARKS,
    )
    _require_valid(rendered)
    return rendered


def checked(
    network: str, rate: str, delay: str, flows: int, queue: str, control: str, duration: str
) -> Choice:
    """What is asked for, with quantities read as scenarios read them."""
    if not 1 <= flows <= FLOWS_MAX:
        raise UsageError(f"flows: {flows} is not from 1 to {FLOWS_MAX}")
    rate, delay, duration = ("".join(given.split()) for given in (rate, delay, duration))
    return Choice(
        _one_of(Network, "network", network),
        rate,
        quantity_of("rate", rate),
        delay,
        quantity_of("delay", delay),
        flows,
        _one_of(Queue, "queue", queue),
        _one_of(Control, "control", control),
        duration,
        quantity_of("duration", duration),
    )


_KINDS = {"rate": "bit/s", "delay": "s", "duration": "s"}


def quantity_of(name: str, given: str) -> float:
    """The value of the option `name`, in bit/s or seconds; a delay may be 0."""
    from tidegate.design.result import quantity

    return quantity(given, _KINDS[name], name, zero=name == "delay")


def _one_of(names: type[_Name], what: str, given: str) -> _Name:
    try:
        return names(given)
    except ValueError:
        raise UsageError(f"{what}: {given!r} is none of {', '.join(names)}") from None


def _bits(rate_bps: float) -> str:
    """A rate as a scenario writes it."""
    bits = round(rate_bps)
    for unit, size in (("Gbit", 10**9), ("Mbit", 10**6), ("kbit", 10**3)):
        if bits % size == 0 and bits:
            return f"{bits // size}{unit}"
    return f"{bits}bit"


def _span(ms: int) -> str:
    """A time as a scenario writes it."""
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


def _queue(choice: Choice) -> tuple[str, list[str]]:
    """The value of `queue`, and what is to be said of it."""
    from tidegate import design

    shared, others = _LINKS[choice.network]
    rtt_s = 2 * (shared * choice.delay_s + others * _ACCESS_DELAY_S)
    bdp_bytes = choice.rate_bps * rtt_s / 8
    network = {"rate": choice.rate_bps, "rtt": rtt_s, "flows": choice.flows, "packet": _DATA_PACKET}
    asked = f"--rate {choice.rate} --rtt {rtt_s * 1e3:.6g}ms --flows {choice.flows} --packet {_DATA_PACKET}B"
    match choice.queue:
        case Queue.red if choice.control is Control.dctcp:
            step = max(math.ceil(bdp_bytes / _DATA_PACKET / 7), 5)
            line = (
                f'{{ kind = "red", limit = "{max(10 * step, 100)}p", min = "{step}p", max = "{step + 1}p", '
                "max_p = 1, weight = 1, ecn = true }"
            )
            return line, [
                "DCTCP wants a step: everything above it is marked. A seventh of a round trip is the least",
                "that keeps the link busy (Alizadeh et al. 2010).",
            ]
        case Queue.red | Queue.adaptive_red:
            adaptive = choice.queue is Queue.adaptive_red
            found = design.red(**network, adaptive=adaptive)
            command = f"tidegate design red {asked}{'' if adaptive else ' --no-adaptive'}"
        case Queue.blue:
            found, command = design.blue(**network), f"tidegate design blue {asked}"
        case Queue.sfb:
            limit = f"{max(math.ceil(2 * bdp_bytes / 1000), 200)}kB"
            found = design.sfb(choice.flows, 1, _SFB_MEMORY, limit=limit, packet=_DATA_PACKET)
            command = (
                f"tidegate design sfb --flows {choice.flows} --nonresponsive 1 --memory {_SFB_MEMORY} "
                f"--limit {limit} --packet {_DATA_PACKET}B"
            )
        case _:
            packets = max(math.ceil(bdp_bytes / _DATA_PACKET), 20)
            limit = "" if choice.queue is Queue.codel else f', limit = "{packets}p"'
            said = f"One round trip of the link, at least 20 packets: {packets}p."
            if choice.queue is Queue.codel:
                said = "CoDel bounds how long packets wait; its limit of 1000 packets is hardly reached."
            return f'{{ kind = "{choice.queue}"{limit} }}', [said]
    return found.toml().removeprefix("queue = "), ["Found, and explained, by", f"  {command}"]


def _require_valid(rendered: str) -> None:
    """What is asked for may be out of the range of scenarios though each part is in order."""
    from tidegate import _core

    try:
        _core.Scenario.from_text(rendered, "new.toml")
    except _core.ConfigError as error:
        raise UsageError(f"these values make no valid scenario: {error}") from error
