"""The network of a scenario as its JSON describes it, in the few terms that drawing and tables need.

In: the dict of `Scenario.to_json`. Tolerates both `rate_bps` and nested `forward`/`reverse` directions.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tidegate import quantities
from tidegate.experiment import named


@dataclass(frozen=True)
class Link:
    """A link between two nodes, with what is written beside it."""

    name: str
    a: str
    b: str
    label: str


@dataclass(frozen=True)
class Flow:
    """Who sends to whom, and by which transport."""

    name: str
    source: str
    sinks: list[str]
    transport: str


@dataclass
class Network:
    """Nodes by name with their kind (host, router, edge), links, and who sends to whom."""

    kinds: dict[str, str] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)

    @classmethod
    def from_scenario(cls, scenario: dict[str, Any]) -> "Network":
        """From the JSON of the core."""
        network = cls()
        for name, node in named(scenario.get("nodes")).items():
            network.kinds[name] = str(node.get("kind", "router"))
        for domain in named(scenario.get("domains")).values():
            for name in domain.get("edges", ()):
                if network.kinds.get(name) == "router":
                    network.kinds[name] = "edge"
        for name, link in named(scenario.get("links")).items():
            network.links.append(Link(name, str(link.get("a")), str(link.get("b")), _link_label(link)))
        for name, flow in named(scenario.get("flows")).items():
            to = flow.get("to", [])
            sinks = list(to) if isinstance(to, list) else [to]
            transport = flow.get("transport") or ""
            kind = transport.get("kind", "") if isinstance(transport, dict) else str(transport)
            network.flows.append(Flow(name, str(flow.get("from")), sinks, kind))
        return network

    def neighbours(self) -> dict[str, list[tuple[str, Link]]]:
        """The nodes next to each node, in the order of the links."""
        found: dict[str, list[tuple[str, Link]]] = {name: [] for name in self.kinds}
        for link in self.links:
            found[link.a].append((link.b, link))
            found[link.b].append((link.a, link))
        return found


def _quantity(table: dict[str, Any], name: str, units: dict[str, float]) -> float | None:
    for suffix, factor in units.items():
        value = table.get(f"{name}_{suffix}")
        if isinstance(value, int | float):
            return value * factor
    value = table.get(name)
    return quantities.base_value(value) if isinstance(value, str) else None


def _link_label(link: dict[str, Any]) -> str:
    forward = link["forward"] if isinstance(link.get("forward"), dict) else link
    back = link["reverse"] if isinstance(link.get("reverse"), dict) else {}
    units = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
    parts = [
        _both_ways(
            _quantity(forward, "rate", {"bps": 1.0}), _quantity(back, "rate", {"bps": 1.0}), quantities.rate
        ),
        _both_ways(_quantity(forward, "delay", units), _quantity(back, "delay", units), quantities.duration),
    ]
    return " · ".join(filter(None, parts))


def _both_ways(there: float | None, back: float | None, text: Callable[[float], str]) -> str:
    """What both directions have, or what each has: `10 Mb/s, 50 Mb/s back`."""
    if there is None:
        return ""
    return text(there) if back is None or back == there else f"{text(there)}, {text(back)} back"


def shortest_path(neighbours: dict[str, list[tuple[str, Link]]], start: str, end: str) -> list[str]:
    """Nodes of a path with the fewest links; empty where there is none."""
    previous: dict[str, str | None] = {start: None}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if node == end:
            path = [node]
            while (before := previous[path[-1]]) is not None:
                path.append(before)
            return path[::-1]
        for other, _ in neighbours.get(node, ()):
            if other not in previous:
                previous[other] = node
                queue.append(other)
    return []


def stem(name: str) -> str:
    """A name without the number it ends in: what `G1` and `G7` share."""
    return re.sub(r"[\d_.-]+(?=$|[_-])", "", name) or name


def range_label(names: Iterable[str]) -> str:
    """One label for several nodes: `G1…G7` if they are numbered without a gap, `R1, R5` otherwise.

    `G1…G7-sink` where they also end alike, and `n0, n2…n4` where some are numbered in a row.
    """
    ordered = list(names)
    runs: list[list[str]] = []
    for name in ordered:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    # Two in a row are no shorter as a range.
    words = [word for run in runs for word in ([_range(run)] if len(run) > 2 else run)]
    if len(words) > _WORDS_MAX:
        return f"{ordered[0]}, … {ordered[-1]}"
    return ", ".join(words)


_WORDS_MAX = 3


def _follows(name: str, other: str) -> bool:
    """Whether `other` is `name` with one of its numbers one higher."""
    parts, others = re.split(r"(\d+)", name), re.split(r"(\d+)", other)
    if len(parts) != len(others):
        return False
    unlike = [pair for pair in zip(parts, others, strict=True) if pair[0] != pair[1]]
    if len(unlike) != 1:
        return False
    number, next_number = unlike[0]
    return number.isdigit() and next_number.isdigit() and int(next_number) == int(number) + 1


def _range(run: list[str]) -> str:
    first, last = run[0], run[-1]
    shared = 0
    while shared < min(len(first), len(last)) - 1 and first[-1 - shared] == last[-1 - shared]:
        shared += 1
    if shared and first[-shared].isdigit():
        shared = 0
    return f"{first[: len(first) - shared]}…{last}"
