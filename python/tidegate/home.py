"""Experiments from a program or a notebook: run them, open what was kept, look at it, take it away.

    lab = tidegate.sweep("queues.toml", seeds=5)
    lab.means("flows.*.throughput_bps").to_polars()
    lab.plot("delay")

What comes back is the same whether it was run now or kept in a folder by `tidegate sweep` or `reproduce`.
"""

import contextlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import checks, display, experiment, figures, library, notebook, parallel, reach, store, tidy
from tidegate.api import _override_text
from tidegate.errors import TidegateError, UsageError
from tidegate.experiment import PointResult
from tidegate.figure import Figure

if TYPE_CHECKING:
    from tidegate import draw_static

Place = str | PathLike[str]


class ExperimentResult:
    """What the runs of an experiment gave, as tables, figures and outcomes of checks."""

    def __init__(self, stored: store.StoredResult, folder: Path | None = None):
        self.stored = stored
        self.folder = folder

    @property
    def id(self) -> str:
        """Its name."""
        return self.stored.info.id

    @property
    def title(self) -> str:
        """The line that names it."""
        return self.stored.info.title

    @property
    def status(self) -> str:
        """`pass`, `differs`, `fail`, `skipped`, `unchecked` or `not comparable`: that of its worst check."""
        return self.stored.status

    @property
    def checks(self) -> list[dict[str, Any]]:
        """What was expected and what was measured; the keys are those of `tidegate reproduce --json`."""
        return self.stored.checks

    @property
    def points(self) -> list[PointResult]:
        """The runs, each with `variant`, `axes`, `seed`, `summary` and `series(name)`."""
        return self.stored.points

    def values(self, *patterns: str) -> tidy.Frame:
        """A row per run and metric (see `tidy`); patterns choose paths, as `links.*.queue_packets.mean`."""
        tidy.require_some(self.points, patterns, of_series=False, option="")
        return tidy.values(self.points, patterns)

    def means(self, *patterns: str) -> tidy.Frame:
        """A row per point and metric: mean over seeds, its 95 % confidence interval, number of seeds.

        `UsageError` where a pattern matches nothing.
        """
        tidy.require_some(self.points, patterns, of_series=False, option="")
        return tidy.means(self.points, patterns)

    def series(self, *patterns: str) -> tidy.Frame:
        """A row per run, time series and instant; patterns choose series by name.

        `UsageError` where nothing was recorded, or a pattern matches nothing.
        """
        tidy.require_some(self.points, patterns, of_series=True, option="")
        return tidy.series(self.points, patterns)

    def measure(self, **expressions: str) -> tidy.Frame:
        """A row per run with a column for each measure: `total='sum("flows.*.throughput_bps") / 1e6'`."""
        return tidy.measured(self.points, expressions)

    @cached_property
    def _figures(self) -> list[Figure]:
        stored = self.stored
        return figures.build_all(stored.info, self.points, stored.references, stored.scenario)

    @property
    def figures(self) -> list[str]:
        """The ids of its figures."""
        return [figure.id for figure in self._figures]

    def plot(
        self,
        figure: str | None = None,
        path: Place | None = None,
        style: str = "screen",
        size_mm: tuple[float, float] | None = None,
    ) -> "Picture":
        """A figure, by default the first; `path` (.svg, .png, .pdf; .md for a table) also writes it.

        `style` is for papers `ieee`, `ieee-wide`, `acm` or `acm-wide`; `size_mm` is width and height.
        """
        from tidegate import draw_static

        known = {each.id: each for each in self._figures}
        if not known:
            raise UsageError(f"{self.id} has no figures")
        chosen = next(iter(known)) if figure is None else figure
        if chosen not in known:
            raise UsageError(f"no figure {chosen!r}; there are {', '.join(known)}")
        picture = Picture(known[chosen], draw_static.look(style, size_mm))
        if path is not None:
            picture.write(path)
        return picture

    def export(self, path: Place, what: str | None = None, patterns: str | Sequence[str] = ()) -> list[Path]:
        """Write `values` (what is meant without a word), `means` or `series`: .csv, .parquet or .arrow.

        As .flent.gz time series alone, a file for each run. Gives the files that were written. `UsageError`
        where a pattern matches nothing, or no series was recorded: what stands at `path` stays.
        """
        from tidegate import flent

        target = Path(path)
        patterns = [patterns] if isinstance(patterns, str) else patterns
        if what is not None and what not in TABLES:
            raise UsageError(f"no table {what!r}; there are {', '.join(TABLES)}")
        if target.name.endswith(flent.SUFFIX):
            if what not in (None, "series"):
                raise UsageError(f"{target.name}: flent's files hold time series, and no {what}")
            return flent.write(self.points, self.title, target, patterns)
        tidy.require_some(self.points, patterns, of_series=what == "series")
        TABLES[what or "values"](self.points, patterns).write(target)
        return [target]

    def __repr__(self) -> str:
        return f"<ExperimentResult {self.id!r}: {self.status}, {self._runs()}>"

    def _runs(self) -> str:
        return f"{len(self.points)} run{'' if len(self.points) == 1 else 's'}"

    def _repr_html_(self) -> str:
        said = [self.status] if self.checks else []
        parts = [notebook.heading(self.title, ", ".join([*said, self._runs()]))]
        if self.checks:
            parts.append(_checks_frame(self.checks, display.fewest_seeds(self.points))._repr_html_())
        parts.append(notebook.charts(self._figures))
        parts.append(notebook.folded("The network", notebook.topology(self.stored.scenario)))
        return "".join(parts)


