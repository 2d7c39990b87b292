"""A figure ready to be drawn: labelled axes and finished traces.

Made by `figures` from descriptions and results, drawn by `draw_static` (files) and `draw_page` (the report).
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
SIDE_BY_SIDE = ("bars", "box", "violin")  # kinds whose horizontal axis has names


@dataclass
class Trace:
    """One line, set of bars, or set of marks."""

    label: str
    x: list[float]
    y: list[float | None]
    low: list[float | None] | None = None
    high: list[float | None] | None = None
    colour: str = PALETTE[0]
    dash: int = 0  # of bars the pattern, of the marks of a scatter plot the shape
    is_reference: bool = False
    is_line: bool = True
    width: float = 0.0  # of bars and boxes; of the marks of a scatter plot half of it, in pixels
    # What lies at each x, of box and violin; `y` are the medians then.
    samples: list[list[float]] | None = None
    panel: int = 0  # which of the figure's panels it is drawn in

    def whiskers(self) -> tuple[list[float], list[float]]:
        """How far the confidence interval reaches below and above each value."""
        bounds = zip(self.y, self.low or self.y, self.high or self.y, strict=True)
        known = [(0.0, 0.0, 0.0) if None in each else each for each in bounds]
        return [y - low for y, low, _ in known], [high - y for y, _, high in known]


@dataclass(frozen=True)
class Event:
    """Something that happened during a run: when, in seconds, and what."""

    at_s: float
    label: str


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
    # Both ends of the axes; None: as the values are.
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    # Labels of the vertical axes of panels above each other, where one axis cannot serve all units.
    panels: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    heat: list[list[float | None]] | None = None
    table: tables.Table | None = None
    note: str = ""
    problem: str = ""

    @property
    def y_labels(self) -> list[str]:
        """The label of each panel's vertical axis, from the top."""
        return self.panels or [self.y_label]

    @property
    def has_legend(self) -> bool:
        """Whether its traces need names."""
        return len(self.traces) > 1 or any(trace.is_reference for trace in self.traces)

    def reference_number(self, trace: Trace) -> int:
        """Which of the figure's references `trace` belongs to: those with one label count as one."""
        order = dict.fromkeys(other.label for other in self.traces if other.is_reference)
        return list(order).index(trace.label)


_KIND_WORDS = {
    "lines": "Line chart",
    "bars": "Bar chart",
    "series": "Lines over time",
    "cdf": "Distribution",
    "box": "Box plot",
    "violin": "Violin plot",
    "heatmap": "Heat map",
    "scatter": "Scatter plot",
}
_TRACES_TOLD_MAX = 12


def in_words(figure: Figure) -> str:
    """What a picture shows, for those who do not see it: axes, each trace with its range and way, events."""
    y_label = " and ".join(filter(None, figure.y_labels)) or "value"
    parts = [f"{_KIND_WORDS.get(figure.kind, 'Figure')} of {y_label}"]
    if figure.x_label:
        parts[0] += f" over {figure.x_label}"
    if figure.heat is not None:
        parts.append(f"{figure.note}: {_span([value for row in figure.heat for value in row])}")
    told = [trace for trace in figure.traces if not trace.is_reference]
    parts += [_trace_in_words(figure, trace) for trace in told[:_TRACES_TOLD_MAX]]
    if more := len(told) - _TRACES_TOLD_MAX:
        parts += [f"And {more} more"] if more > 0 else []
    references = dict.fromkeys(trace.label for trace in figure.traces if trace.is_reference)
    if references:
        parts.append(f"Beside them, of the document: {', '.join(references)}")
    if figure.events:
        events = [f"{event.label} at {quantities.number(event.at_s)} s" for event in figure.events]
        parts.append(f"Events: {'; '.join(events[:_TRACES_TOLD_MAX])}")
    return ". ".join(filter(None, parts)) + "."


def _trace_in_words(figure: Figure, trace: Trace) -> str:
    names = {place: name for place, name in figure.ticks or ()} if figure.kind != "cdf" else {}
    known = [(x, y) for x, y in zip(trace.x, trace.y, strict=True) if y is not None]
    if not known:
        return f"{trace.label}: no values"
    if figure.kind == "cdf":
        middle = next(x for x, share in known if share >= 0.5)
        return (
            f"{trace.label}: {_span([x for x, _ in known])}, half of them up to {quantities.number(middle)}"
        )
    text = f"{trace.label}: {_span([y for _, y in known])}"
    if trace.is_line and len(known) > 2:
        ends = [f"{quantities.number(y)} at {names.get(x) or quantities.number(x)}" for x, y in known]
        text += f", from {ends[0]} to {ends[-1]}"
    return text


def _span(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "no values"
    low, high = (quantities.number(bound(known)) for bound in (min, max))
    return low if low == high else f"{low} to {high}"
