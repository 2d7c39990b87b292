"""Turns the description of a figure and the results of an experiment into what both renderers draw.

In: an entry of `figures` of an experiment file, the points, and references (what the document itself shows).
Out: a `Figure` with labelled axes and finished traces; `draw_static` and `draw_interactive` only draw it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tidegate import measure, stats
from tidegate.errors import MeasureError
from tidegate.experiment import Axis, Info, PointResult

KINDS = {
    "lines": "a measure over an axis, a line per variant, with 95 % bands over seeds",
    "bars": "measures side by side, grouped by variant or by the values of an axis",
    "series": "recorded time series of one run (the first seed)",
    "cdf": "the distribution of a measure that gives several values, over all seeds",
    "heatmap": "a measure over two axes",
}

# Paul Tol's "bright" scheme: told apart by the colour-blind, readable on white and on dark grey.
# Three more for bars, which have no dashes.
PALETTE = (
    *("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#999999"),
    *("#E8823A", "#8C6D31", "#7777DD"),
)
REFERENCE_COLOUR = "#777777"
BAR_GROUP_WIDTH = 0.8
SERIES_POINTS_MAX = 1200


@dataclass
class Trace:
    """One line, set of bars, or set of marks."""

    label: str
    x: list[float]
    y: list[float | None]
    low: list[float | None] | None = None
    high: list[float | None] | None = None
    colour: str = PALETTE[0]
    dash: int = 0
    is_reference: bool = False
    is_line: bool = True
    width: float = 0.0  # of bars


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
    ticks: list[tuple[float, str]] | None = None  # where x stands for names
    y_ticks: list[tuple[float, str]] | None = None
    traces: list[Trace] = field(default_factory=list)
    heat: list[list[float | None]] | None = None
    note: str = ""
    problem: str = ""


def build(
    spec: dict[str, Any], info: Info, points: Sequence[PointResult], references: Sequence[dict] = ()
) -> Figure:
    """The figure that `spec` describes; where it cannot be made, `problem` says why."""
    kind = spec.get("kind") or "lines"
    scale = str(spec.get("scale") or "")
    figure = Figure(
        id=str(spec.get("id") or "figure"),
        title=spec.get("title") or info.title,
        kind=kind,
        x_label=spec.get("x_label") or "",
        y_label=spec.get("y_label") or "",
        x_log=scale in ("log-x", "log-log", "loglog"),
        y_log=scale in ("log", "log-y", "log-log", "loglog"),
    )
    chosen = [point for point in points if _has_variant(spec, point.variant)]
    own = [reference for reference in references if reference["figure"] == figure.id]
    try:
        if not chosen:
            raise MeasureError("no run belongs to this figure")
        _BUILDERS[kind](figure, _Spec(spec, info), chosen)
        _add_references(figure, own, _Spec(spec, info))
    except KeyError:
        figure.problem = f"unknown kind of figure {kind!r}; kinds: {', '.join(KINDS)}"
    except MeasureError as error:
        figure.problem = str(error)
    if figure.x_log and any(x <= 0 for trace in figure.traces for x in trace.x):
        figure.x_log = False
    return figure


def build_all(info: Info, points: Sequence[PointResult], references: Sequence[dict] = ()) -> list[Figure]:
    """Every figure of an experiment; for a single run, which describes none, what its results suggest."""
    specs = info.figures or _suggested(points)
    return [build(spec, info, points, references) for spec in specs]


def _has_variant(spec: dict[str, Any], variant: str | None) -> bool:
    wanted = spec.get("variants") or spec.get("variant")
    if not wanted:
        return True
    return variant in (wanted if isinstance(wanted, list) else [wanted])


class _Spec:
    """The description with its shorthands written out."""

    def __init__(self, spec: dict[str, Any], info: Info):
        y = spec.get("y") or []
        self.measures: list[str] = [str(term) for term in (y if isinstance(y, list) else [y])]
        if not self.measures:
            raise MeasureError("the figure has no `y`")
        labels = spec.get("labels") or []
        self.has_labels = len(labels) == len(self.measures)
        self.labels: list[str] = list(labels) if self.has_labels else [_short(term) for term in self.measures]
        self.x: str | None = spec.get("x")
        self.info = info

    def axis(self) -> Axis:
        if self.x not in self.info.axes:
            raise MeasureError(f"no axis {self.x!r}; axes: {', '.join(self.info.axes) or 'none'}")
        return self.info.axes[self.x]

    def variant_label(self, variant: str | None) -> str:
        return self.info.variants.get(variant or "", variant or "")

    def style(self, measure_index: int, variant_index: int, variants: int) -> tuple[str, int]:
        """Colour tells measures apart and dashes variants; with one measure, colour tells variants apart."""
        if len(self.measures) == 1:
            return PALETTE[variant_index % len(PALETTE)], variant_index // len(PALETTE)
        cycle = measure_index // len(PALETTE)
        return PALETTE[measure_index % len(PALETTE)], variant_index if variants > 1 else cycle

    def trace_label(self, measure_index: int, *rest: str) -> str:
        """The measure's label where there are several, then what else tells the trace apart."""
        parts = [self.labels[measure_index]] if len(self.measures) > 1 or self.has_labels else []
        parts += [part for part in rest if part]
        return ", ".join(dict.fromkeys(parts)) or self.labels[measure_index]


