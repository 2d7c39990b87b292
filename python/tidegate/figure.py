"""A figure ready to be drawn: labelled axes and finished traces.

Made by `figures` from descriptions and results, drawn by `draw_static` and `draw_interactive`.
"""

from dataclasses import dataclass, field

from tidegate import quantities, tables

# Paul Tol's "bright" scheme: told apart by the colour-blind, readable on white and on dark grey.
# Three more for bars; beyond that bars have patterns, as lines have dashes.
PALETTE = (
    *("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#999999"),
    *("#E8823A", "#8C6D31", "#7777DD"),
)
REFERENCE_COLOUR = "#777777"


@dataclass
class Trace:
    """One line, set of bars, or set of marks."""

    label: str
    x: list[float]
    y: list[float | None]
    low: list[float | None] | None = None
    high: list[float | None] | None = None
    colour: str = PALETTE[0]
    dash: int = 0  # of bars the pattern
    is_reference: bool = False
    is_line: bool = True
    width: float = 0.0  # of bars

    def whiskers(self) -> tuple[list[float], list[float]]:
        """How far the confidence interval reaches below and above each value."""
        bounds = zip(self.y, self.low or self.y, self.high or self.y, strict=True)
        known = [(0.0, 0.0, 0.0) if None in each else each for each in bounds]
        return [y - low for y, low, _ in known], [high - y for y, _, high in known]


@dataclass
class Figure:
    """A figure ready to be drawn."""

    id: str
    title: str
    kind: str
    x_label: str = ""
    y_label: str = ""
    x_log: bool = False
    y_log: bool = False
    # Where they stand: at names, at powers of ten, at the only value there is. None: as the renderer likes.
    ticks: list[tuple[float, str]] | None = None
    y_ticks: list[tuple[float, str]] | None = None
    traces: list[Trace] = field(default_factory=list)
    heat: list[list[float | None]] | None = None
    table: tables.Table | None = None
    note: str = ""
    problem: str = ""

    def reference_number(self, trace: Trace) -> int:
        """Which of the figure's references `trace` belongs to: those with one label count as one."""
        order = dict.fromkeys(other.label for other in self.traces if other.is_reference)
        return list(order).index(trace.label)


def in_words(figure: Figure) -> str:
    """What a picture shows, for those who do not see it: axes, and each trace with its range."""
    parts = [f"{figure.y_label or 'value'} over {figure.x_label}" if figure.x_label else figure.y_label]
    for trace in figure.traces:
        known = [value for value in trace.y if value is not None]
        if known and not trace.is_reference:
            low, high = (quantities.number(bound(known)) for bound in (min, max))
            parts.append(f"{trace.label}: {low}" if low == high else f"{trace.label}: {low} to {high}")
    return ". ".join(filter(None, parts))
