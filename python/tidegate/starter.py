"""Scenarios to begin with: what `tidegate new` writes, from a kind of network and a few quantities.

    import tidegate.starter

    text = tidegate.starter.text("dumbbell", rate="50Mbit", flows=8, queue="red")

The networks are templates of TOML (`templates/new`). Queues whose parameters depend on the link come from
`tidegate.design`, so that what is written suits the link that was asked for.
"""

import difflib
import functools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegate.errors import UsageError

FLOWS_MAX = 10_000
_RATE_MAX_BPS = 10e12
_DATA_PACKET = 1500  # bytes: the packet of TCP by default
_SFB_MEMORY = "3kB"
_ACCESS_DELAY_S = 0.001  # of the links that nobody waits for


class Network(StrEnum):
    """Kinds of networks."""

    dumbbell = "dumbbell"
    parking_lot = "parking-lot"
    three_domains = "three-domains"


_TITLES = {
    Network.dumbbell: "{flows} TCP flows share one link",
    Network.parking_lot: "{flows} TCP flows over three links, each with a flow of its own",
    Network.three_domains: "Three domains in a row, with {flows} TCP flows and a stream that nobody stops",
}
# One way of a TCP flow that goes all the way: how many of the shared links, and how many others.
_LINKS = {Network.dumbbell: (1, 2), Network.parking_lot: (3, 2), Network.three_domains: (1, 5)}
# Queues that bound how long packets wait: the bound on what waits is hardly reached, and stays as it is.
_BY_TIME = {"codel", "cobalt", "pie", "pi2", "fq-codel", "fq-pie", "cake", "dualpi2"}
# Queues made of RED, whose keys are among theirs.
_OF_RED = {"choke", "red-penalty-box"}
# Queues that steer to a length, or act above one: packets that there is room for at least, whatever the link.
_LEAST = {"pi": 200, "rem": 100, "step": 100, "csfq": 100, "eec-marker": 100, "ered": 100}
# Queues that are for dropping unless they are told otherwise.
_DROPS = {"fred", "ered", "tcp-friendly"}
# Queues that most people know, of which there is no more to say.
_PLAIN = {"droptail", "fred", "drr", "sfq", "wfq"}
# Controls that say to their receivers themselves which marks they understand.
_OWN_ECN = {"prague"}


def queues() -> tuple[str, ...]:
    """The kinds of queues that scenarios know."""
    return tuple(_kinds("queue"))


def controls() -> tuple[str, ...]:
    """The kinds of congestion controls that scenarios know."""
    return tuple(_kinds("control"))


def _kinds(family: str) -> dict[str, set[str]]:
    """The kinds of a family, each with the keys that it has."""
    from tidegate import _core

    return _kinds_of(_core, family)


@functools.cache
def _kinds_of(core: Any, family: str) -> dict[str, set[str]]:
    return {
        each["kind"]: {key["name"] for key in each["parameters"]}
        for each in json.loads(core.list_mechanisms())
        if each["family"] == family
    }


@dataclass(frozen=True)
class Choice:
    """What is asked for, checked. Rate in bit/s, times in seconds, and as they were written."""

    network: Network
    rate: str
    rate_bps: float
    delay: str
    delay_s: float
    flows: int
    queue: str
    control: str
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
        queue: the kind of queue in front of these links, one of `queues()`.
        control: the congestion control of the TCP flows, one of `controls()`.
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
        tcp=_tcp(choice),
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
        Network(_one_of(Network, "network", network)),
        rate,
        quantity_of("rate", rate),
        delay,
        quantity_of("delay", delay),
        flows,
        _one_of(queues(), "queue", queue),
        _one_of(controls(), "control", control),
        duration,
        quantity_of("duration", duration),
    )


_KINDS = {"rate": "bit/s", "delay": "s", "duration": "s"}


def quantity_of(name: str, given: str) -> float:
    """The value of the option `name`, in bit/s or seconds; a delay may be 0."""
    from tidegate.design.result import quantity

    return quantity(given, _KINDS[name], name, zero=name == "delay")


