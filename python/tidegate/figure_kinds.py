"""Makes the traces of each kind of figure from measures, points and series.

In: the description with its shorthands written out (`Spec`) and the points. Out: traces, added to a `Figure`.
"""

import contextlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tidegate import measure, quantities, stats, tables, tidy
from tidegate.errors import LackingError, MeasureError, NoValueError
from tidegate.experiment import Axis, Info, PointResult
from tidegate.experiment_checks import SIZE, heat_axis
from tidegate.figure import PALETTE, Figure, Trace
from tidegate.summary_keys import SIZE_CLASSES

BAR_GROUP_WIDTH = 0.8
SERIES_POINTS_MAX = 1200
_QUANTITIES_NAMED_MAX = 3  # on one axis
# What a figure calls the classes of sizes of transfers.
_SIZE_NAMES = ("to 1 kB", "1 to 10 kB", "10 to 100 kB", "0.1 to 1 MB", "1 to 10 MB", "above 10 MB")


class Spec:
    """The description with its shorthands written out."""

    def __init__(self, spec: dict[str, Any], info: Info):
        y = spec.get("y") or []
        self.measures: list[str] = [str(term) for term in (y if isinstance(y, list) else [y])]
        if not self.measures:
            raise MeasureError("the figure has no `y`")
        own = spec.get("labels") or []
        self.has_labels = len(own) == len(self.measures)
        self.labels: list[str] = list(own) if self.has_labels else [_short(term) for term in self.measures]
        self.x: str | None = spec.get("x")
        self.description = spec
        self.info = info

    def axis(self) -> Axis:
        """The axis along which it is drawn."""
        if self.x not in self.info.axes:
            raise MeasureError(f"no axis {self.x!r}; axes: {', '.join(self.info.axes) or 'none'}")
        return self.info.axes[self.x]

    def variant_label(self, variant: str | None) -> str:
        """How the experiment calls a variant."""
        return self.info.variants.get(variant or "", variant or "")

    def style(self, measure_index: int, variant_index: int, variants: int) -> tuple[str, int]:
        """Colour tells measures apart and dashes variants; with one measure, colour tells variants apart."""
        if len(self.measures) == 1:
            return PALETTE[variant_index % len(PALETTE)], variant_index // len(PALETTE)
        cycle = measure_index // len(PALETTE)
        return PALETTE[measure_index % len(PALETTE)], variant_index if variants > 1 else cycle

    def trace_label(self, measure_index: int, *rest: str) -> str:
        """The measure's label where there are several, then what else tells the trace apart."""
        parts = [self.labels[measure_index]] if len(self.measures) > 1 else []
        parts += [part for part in rest if part]
        return ", ".join(dict.fromkeys(parts)) or self.labels[measure_index]

    def rest(self, point: PointResult, *without: str | None) -> str:
        """The values of the axes that are not drawn, as part of a label."""
        # What all that is drawn have alike is for the title to say.
        where = self.description.get("where") or {}
        alike = {name for name, values in where.items() if len(values) == 1}
        texts = [
            self.info.labelled(name, value)
            for name, value in point.axes.items()
            if name not in without and name not in alike
        ]
        return ", ".join(texts)


def _short(term: str) -> str:
    return term if len(term) <= 40 else term[:39] + "…"


def _grouped(
    points: Sequence[PointResult], key: Callable[[PointResult], Any]
) -> dict[Any, list[PointResult]]:
    groups: dict[Any, list[PointResult]] = {}
    for point in points:
        groups.setdefault(key(point), []).append(point)
    return groups


def _estimate(term: str, points: Sequence[PointResult]) -> stats.Estimate | None:
    """The mean over seeds; None, a gap, where a run has no such number, be it only one of them."""
    try:
        return stats.estimate([measure.evaluate(term, point) for point in points])
    except LackingError:
        return None


def _require_some(terms: Sequence[str], points: Sequence[PointResult], may_be_empty: bool = False) -> None:
    """Gaps are for what some runs lack: a term that none of them has is a mistake, which this names.

    With `may_be_empty` it is none where a run has it without a value.
    """
    for term in terms:
        errors = []
        for point in points:
            try:
                measure.evaluate_values(term, point)
                break
            except LackingError as error:
                errors.append(error)
        else:
            if not (may_be_empty and any(isinstance(error, NoValueError) for error in errors)):
                raise errors[0]


