"""Draws the network of a scenario as an inline SVG that follows the page's colours.

In: what `topology` has laid out. Domains are drawn behind their nodes.
"""

import html
import math
from collections.abc import Iterable
from typing import Any

from tidegate.topology import COLUMN_MAX, LETTER, Domain, Drawing, Place, layout

RADIUS = 17
_INSIDE_MAX = {"host": 4, "edge": 2}  # letters that fit into a node; 3 into a router
_MARGIN = 34
_AROUND = 27  # how far a domain reaches beyond its nodes
_WIRES_TOLD_MAX = 8


def svg(scenario: dict[str, Any]) -> str:
    """The drawing, as one `<svg>` element; empty for a scenario without nodes."""
    return render(layout(scenario))


def _common_label(labels: Iterable[str]) -> str:
    """The label most links have; it is written once, below the drawing, instead of at each of them."""
    counts: dict[str, int] = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    best = max(counts, key=lambda label: counts[label], default="")
    return best if best and counts[best] >= 4 else ""


def render(drawing: Drawing, under: str = "", over: str = "") -> str:
    """The drawing as SVG, with further pieces `under` its nodes and `over` them; empty without places."""
    places = drawing.places
    if not places:
        return ""
    common = _common_label(wire.label for wire in drawing.wires)
    reaches = _reaches(drawing)
    beyond = max([*reaches, _MARGIN])
    left = min(place.x for place in places.values()) - beyond - 20
    right = max(place.x for place in places.values()) + beyond + 20
    top = min(place.y for place in places.values()) - (beyond + 18 if reaches else _MARGIN)
    bottom = max(place.y for place in places.values()) + beyond + 8
    kinds = {place.kind for place in places.values()}
    note_height = 26
    width, height = max(right - left, 520.0), bottom - top + note_height
    left -= (width - (right - left)) / 2
    parts = [
        f'<svg class="topology" viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}" '
        f'style="min-width:{width * 0.75:.0f}px;max-width:{width:.0f}px" role="img" '
        f'aria-label="{html.escape(in_words(drawing))}">'
    ]
    for number in sorted(range(len(reaches)), key=lambda number: -reaches[number]):
        parts.append(_domain(drawing.domains[number], reaches[number], number))
    for wire in drawing.wires:
        a, b = places[wire.a], places[wire.b]
        kind = "core" if a.kind == b.kind == "router" else "access"
        ends = f'x1="{a.x:.1f}" y1="{a.y:.1f}" x2="{b.x:.1f}" y2="{b.y:.1f}"'
        parts.append(f'<line class="{kind}" {ends}/>')
    parts.append(under)
    for wire in drawing.wires:
        if wire.label and wire.label != common:
            parts.append(_link_label(places[wire.a], places[wire.b], wire.label))
    for place in places.values():
        parts.append(_node(place))
    parts += [over, _key(kinds, common, left + 14, bottom + 10), "</svg>"]
    return "".join(parts)


def in_words(drawing: Drawing) -> str:
    """The network for those who do not see it."""
    counts = {
        kind: sum(len(place.names) for place in drawing.places.values() if place.kind == kind)
        for kind in ("host", "edge", "router")
    }
    words = {"host": "host", "edge": "edge router", "router": "router"}
    told = [f"{count} {words[kind]}{'s' * (count > 1)}" for kind, count in counts.items() if count]
    parts = [", ".join(told)]
    core = [
        wire for wire in drawing.wires if drawing.places[wire.a].kind != "host" != drawing.places[wire.b].kind
    ]
    told = [
        f"{drawing.places[wire.a].label} to {drawing.places[wire.b].label} {wire.label}"
        for wire in core[:_WIRES_TOLD_MAX]
    ]
    parts += [f"Links between routers: {'; '.join(told)}"] if told else []
    parts += [f"Domain {_domain_label(domain)} of {len(domain.places)} nodes" for domain in drawing.domains]
    return f"Network of {'. '.join(parts)}."


def _domain_label(domain: Domain) -> str:
    return f"{domain.name}: {domain.mechanism}" if domain.mechanism not in ("", "none") else domain.name


def _reaches(drawing: Drawing) -> list[float]:
    """How far each domain is drawn beyond its nodes: further where another lies inside of it."""
    members = [{place.names[0] for place in domain.places} for domain in drawing.domains]
    return [_AROUND + 9.0 * sum(other < own for other in members) for own in members]


def _domain(domain: Domain, reach: float, number: int) -> str:
    """The outline around its nodes, with its name above the leftmost of the uppermost."""
    corners = _hull([(place.x, place.y) for place in domain.places])
    d = "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in corners) + "Z"
    x, y = min(x for x, _ in corners), min(y for _, y in corners)
    return (
        f'<g class="domain d{number % 4}"><path d="{d}" stroke-width="{2 * reach:.0f}"/></g>'
        f'<text class="domain" x="{x - reach + 8:.0f}" y="{y - reach - 5:.0f}">'
        f"{html.escape(_domain_label(domain))}</text>"
    )


def _hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of the smallest convex outline around all points (Andrew's monotone chain)."""
    ordered = sorted(set(points))
    if len(ordered) < 3:
        return ordered

    def half(along: list[tuple[float, float]]) -> list[tuple[float, float]]:
        kept: list[tuple[float, float]] = []
        for x, y in along:
            while len(kept) > 1 and (kept[-1][0] - kept[-2][0]) * (y - kept[-2][1]) <= (
                kept[-1][1] - kept[-2][1]
            ) * (x - kept[-2][0]):
                kept.pop()
            kept.append((x, y))
        return kept[:-1]

    return half(ordered) + half(ordered[::-1])


def _link_label(a: Place, b: Place, label: str) -> str:
    """What is written along a link: above it and below it."""
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
        return "".join(_label(word_x, word_y, "start", word) for word_x, word_y, word in words)
    left, right = (a, b) if a.x < b.x else (b, a)
    angle = math.degrees(math.atan2(right.y - left.y, right.x - left.x))
    words = [(x, y + above + 20 * index, part) for index, part in enumerate(parts)]
    turned = "".join(_label(word_x, word_y, "middle", word) for word_x, word_y, word in words)
    return f'<g transform="rotate({angle:.1f} {x:.1f} {y:.1f})">{turned}</g>'


def _label(x: float, y: float, anchor: str, word: str) -> str:
    return f'<text class="link" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(word)}</text>'


def name_end(place: Place) -> float:
    """Down to where a node and its name reach."""
    is_inside = len(place.names) == 1 and len(place.label) <= _INSIDE_MAX.get(place.kind, 3)
    return place.y + RADIUS + (2 if is_inside else 15)


def _node(place: Place) -> str:
    x, y, r = place.x, place.y, RADIUS
    shape = {
        "router": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>',
        "edge": f'<rect x="{x - 13:.1f}" y="{y - 13:.1f}" width="26" height="26" rx="3" '
        f'transform="rotate(45 {x:.1f} {y:.1f})"/>',
        "host": f'<rect x="{x - 15:.1f}" y="{y - 11:.1f}" width="30" height="22" rx="3"/>',
    }.get(place.kind, f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>')
    label, inside, below = place.label, "", ""
    if len(place.names) > 1:
        shape = f'<g transform="translate(4 -4)">{shape}</g>{shape}'
        inside, below = f"×{len(place.names)}", label
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
        clipped = below if len(below) * LETTER <= COLUMN_MAX else below[: int(COLUMN_MAX / LETTER)] + "…"
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
