"""Lays out the network of a scenario for drawing.

Routers that are no edge form the backbone, laid out from left to right in the order in which flows cross
them. What hangs on one backbone node (a host, or an edge router with its hosts) is a branch: branches at the
left end go left, at the right end right, sources in between above, sinks below. Equal branches at one node
are drawn once, with their number.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.experiment import named
from tidegate.library import natural_key
from tidegate.network import Link, Network, range_label, shortest_path, stem

_STEP = 90  # from a node to the next along a branch
_FAN = 76  # between branches at an end
_COLUMN_MIN = 64  # between branches above or below a node
COLUMN_MAX = 116
_LANE_MIN = 120  # between backbone nodes: room for a link label
LETTER = 8.2  # width of a letter of a name
_CROWDED = 24  # nodes from which on even two equal branches are drawn as one


@dataclass
class _Branch:
    """A chain of nodes on a backbone node, outwards; `names` holds, per position, all that look the same."""

    names: list[list[str]]
    kinds: list[str]
    links: list[list[Link]]
    is_source: bool
    traffic: str

    def signature(self) -> tuple:
        """What branches that are drawn as one share."""
        return (
            self.is_source,
            self.traffic,
            tuple(self.kinds),
            tuple(links[0].label for links in self.links),
            tuple(stem(names[0]) for names in self.names),
        )


@dataclass
class Place:
    """A node of the drawing, which may stand for several that are alike."""

    x: float
    y: float
    kind: str
    names: list[str]

    @property
    def label(self) -> str:
        """The name of what stands there."""
        return range_label(self.names)


@dataclass
class Wire:
    """A link of the drawing, which may stand for several: from place to place, each by its first name."""

    a: str
    b: str
    label: str
    links: list[Link]


@dataclass
class Domain:
    """A domain, its mechanism, and the places that belong to it."""

    name: str
    mechanism: str
    places: list[Place]


@dataclass
class Drawing:
    """A network with coordinates."""

    places: dict[str, Place] = field(default_factory=dict)
    wires: list[Wire] = field(default_factory=list)
    domains: list[Domain] = field(default_factory=list)

    def place_of(self, name: str) -> Place | None:
        """Where the node `name` stands, alone or among others."""
        return next((place for place in self.places.values() if name in place.names), None)


def layout(scenario: dict[str, Any]) -> Drawing:
    """Where everything stands; a drawing without places for a scenario without nodes."""
    network = Network.from_scenario(scenario)
    if not network.kinds:
        return Drawing()
    drawing = _layout(network)
    for name, domain in named(scenario.get("domains")).items():
        members = {str(member) for key in ("edges", "core") for member in domain.get(key) or ()}
        inside = [place for place in drawing.places.values() if members.intersection(place.names)]
        mechanism = domain.get("mechanism") or {}
        kind = mechanism.get("kind", "") if isinstance(mechanism, dict) else str(mechanism)
        if inside:
            drawing.domains.append(Domain(name, kind, inside))
    return drawing


def _backbone(network: Network) -> list[str]:
    for wanted in (("router",), ("router", "edge"), ("router", "edge", "host")):
        chosen = [name for name, kind in network.kinds.items() if kind in wanted]
        if chosen:
            return chosen
    return list(network.kinds)


def _layout(network: Network) -> Drawing:
    neighbours = network.neighbours()
    backbone = _backbone(network)
    branches, loose = _branches(network, neighbours, set(backbone))
    backbone += loose
    layers = _layers(network, neighbours, backbone)
    rows = _rows(network, neighbours, layers)
    sides = _sides(layers, branches)
    drawing = Drawing()
    x_of, y_of = _coordinates(layers, rows, sides)
    for name in backbone:
        drawing.places[name] = Place(x_of[name], y_of[name], network.kinds[name], [name])
        for side, group in sides.get(name, {}).items():
            _place_branches(drawing, name, side, group, _column(sides[name]))
    inner = set(backbone)
    for link in network.links:
        if link.a in inner and link.b in inner:
            drawing.wires.append(Wire(link.a, link.b, link.label, [link]))
    return drawing


def _branches(
    network: Network, neighbours: dict[str, list[tuple[str, Link]]], backbone: set[str]
) -> tuple[dict[str, list[_Branch]], list[str]]:
    """Branches by backbone node, equal ones merged; and nodes in no branch, which join the backbone."""
    senders = {flow.source for flow in network.flows}
    traffic = {flow.source: flow.transport for flow in network.flows}
    traffic |= {sink: flow.transport for flow in network.flows for sink in flow.sinks}
    collapse_from = 2 if len(network.kinds) > _CROWDED else 3
    seen: set[str] = set(backbone)
    found: dict[str, dict[tuple, list[_Branch]]] = {}
    loose: list[str] = []
    for root in sorted(backbone, key=natural_key):
        for first, first_link in neighbours[root]:
            if first in seen:
                continue
            component, attached = _component(neighbours, first, backbone)
            seen.update(component)
            chains = _chains(neighbours, root, first, first_link) if attached == {root} else None
            if chains is None:
                loose += component
                continue
            for chain in chains:
                names, links = [name for name, _ in chain], [[link] for _, link in chain]
                is_source = any(name in senders for name in names)
                kinds = [network.kinds[name] for name in names]
                kind_of_traffic = next((traffic[name] for name in names if name in traffic), "")
                branch = _Branch([[name] for name in names], kinds, links, is_source, kind_of_traffic)
                found.setdefault(root, {}).setdefault(branch.signature(), []).append(branch)
    drawn = {
        root: [
            branch
            for group in by_signature.values()
            for branch in ([_merged(group)] if len(group) >= collapse_from else group)
        ]
        for root, by_signature in found.items()
    }
    return drawn, loose


def _merged(group: list[_Branch]) -> _Branch:
    """One branch that stands for several; a node they share stays one."""
    first = group[0]
    names = [
        list(dict.fromkeys(branch.names[position][0] for branch in group))
        for position in range(len(first.names))
    ]
    links = [[branch.links[position][0] for branch in group] for position in range(len(first.links))]
    return replace(first, names=names, links=links)


def _component(
    neighbours: dict[str, list[tuple[str, Link]]], start: str, backbone: set[str]
) -> tuple[list[str], set[str]]:
    """The nodes connected with `start` outside the backbone, and the backbone nodes they touch."""
    component, attached, pending = [start], set(), [start]
    while pending:
        for other, _ in neighbours[pending.pop()]:
            if other in backbone:
                attached.add(other)
            elif other not in component:
                component.append(other)
                pending.append(other)
    return component, attached


def _chains(
    neighbours: dict[str, list[tuple[str, Link]]], root: str, first: str, link: Link
) -> list[list[tuple[str, Link]]] | None:
    """The paths from `root` through `first` to each leaf; None where the branch has a loop."""
    chains: list[list[tuple[str, Link]]] = []
    visited = {root}

    def walk(node: str, path: list[tuple[str, Link]]) -> bool:
        if node in visited:
            return False
        visited.add(node)
        onward = [(other, via) for other, via in neighbours[node] if via.name != path[-1][1].name]
        if not onward:
            chains.append(path)
        return all(walk(other, [*path, (other, via)]) for other, via in onward)

    return chains if walk(first, [(first, link)]) else None


def _layers(
    network: Network, neighbours: dict[str, list[tuple[str, Link]]], backbone: list[str]
) -> dict[str, int]:
    """Column of each backbone node: after all nodes that flows cross before it, as far as flows agree."""
    inner = set(backbone)
    before: dict[str, set[str]] = {name: set() for name in backbone}

    def reaches(start: str, end: str) -> bool:
        pending, seen = [end], {end}
        while pending:
            for name in before[pending.pop()]:
                if name == start:
                    return True
                if name not in seen:
                    seen.add(name)
                    pending.append(name)
        return start == end

    steps: dict[tuple[str, str], int] = {}
    for flow in network.flows:
        for sink in flow.sinks:
            path = [node for node in shortest_path(neighbours, flow.source, sink) if node in inner]
            for step in zip(path, path[1:], strict=False):
                steps[step] = steps.get(step, 0) + 1
    for (left, right), _ in sorted(steps.items(), key=lambda item: -item[1]):
        if not reaches(right, left):
            before[right].add(left)
    # Links no flow crosses still keep their ends apart.
    for link in network.links:
        if (
            link.a in inner
            and link.b in inner
            and not reaches(link.a, link.b)
            and not reaches(link.b, link.a)
        ):
            before[link.b].add(link.a)
    layers: dict[str, int] = {}

    def layer(name: str) -> int:
        if name not in layers:
            layers[name] = 1 + max((layer(other) for other in before[name]), default=-1)
        return layers[name]

    for name in backbone:
        layer(name)
    # A node that only later ones follow moves next to them.
    after: dict[str, list[str]] = {name: [] for name in backbone}
    for name, earlier in before.items():
        for other in earlier:
            after[other].append(name)
    for name in sorted(backbone, key=lambda name: -layers[name]):
        if not before[name] and after[name]:
            layers[name] = min(layers[other] for other in after[name]) - 1
    return layers


def _rows(
    network: Network, neighbours: dict[str, list[tuple[str, Link]]], layers: dict[str, int]
) -> dict[str, float]:
    """Row of each backbone node, around 0: near the mean of its neighbours in the column before."""
    rows: dict[str, float] = {}
    for column in sorted(set(layers.values())):
        members = [name for name in layers if layers[name] == column]

        def wish(name: str) -> float:
            placed = [rows[other] for other, _ in neighbours[name] if other in rows]
            return sum(placed) / len(placed) if placed else 0.0

        members.sort(key=lambda name: (wish(name), natural_key(name)))
        if len(members) == 1:
            rows[members[0]] = wish(members[0])
            continue
        centre = sum(wish(name) for name in members) / len(members)
        for index, name in enumerate(members):
            rows[name] = centre + index - (len(members) - 1) / 2
    _step_aside(network, layers, rows)
    return rows


def _step_aside(network: Network, layers: dict[str, int], rows: dict[str, float]) -> None:
    """Move nodes off links that would pass through them, to the nearest row that is free."""
    long_links = [
        (link.a, link.b) if layers[link.a] < layers[link.b] else (link.b, link.a)
        for link in network.links
        if link.a in layers and link.b in layers and abs(layers[link.a] - layers[link.b]) > 1
    ]

    def is_free(name: str, row: float) -> bool:
        column = layers[name]
        taken = [rows[other] for other in layers if layers[other] == column and other != name]
        for left, right in long_links:
            if layers[left] < column < layers[right]:
                share = (column - layers[left]) / (layers[right] - layers[left])
                taken.append(rows[left] + share * (rows[right] - rows[left]))
        return all(abs(row - other) > 0.4 for other in taken)

    if not long_links:
        return
    for name in sorted(layers, key=lambda name: (layers[name], natural_key(name))):
        row = rows[name]
        steps = (row + sign * step for step in range(1, len(layers) + 1) for sign in (1, -1))
        rows[name] = next((free for free in (row, *steps) if is_free(name, free)), row)


_Sides = dict[str, dict[str, list[_Branch]]]


def _sides(layers: dict[str, int], branches: dict[str, list[_Branch]]) -> _Sides:
    first, last = min(layers.values()), max(layers.values())
    sides: _Sides = {}
    for root, group in branches.items():
        for branch in group:
            if first == last:
                side = "left" if branch.is_source else "right"
            elif layers[root] == first and branch.is_source:
                side = "left"
            elif layers[root] == last and not branch.is_source:
                side = "right"
            else:
                side = "above" if branch.is_source else "below"
            sides.setdefault(root, {}).setdefault(side, []).append(branch)
    return sides


def _coordinates(
    layers: dict[str, int], rows: dict[str, float], sides: _Sides
) -> tuple[dict[str, float], dict[str, float]]:
    """Pixels of each backbone node: as far apart as what hangs on them needs."""

    def half_width(name: str) -> float:
        upright = [len(sides.get(name, {}).get(side, ())) for side in ("above", "below")]
        return max([*upright, 1]) * _column(sides.get(name, {})) / 2

    def reach(name: str, side: str) -> float:
        group = sides.get(name, {}).get(side, [])
        return max((len(branch.names) for branch in group), default=0) * _STEP * 0.8

    def fan(name: str) -> float:
        return max(len(sides.get(name, {}).get(side, ())) for side in ("left", "right")) * _FAN / 2

    x_of: dict[str, float] = {}
    x, previous_half = 0.0, None
    for column in sorted(set(layers.values())):
        members = [name for name in layers if layers[name] == column]
        half = max(half_width(name) for name in members)
        if previous_half is not None:
            x += max(_LANE_MIN, previous_half + half + 12)
        previous_half = half
        for name in members:
            x_of[name] = x
    distinct = sorted(set(rows.values()))
    y_of_row: dict[float, float] = {}
    y = 0.0
    for index, row in enumerate(distinct):
        if index:
            above = [name for name in rows if rows[name] == distinct[index - 1]]
            here = [name for name in rows if rows[name] == row]
            need = max(max(reach(name, "below"), fan(name)) for name in above) + max(
                max(reach(name, "above"), fan(name)) for name in here
            )
            y += max(
                80.0 * min(1.0, row - distinct[index - 1]), (need + 50) * min(1.0, row - distinct[index - 1])
            )
        y_of_row[row] = y
    return x_of, {name: y_of_row[row] for name, row in rows.items()}


def _column(branches: dict[str, list[_Branch]]) -> float:
    """Width of a column above or below a node: what its longest label needs."""
    upright = [branch for side in ("above", "below") for branch in branches.get(side, ())]
    longest = max((len(range_label(names)) for branch in upright for names in branch.names), default=0)
    return min(max(_COLUMN_MIN, longest * LETTER + 10), COLUMN_MAX)


def _place_branches(drawing: Drawing, root: str, side: str, group: list[_Branch], column: float) -> None:
    origin = drawing.places[root]
    ordered = sorted(group, key=lambda branch: natural_key(branch.names[-1][0]))
    for index, branch in enumerate(ordered):
        across = index - (len(ordered) - 1) / 2
        previous = root
        for position, (names, kind, links) in enumerate(
            zip(branch.names, branch.kinds, branch.links, strict=True), 1
        ):
            along = _STEP * (1.25 if side in ("left", "right") else 0.8) * position
            dx, dy = {
                "left": (-along, across * _FAN),
                "right": (along, across * _FAN),
                "above": (across * column, -along),
                "below": (across * column, along),
            }[side]
            key = names[0]
            if key not in drawing.places:
                drawing.places[key] = Place(origin.x + dx, origin.y + dy, kind, names)
                drawing.wires.append(Wire(previous, key, links[0].label, links))
            previous = key
