"""Draws a `figure.Figure` as an inline SVG for the HTML report, in the colours of the page.

A report has hundreds of figures, so they are small (paths of what a screen can show) and quick to make. The
legend is not part of the drawing: the page writes it as text that wraps. What a script needs to read values
off the paths is in `data-axes`; nothing is needed to look at them.
"""

import html
import json
import math
from collections.abc import Sequence
from typing import Any

from tidegate import labels, quantities
from tidegate.figure import SIDE_BY_SIDE, Figure, in_words
from tidegate.page_axes import (
    LETTER,
    LINE,
    WIDTH,
    Names,
    Panel,
    Scale,
    apart,
    grid,
    lines_of,
    panels_of,
    px,
    text_at,
    width_of,
    x_scale,
    x_words,
    y_words,
)
from tidegate.page_marks import drawn

# Some of matplotlib's viridis, which files have; between them colours are mixed.
_VIRIDIS = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")


def draw(figure: Figure, key: str) -> str:
    """The drawing as one `<svg>`; `key` is unique in its page."""
    if figure.heat is not None:
        return _heat(figure)
    panels = panels_of(figure)
    words = max((len(text) for panel in panels for _, text in panel.ticks), default=1)
    label_lines = max(len(lines_of(panel.label, panel.y.start - panel.y.end)) for panel in panels)
    left = 8 + LINE * label_lines + LETTER * words
    x = x_scale(figure, left, WIDTH - 12.0)
    ticks = labels.linear_ticks(x.low, x.high, 7) if figure.ticks is None else figure.ticks
    names = Names(ticks, x) if figure.ticks is not None and not figure.x_log else None
    if names is None:
        ticks = apart(ticks, x)
        x.end -= max(0.0, max((x.at(at) + width_of(text) / 2 for at, text in ticks), default=0.0) - WIDTH)
    elif names.overhang > 0:
        x.start = min(left + names.overhang, WIDTH / 2)
    bottom = panels[-1].y.start
    parts = [grid(panels, x, [] if figure.kind in SIDE_BY_SIDE else ticks)]
    parts += _clipped(
        figure,
        [
            drawn(figure, trace, order, x, panels[trace.panel], key)
            for order, trace in enumerate(figure.traces)
        ],
        panels,
        x,
    )
    parts.append(_events(figure, panels, x))
    for panel in panels:
        parts.append(
            f'<path class="axis" d="M{px(x.start)} {px(panel.y.end)}V{px(panel.y.start)}H{px(x.end)}"/>'
        )
        parts.append(
            y_words(lines_of(panel.label, panel.y.start - panel.y.end), (panel.y.start + panel.y.end) / 2, 0)
        )
    if names is not None:
        parts.append(names.drawn(bottom))
        bottom += names.height
    else:
        placed = "".join(text_at(x.at(place), bottom + LINE, text) for place, text in ticks)
        parts.append(f'<g text-anchor="middle">{placed}</g>')
        bottom += LINE + 3
    words, bottom = x_words(figure.x_label, bottom, x)
    parts.append(words)
    about = {"x": x.about(), "panels": [panel.y.about() for panel in panels]}
    return _svg(figure, bottom + 7, "".join(parts), about)


def _svg(figure: Figure, height: float, inner: str, about: dict[str, Any] | None = None) -> str:
    axes = f" data-axes='{json.dumps(about, separators=(',', ':'))}'" if about else ""
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{html.escape(in_words(figure))}"{axes}>{inner}</svg>'
    )


def _clipped(figure: Figure, drawn: Sequence[str], panels: Sequence[Panel], x: Scale) -> list[str]:
    """What is drawn, cut off at the axes where their ends were given."""
    if figure.x_range is None and figure.y_range is None:
        return list(drawn)
    parts = []
    for panel in panels:
        left, top = px(x.start), px(panel.y.end)
        size = f'width="{px(x.end - x.start)}" height="{px(panel.y.start - panel.y.end)}"'
        inside = [
            text for text, trace in zip(drawn, figure.traces, strict=True) if trace.panel == panel.number
        ]
        box = f"{left} {top} {px(x.end - x.start)} {px(panel.y.start - panel.y.end)}"
        parts.append(f'<svg x="{left}" y="{top}" {size} viewBox="{box}">{"".join(inside)}</svg>')
    return parts