class Results(list[ExperimentResult]):
    """Several results; a notebook shows them one below the other."""

    def _repr_html_(self) -> str:
        return "<hr>".join(result._repr_html_() for result in self)


TABLES = {"values": tidy.values, "means": tidy.means, "series": tidy.series}


def _checks_frame(outcomes: Sequence[Mapping[str, Any]], seeds: int) -> tidy.Frame:
    return tidy.Frame(
        {
            "check": [each["name"] for each in outcomes],
            "expected": [display.expected_text(each) for each in outcomes],
            "measured": [display.measured_text(each, seeds) for each in outcomes],
            "status": [each["status"] for each in outcomes],
        }
    )


class Picture:
    """A drawn figure: notebooks show it, `write` keeps it."""

    def __init__(self, figure: Figure, look: "draw_static.Look | None" = None):
        if figure.problem:
            raise TidegateError(f"figure {figure.id}: {figure.problem}")
        self.figure = figure
        self.look = look

    def write(self, path: Place) -> None:
        """As .svg, .png or .pdf; a table as .md."""
        from tidegate import draw_static, tables

        target = Path(path)
        formats = draw_static.FORMATS if self.figure.table is None else (".md",)
        if target.suffix not in formats:
            named = target.suffix or "a file without suffix"
            raise UsageError(
                f"cannot write figure {self.figure.id} as {named}; formats: {', '.join(formats)}"
            )
        if self.figure.table is None:
            draw_static.draw(self.figure, target, self.look)
        else:
            tables.write(self.figure.table, target)

    def svg(self) -> str:
        """The picture as text."""
        from tidegate import draw_static

        return draw_static.drawn(self.figure, "svg", self.look).decode()

    def _repr_html_(self) -> str:
        table = self.figure.table
        if table is None:
            return notebook.chart(self.figure, self.look)
        columns = {name: [row[place] for row in table.rows] for place, name in enumerate(table.columns)}
        return tidy.Frame(columns)._repr_html_()

    def __repr__(self) -> str:
        return f"<Picture {self.figure.id!r}: {self.figure.title}>"


