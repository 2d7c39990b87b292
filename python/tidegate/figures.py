"""Turns the description of a figure and the results of an experiment into what both renderers draw.

In: an entry of `figures` of an experiment file, the points, and references (what the document itself shows).
Out: a `Figure`; `figure_kinds` makes its traces.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tidegate import happenings, labels, quantities
from tidegate.errors import MeasureError
from tidegate.experiment import Info, PointResult
from tidegate.figure import REFERENCE_COLOUR, Event, Figure, Trace
from tidegate.figure_kinds import BUILDERS, Spec, series_quantity

KINDS = {
    "lines": "a measure over an axis, a line per variant, with 95 % bands over seeds",
    "bars": "measures side by side, grouped by variant or by the values of an axis",
    "series": "recorded time series of one run (the first seed)",
    "cdf": "the distribution of a measure that gives several values, over all seeds",
    "box": "how the values of a measure spread, over seeds and within runs: quartiles and outliers",
    "violin": "the same as an outline, wide where many values lie",
    "sizes": "a measure of transfers over their sizes, a line per variant",
    "heatmap": "a measure over two axes, of one variant",
    "table": "measures as columns, a row for each value of the axes and each variant",
}

SCALES = ("linear", "log", "log-x", "log-y", "log-log")


def build(
    spec: dict[str, Any],
    info: Info,
    points: Sequence[PointResult],
    references: Sequence[dict] = (),
    title: str = "",
    events: Sequence[Event] = (),
) -> Figure:
    """The figure that `spec` describes; where it cannot be made, `problem` says why."""
    kind = spec.get("kind") or "lines"
    scale = str(spec.get("scale") or "")
    figure = Figure(
        id=str(spec.get("id") or "figure"),
        title=title or labels.titles([spec], info.title, info.variants, info.labelled)[0],
        kind=kind,
        x_label=spec.get("x_label") or "",
        y_label=spec.get("y_label") or "",
        x_log=scale in ("log-x", "log-log", "loglog"),
        y_log=scale in ("log", "log-y", "log-log", "loglog"),
        x_range=_range(spec.get("x_range")),
        y_range=_range(spec.get("y_range")),
    )
    chosen = [point for point in points if _is_drawn(spec, point)]
    own = [reference for reference in references if reference["figure"] == figure.id]
    try:
        if not chosen:
            raise MeasureError("no run belongs to this figure")
        BUILDERS[kind](figure, Spec(spec, info), chosen)
        _add_references(figure, own, Spec(spec, info))
    except KeyError:
        figure.problem = f"unknown kind of figure {kind!r}; kinds: {', '.join(KINDS)}"
    except MeasureError as error:
        figure.problem = str(error)
    if kind == "series":
        ends = [x for trace in figure.traces for x in trace.x] or [0.0]
        low, high = figure.x_range or (0.0, max(ends))
        figure.events = [event for event in events if low <= event.at_s <= high]
    finish(figure)
    return figure


def _range(ends: Any) -> tuple[float, float] | None:
    return None if ends is None else (float(ends[0]), float(ends[1]))


def finish(figure: Figure) -> None:
    """Axes as they can be drawn: none is logarithmic with values that are not positive; ticks."""
    if figure.x_log and any(x <= 0 for trace in figure.traces for x in trace.x):
        figure.x_log = False
    for is_log, ends in ((figure.x_log, "x_range"), (figure.y_log, "y_range")):
        own = getattr(figure, ends)
        if is_log and own is not None and own[0] <= 0:
            setattr(figure, ends, None)
    _set_ticks(figure)


def _set_ticks(figure: Figure) -> None:
    """Ticks of logarithmic axes, and of an axis with a single value, where renderers choose badly."""
    places = sorted({x for trace in figure.traces if not trace.is_reference for x in trace.x})
    if figure.ticks is None and figure.kind == "lines" and len(places) == 1:
        figure.ticks = [(places[0], quantities.number(places[0]))]
    if figure.ticks is None and figure.x_log and places:
        all_places = figure.x_range or [x for trace in figure.traces for x in trace.x]
        figure.ticks = labels.log_ticks(min(all_places), max(all_places)) or None
    heights = figure.y_range or [y for trace in figure.traces for y in trace.y if y is not None and y > 0]
    # Panels have axes of their own.
    if figure.y_ticks is None and figure.y_log and heights and not figure.panels:
        figure.y_ticks = labels.log_ticks(min(heights), max(heights)) or None


def build_all(
    info: Info,
    points: Sequence[PointResult],
    references: Sequence[dict] = (),
    scenario: dict[str, Any] | None = None,
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda spec: spec,
) -> list[Figure]:
    """Every figure of an experiment; for a single run, which describes none, what its results suggest.

    `scenario`, that of the first point, tells what happens during the runs. `change` gives another
    description of a figure than the file's.
    """
    events = happenings.of(scenario, info.raw) if scenario else []
    specs = [change(spec) for spec in info.figures or _suggested(points)]
    titles = labels.titles(specs, info.title, info.variants, info.labelled)
    return [
        build(spec, info, points, references, title, events)
        for spec, title in zip(specs, titles, strict=True)
    ]


def _is_drawn(spec: dict[str, Any], point: PointResult) -> bool:
    """Whether a figure draws a point: by its `variant`, `variants` and `where`."""
    wanted = spec.get("variants") or spec.get("variant")
    if wanted and point.variant not in (wanted if isinstance(wanted, list) else [wanted]):
        return False
    return all(point.axes.get(name) in values for name, values in (spec.get("where") or {}).items())


def _add_references(figure: Figure, references: Sequence[dict[str, Any]], spec: Spec) -> None:
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
            variant = spec.variant_label(reference["variant"])
            bars = [trace for trace in figure.traces if trace.label.startswith(variant)]
            if bars:
                # One variant's label may begin with another's.
                bar = min(bars, key=lambda trace: len(trace.label))
                offset, colour = bar.x[0], bar.colour
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


# What people wait for: key of a flow's summary, and of a time in it; title; label of the axis.
_WAITS = (
    ("pages", "load_s", "Load times of pages", "load time (s)"),
    ("transfers", "completion_s", "Times of transfers", "time until all has arrived (s)"),
)
_WAITING_FLOWS_MAX = 20
# Of a table that a terminal shows.
_COLUMNS_MAX = 8


def _of_applications(points: Sequence[PointResult]) -> Iterator[dict[str, Any]]:
    """Times that people wait, of flows that have them in all points; means, and what 19 of 20 are within."""
    if not points:
        return
    for key, time, title, label in _WAITS:
        path = (key, time, "p95")
        flows = [
            name
            for name in points[0].summary.get("flows") or {}
            if all(_is_there(point.summary, ("flows", name, *path)) for point in points)
        ]
        if not 1 <= len(flows) <= _WAITING_FLOWS_MAX:
            continue
        ends = [(flow, end) for flow in flows for end in ("mean", "p95")]
        yield {
            "id": f"{key}-{time.removesuffix('_s')}",
            "title": title,
            "kind": "bars",
            "y": [f'value("flows.{flow}.{key}.{time}.{end}")' for flow, end in ends],
            "labels": [end if len(flows) == 1 else f"{flow}, {end}" for flow, end in ends],
            "y_label": label,
        }


def suggested_table(points: Sequence[PointResult]) -> dict[str, Any] | None:
    """What the terminal shows of an experiment whose file describes nothing: throughput, how even it is, the
    link that packets wait at longest, and what people wait for. None where there is nothing of that."""
    summaries = [point.summary for point in points]
    columns: list[tuple[str, str]] = []
    if all(summary.get("flows") for summary in summaries):
        columns.append(("all flows Mb/s", 'sum("flows.*.throughput_bps") / 1e6'))
        if all(_is_there(summary, ("fairness", "jain")) for summary in summaries):
            columns.append(("fairness (Jain)", 'value("fairness.jain")'))
    waits = {
        name: max(summary["links"][name]["delay_ms"]["mean"] for summary in summaries)
        for name in (summaries[0].get("links") or {} if summaries else {})
        if all(_is_there(summary, ("links", name, "delay_ms", "mean")) for summary in summaries)
    }
    if waits:
        name = max(waits, key=lambda one: waits[one])
        columns.append((f"{name}: delay ms", f'value("links.{name}.delay_ms.mean")'))
        columns.append((f"{name}: dropped", f'value("links.{name}.dropped_packets")'))
    for spec in _of_applications(points):
        things = zip(spec["labels"], spec["y"], strict=True)
        columns += [(f"{spec['id'].split('-')[0]} s, {label}", term) for label, term in things]
    if not columns:
        return None
    labels, terms = zip(*columns[:_COLUMNS_MAX], strict=True)
    return {
        "id": "overview",
        "title": "means, ± half of 95 % intervals",
        "kind": "table",
        "y": [*terms],
        "labels": [*labels],
    }


def _is_there(summary: Mapping[str, Any], path: Sequence[str]) -> bool:
    """Whether it says a number there."""
    found: Any = summary
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return isinstance(found, int | float)


def _suggested(points: Sequence[PointResult]) -> list[dict[str, Any]]:
    """Figures for a run whose file describes none: throughput per flow, what people wait for, then each
    recorded quantity."""
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
    specs += _of_applications(points)
    names = points[0].series_names if points else []
    alike: dict[tuple[str, str], list[str]] = {}
    for name in names:
        # What this run lacks is NaN throughout, and no figure.
        if not all(map(math.isnan, points[0].series(name)[1])):
            alike.setdefault((name.split(".")[0], name.rsplit(".", 1)[-1]), []).append(name)
    for (group, quantity), members in alike.items():
        words = series_quantity(members[0])
        thing = members[0].split(".", 1)[-1].rsplit(".", 1)[0] if len(members) == 1 else group
        specs.append(
            {
                "id": f"{group}-{quantity}",
                "title": f"{words[0].upper()}{words[1:]} of {thing} over time",
                "kind": "series",
                "y": [f"{group}.*.{quantity}"],
            }
        )
    return specs