def _band(
    estimates: Sequence[stats.Estimate | None],
) -> tuple[list[float | None] | None, list[float | None] | None]:
    """The confidence intervals of a trace, if any; where nothing is below zero, none reaches there."""
    known = [estimate for estimate in estimates if estimate is not None]
    if all(estimate.low is None for estimate in known):
        return None, None
    floor = 0.0 if all(estimate.mean >= 0 for estimate in known) else -math.inf
    low = [None if each is None or each.low is None else max(each.low, floor) for each in estimates]
    return low, [None if each is None else each.high for each in estimates]


def _positions(axis: Axis, values: Sequence[str]) -> tuple[dict[str, float], list[tuple[float, str]] | None]:
    """Where axis values stand; with names for the ticks where they are no quantities."""
    numbers = {value: axis.position(value) for value in values}
    if all(number is not None for number in numbers.values()):
        return {value: number for value, number in numbers.items() if number is not None}, None
    places = {value: float(index) for index, value in enumerate(values)}
    return places, [(place, value) for value, place in places.items()]


def _tick(axis: Axis, value: str) -> str:
    """A value of an axis as a tick: the number alone, since the axis has the unit."""
    place = axis.position(value)
    return value if place is None else quantities.number(place)


def _lines(figure: Figure, spec: Spec, points: Sequence[PointResult]) -> None:
    axis = spec.axis()
    _require_some(spec.measures, points)
    places, figure.ticks = _positions(axis, list(_grouped(points, lambda point: point.axes[axis.name])))
    figure.x_label = figure.x_label or axis.title
    variants = list(_grouped(points, lambda point: point.variant))
    groups = _grouped(points, lambda point: (point.variant, spec.rest(point, axis.name)))
    shown = list(groups)
    for index, term in enumerate(spec.measures):
        for group_index, ((variant, rest), members) in enumerate(groups.items()):
            by_value = _grouped(members, lambda point: point.axes[axis.name])
            ordered = sorted(by_value, key=places.__getitem__)
            estimates = [_estimate(term, by_value[value]) for value in ordered]
            variant_label = spec.variant_label(variant) if len(variants) > 1 else ""
            colour, dash = spec.style(index, group_index, len(shown))
            low, high = _band(estimates)
            figure.traces.append(
                Trace(
                    label=spec.trace_label(index, variant_label, rest),
                    x=[places[value] for value in ordered],
                    y=[None if estimate is None else estimate.mean for estimate in estimates],
                    low=low,
                    high=high,
                    colour=colour,
                    dash=dash,
                )
            )


@dataclass
class _Group:
    """What stands side by side with others at each category: a bar or box of one colour."""

    label: str
    places: list[float]
    width: float
    colour: str
    dash: int
    # The measure and the runs of each category; None where there are none.
    cells: list[tuple[str, list[PointResult]] | None]


def _side_by_side(figure: Figure, spec: Spec, points: Sequence[PointResult]) -> list[_Group]:
    """Measures grouped by variant, or along the axis `x`; names the ticks."""
    over_axis = spec.x in spec.info.axes
    _require_some(spec.measures, points)
    variants = list(_grouped(points, lambda point: point.variant))
    cells: dict[str, dict[str, tuple[str, list[PointResult]]]] = {}
    if over_axis:
        axis = spec.axis()
        figure.x_label = figure.x_label or axis.title
        for index, term in enumerate(spec.measures):
            for point in points:
                extra = spec.variant_label(point.variant) if len(variants) > 1 else ""
                series = spec.trace_label(index, extra, spec.rest(point, axis.name))
                category = point.axes[axis.name]
                cells.setdefault(series, {}).setdefault(category, (term, []))[1].append(point)
        categories = list(_grouped(points, lambda point: point.axes[axis.name]))
    else:
        for index, term in enumerate(spec.measures):
            for point in points:
                parts = (spec.variant_label(point.variant), spec.rest(point))
                series = ", ".join(filter(None, parts)) or "measured"
                cells.setdefault(series, {}).setdefault(spec.labels[index], (term, []))[1].append(point)
        categories = list(spec.labels)
    named = [_tick(axis, category) for category in categories] if over_axis else categories
    figure.ticks = [(float(index), name) for index, name in enumerate(named)]
    width = BAR_GROUP_WIDTH / len(cells)
    return [
        _Group(
            label=series,
            places=[index + (number - (len(cells) - 1) / 2) * width for index in range(len(categories))],
            width=width * 0.92,
            colour=PALETTE[number % len(PALETTE)],
            dash=number // len(PALETTE),
            cells=[by_category.get(category) for category in categories],
        )
        for number, (series, by_category) in enumerate(cells.items())
    ]


