"""What is drawn between the axes in the report: lines with bands, bars, boxes, violins, marks of documents.

In: a `figure.Trace` and scales. Out: pieces of SVG, whose colours and widths the page's style completes.
"""

import html
import math
from collections.abc import Sequence

from tidegate import quantities, stats
from tidegate.figure import Figure, Trace
from tidegate.figure_kinds import thinned
from tidegate.page_axes import Panel, Scale, px

_POINTS_MAX = 12_000  # of all lines of a figure together
_TRACE_POINTS = (120, 760)  # of one line at least, and at most: two for each pixel
_MARKED_POINTS_MAX = 30
_OUTLIERS_MAX = 200  # of one box
_SCATTER_PX = 2.6  # half of the size of a mark, where nothing else is asked for
_DASHES = ("", "6 3", "1.5 2.5", "6 2 1.5 2")


def drawn(figure: Figure, trace: Trace, order: int, x: Scale, panel: Panel, key: str) -> str:
    """A trace, the `order`-th of its figure, in its panel; `key` names the figure in its page."""
    if trace.is_reference:
        inner = _reference(figure, trace, x, panel.y)
        return f'<g data-t="{order}" data-p="{panel.number}" class="reference">{inner}</g>'
    if trace.samples is not None:
        inner = _spreads(figure, trace, x, panel.y)
    elif figure.kind == "scatter" and not trace.is_line:
        inner = _scatter(trace, x, panel.y)
    elif figure.kind == "bars":
        inner = _bars(figure, trace, x, panel.y, f"{key}-{order}")
    else:
        inner = _line(figure, trace, order, x, panel.y)
    colour = f'stroke="{trace.colour}" fill="{trace.colour}"'
    return f'<g data-t="{order}" data-p="{panel.number}" {colour}>{inner}</g>'


def _reference(figure: Figure, trace: Trace, x: Scale, y: Scale) -> str:
    points = [
        (x.at(place), y.at(value)) for place, value in zip(trace.x, trace.y, strict=True) if value is not None
    ]
    if trace.is_line:
        stroke = f'stroke="{trace.colour}" stroke-dasharray="{_DASHES[2]}"'
        return f'<path class="line" {stroke} d="{_path(points)}"/>'
    shape = (figure.reference_number(trace) + 3) % 4
    return f'<path class="mark" d="{"".join(_marker(shape, *point, 4.4) for point in points)}"/>'


