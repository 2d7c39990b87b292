"""An experiment: which runs it consists of, running them, and what each run gave.

The file is read and validated by the core; here its points become jobs for `parallel`, and their results
`PointResult`s, which measures, figures, checks and the store look at.
"""

import contextlib
import functools
import hashlib
import json
import math
import threading
import tomllib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import experiment_checks, labels, parallel, progress, quantities, reach
from tidegate.cluster_wire import Files
from tidegate.errors import NotKeptError, UsageError
from tidegate.experiment_checks import SIZE, SOME_SIZE, place_of_figure

if TYPE_CHECKING:
    from tidegate import reachable

# Of one experiment, whatever asks for them: docs/scenarios.md#limits; the core holds files to it.
RUNS_MAX = 1_000_000

Overrides = Sequence[tuple[str, str]]
# A point without its seed: variant, and axes with their values.
Place = tuple[str | None, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Axis:
    """One swept value: the texts it takes, and how a figure names it."""

    name: str
    values: tuple[str, ...]
    label: str
    unit: str

    def position(self, value: str) -> float | None:
        """Where `value` stands on this axis, in its unit; None where values are names."""
        return quantities.in_unit(value, self.unit) if self.unit else quantities.base_value(value)

    @property
    def title(self) -> str:
        """Label with unit, for a figure."""
        unit = self.unit or labels.base_unit(self.values)
        return f"{self.label} ({unit})" if unit and f"({unit})" not in self.label else self.label

    def labelled(self, value: str) -> str:
        """One of its values for people: `queue 100 kB`, `connections = 8`."""
        text = labels.axis_value(self.label, value, self.unit)
        is_bare = quantities.parse(value) is not None and text.replace(" ", "").replace(".", "").isdigit()
        return f"{self.label} = {text}" if is_bare else f"{self.label} {text}"


@dataclass
class Info:
    """What an experiment file says besides its scenario; `raw` is all of it."""

    id: str
    raw: dict[str, Any]
    title: str = ""
    description: str = ""
    source: str = ""
    axes: dict[str, Axis] = field(default_factory=dict)
    variants: dict[str, str] = field(default_factory=dict)
    figures: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def from_raw(cls, experiment_id: str, raw: dict[str, Any]) -> "Info":
        """From the JSON of the core."""
        axes = {
            name: Axis(
                name,
                tuple(str(value) for value in axis.get("values", ())),
                axis.get("label") or name.replace("_", " "),
                axis.get("unit") or "",
            )
            for name, axis in named(raw.get("axes")).items()
        }
        variants = {
            name: variant.get("label") or name for name, variant in named(raw.get("variants")).items()
        }
        return cls(
            experiment_id,
            raw,
            raw.get("title") or experiment_id,
            raw.get("description") or "",
            raw.get("source") or "",
            axes,
            variants,
            list(raw.get("figures") or ()),
        )

    def labelled(self, axis: str, value: str) -> str:
        """A value of an axis for people; of one that is not there, both words as they are."""
        return self.axes[axis].labelled(value) if axis in self.axes else f"{axis} {value}"


@dataclass
class PointResult:
    """What one run of one point gave; a `measure.Run`."""

    variant: str | None
    axes: dict[str, str]
    seed: int
    summary: dict[str, Any]
    key: str = ""
    result: Any = None  # what gives the series: a `_core.RunResult`, or a file behind `store.StoredSeries`

    @property
    def series_names(self) -> list[str]:
        """Names of the recorded series."""
        return list(self.result.series_names) if self.result is not None else []

    def series(self, name: str) -> tuple[Any, Any]:
        """Times in seconds and values of one series."""
        if name not in self.series_names:
            raise KeyError(name)
        return self.result.series(name)

    @property
    def label(self) -> str:
        """Variant and axis values, for messages."""
        parts = [self.variant] if self.variant else []
        parts += [f"{name}={value}" for name, value in self.axes.items()]
        return ", ".join(parts) or "the scenario"


@dataclass
class Task:
    """One run to be made."""

    variant: str | None
    axes: dict[str, str]
    seed: int
    scenario: Any
    key: str
    # Where hosts are real: the file and what this point sets in it.
    path: Path | None = None
    overrides: Overrides = ()
    needs: Sequence[str] = ()
    # All that it depends on, to be sent to another machine.
    files: Files | None = None

    @property
    def is_real(self) -> bool:
        """Whether it needs real hosts, and real time for itself."""
        return self.path is not None

    def run(self) -> PointResult:
        """Run it, on whatever thread calls."""
        from tidegate import _core, real

        if self.path is not None:
            summary = real.run(self.path, self.overrides, self.seed)
            return PointResult(self.variant, self.axes, self.seed, summary, self.key)
        result = _core.run(self.scenario, seed=self.seed)
        kept = result if result.series_names else None
        return PointResult(
            self.variant, self.axes, self.seed, json.loads(result.summary_json), self.key, kept
        )


def place_of(point: PointResult | Task) -> Place:
    """Which point of its experiment a run belongs to, whatever its seed."""
    return point.variant, tuple(sorted(point.axes.items()))


class Experiment:
    """An experiment file, read and validated."""

    def __init__(self, experiment_id: str, path: Path, overrides: Overrides = (), ties: int | None = None):
        """`overrides` are paths of the scenario and texts to set them to.

        `ties` is a seed that breaks ties of events. No document says how these end: it overrides nothing.
        """
        from tidegate import _core

        self.id = experiment_id
        self.path = path
        self.overrides = [*overrides, *([("ties.seed", str(ties))] if ties is not None else [])]
        self.core = _core.Experiment.from_file(path, self.overrides, reach.of(path))
        self.info = Info.from_raw(experiment_id, json.loads(self.core.to_json()))
        self.overridden = overridden(path, overrides)
        # What is odd about it, and no error; as text.
        self.warnings: list[str] = list(self.core.warnings)
        experiment_checks.require(self.info, path)
        self.scenario: dict[str, Any] = {}  # the scenario of the first point, as a dict; set by `tasks`

    def tasks(
        self,
        quick: bool = False,
        seeds: int | None = None,
        first_seed: int = 1,
        measures: Iterable[tuple[str, str]] = (),
        only: Callable[[Any], bool] = lambda point: True,
    ) -> list[Task]:
        """Every run, seeds innermost; with `seeds`, seeds 1 to that number instead of the file's.

        With `first_seed` all seeds are moved, so that the lowest of 1, 2, .. is that one. `MeasureError`
        where a figure, or one of `measures` with its place, names what no run has. Points that are not among
        `only`, by `variant` and `axes`, are not looked at: what is overridden may not suit them. `UsageError`
        where there would be more than `RUNS_MAX` runs; nothing is built of them then.
        """
        from tidegate import happenings, real

        _require_seeds(seeds)
        _require_few(*self._counts(quick))

        names = self._names(measures)
        has_series = any(figure.get("kind") == "series" for figure in self.info.figures)
        files = Files(self.path, self.overrides, quick)
        groups: dict[tuple, tuple[Any, list[int]]] = {}
        points = self.core.points(quick)
        chosen = [point for point in points if only(point)]
        for point in chosen:
            key = (point.variant, tuple(sorted(point.axes.items())))
            groups.setdefault(key, (point, []))[1].append(point.seed)
        _require_few(len(groups), seeds or 1)
        tasks, texts = [], []
        for point, own_seeds in groups.values():
            scenario = self.core.scenario(point)
            text = scenario.to_json()
            self.scenario = self.scenario or json.loads(text)
            names.see(text, scenario.is_real)
            if has_series:
                texts.append(text)
            if '"trace_digest"' in text or '"tables"' in text:
                files.traces |= _traces(json.loads(text))
            hosts: dict[str, Any] = {}
            if scenario.is_real:
                overrides = [*point.overrides, *self.overrides]
                needs = real.programs(json.loads(text))
                hosts = {"path": self.path, "overrides": overrides, "needs": needs}
            axes = {name: point.axes[name] for name in self.info.axes if name in point.axes} or dict(
                point.axes
            )
            for seed in range(1, seeds + 1) if seeds else own_seeds:
                moved = seed + first_seed - 1
                key = content_key(text, moved, engine())
                tasks.append(Task(point.variant, axes, moved, scenario, key, files=files, **hosts))
        if len(chosen) == len(points):  # else one that was left out may have them
            names.require()
        if has_series:
            self.info.raw |= happenings.common(texts)
        return tasks

    def check(self, measures: Iterable[tuple[str, str]] = ()) -> None:
        """Refuse what `tasks` would, without runs: each scenario is built, looked at and let go."""
        _require_few(*self._counts(quick=False))
        names = self._names(measures)
        seen = set()
        for point in self.core.points(False):
            key = (point.variant, tuple(sorted(point.axes.items())))
            if key not in seen:
                seen.add(key)
                self._look(point, names)
        names.require()

    def _look(self, point: Any, names: "reachable.Names") -> None:
        scenario = self.core.scenario(point)
        if names.are_open:
            names.see(scenario.to_json(), scenario.is_real)

    def _names(self, measures: Iterable[tuple[str, str]]) -> "reachable.Names":
        """What figures and `measures` name, each with its place."""
        from tidegate import reachable

        figures = [
            (
                f"{place_of_figure(each, self.path)}: figure {each['id']!r}, y",
                term,
                each.get("kind") == "series",
            )
            for each in self.info.figures
            for term in ([each["y"]] if isinstance(each["y"], str) else each["y"])
        ]
        drawn = [(place, term.replace(SIZE, SOME_SIZE)) for place, term, series in figures if not series]
        return reachable.Names(
            [*drawn, *measures],
            [(place, term) for place, term, is_series in figures if is_series],
            {name: axis.values for name, axis in self.info.axes.items()},
        )

    def _counts(self, quick: bool) -> tuple[int, int]:
        """How many points the file has, and with how many seeds each."""
        raw = self.info.raw
        values = [
            (axis.get("quick") if quick else None) or axis.get("values", ())
            for axis in named(raw.get("axes")).values()
        ]
        points = math.prod(len(each) for each in values) * max(len(self.info.variants), 1)
        return points, raw.get("quick_seeds" if quick else "seeds") or 1


def _require_seeds(seeds: int | None) -> None:
    if seeds is not None and (isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1):
        raise UsageError(f"seeds is {seeds!r}: a whole number from 1 to {RUNS_MAX}")


def _require_few(points: int, seeds: int) -> None:
    if points * seeds > RUNS_MAX:
        raise UsageError(
            f"{points * seeds} runs, of {points} points with {seeds} seeds each; at most {RUNS_MAX}: "
            "ask for fewer seeds, or for shorter axes"
        )


def _traces(scenario: Mapping[str, Any]) -> set[str]:
    """The files that a scenario names: delivery opportunities, and tables of traffic."""
    ways = (link[way] for link in scenario["links"] for way in ("forward", "reverse"))
    return {way["trace"] for way in ways if way["trace"] is not None} | set(scenario.get("tables", {}))


def overridden(path: Path, overrides: Overrides) -> list[dict[str, str]]:
    """What is set in place of what the file says: `path`, `value`, `document` (empty if it says nothing)."""
    from tidegate import _core

    if not overrides:
        return []
    plain = json.loads(_core.Experiment.from_file(path, [], reach.of(path)).to_json())
    parameters = named(plain.get("parameters"))
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        written = {}
    found = []
    for key, value in overrides:
        section, _, name = key.partition(".")
        if section == "parameters" and name in parameters:
            document = parameters[name].get("value", "")
        else:
            document = written
            for part in key.split("."):
                document = document.get(part, "") if isinstance(document, dict) else ""
        text = (
            document if isinstance(document, str) else json.dumps(document, ensure_ascii=False, default=str)
        )
        found.append({"path": key, "value": value, "document": text})
    return found


def engine() -> str:
    """What simulates: the version, a digest of the sources, and one of a module with mechanisms of its own.

    Version numbers stay for many changes of results.
    """
    from tidegate import _core

    parts = [_core.__version__, getattr(_core, "__engine__", "")]
    if _core.__name__ != "tidegate._core":
        parts.append(_digest_of(_core.__file__))
    return "+".join(part for part in parts if part)


@functools.cache
def _digest_of(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]


def content_key(scenario_json: str, seed: int, version: str) -> str:
    """What a run's results depend on, as a short hash: two runs with one key have the same results."""
    text = "\0".join((version, str(seed), scenario_json))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def run_tasks(
    tasks: Sequence[Task],
    pool: parallel.Pool,
    bar: progress.Progress | None = None,
    keep: Callable[[Task, PointResult], None] = lambda task, point: None,
) -> Generator[PointResult | Exception]:
    """Run tasks in parallel, with real hosts among them one by one; results in the order of the tasks.

    `keep` gets each result as soon as it is there, whatever the order, on a thread of the pool. Once the
    caller has left, early or not, nothing is kept any more: the place of the results may be another's then.
    """
    if any(task.is_real for task in tasks):
        pool = pool.alone()
    door = _Door()

    def finish(number: int, point: PointResult) -> None:
        try:
            door.within(lambda: keep(tasks[number], point))
        except OSError as error:
            raise NotKeptError(f"{error}; what was kept before stays, --resume goes on from there") from error

    made = pool.run_ordered(tasks, finish, bar)
    try:
        with contextlib.closing(made):
            yield from made
    finally:
        door.close()


class _Door:
    """Lets others do something until it is closed; closing waits for those who are at it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._within = 0
        self._is_closed = False

    def within(self, act: Callable[[], None]) -> None:
        """Do it, unless the door is closed."""
        with self._changed:
            if self._is_closed:
                return
            self._within += 1
        try:
            act()
        finally:
            with self._changed:
                self._within -= 1
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: self._within == 0)


def named(things: Any) -> dict[str, dict[str, Any]]:
    """A table of tables by name, whether it was written as a dict or as a list of dicts with `name`."""
    if isinstance(things, dict):
        return {name: thing if isinstance(thing, dict) else {} for name, thing in things.items()}
    return {thing["name"]: thing for thing in things or ()}
