"""Axes of the drawings in the report: from values to pixels, panels, grids, and words beside them.

In: a `figure.Figure`. Out: scales, and pieces of SVG.
"""

import html
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate import labels
from tidegate.figure import SIDE_BY_SIDE, Figure

WIDTH = 440  # pixels of a drawing; at 390 of a small screen letters of 12 are still read
LETTER = 7.0  # width of a letter of the widest usual font
LINE = 15  # height of a line of text
_HEIGHT = 216  # of a panel
_PANEL_HEIGHT = 128  # of one of several
_GAP = 16  # between panels
_TICKS_PER_PIXEL = 1 / 42
_NAME_MAX = 30  # letters of a name that stands sloping
_SLOPE = 35  # degrees
_ROWS_MAX = 3  # of a name that stands upright

Tick = tuple[float, str]


@dataclass
class Scale:
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """The pixel of `value`; of what a logarithmic axis cannot have, the lower end."""
        if self.is_log:
            if value <= 0:
                return self.start
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        # Values far outside of a given range would be numbers of many digits, or none at all.
        return self.start + max(-9.0, min(10.0, share)) * (self.end - self.start)

    def about(self) -> list[float | int]:
        """For the script of the page."""
        ends = [float(f"{end:.9g}") for end in (self.low, self.high)]
        return [round(self.start, 1), round(self.end, 1), *ends, int(self.is_log)]


@dataclass
class Panel:
    """One of the drawings above each other that share the horizontal axis."""

    number: int
    label: str
    y: Scale
    ticks: list[Tick]