def _bars(figure: Figure, spec: Spec, points: Sequence[PointResult]) -> None:
    for group in _side_by_side(figure, spec, points):
        estimates = [None if cell is None else _estimate(*cell) for cell in group.cells]
        low, high = _band(estimates)
        figure.traces.append(
            Trace(
                label=group.label,
                x=group.places,
                y=[estimate.mean if estimate else None for estimate in estimates],
                low=low,
                high=high,
                colour=group.colour,
                dash=group.dash,
                is_line=False,
                width=group.width,
            )
        )


def _spread(figure: Figure, spec: Spec, points: Sequence[PointResult]) -> None:
    """Boxes and violins: all values of a measure, over seeds and within each run."""
    for group in _side_by_side(figure, spec, points):
        samples = [[] if cell is None else _values(*cell) for cell in group.cells]
        figure.traces.append(
            Trace(
                label=group.label if any(samples) else f"{group.label} (no values)",
                x=group.places,
                y=[stats.quantile(values, 0.5) if values else None for values in samples],
                colour=group.colour,
                dash=group.dash,
                is_line=False,
                width=group.width,
                samples=samples,
            )
        )


def _values(term: str, points: Sequence[PointResult]) -> list[float]:
    """The values of a measure in all runs that have any, in order."""
    found: list[float] = []
    for point in points:
        with contextlib.suppress(LackingError):
            found += measure.evaluate_values(term, point)
    return sorted(found)


def _series(figure: Figure, spec: Spec, points: Sequence[PointResult]) -> None:
    first_seed = min(point.seed for point in points)
    groups = _grouped(
        [point for point in points if point.seed == first_seed],
        lambda point: (point.variant, spec.rest(point)),
    )
    variants = {variant for variant, _ in groups}
    drawn = [  # what belongs to which measure and which run
        (index, group_index, variant, rest, members[0], name)
        for index, pattern in enumerate(spec.measures)
        for group_index, ((variant, rest), members) in enumerate(groups.items())
        for name in _series_names(members[0], pattern)
    ]
    for pattern in spec.measures:
        if not any(_series_names(point, pattern) for point in points):
            recorded = ", ".join(points[0].series_names[:8]) or "none"
            hint = f'`[record]` with `series = ["{pattern}"]` in the file records it'
            raise MeasureError(f"no recorded series matches {pattern!r}; recorded: {recorded}. {hint}")
    names = list(dict.fromkeys(name for *_, name in drawn))
    several_quantities = len({name.rsplit(".", 1)[-1] for name in names}) > 1
    panel_of = _panels(figure, names)
    # Where no two series share a panel, colour tells runs apart: there are more colours than dashes.
    is_apart = len(set(panel_of.values())) == len(names)
    for index, group_index, variant, rest, point, name in drawn:
        time_s, values = point.series(name)
        factor, _ = series_unit(name)
        x, y = thinned(time_s.tolist(), (values * factor).tolist())
        quantity = series_quantity(name)
        is_only = spec.has_labels and len(_series_names(point, spec.measures[index])) == 1
        own = spec.labels[index] if is_only else name.split(".", 1)[-1].rsplit(".", 1)[0]
        label = [own, quantity if several_quantities and not is_only else ""]
        label += [spec.variant_label(variant) if len(variants) > 1 else "", rest]
        # Else colour tells series apart and dashes runs.
        number = group_index if is_apart else names.index(name)
        dash = group_index if not is_apart and len(groups) > 1 else number // len(PALETTE)
        label_text = ", ".join(filter(None, label if len(names) > 1 else label[2:])) or own
        # What this run lacks is recorded as NaN: no line, and no entry in the legend.
        if any(value is not None for value in y):
            colour = PALETTE[number % len(PALETTE)]
            figure.traces.append(Trace(label_text, x, y, colour=colour, dash=dash, panel=panel_of[name]))
    if not figure.traces:
        raise MeasureError(f"{', '.join(names)}: no value in any run; its queue or mechanism has none")
    if figure.panels:
        # What no run has leaves no empty panel.
        used = sorted({trace.panel for trace in figure.traces})
        figure.panels = [figure.panels[panel] for panel in used]
        for trace in figure.traces:
            trace.panel = used.index(trace.panel)
    figure.x_label = figure.x_label or "time (s)"