def open_result(folder: Place) -> ExperimentResult:
    """What `tidegate sweep`, `reproduce` or `run -o` kept in a folder."""
    path = Path(folder)
    with store.using(path):
        return ExperimentResult(store.read_result(path), path)


def sweep(
    name: Place,
    *,
    out: Place | None = None,
    seeds: int | None = None,
    quick: bool = False,
    workers: int | None = None,
    cluster: str | None = None,
    resume: bool = False,
    fresh: bool = False,
    allow: Sequence[Place] = (),
    **overrides: Any,
) -> ExperimentResult:
    """Run every point of an experiment: a file, or the id of one that ships.

    With `out` finished points survive an interruption there, as those of the command do (`resume`, `fresh`);
    without it nothing is written. `cluster` is the address of a Dask scheduler, or `local:N` for processes of
    this machine, in the place of `workers` threads. Keywords override values by path, as in `load`. Raises
    `TidegateError` if a run fails.
    """
    from tidegate.commands.reproduce import expectations, judge
    from tidegate.finished import Finished

    made_by = parallel.Workers(workers, cluster)
    experiment_id, path = library.resolve(fspath(name))
    with reach.allowing(allow):
        each = experiment.Experiment(experiment_id, path, _pairs(overrides))
        expected = expectations({experiment_id: path}, tells=False).get(experiment_id, checks.Expectations())
        checks.require_fits(expected, each.info)
        tasks = each.tasks(quick, seeds, measures=expected.measures)
        if out is None:
            points = _run(tasks, made_by, experiment_id)
            return ExperimentResult(judge(each, points, [], expected, quick))
        target = Path(out)
        store.require_place(target)
        if not fresh:
            store.require_same(target, experiment_id, each.overridden)
        with store.locked(target):
            finished = Finished(target, tasks, resume, fresh)
            if failures := finished.run(made_by, experiment_id):
                raise TidegateError(f"{len(failures)} of {len(tasks)} runs failed: {failures[0]}")
            result = judge(each, finished.ordered(), [], expected, quick)
            store.write_result(target, result, path)
            finished.complete()
    return ExperimentResult(result, target)


def _run(tasks: Sequence[experiment.Task], workers: parallel.Workers, title: str) -> list[PointResult]:
    """In memory; the first failure ends it."""
    from tidegate import progress

    points: list[PointResult] = []
    with contextlib.ExitStack() as left, progress.Progress(len(tasks), title) as bar:
        pool = left.enter_context(workers.opened())
        made = left.enter_context(contextlib.closing(experiment.run_tasks(tasks, pool, bar)))
        for task, outcome in zip(tasks, made, strict=True):
            if isinstance(outcome, Exception):
                place = f"{task.variant or 'run'} {task.axes}, seed {task.seed}"
                raise TidegateError(f"{place}: {outcome}") from outcome
            points.append(outcome)
    return points


def reproduce(
    *ids: Place,
    out: Place = "results",
    quick: bool = False,
    seeds: int | None = None,
    all_seeds: bool = False,
    first_seed: int = 1,
    ties: int | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    resume: bool = False,
    fresh: bool = False,
    allow: Sequence[Place] = (),
    **overrides: Any,
) -> Results:
    """Run published experiments and set what is measured against what is reported; one result for each.

    Ids are as of the command: `nbp/fig8a`, a group, a file. Folders go to `out`; `cluster` is as in `sweep`.
    """
    from tidegate.commands import reproduce as command

    wanted = command.Wanted(quick, seeds, all_seeds or quick or seeds is not None, first_seed)
    places = command.Places(Path(out), resume, fresh)
    made_by = parallel.Workers(workers, cluster)
    names = [fspath(name) for name in ids]
    with reach.allowing(allow):
        results = command.results_of(names, wanted, places, made_by, _pairs(overrides), ties)
    return Results(ExperimentResult(result, Path(out) / result.info.id) for result in results)


def _pairs(overrides: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("__", "."), _override_text(value)) for name, value in overrides.items()]