def _line(figure: Figure, trace: Trace, order: int, x: Scale, y: Scale) -> str:
    least, most = _TRACE_POINTS
    points_max = max(least, min(most, _POINTS_MAX // max(len(figure.traces), 1)))
    places, values = trace.x, trace.y
    if figure.kind == "series":
        places, values = thinned(
            places, [math.nan if value is None else value for value in values], points_max
        )
    pieces: list[list[tuple[float, float]]] = [[]]
    for place, value in zip(places, values, strict=True):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((x.at(place), y.at(value)))
    is_step = figure.kind == "cdf"
    d = "".join(_path(_spaced(piece) if is_step else piece, is_step) for piece in pieces if piece)
    if not d:
        return ""
    width = ' stroke-width="1.3"' if figure.kind == "series" else ""
    dash = f' stroke-dasharray="{_DASHES[trace.dash % 4]}"' if trace.dash % 4 else ""
    parts = [_band(trace, x, y), f'<path class="line"{width}{dash} d="{d}"/>']
    if len(trace.x) <= _MARKED_POINTS_MAX and figure.kind == "lines":
        marks = "".join(_marker(order % 4, *point, 3) for piece in pieces for point in piece)
        parts.append(f'<path class="dots" d="{marks}"/>')
    return "".join(parts)


def _scatter(trace: Trace, x: Scale, y: Scale) -> str:
    pairs = zip(trace.x, trace.y, strict=True)
    points = _apart([(x.at(place), y.at(value)) for place, value in pairs if value is not None])
    half = trace.width or _SCATTER_PX
    marks = "".join(_marker(trace.dash % 4, *point, half) for point in points)
    return f'<path class="dots" d="{marks}"/>' if marks else ""


def _apart(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of marks that would cover one another to half a pixel, one."""
    return list({(round(2 * across), round(2 * down)): (across, down) for across, down in points}.values())


def _spaced(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points at least half a pixel apart, first and last included: of thousands, what is seen."""
    kept = [points[0]]
    for point in points[1:]:
        if abs(point[0] - kept[-1][0]) + abs(point[1] - kept[-1][1]) >= 0.5:
            kept.append(point)
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]


def _path(points: Sequence[tuple[float, float]], is_step: bool = False) -> str:
    """A line through `points` in tenths of a pixel, each from the one before."""
    before = [round(10 * part) for part in points[0]]
    parts = [f"M{_tenths(before[0])}{_joined(before[1])}"]
    for point in points[1:]:
        here = [round(10 * part) for part in point]
        across, down = here[0] - before[0], here[1] - before[1]
        if is_step:
            parts.append(f"h{_tenths(across)}v{_tenths(down)}")
        elif across or down:
            parts.append(f"l{_tenths(across)}{_joined(down)}")
        before = here
    if len(points) == 1:
        parts.append("h0")
    return "".join(parts)


def _tenths(tenths: int) -> str:
    text = f"{tenths / 10:g}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def _joined(tenths: int) -> str:
    """A number after another: a minus sign parts them already."""
    text = _tenths(tenths)
    return text if text.startswith("-") else f" {text}"


def _band(trace: Trace, x: Scale, y: Scale) -> str:
    if trace.low is None or trace.high is None:
        return ""
    both = [
        (x.at(place), y.at(low), y.at(high))
        for place, low, high in zip(trace.x, trace.low, trace.high, strict=True)
        if low is not None and high is not None
    ]
    if not both:
        return ""
    outline = [(at, high) for at, _, high in both] + [(at, low) for at, low, _ in reversed(both)]
    return f'<path class="band" d="{_path(outline)}Z"/>'


def _marker(shape: int, x: float, y: float, r: float) -> str:
    """A circle, square, triangle or diamond as part of a path."""
    if shape == 0:
        return f"M{px(x - r)} {px(y)}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0"
    if shape == 1:
        return f"M{px(x - r)} {px(y - r)}h{2 * r}v{2 * r}h{-2 * r}z"
    if shape == 2:
        return f"M{px(x)} {px(y - 1.2 * r)}l{1.2 * r:g} {2.1 * r:g}h{-2.4 * r:g}z"
    r = 1.3 * r
    return f"M{px(x)} {px(y - r)}l{r:g} {r:g}l{-r:g} {r:g}l{-r:g} {-r:g}z"


def _bars(figure: Figure, trace: Trace, x: Scale, y: Scale, key: str) -> str:
    parts, whiskers = [], []
    fill = ""
    if trace.dash:
        parts.append(_pattern(trace, key))
        fill = f' fill="url(#{key})"'
    below, above = trace.whiskers()
    for place, value, down, up in zip(trace.x, trace.y, below, above, strict=True):
        if value is None:
            continue
        left, right = x.at(place - trace.width / 2), x.at(place + trace.width / 2)
        base, top = y.at(0.0 if not y.is_log else y.low), y.at(value)
        title = f"{html.escape(trace.label)}: {quantities.number(value)}"
        parts.append(
            f'<rect x="{px(left)}" y="{px(min(base, top))}" width="{px(right - left)}" '
            f'height="{px(abs(base - top))}" stroke="none"{fill}><title>{title}</title></rect>'
        )
        if trace.high is not None and (down or up):
            whiskers.append(_whisker(x.at(place), y.at(value - down), y.at(value + up)))
    return "".join(parts) + (f'<path class="whisker" d="{"".join(whiskers)}"/>' if whiskers else "")


def _whisker(x: float, low: float, high: float) -> str:
    return f"M{px(x)} {px(low)}V{px(high)}M{px(x - 3)} {px(low)}h6m-6 {px(high - low)}h6"


def _pattern(trace: Trace, key: str) -> str:
    """White on the colour: stripes, dots or crosses."""
    shape = ("M-1 6L6 -1M2 9L9 2", "M3 3h.1", "M0 0L7 7M7 0L0 7")[(trace.dash - 1) % 3]
    return (
        f'<pattern id="{key}" width="7" height="7" patternUnits="userSpaceOnUse">'
        f'<rect width="7" height="7" stroke="none"/><path d="{shape}" stroke="#fff" stroke-width="1.6" '
        f'stroke-linecap="round"/></pattern>'
    )


def _spreads(figure: Figure, trace: Trace, x: Scale, y: Scale) -> str:
    parts = []
    for place, values in zip(trace.x, trace.samples or (), strict=True):
        if values:
            draw_one = _violin if figure.kind == "violin" else _box
            title = f"{trace.label}: {spread_in_words(values)}"
            inner = draw_one(values, place, trace.width, x, y)
            parts.append(f"<g><title>{html.escape(title)}</title>{inner}</g>")
    return "".join(parts)


def spread_in_words(values: Sequence[float]) -> str:
    """The quartiles, and how many values there are."""
    found = stats.spread(values)
    first, median, third = (quantities.number(value) for value in found[1:4])
    return f"median {median}, quartiles {first} and {third}, {len(values)} values"


def _box(values: Sequence[float], place: float, width: float, x: Scale, y: Scale) -> str:
    found = stats.spread(values)
    left, right, middle = x.at(place - width / 2), x.at(place + width / 2), x.at(place)
    low, first, median, third, high = (px(y.at(value)) for value in found[:5])
    outline = f"M{px(left)} {first}H{px(right)}V{third}H{px(left)}Z"
    whiskers = f"M{px(middle)} {first}V{low}M{px(middle)} {third}V{high}"
    ends = "".join(f"M{px(middle - 4)} {end}h8" for end in (low, high))
    dots = "".join(_marker(0, middle, y.at(value), 1.8) for value in found.outliers[:_OUTLIERS_MAX])
    return (
        f'<path class="box" d="{outline}"/><path class="whisker own" d="{whiskers}{ends}"/>'
        f'<path class="median" d="M{px(left)} {median}H{px(right)}"/><path class="whisker own" d="{dots}"/>'
    )


def _violin(values: Sequence[float], place: float, width: float, x: Scale, y: Scale) -> str:
    places, heights = stats.density(values)
    middle, half = x.at(place), x.at(place + width / 2) - x.at(place)
    right = [(middle + half * height, y.at(at)) for at, height in zip(places, heights, strict=True)]
    left = [(2 * middle - at, down) for at, down in reversed(right)]
    median = y.at(stats.quantile(values, 0.5))
    return (
        f'<path class="box" d="{_path([*right, *left])}Z"/>'
        f'<path class="median" d="M{px(middle - half / 2)} {px(median)}h{px(half)}"/>'
    )


def swatch(figure: Figure, trace: Trace, order: int, key: str) -> str:
    """What a legend shows of a trace, as a little `<svg>`; `key` is that of the drawing."""
    if trace.is_reference:
        number = (figure.reference_number(trace) + 3) % 4
        line = f'<path class="line" stroke="{trace.colour}" stroke-dasharray="{_DASHES[2]}" d="M1 6H27"/>'
        inner = line if trace.is_line else f'<path class="mark" d="{_marker(number, 14, 6, 4.4)}"/>'
    elif trace.samples is not None or figure.kind == "bars":
        fill = f"url(#{key}-{order})" if trace.dash and figure.kind == "bars" else trace.colour
        inner = f'<rect x="6" y="1" width="16" height="10" fill="{fill}"/>'
    elif figure.kind == "scatter" and not trace.is_line:
        marks = _marker(trace.dash % 4, 14, 6, min(trace.width or _SCATTER_PX, 4.4))
        inner = f'<g fill="{trace.colour}"><path class="dots" d="{marks}"/></g>'
    else:
        dash = f' stroke-dasharray="{_DASHES[trace.dash % 4]}"' if trace.dash % 4 else ""
        inner = f'<path class="line" d="M1 6H27"{dash}/>'
        if len(trace.x) <= _MARKED_POINTS_MAX and figure.kind == "lines":
            inner += f'<path class="dots" d="{_marker(order % 4, 14, 6, 3)}"/>'
        inner = f'<g stroke="{trace.colour}" fill="{trace.colour}">{inner}</g>'
    return f'<svg class="swatch" viewBox="0 0 28 12" width="28" height="12" aria-hidden="true">{inner}</svg>'