def _short(term: str) -> str:
    return term if len(term) <= 40 else term[:39] + "…"


def _grouped(
    points: Sequence[PointResult], key: Callable[[PointResult], Any]
) -> dict[Any, list[PointResult]]:
    groups: dict[Any, list[PointResult]] = {}
    for point in points:
        groups.setdefault(key(point), []).append(point)
    return groups


def _estimate(term: str, points: Sequence[PointResult]) -> stats.Estimate:
    return stats.estimate([measure.evaluate(term, point) for point in points])


def _rest(point: PointResult, *without: str | None) -> str:
    """The values of the axes that are not drawn, as part of a label."""
    return ", ".join(f"{name} {value}" for name, value in point.axes.items() if name not in without)


def _positions(axis: Axis, values: Sequence[str]) -> tuple[dict[str, float], list[tuple[float, str]] | None]:
    """Where axis values stand; with names for the ticks where they are no quantities."""
    numbers = {value: axis.position(value) for value in values}
    if all(number is not None for number in numbers.values()):
        return {value: number for value, number in numbers.items() if number is not None}, None
    places = {value: float(index) for index, value in enumerate(values)}
    return places, [(place, value) for value, place in places.items()]


def _lines(figure: Figure, spec: _Spec, points: Sequence[PointResult]) -> None:
    axis = spec.axis()
    places, figure.ticks = _positions(axis, list(_grouped(points, lambda point: point.axes[axis.name])))
    figure.x_label = figure.x_label or axis.title
    variants = list(_grouped(points, lambda point: point.variant))
    groups = _grouped(points, lambda point: (point.variant, _rest(point, axis.name)))
    shown = list(groups)
    for index, term in enumerate(spec.measures):
        for group_index, ((variant, rest), members) in enumerate(groups.items()):
            by_value = _grouped(members, lambda point: point.axes[axis.name])
            ordered = sorted(by_value, key=places.__getitem__)
            estimates = [_estimate(term, by_value[value]) for value in ordered]
            variant_label = spec.variant_label(variant) if len(variants) > 1 else ""
            colour, dash = spec.style(index, group_index, len(shown))
            has_band = any(estimate.low is not None for estimate in estimates)
            figure.traces.append(
                Trace(
                    label=spec.trace_label(index, variant_label, rest),
                    x=[places[value] for value in ordered],
                    y=[estimate.mean for estimate in estimates],
                    low=[estimate.low for estimate in estimates] if has_band else None,
                    high=[estimate.high for estimate in estimates] if has_band else None,
                    colour=colour,
                    dash=dash,
                )
            )


def _bars(figure: Figure, spec: _Spec, points: Sequence[PointResult]) -> None:
    over_axis = spec.x in spec.info.axes
    variants = list(_grouped(points, lambda point: point.variant))
    cells: dict[str, dict[str, list[tuple[str, list[PointResult]]]]] = {}
    if over_axis:
        axis = spec.axis()
        figure.x_label = figure.x_label or axis.title
        for index, term in enumerate(spec.measures):
            for point in points:
                extra = spec.variant_label(point.variant) if len(variants) > 1 else ""
                series = spec.trace_label(index, extra, _rest(point, axis.name))
                category = point.axes[axis.name]
                cells.setdefault(series, {}).setdefault(category, [(term, [])])[0][1].append(point)
        categories = list(_grouped(points, lambda point: point.axes[axis.name]))
    else:
        for index, term in enumerate(spec.measures):
            for point in points:
                series = (
                    ", ".join(filter(None, (spec.variant_label(point.variant), _rest(point)))) or "measured"
                )
                cells.setdefault(series, {}).setdefault(spec.labels[index], [(term, [])])[0][1].append(point)
        categories = list(spec.labels)
    figure.ticks = [(float(index), category) for index, category in enumerate(categories)]
    width = BAR_GROUP_WIDTH / len(cells)
    for number, (series, by_category) in enumerate(cells.items()):
        offset = (number - (len(cells) - 1) / 2) * width
        estimates = [
            _estimate(*by_category[category][0]) if category in by_category else None
            for category in categories
        ]
        has_band = any(estimate is not None and estimate.low is not None for estimate in estimates)
        figure.traces.append(
            Trace(
                label=series,
                x=[index + offset for index in range(len(categories))],
                y=[estimate.mean if estimate else None for estimate in estimates],
                low=[estimate.low if estimate else None for estimate in estimates] if has_band else None,
                high=[estimate.high if estimate else None for estimate in estimates] if has_band else None,
                colour=PALETTE[number % len(PALETTE)],
                is_line=False,
                width=width * 0.92,
            )
        )


