"""Draws the network of a scenario as an inline SVG that follows the page's colours.

Routers that are no edge form the backbone, laid out from left to right in the order in which flows cross
them. What hangs on one backbone node (a host, or an edge router with its hosts) is a branch: branches at the
left end go left, at the right end right, sources in between above, sinks below. Equal branches at one node
are drawn once, with their number.
"""

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.library import natural_key
from tidegate.network import Link, Network, range_label, shortest_path, stem

_STEP = 90  # from a node to the next along a branch
_FAN = 76  # between branches at an end
_COLUMN_MIN = 64  # between branches above or below a node
_COLUMN_MAX = 116
_LANE_MIN = 120  # between backbone nodes: room for a link label
_RADIUS = 17
_INSIDE_MAX = {"host": 4, "edge": 2}  # letters that fit into a node; 3 into a router
_LETTER = 8.2  # width of a letter of a name
_CROWDED = 24  # nodes from which on even two equal branches are drawn as one
_MARGIN = 34


@dataclass
class _Branch:
    """A chain of nodes on a backbone node, outwards; `names` holds, per position, all that look the same."""

    names: list[list[str]]
    kinds: list[str]
    labels: list[str]
    is_source: bool
    traffic: str

    def signature(self) -> tuple:
        """What branches that are drawn as one share."""
        return (
            self.is_source,
            self.traffic,
            tuple(self.kinds),
            tuple(self.labels),
            tuple(stem(names[0]) for names in self.names),
        )


@dataclass
class _Place:
    x: float
    y: float
    kind: str
    label: str
    count: int


@dataclass
class _Drawing:
    places: dict[str, _Place] = field(default_factory=dict)
    lines: list[tuple[str, str, str]] = field(default_factory=list)


def svg(scenario: dict[str, Any]) -> str:
    """The drawing, as one `<svg>` element; empty for a scenario without nodes."""
    network = Network.from_scenario(scenario)
    if not network.kinds:
        return ""
    return _render(_layout(network))


def _backbone(network: Network) -> list[str]:
    for wanted in (("router",), ("router", "edge"), ("router", "edge", "host")):
        chosen = [name for name, kind in network.kinds.items() if kind in wanted]
        if chosen:
            return chosen
    return list(network.kinds)


def _layout(network: Network) -> _Drawing:
    neighbours = network.neighbours()
    backbone = _backbone(network)
    branches, loose = _branches(network, neighbours, set(backbone))
    backbone += loose
    layers = _layers(network, neighbours, backbone)
    rows = _rows(network, neighbours, layers)
    sides = _sides(layers, branches)
    drawing = _Drawing()
    x_of, y_of = _coordinates(layers, rows, sides)
    for name in backbone:
        drawing.places[name] = _Place(x_of[name], y_of[name], network.kinds[name], name, 1)
        for side, group in sides.get(name, {}).items():
            _place_branches(drawing, name, side, group, _column(sides[name]))
    inner = set(backbone)
    for link in network.links:
        if link.a in inner and link.b in inner:
            drawing.lines.append((link.a, link.b, link.label))
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
                names, labels = [name for name, _ in chain], [link.label for _, link in chain]
                is_source = any(name in senders for name in names)
                kinds = [network.kinds[name] for name in names]
                kind_of_traffic = next((traffic[name] for name in names if name in traffic), "")
                branch = _Branch([[name] for name in names], kinds, labels, is_source, kind_of_traffic)
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
    return replace(first, names=names)


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
    return rows


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
    return min(max(_COLUMN_MIN, longest * _LETTER + 10), _COLUMN_MAX)