def _one_of(names: Iterable[str], what: str, given: str) -> str:
    known = [str(name) for name in names]
    if given in known:
        return given
    close = difflib.get_close_matches(given, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise UsageError(f"{what}: {given!r} is none of {', '.join(known)}{hint}")


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


def _tcp(choice: Choice) -> str:
    """What all TCP flows have: their control, and marks where the queue can set them."""
    share_bps = max(choice.rate_bps // (2 * choice.flows), 1)
    share = _bits(share_bps)
    match choice.control:
        case "reserved":
            # Room for two packets: with less there are never tokens for one.
            depth = _span(max(math.ceil(2 * 8 * _DATA_PACKET / share_bps * 1000), 50))
            control = f'{{ kind = "reserved", rate = "{share}", depth = "{depth}" }}'
        case "marking":
            control = f'{{ kind = "marking", target = "{share}" }}'
        case kind:
            control = f'"{kind}"'
    can_mark = "ecn" in _kinds("queue")[choice.queue] and choice.queue not in _DROPS
    return f"control = {control}" + (", ecn = true" if can_mark and choice.control not in _OWN_ECN else "")


def _queue(choice: Choice) -> tuple[str, list[str]]:
    """The value of `queue`, and what is to be said of it."""
    from tidegate import design

    shared, others = _LINKS[choice.network]
    rtt_s = 2 * (shared * choice.delay_s + others * _ACCESS_DELAY_S)
    bdp_bytes = choice.rate_bps * rtt_s / 8
    network = {"rate": choice.rate_bps, "rtt": rtt_s, "flows": choice.flows, "packet": _DATA_PACKET}
    asked = f"--rate {choice.rate} --rtt {rtt_s * 1e3:.6g}ms --flows {choice.flows} --packet {_DATA_PACKET}B"
    match choice.queue:
        case "red" if choice.control == "dctcp":
            step = max(math.ceil(bdp_bytes / _DATA_PACKET / 7), 5)
            line = (
                f'{{ kind = "red", limit = "{max(10 * step, 100)}p", min = "{step}p", max = "{step + 1}p", '
                "max_p = 1, weight = 1, ecn = true }"
            )
            return line, [
                "DCTCP wants a step: everything above it is marked. A seventh of a round trip is the least",
                "that keeps the link busy (Alizadeh et al. 2010).",
            ]
        case "red" | "adaptive-red":
            adaptive = choice.queue == "adaptive-red"
            found = design.red(**network, adaptive=adaptive)
            command = f"tidegate design red {asked}{'' if adaptive else ' --no-adaptive'}"
        case kind if kind in _OF_RED:
            found = design.red(**network, adaptive=False)
            line = found.toml().removeprefix("queue = ").replace('kind = "red"', f'kind = "{kind}"')
            return line, [
                "The values of RED, found, and explained, by",
                f"  tidegate design red {asked} --no-adaptive",
            ]
        case "blue":
            found, command = design.blue(**network), f"tidegate design blue {asked}"
        case "sfb":
            limit = f"{max(math.ceil(2 * bdp_bytes / 1000), 200)}kB"
            found = design.sfb(choice.flows, 1, _SFB_MEMORY, limit=limit, packet=_DATA_PACKET)
            command = (
                f"tidegate design sfb --flows {choice.flows} --nonresponsive 1 --memory {_SFB_MEMORY} "
                f"--limit {limit} --packet {_DATA_PACKET}B"
            )
        case "cbq":
            return '{ kind = "cbq", classes = [{ name = "all", share = 1.0, match = [0] }] }', [
                "One class has all: give it less, and others the rest. `match` are the `class` of flows,",
                "which is 0 unless they say another; `tidegate explain cbq` tells what classes take.",
            ]
        case kind:
            return _by_limit(kind, math.ceil(bdp_bytes / _DATA_PACKET))
    return found.toml().removeprefix("queue = "), ["Found, and explained, by", f"  {command}"]


def _by_limit(kind: str, bdp_packets: int) -> tuple[str, list[str]]:
    """A queue of which no more is asked than how much may wait."""
    if kind == "codel":
        said = "CoDel bounds how long packets wait; its limit of 1000 packets is hardly reached."
        return f'{{ kind = "{kind}" }}', [said]
    more = f"`tidegate explain {kind}` tells what else it takes."
    if kind in _BY_TIME or "limit" not in _kinds("queue")[kind]:
        return f'{{ kind = "{kind}" }}', [f"It bounds how long packets wait, with its defaults; {more}"]
    least = _LEAST.get(kind, 20)
    packets = max(bdp_packets, least)
    said = f"One round trip of the link, at least {least} packets: {packets}p."
    return f'{{ kind = "{kind}", limit = "{packets}p" }}', [said] if kind in _PLAIN else [said, more]


def _require_valid(rendered: str) -> None:
    """What is asked for may be out of the range of scenarios though each part is in order."""
    from tidegate import _core

    try:
        _core.Scenario.from_text(rendered, "new.toml")
    except _core.ConfigError as error:
        raise UsageError(f"these values make no valid scenario: {error}") from error