def _panels(figure: Figure, names: Sequence[str]) -> dict[str, int]:
    """Which panel each series is drawn in: those of one unit share one, whose label names what they count."""
    by_unit: dict[str, list[str]] = {}
    for name in names:
        by_unit.setdefault(series_unit(name)[1] or series_quantity(name), []).append(name)
    found: list[str] = []
    for unit, members in by_unit.items():
        quantities_of = dict.fromkeys(series_quantity(name) for name in members)
        words = ", ".join(quantities_of) if len(quantities_of) <= _QUANTITIES_NAMED_MAX else ""
        has_unit = bool(series_unit(members[0])[1])
        found.append(f"{words} ({unit})".strip() if has_unit else words or unit)
    if len(found) > 1:
        # A label that the file gives belongs to the panel whose unit it names.
        given = [f"({unit})" in figure.y_label for unit in by_unit]
        figure.panels = [figure.y_label if own else label for own, label in zip(given, found, strict=True)]
    figure.y_label = figure.y_label or found[0]
    return {name: panel for panel, members in enumerate(by_unit.values()) for name in members}


def _series_names(point: PointResult, pattern: str) -> list[str]:
    return [name for name in point.series_names if fnmatchcase(name, pattern)]


# By the unit that the name ends in.
_SERIES_UNITS = {
    "bps": (1e-6, "Mb/s"),
    "bytes": (1e-3, "kB"),
    "packets": (1.0, "packets"),
    "segments": (1.0, "segments"),
    "ms": (1.0, "ms"),
    "s": (1.0, "s"),
}


def series_unit(name: str) -> tuple[float, str]:
    """Factor and unit by which a series is shown."""
    return _SERIES_UNITS.get(name.rsplit("_", 1)[-1], (1.0, ""))


def series_quantity(name: str) -> str:
    """What a series counts, in words: `throughput` of `flows.tcp.throughput_bps`, else its name."""
    quantity = name.rsplit(".", 1)[-1]
    words = quantity.rsplit("_", 1)[0] if series_unit(name)[1] else quantity
    # `max_p` is a symbol of the documents, `marking_probability` are words.
    return words if any(len(word) == 1 for word in words.split("_")) else words.replace("_", " ")


def thinned(
    x: list[float], y: list[float], points_max: int = SERIES_POINTS_MAX
) -> tuple[list[float], list[float | None]]:
    """At most `points_max` points: the least and the greatest of each stretch, so that peaks stay."""
    clean: list[float | None] = [value if math.isfinite(value) else None for value in y]
    if len(x) <= points_max:
        return x, clean
    stretch = math.ceil(2 * len(x) / points_max)
    kept: list[int] = []
    for start in range(0, len(x), stretch):
        indices = [index for index in range(start, min(start + stretch, len(x))) if clean[index] is not None]
        if indices:
            least = min(indices, key=lambda index: y[index])
            greatest = max(indices, key=lambda index: y[index])
            kept += sorted({least, greatest})
    return [x[index] for index in kept], [clean[index] for index in kept]


def _cdf(figure: Figure, spec: Spec, points: Sequence[PointResult]) -> None:
    groups = _grouped(points, lambda point: (point.variant, spec.rest(point)))
    _require_some(spec.measures, points)
    for index, term in enumerate(spec.measures):
        for group_index, ((variant, rest), members) in enumerate(groups.items()):
            values = _values(term, members)
            colour, dash = spec.style(index, group_index, len(groups))
            label = spec.trace_label(index, spec.variant_label(variant) if len(groups) > 1 else "", rest)
            # Named all the same: else nobody can tell whose line the other one is.
            label = label if values else f"{label} (no values)"
            share: list[float | None] = [(rank + 1) / len(values) for rank in range(len(values))]
            figure.traces.append(Trace(label, values, share, colour=colour, dash=dash))
    figure.x_label = figure.x_label or spec.labels[0]
    figure.y_label = figure.y_label or "share of values"


