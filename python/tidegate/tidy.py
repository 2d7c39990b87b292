"""Results as tables in tidy form: one row per run, place and metric, whatever was measured.

    variant, one column per axis, seed, place, metric, unit, value

`place` is what a number belongs to (`flows.tcp`, `links.core.reverse`), `metric` its name there
(`throughput_bps`, `queue_packets.mean`), and both joined by a dot are the path that measures use. Time series
have `time_s` besides, and their unit likewise from the end of their name.
"""

import csv
import difflib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tidegate import paths, stats
from tidegate.errors import MissingExtraError, UsageError
from tidegate.experiment import Place, PointResult, place_of

# What stands behind the last underline of a metric, or is all of it; the rest counts or compares.
_UNITS = {
    "bps": "bit/s", "bytes": "B", "packets": "packets", "segments": "segments", "s": "s", "ms": "ms",
    "us": "us", "ns": "ns", "ratio": "1", "ppm": "ppm", "utilization": "1", "jain": "1",
    "hops": "packet-hops",
}  # fmt: skip
# Sections of a summary that have an entry for each name.
_NAMED = ("flows", "links", "fluids", "domains", "markers", "nodes", "hosts")
FORMATS = (".csv", ".parquet", ".arrow")
_NAMES_SHOWN = 40


@dataclass(frozen=True)
class Frame:
    """A table: columns of equal length by name. What speaks the Arrow C stream reads it (needs polars)."""

    columns: Mapping[str, list[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self.columns:
            raise KeyError(f"no column {name!r}; there are {', '.join(self.columns)}")
        return self.columns[name]

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dict per row."""
        for values in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, values, strict=True))

    def where(self, **wanted: Any) -> "Frame":
        """The rows in which columns have these values, or one of them where a list is given.

        `UsageError` for a number where the column has texts, or a text where it has numbers.
        """
        ways = [(self[name], value if isinstance(value, list) else [value]) for name, value in wanted.items()]
        for (column, any_of), name in zip(ways, wanted, strict=True):
            of_texts = {isinstance(value, str) for value in column if value is not None}
            for value in any_of:
                if value is not None and len(of_texts) == 1 and isinstance(value, str) not in of_texts:
                    kind, given = ("texts", "a number") if True in of_texts else ("numbers", "a text")
                    raise UsageError(f"the column {name!r} has {kind}, and {value!r} is {given}")
        kept = [
            index for index in range(len(self)) if all(column[index] in any_of for column, any_of in ways)
        ]
        return Frame({name: [column[index] for index in kept] for name, column in self.columns.items()})

    def to_polars(self) -> Any:
        """As a `polars.DataFrame`."""
        try:
            import polars
        except ImportError:
            raise MissingExtraError("this needs polars: pip install 'tidegate[data]'") from None
        # A column without any value still is of numbers, or of texts.
        numbers = {name: polars.Float64 for name in ("value", "mean", "low", "high") if name in self.columns}
        empty = [name for name, column in self.columns.items() if not any(v is not None for v in column)]
        texts = {name: polars.String for name in empty if name not in numbers}
        return polars.DataFrame(dict(self.columns), schema_overrides=texts | numbers, strict=False)

    def to_pandas(self) -> Any:
        """As a `pandas.DataFrame`."""
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("this needs pandas: pip install pandas") from None
        return pandas.DataFrame(dict(self.columns))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_polars().__arrow_c_stream__(requested_schema)

    def to_csv(self) -> str:
        """As CSV with a header; numbers as they are read back the same, nothing for no value."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*self.columns.values(), strict=True))
        return text.getvalue()

    def write(self, path: Path) -> None:
        """Write it; the suffix chooses between CSV, Parquet and Arrow (IPC)."""
        from tidegate.store import write_atomic

        if path.suffix == ".csv":
            write_atomic(path, self.to_csv())
            return
        buffer = io.BytesIO()
        if path.suffix == ".parquet":
            self.to_polars().write_parquet(buffer)
        elif path.suffix == ".arrow":
            self.to_polars().write_ipc(buffer)
        else:
            named = path.suffix or "a file without suffix"
            raise UsageError(f"cannot write {named}; formats: {', '.join(FORMATS)}")
        write_atomic(path, buffer.getvalue())

    def _repr_html_(self) -> str:
        from html import escape

        shown = [[_cell(value) for value in row] for row in zip(*self.columns.values(), strict=True)][:20]
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in shown)
        more = f"<p>{len(self)} rows</p>" if len(self) > len(shown) else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def __repr__(self) -> str:
        return f"<Frame: {len(self)} rows of {', '.join(self.columns)}>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}".replace(",", " ") if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"
    return "" if value is None else str(value)


def unit_of(metric: str) -> str:
    """The unit in the name of a metric or of a series; "1" for ratios, nothing for what only counts.

    Of `queue_packets.mean` it is in front of the dot, of `links.core.queue_bytes` behind the last. What is
    counted by reason is packets, whatever the reason is called.
    """
    for part in reversed(metric.split(".")):
        if part in paths.BY_REASON:
            return "packets"
        unit = _UNITS.get(part.rpartition("_")[2])
        if unit is not None:
            return unit
    return ""


def metrics_of(summary: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Place, metric and value of each number of a summary."""
    for section, content in summary.items():
        if not isinstance(content, Mapping):
            continue
        if section not in _NAMED:
            yield from _numbers(section, "", content)
            continue
        for name, entry in content.items():
            if isinstance(entry, Mapping):
                yield from _numbers(f"{section}.{name}", "", entry)


def _by_run(
    points: Sequence[PointResult],
) -> Iterator[tuple[PointResult, list[tuple[str, str, float]]]]:
    """The metrics of each run. What another seed of its point has counted, and this one has not, is 0."""
    counted: dict[Place, dict[tuple[str, str], None]] = {}
    for point in points:
        own = counted.setdefault(place_of(point), {})
        for place, metric, _ in metrics_of(point.summary):
            if paths.is_left_out_if_zero(metric):
                own[place, metric] = None
    for point in points:
        metrics = list(metrics_of(point.summary))
        there = {(place, metric) for place, metric, _ in metrics}
        metrics += [(*each, 0.0) for each in counted[place_of(point)] if each not in there]
        yield point, metrics


def _numbers(place: str, prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    for key, value in table.items():
        metric = f"{prefix}{key}"
        if isinstance(value, bool):
            continue
        if isinstance(value, int | float):
            yield place, metric, float(value)
        elif isinstance(value, Mapping) and key == "reverse" and not prefix:
            yield from _numbers(f"{place}.reverse", "", value)
        elif isinstance(value, Mapping):
            yield from _numbers(place, f"{metric}.", value)


def chosen(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path is one of those that are asked for; all where nothing is."""
    if not patterns:
        return lambda path: True
    return lambda path: any(fnmatchcase(path, pattern) for pattern in patterns)


def require_some(
    points: Sequence[PointResult], patterns: Sequence[str], of_series: bool, option: str = "--only "
) -> None:
    """Refuse a table that would hold nothing, or nothing for one of its `patterns`; says what there is."""
    if of_series:
        names = dict.fromkeys(name for point in points for name in point.series_names)
        if not names:
            raise UsageError(
                "nothing was recorded over time: `[record]` in its file says so: docs/scenarios.md#record"
            )
        there = {name: (name, "") for name in names}
    else:
        found = ((place, metric) for point in points for place, metric, _ in metrics_of(point.summary))
        there = {f"{place}.{metric}": (place, metric) for place, metric in found}
    for pattern in patterns:
        if not any(map(chosen([pattern]), there)):
            raise UsageError(
                f"{option}{pattern}: no {'series' if of_series else 'number'} of this result is "
                f"called so{_there_is(pattern, there.values())}"
            )


def _there_is(pattern: str, there: Iterable[tuple[str, str]]) -> str:
    """What could be meant by a pattern that matches nothing: the metrics of its place, else the places."""
    start = ".".join(pattern.split(".")[:2])
    here = [metric for place, metric in there if metric and fnmatchcase(place, start)]
    names = list(dict.fromkeys(here or (place for place, _ in there)))
    close = difflib.get_close_matches(pattern.rpartition(".")[2] if here else pattern, names, n=3)
    meant = f"; did you mean {', '.join(close)}?" if close else ""
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    of = f"{start} has" if here else "there are"
    return f"{meant or ';'} {of}: {', '.join(names[:_NAMES_SHOWN]) or 'none'}{more}"


def _axes(points: Sequence[PointResult]) -> list[str]:
    return list(dict.fromkeys(name for point in points for name in point.axes))


def _columns(names: Sequence[str]) -> dict[str, list[Any]]:
    """Empty columns. Folders of earlier versions may have an axis that is called as one of ours."""
    columns: dict[str, list[Any]] = {name: [] for name in names}
    if twice := [name for name in columns if names.count(name) > 1]:
        raise UsageError(
            f"two columns of this table would be called {twice[0]!r}: one is an axis, or a measure"
        )
    return columns


def values(points: Sequence[PointResult], patterns: Sequence[str] = ()) -> Frame:
    """One row per run and metric; `patterns` choose among paths: `flows.*.throughput_bps`."""
    axes = _axes(points)
    columns = _columns(("variant", *axes, "seed", "place", "metric", "unit", "value"))
    is_chosen = chosen(patterns)
    for point, metrics in _by_run(points):
        for place, metric, value in metrics:
            if is_chosen(f"{place}.{metric}"):
                here = (point.variant, *(point.axes.get(name) for name in axes), point.seed)
                _append(columns, (*here, place, metric, unit_of(metric), value))
    return Frame(columns)


def means(points: Sequence[PointResult], patterns: Sequence[str] = ()) -> Frame:
    """One row per point and metric: the mean over seeds, its 95 % confidence interval, how many there are."""
    axes = _axes(points)
    names = ("variant", *axes, "place", "metric", "unit", "mean", "low", "high", "seeds")
    columns = _columns(names)
    is_chosen = chosen(patterns)
    groups: dict[Any, tuple[PointResult, dict[tuple[str, str], list[float]]]] = {}
    for point, metrics in _by_run(points):
        _, found = groups.setdefault(place_of(point), (point, {}))
        for place, metric, value in metrics:
            if is_chosen(f"{place}.{metric}"):
                found.setdefault((place, metric), []).append(value)
    for point, found in groups.values():
        here = (point.variant, *(point.axes.get(name) for name in axes))
        for (place, metric), measured in found.items():
            mean, low, high, count = stats.estimate(measured)
            _append(columns, (*here, place, metric, unit_of(metric), mean, low, high, count))
    return Frame(columns)


def series(points: Sequence[PointResult], patterns: Sequence[str] = ()) -> Frame:
    """One row per run, series and instant."""
    axes = _axes(points)
    names = ("variant", *axes, "seed", "series", "unit", "time_s", "value")
    columns = _columns(names)
    is_chosen = chosen(patterns)
    for point in points:
        here = (point.variant, *(point.axes.get(name) for name in axes), point.seed)
        for name in filter(is_chosen, point.series_names):
            times, samples = (list(map(float, column)) for column in point.series(name))
            same: Iterable[Any] = (*here, name, unit_of(name))
            for column, value in zip(names, same, strict=False):
                columns[column].extend([value] * len(times))
            columns["time_s"].extend(times)
            columns["value"].extend(samples)
    return Frame(columns)


def measured(points: Sequence[PointResult], expressions: Mapping[str, str]) -> Frame:
    """One row per run with a column for each measure; None where a run has no such value.

    `MeasureError` where no run has anything of the kind.
    """
    from tidegate import measure
    from tidegate.errors import LackingError, NoValueError

    axes = _axes(points)
    columns = _columns(("variant", *axes, "seed", *expressions))
    lacking: dict[str, list[LackingError]] = {name: [] for name in expressions}
    for point in points:
        found: list[float | None] = []
        for name, expression in expressions.items():
            try:
                found.append(measure.evaluate(expression, point))
            except LackingError as error:
                found.append(None)
                lacking[name].append(error)
        _append(columns, (point.variant, *(point.axes.get(name) for name in axes), point.seed, *found))
    for errors in lacking.values():
        if errors and len(errors) == len(points) and not any(isinstance(e, NoValueError) for e in errors):
            raise errors[0]
    return Frame(columns)


def _append(columns: dict[str, list[Any]], row: Sequence[Any]) -> None:
    for column, value in zip(columns.values(), row, strict=True):
        column.append(value)