def _place_branches(drawing: _Drawing, root: str, side: str, group: list[_Branch], column: float) -> None:
    origin = drawing.places[root]
    ordered = sorted(group, key=lambda branch: natural_key(branch.names[-1][0]))
    for index, branch in enumerate(ordered):
        across = index - (len(ordered) - 1) / 2
        previous = root
        for position, (names, kind, label) in enumerate(
            zip(branch.names, branch.kinds, branch.labels, strict=True), 1
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
                drawing.places[key] = _Place(
                    origin.x + dx, origin.y + dy, kind, range_label(names), len(names)
                )
                drawing.lines.append((previous, key, label))
            previous = key


def _common_label(labels: Iterable[str]) -> str:
    """The label most links have; it is written once, below the drawing, instead of at each of them."""
    counts: dict[str, int] = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    best = max(counts, key=lambda label: counts[label], default="")
    return best if best and counts[best] >= 4 else ""


def _render(drawing: _Drawing) -> str:
    places = drawing.places
    common = _common_label(label for _, _, label in drawing.lines)
    left = min(place.x for place in places.values()) - _MARGIN - 20
    right = max(place.x for place in places.values()) + _MARGIN + 20
    top = min(place.y for place in places.values()) - _MARGIN
    bottom = max(place.y for place in places.values()) + _MARGIN + 8
    kinds = {place.kind for place in places.values()}
    note_height = 26
    width, height = max(right - left, 520.0), bottom - top + note_height
    left -= (width - (right - left)) / 2
    parts = [
        f'<svg class="topology" viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}" '
        f'style="min-width:{width * 0.62:.0f}px;max-width:{width:.0f}px" role="img" aria-label="Topology">'
    ]
    for a, b, label in drawing.lines:
        parts.append(
            _line(places[a], places[b], "" if label == common else label, is_wide=_is_core(places, a, b))
        )
    for place in places.values():
        parts.append(_node(place))
    parts.append(_key(kinds, common, left + 14, bottom + 10))
    parts.append("</svg>")
    return "".join(parts)


def _is_core(places: dict[str, _Place], a: str, b: str) -> bool:
    return places[a].kind == "router" and places[b].kind == "router"


def _line(a: _Place, b: _Place, label: str, is_wide: bool) -> str:
    kind = "core" if is_wide else "access"
    text = f'<line class="{kind}" x1="{a.x:.1f}" y1="{a.y:.1f}" x2="{b.x:.1f}" y2="{b.y:.1f}"/>'
    if not label:
        return text
    parts = label.split(" · ")
    is_upright = abs(a.x - b.x) < 0.2 * abs(a.y - b.y)
    # Where branches fan out, the label stands nearer to the outer end, where they are further apart.
    slope = abs(a.y - b.y) / max(abs(a.x - b.x), 1.0)
    along = 0.5 if is_upright or slope == 0.0 else 0.58 if slope < 1.1 else 0.64 if slope < 1.8 else 0.75
    # Steep lines lie close to each other: their text is one line, on the outer side.
    is_steep = not is_upright and slope >= 1.1
    if is_steep:
        parts = [label]
    above = 14 if is_steep and b.y > a.y else -6
    x, y = a.x + along * (b.x - a.x), a.y + along * (b.y - a.y)
    if is_upright:
        words = [(x + 7, y - 3 + 12 * index, part) for index, part in enumerate(parts)]
        return text + "".join(_label(word_x, word_y, "start", word) for word_x, word_y, word in words)
    left, right = (a, b) if a.x < b.x else (b, a)
    angle = math.degrees(math.atan2(right.y - left.y, right.x - left.x))
    words = [(x, y + above + 20 * index, part) for index, part in enumerate(parts)]
    turned = "".join(_label(word_x, word_y, "middle", word) for word_x, word_y, word in words)
    return text + f'<g transform="rotate({angle:.1f} {x:.1f} {y:.1f})">{turned}</g>'


def _label(x: float, y: float, anchor: str, word: str) -> str:
    return f'<text class="link" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(word)}</text>'


def _node(place: _Place) -> str:
    x, y, r = place.x, place.y, _RADIUS
    shape = {
        "router": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>',
        "edge": f'<rect x="{x - 13:.1f}" y="{y - 13:.1f}" width="26" height="26" rx="3" '
        f'transform="rotate(45 {x:.1f} {y:.1f})"/>',
        "host": f'<rect x="{x - 15:.1f}" y="{y - 11:.1f}" width="30" height="22" rx="3"/>',
    }.get(place.kind, f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>')
    label, inside, below = place.label, "", ""
    if place.count > 1:
        shape = f'<g transform="translate(4 -4)">{shape}</g>{shape}'
        inside, below = f"×{place.count}", label
    elif len(label) <= _INSIDE_MAX.get(place.kind, 3):
        inside = label
    else:
        below = label
    text = ""
    if inside:
        kind = "name tight" if len(inside) > 3 else "name"
        text += f'<text class="{kind}" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">'
        text += f"{html.escape(inside)}</text>"
    if below:
        clipped = below if len(below) * _LETTER <= _COLUMN_MAX else below[: int(_COLUMN_MAX / _LETTER)] + "…"
        text += (
            f'<text class="name outside" x="{x:.1f}" y="{y + r + 12:.1f}" text-anchor="middle">'
            f"{html.escape(clipped)}</text>"
        )
    return f'<g class="node {html.escape(place.kind)}"><title>{html.escape(label)}</title>{shape}{text}</g>'


def _key(kinds: set[str], common: str, x: float, y: float) -> str:
    parts = []
    for kind, word in (("host", "host"), ("edge", "edge router"), ("router", "router")):
        if kind not in kinds:
            continue
        shape = {
            "host": f'<rect x="{x - 7:.1f}" y="{y - 9:.1f}" width="14" height="10" rx="2"/>',
            "edge": f'<rect x="{x - 5:.1f}" y="{y - 9:.1f}" width="10" height="10" rx="1" '
            f'transform="rotate(45 {x:.1f} {y - 4:.1f})"/>',
            "router": f'<circle cx="{x:.1f}" cy="{y - 4:.1f}" r="6"/>',
        }[kind]
        parts.append(f'<g class="node {kind}">{shape}</g>')
        parts.append(f'<text class="key" x="{x + 13:.1f}" y="{y:.1f}">{word}</text>')
        x += 30 + 6.4 * len(word) + 14
    if common:
        parts.append(
            f'<text class="key" x="{x:.1f}" y="{y:.1f}">links without label: {html.escape(common)}</text>'
        )
    return "".join(parts)