def _sizes(figure: Figure, spec: Spec, points: Sequence[PointResult]) -> None:
    """A measure of transfers over the classes of their sizes, from the least that has some on."""
    for term in spec.measures:
        if SIZE not in term:
            raise MeasureError(f"a figure over sizes needs {{size}} in its measure, and {term!r} has none")
    groups = _grouped(points, lambda point: (point.variant, spec.rest(point)))
    found: dict[tuple[int, int], list[stats.Estimate | None]] = {}
    for index, term in enumerate(spec.measures):
        terms = [term.replace(SIZE, name) for name in SIZE_CLASSES]
        if not any(_estimate(each, members) for each in terms for members in groups.values()):
            _require_some(terms, points)
        for group_index, members in enumerate(groups.values()):
            found[index, group_index] = [_estimate(each, members) for each in terms]
    known = [place for place in range(len(SIZE_CLASSES)) if any(each[place] for each in found.values())]
    shown = range(known[0], known[-1] + 1) if known else range(0)
    figure.ticks = [(float(place), _SIZE_NAMES[place]) for place in shown]
    figure.x_label = figure.x_label or "size of the transfer"
    for (index, group_index), estimates in found.items():
        variant, rest = list(groups)[group_index]
        cut = [estimates[place] for place in shown]
        low, high = _band(cut) if any(cut) else (None, None)
        colour, dash = spec.style(index, group_index, len(groups))
        several = len({variant for variant, _ in groups}) > 1
        label = spec.trace_label(index, spec.variant_label(variant) if several else "", rest)
        means = [None if each is None else each.mean for each in cut]
        figure.traces.append(
            Trace(label, [float(place) for place in shown], means, low, high, colour=colour, dash=dash)
        )
    figure.kind = "lines"


def _heatmap(figure: Figure, spec: Spec, points: Sequence[PointResult]) -> None:
    axis = spec.axis()
    other = heat_axis(spec.description, spec.info, list(_grouped(points, lambda point: point.variant or "")))
    columns = list(_grouped(points, lambda point: point.axes[axis.name]))
    rows = list(_grouped(points, lambda point: point.axes[other.name]))
    cells = _grouped(points, lambda point: (point.axes[other.name], point.axes[axis.name]))
    _require_some(spec.measures[:1], points)
    estimates = {place: _estimate(spec.measures[0], members) for place, members in cells.items()}
    figure.heat = [
        [estimate.mean if (estimate := estimates.get((row, column))) else None for column in columns]
        for row in rows
    ]
    figure.ticks = [(float(index), _tick(axis, value)) for index, value in enumerate(columns)]
    figure.y_ticks = [(float(index), _tick(other, value)) for index, value in enumerate(rows)]
    figure.x_label = figure.x_label or axis.title
    figure.note = figure.y_label or _with_unit(spec)
    figure.y_label = other.title


def _with_unit(spec: Spec) -> str:
    """The first measure: by its label, or by itself, with the unit that a single number has in its name."""
    term = spec.measures[0]
    unit = tidy.unit_of(term) if re.fullmatch(r"[\w.*]+", term) and not spec.has_labels else ""
    return f"{spec.labels[0]} ({unit})" if unit not in ("", "1") else spec.labels[0]


def _table(figure: Figure, spec: Spec, points: Sequence[PointResult]) -> None:
    _require_some(spec.measures, points, may_be_empty=True)
    figure.table = tables.build(spec.measures, spec.labels, spec.info, points)


BUILDERS: dict[str, Callable[[Figure, Spec, Sequence[PointResult]], None]] = {
    "lines": _lines,
    "bars": _bars,
    "series": _series,
    "cdf": _cdf,
    "box": _spread,
    "violin": _spread,
    "sizes": _sizes,
    "heatmap": _heatmap,
    "table": _table,
}