def _series(figure: Figure, spec: _Spec, points: Sequence[PointResult]) -> None:
    first_seed = min(point.seed for point in points)
    groups = _grouped(
        [point for point in points if point.seed == first_seed], lambda point: (point.variant, _rest(point))
    )
    several = len(groups) > 1
    several_variants = len({variant for variant, _ in groups}) > 1
    # Where several quantities of one thing are drawn, its name alone would not tell them apart.
    mixed = len({_quantity(pattern) for pattern in spec.measures}) > 1
    colour_index = 0
    for index, pattern in enumerate(spec.measures):
        for group_index, ((variant, rest), members) in enumerate(groups.items()):
            point = members[0]
            names = [name for name in point.series_names if fnmatchcase(name, pattern)]
            if not names:
                recorded = ", ".join(point.series_names[:8]) or "none"
                raise MeasureError(f"no recorded series matches {pattern!r}; recorded: {recorded}")
            for name_index, name in enumerate(names):
                time_s, values = point.series(name)
                factor, unit = _series_unit(name)
                x, y = _thinned(time_s.tolist(), (values * factor).tolist())
                own = name if len(names) > 1 or not spec.has_labels else ""
                label = [own.split(".", 1)[-1].rsplit(".", 1)[0]] if own else [spec.labels[index]]
                label += [_quantity(name)] if own and mixed else []
                label += [spec.variant_label(variant) if several_variants else "", rest] if several else []
                number = colour_index + name_index
                figure.traces.append(
                    Trace(
                        label=", ".join(filter(None, label)),
                        x=x,
                        y=y,
                        colour=PALETTE[number % len(PALETTE)],
                        dash=group_index if several else number // len(PALETTE),
                    )
                )
                figure.y_label = figure.y_label or f"{_quantity(name)} ({unit})"
        colour_index += len(names)
    figure.x_label = figure.x_label or "time (s)"


def _quantity(name: str) -> str:
    """What a series is of, without its unit: `throughput` of `flows.a.throughput_bps`."""
    return name.rsplit(".", 1)[-1].rsplit("_", 1)[0].replace("_", " ")


def _series_unit(name: str) -> tuple[float, str]:
    """Factor and unit by which a series is shown; its name ends in the unit it has."""
    suffix = name.rsplit("_", 1)[-1]
    return {"bps": (1e-6, "Mb/s"), "bytes": (1e-3, "kB")}.get(suffix, (1.0, suffix))


def _thinned(x: list[float], y: list[float]) -> tuple[list[float], list[float | None]]:
    """At most `SERIES_POINTS_MAX` points: the least and the greatest of each stretch, so that peaks stay."""
    clean: list[float | None] = [value if math.isfinite(value) else None for value in y]
    if len(x) <= SERIES_POINTS_MAX:
        return x, clean
    stretch = math.ceil(2 * len(x) / SERIES_POINTS_MAX)
    kept: list[int] = []
    for start in range(0, len(x), stretch):
        indices = [index for index in range(start, min(start + stretch, len(x))) if clean[index] is not None]
        if indices:
            least = min(indices, key=lambda index: y[index])
            greatest = max(indices, key=lambda index: y[index])
            kept += sorted({least, greatest})
    return [x[index] for index in kept], [clean[index] for index in kept]