def px(value: float) -> str:
    """A pixel with one decimal, as short as it can be written."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def text_at(x: float, y: float, text: str, attributes: str = "") -> str:
    """A `<text>` element."""
    return f'<text x="{px(x)}" y="{px(y)}"{" " * bool(attributes)}{attributes}>{html.escape(text)}</text>'


def _y_values(figure: Figure, number: int) -> list[float]:
    """All heights of one panel, the ends of bands and boxes included."""
    found: list[float | None] = []
    for trace in figure.traces:
        if trace.panel == number:
            found += [*trace.y, *(trace.low or ()), *(trace.high or ())]
            found += [value for values in trace.samples or () for value in values]
    return [value for value in found if value is not None and math.isfinite(value)]


def panels_of(figure: Figure) -> list[Panel]:
    """The panels from the top, each with its scale."""
    top, found = 16.0 if figure.events else 8.0, []
    height = _HEIGHT if len(figure.y_labels) == 1 else _PANEL_HEIGHT
    for number, label in enumerate(figure.y_labels):
        values = _y_values(figure, number)
        if figure.y_range is not None:
            low, high = figure.y_range
            is_log = figure.y_log
        elif figure.y_log and any(value > 0 for value in values):
            low, high = _log_ends([value for value in values if value > 0])
            is_log = True
        else:
            low, high = min([*values, 0.0]), max([*values, 0.0])
            low, high, is_log = low - 0.05 * (high - low) * (low < 0), high + 0.05 * (high - low), False
            high = high if high > low else low + 1.0
        y = Scale(low, high, top + height, top, is_log)
        ticks = figure.y_ticks if number == 0 or not figure.panels else None
        if ticks is None:
            ticks = labels.log_ticks(low, high) if is_log else []
            ticks = ticks or labels.linear_ticks(low, high, round(height * _TICKS_PER_PIXEL) + 1)
        found.append(Panel(number, label, y, [tick for tick in ticks if low <= tick[0] <= high]))
        top += height + _GAP
    return found


def _log_ends(values: Sequence[float]) -> tuple[float, float]:
    """A little beyond the values, in proportion."""
    low, high = min(values), max(values)
    beyond = max((high / low) ** 0.05, 1.1)
    return low / beyond, high * beyond


def x_scale(figure: Figure, start: float, end: float) -> Scale:
    """The horizontal scale, between two pixels."""
    places = [x for trace in figure.traces for x in trace.x]
    if figure.kind in SIDE_BY_SIDE:
        return Scale(-0.5, len(figure.ticks or ()) - 0.5, start, end)
    if figure.x_range is not None:
        return Scale(*figure.x_range, start, end, figure.x_log)
    if figure.x_log and places:
        return Scale(*_log_ends(places), start, end, True)
    low, high = (min(places), max(places)) if places else (0.0, 1.0)
    if figure.kind == "series":
        # Time begins with the run, unless all of it is much later.
        low = 0.0 if 0 <= low < 0.3 * high else low
    else:
        margin = 0.03 * (high - low) or 0.5 * abs(high) or 1.0
        low, high = low - margin, high + margin
    return Scale(low, high if high > low else low + 1.0, start, end)


def grid(panels: Sequence[Panel], x: Scale, ticks: Sequence[Tick]) -> str:
    """Lines at all ticks, and the numbers of the vertical axes; `ticks` are those of the horizontal one."""
    lines, words = [], []
    for panel in panels:
        across = f"H{px(x.end)}"
        lines += [f"M{px(x.start)} {px(panel.y.at(place))}{across}" for place, _ in panel.ticks]
        words += [text_at(x.start - 5, panel.y.at(place) + 4, text) for place, text in panel.ticks]
        inside = [x.at(place) for place, _ in ticks if x.low <= place <= x.high]
        lines += [f"M{px(place)} {px(panel.y.end)}V{px(panel.y.start)}" for place in inside]
    return f'<path class="grid" d="{"".join(lines)}"/><g text-anchor="end">{"".join(words)}</g>'


def apart(ticks: Iterable[Tick], scale: Scale, upright: bool = False) -> list[Tick]:
    """Ticks inside of the axis, without those whose text would touch that of one before."""
    found: list[Tick] = []
    for place, text in ticks:
        if not scale.low <= place <= scale.high:
            continue
        if found:
            need = LINE if upright else (width_of(found[-1][1]) + width_of(text)) / 2 + 5
            if abs(scale.at(place) - scale.at(found[-1][0])) < need:
                continue
        found.append((place, text))
    return found


def width_of(text: str) -> float:
    """About how many pixels wide a text is."""
    return LETTER * len(text)


def lines_of(text: str, width: float) -> list[str]:
    """A text in as many lines as it needs, of about the same length."""
    letters = max(int(width / LETTER), 1)
    count = len(textwrap.wrap(text, letters))
    return next(
        (
            lines
            for each in range(math.ceil(len(text) / max(count, 1)), letters + 1)
            if len(lines := textwrap.wrap(text, max(each, 1))) <= count
        ),
        [],
    )


def x_words(label: str, bottom: float, x: Scale) -> tuple[str, float]:
    """The label of the horizontal axis below `bottom`, centred on it, and where it ends."""
    parts = []
    for line in lines_of(label, WIDTH - 8):
        bottom += LINE
        half = width_of(line) / 2
        middle = min(max((x.start + x.end) / 2, half + 2), max(WIDTH - half - 2, WIDTH / 2))
        parts.append(text_at(middle, bottom, line, 'text-anchor="middle"'))
    return "".join(parts), bottom


def y_words(lines: Sequence[str], middle: float, left: float) -> str:
    """Lines of text from below upwards, centred at the height `middle`, right of `left`."""
    parts = []
    for index, line in enumerate(lines):
        turn = f'transform="translate({px(left + 11 + LINE * index)} {px(middle)}) rotate(-90)"'
        parts.append(text_at(0, 0, line, f'text-anchor="middle" {turn}'))
    return "".join(parts)


class Names:
    """What stands below categories: upright where there is room, in two lines, or sloping."""

    def __init__(self, ticks: Sequence[Tick], x: Scale):
        self.x = x
        self.ticks = [tick for tick in ticks if x.low <= tick[0] <= x.high]
        places = sorted(x.at(place) for place, _ in self.ticks)
        room = min((after - before for before, after in zip(places, places[1:], strict=False)), default=WIDTH)
        letters = max(int(room / LETTER) - 1, 1)
        self.lines = [textwrap.wrap(name, letters, break_long_words=False) for _, name in self.ticks]
        self.is_sloping = any(len(line) > letters for lines in self.lines for line in lines)
        self.is_sloping |= any(len(lines) > _ROWS_MAX for lines in self.lines)
        if self.is_sloping:
            cut = [name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 1]}…" for _, name in self.ticks]
            self.lines = [[name] for name in cut]
        width = max((len(lines[0]) for lines in self.lines), default=0) * LETTER
        slope = math.radians(_SLOPE)
        rows = max((len(lines) for lines in self.lines), default=1)
        self.height = 12 + width * math.sin(slope) if self.is_sloping else LINE * rows + 3
        # How far the names of the first ticks reach beyond the left end of the drawing.
        self.overhang = 0.0
        if self.is_sloping:
            reach = [
                len(lines[0]) * LETTER * math.cos(slope) - x.at(place) for lines, (place, _) in self._each()
            ]
            self.overhang = max(reach, default=0.0)

    def _each(self) -> Iterable[tuple[list[str], Tick]]:
        return zip(self.lines, self.ticks, strict=True)

    def drawn(self, bottom: float) -> str:
        """The names below the height `bottom`."""
        parts = []
        for lines, (place, _) in self._each():
            at = self.x.at(place)
            if self.is_sloping:
                turn = f'transform="translate({px(at + 4)} {px(bottom + 12)}) rotate(-{_SLOPE})"'
                parts.append(text_at(0, 0, lines[0], f'text-anchor="end" {turn}'))
            else:
                parts += [text_at(at, bottom + LINE * (row + 1), line) for row, line in enumerate(lines)]
        anchor = "" if self.is_sloping else ' text-anchor="middle"'
        return f"<g{anchor}>{''.join(parts)}</g>"