def _events(figure: Figure, panels: Sequence[Panel], x: Scale) -> str:
    """A line through all panels for each, with the letter by which the legend names it."""
    parts, before = [], -math.inf
    for index, event in enumerate(figure.events):
        at = x.at(event.at_s)
        parts.append(f'<path class="event" d="M{px(at)} {px(panels[0].y.end)}V{px(panels[-1].y.start)}"/>')
        # Where two stand on each other, the first one's letter is there.
        if at - before > 9:
            parts.append(
                text_at(at, panels[0].y.end - 4, event_letter(index), 'class="soft" text-anchor="middle"')
            )
            before = at
    return "".join(parts)


def event_letter(index: int) -> str:
    """`a` to `z`, then `a1`, ..."""
    return chr(ord("a") + index % 26) + (str(index // 26) if index >= 26 else "")


def _heat(figure: Figure) -> str:
    """Cells with their values where there is room for them, and what the colours mean."""
    rows, columns = figure.heat or [], figure.ticks or []
    left = 10 + LINE + LETTER * max((len(name) for _, name in figure.y_ticks or ()), default=1)
    x, y = Scale(-0.5, len(columns) - 0.5, left, WIDTH - 64.0), Scale(-0.5, len(rows) - 0.5, 224.0, 8.0)
    known = [value for row in rows for value in row if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    width, height = abs(x.at(1) - x.at(0)), abs(y.at(1) - y.at(0))
    parts = []
    for row, values in enumerate(rows):
        for column, value in enumerate(values):
            if value is not None:
                share = (value - low) / (high - low) if high > low else 0.5
                place = f'x="{px(x.at(column - 0.5))}" y="{px(y.at(row + 0.5))}"'
                size = f'width="{px(width + 0.2)}" height="{px(height + 0.2)}"'
                parts.append(f'<rect {place} {size} fill="{_viridis(share)}"/>')
                text = quantities.number(value, 3)
                if width >= width_of(text) + 4 and height >= LINE:
                    ink = "#fff" if share < 0.6 else "#000"
                    centre = f'style="fill:{ink}" text-anchor="middle"'
                    parts.append(text_at(x.at(column), y.at(row) + 4, text, centre))
    words = "".join(
        text_at(left - 5, y.at(at) + 4, name) for at, name in apart(figure.y_ticks or (), y, upright=True)
    )
    parts.append(f'<g text-anchor="end">{words}</g>')
    parts.append(y_words(lines_of(figure.y_label, 216)[:1], 116, 0))
    names = Names(columns, x)
    parts.append(names.drawn(224))
    words, bottom = x_words(figure.x_label, 224 + names.height, x)
    parts += [words, _colour_bar(low, high)]
    # What the colours mean is in its place only as far as it fits; the page says all of it.
    parts.append(y_words(lines_of(figure.note, 216)[:1], 116, WIDTH - 17))
    return _svg(figure, bottom + 7, "".join(parts))


def _colour_bar(low: float, high: float) -> str:
    steps, scale = 32, Scale(low, high if high > low else low + 1.0, 224.0, 8.0)
    height = 216 / steps
    parts = [
        f'<rect x="{WIDTH - 56}" y="{px(224 - (step + 1) * height)}" width="9" height="{px(height + 0.3)}" '
        f'fill="{_viridis((step + 0.5) / steps)}"/>'
        for step in range(steps)
    ]
    # Its numbers stand where the label of the colours leaves room for them.
    parts += [text_at(WIDTH - 44, scale.at(at) + 4, text) for at, text in labels.linear_ticks(low, high, 5)]
    return "".join(parts)


def _viridis(share: float) -> str:
    place = min(max(share, 0.0), 1.0) * (len(_VIRIDIS) - 1)
    below = min(int(place), len(_VIRIDIS) - 2)
    pairs = [
        (int(_VIRIDIS[below][i : i + 2], 16), int(_VIRIDIS[below + 1][i : i + 2], 16)) for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{round(a + (b - a) * (place - below)):02x}" for a, b in pairs)