def _cdf(figure: Figure, spec: _Spec, points: Sequence[PointResult]) -> None:
    groups = _grouped(points, lambda point: (point.variant, _rest(point)))
    for index, term in enumerate(spec.measures):
        for group_index, ((variant, rest), members) in enumerate(groups.items()):
            values = sorted(value for point in members for value in measure.evaluate_values(term, point))
            colour, dash = spec.style(index, group_index, len(groups))
            label = spec.trace_label(index, spec.variant_label(variant) if len(groups) > 1 else "", rest)
            share: list[float | None] = [(rank + 1) / len(values) for rank in range(len(values))]
            figure.traces.append(Trace(label, values, share, colour=colour, dash=dash))
    figure.x_label = figure.x_label or spec.labels[0]
    figure.y_label = figure.y_label or "share of values"


def _heatmap(figure: Figure, spec: _Spec, points: Sequence[PointResult]) -> None:
    axis = spec.axis()
    others = [other for name, other in spec.info.axes.items() if name != axis.name]
    if len(others) != 1:
        raise MeasureError(f"a heatmap needs exactly two axes, here are {len(others) + 1}")
    other = others[0]
    columns = list(_grouped(points, lambda point: point.axes[axis.name]))
    rows = list(_grouped(points, lambda point: point.axes[other.name]))
    cells = _grouped(points, lambda point: (point.axes[other.name], point.axes[axis.name]))
    figure.heat = [
        [
            _estimate(spec.measures[0], cells[row, column]).mean if (row, column) in cells else None
            for column in columns
        ]
        for row in rows
    ]
    figure.ticks = [(float(index), value) for index, value in enumerate(columns)]
    figure.y_ticks = [(float(index), value) for index, value in enumerate(rows)]
    figure.x_label = figure.x_label or axis.label
    figure.note = figure.y_label or spec.labels[0]
    figure.y_label = other.label


_BUILDERS: dict[str, Callable[[Figure, _Spec, Sequence[PointResult]], None]] = {
    "lines": _lines,
    "bars": _bars,
    "series": _series,
    "cdf": _cdf,
    "heatmap": _heatmap,
}


def _add_references(figure: Figure, references: Sequence[dict[str, Any]], spec: _Spec) -> None:
    """What the document shows, as marks of their own: points, a line, or one level."""
    for reference in references:
        label = reference.get("label") or "document"
        y = reference["y"]
        if not isinstance(y, list):
            span = [x for trace in figure.traces for x in trace.x] or [0.0, 1.0]
            ends = [min(span), max(span)]
            figure.traces.append(
                Trace(label, ends, [float(y)] * 2, colour=REFERENCE_COLOUR, dash=2, is_reference=True)
            )
            continue
        names = {name: place for place, name in figure.ticks or ()}
        offset, colour = 0.0, REFERENCE_COLOUR
        if figure.kind == "bars" and reference.get("variant"):
            for trace in figure.traces:
                if trace.label.startswith(spec.variant_label(reference["variant"])):
                    offset, colour = trace.x[0], trace.colour
        places = []
        for x in reference["x"]:
            place = names.get(str(x))
            if place is None and isinstance(x, int | float):
                place = float(x)
            if place is None and spec.x in spec.info.axes:
                place = spec.axis().position(str(x))
            if place is None:
                raise MeasureError(f"reference {label!r}: {x!r} is not on the axis")
            places.append(place + offset)
        values: list[float | None] = [float(value) for value in y]
        line = bool(reference.get("line"))
        figure.traces.append(
            Trace(label, places, values, colour=colour, is_reference=True, is_line=line, dash=2)
        )


def _suggested(points: Sequence[PointResult]) -> list[dict[str, Any]]:
    """Figures for a run whose file describes none: throughput per flow, then each recorded quantity."""
    specs: list[dict[str, Any]] = []
    if points and points[0].summary.get("flows"):
        flows = list(points[0].summary["flows"])
        if 1 < len(flows) <= 60:
            specs.append(
                {
                    "id": "throughput",
                    "title": "Throughput per flow",
                    "kind": "bars",
                    "y": [f'value("flows.{flow}.throughput_bps") / 1e6' for flow in flows],
                    "labels": flows,
                    "y_label": "throughput (Mb/s)",
                }
            )
    names = points[0].series_names if points else []
    quantities_seen = dict.fromkeys((name.split(".")[0], name.rsplit(".", 1)[-1]) for name in names)
    for group, quantity in quantities_seen:
        words = quantity.rsplit("_", 1)[0].replace("_", " ")
        specs.append(
            {
                "id": f"{group}-{quantity}",
                "title": f"{words.capitalize()} of {group} over time",
                "kind": "series",
                "y": [f"{group}.*.{quantity}"],
            }
        )
    return specs
