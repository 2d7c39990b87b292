"""What a tuning is: the file with its table `[tune]`, read and checked.

title = "BLUE with few losses"
description = "..."                       # what is asked, in a sentence or two

[tune]
experiment = "_blue"                      # the file beside, without .toml; or the id of one that ships
where = { network = ["a", "b"] }          # the points that are tuned on, as checks have it; default: all
trials = 64                               # of which the first are the defaults
seeds = 4                                 # 1 to this, of each point and trial
prune = 2                                 # after so many seeds what is clearly worse is stopped; 0: never
sampler = "tpe"                           # | nsga2 | random
compare_seeds = 10                        # other seeds, for the comparison in the end

[tune.parameters.delta]
path = "parameters.delta"                 # or paths = [...]
default = 0.01                            # what the experiment has, as it is published
range = [0.0005, 0.2]                     # or values = [...]; quantities as everywhere: ["1ms", "100ms"]
scale = "log"                             # | linear

[tune.objectives.loss]
measure = "links.core.dropped_packets"    # see measure.py
goal = "min"                              # | max
relative = true                           # to the defaults, at the same point with the same seed

[tune.limits.used]
measure = "links.core.utilization"
at_least = 0.95
relative = true

[tune.unseen]                             # networks that are kept apart
where = { network = ["c", "d"] }
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tidegate import library, measure, reach
from tidegate.errors import InvalidFileError, MeasureError, UsageError
from tidegate.toml_text import Table, line_of, tables_of
from tidegate.tuning.space import Choices, Parameter, Range

SAMPLERS = ("tpe", "nsga2", "random")
GOALS = ("min", "max")
REDUCTIONS = ("mean", "min", "max")
SCALES = ("linear", "log")
FILE_KEYS = {"title", "description", "source", "tune"}
TUNE_KEYS = {
    "experiment", "where", "trials", "quick_trials", "seeds", "quick_seeds", "prune", "sampler", "seed",
    "batch", "compare_seeds", "quick_compare_seeds", "parameters", "objectives", "limits", "unseen",
}  # fmt: skip
PARAMETER_KEYS = {"path", "paths", "default", "range", "values", "scale", "step", "label", "why"}
QUANTITY_KEYS = {"measure", "relative", "reduce", "label", "unit"}
OBJECTIVE_KEYS = {*QUANTITY_KEYS, "goal", "weight"}
LIMIT_KEYS = {*QUANTITY_KEYS, "at_least", "at_most"}
UNSEEN_KEYS = {"experiment", "where"}
_PARAMETERS_MAX, _OBJECTIVES_MAX = 40, 4
_TRIALS_MAX, _SEEDS_MAX, _BATCH_MAX = 100_000, 10_000, 1000


@dataclass(frozen=True)
class Quantity:
    """Something that is measured of each trial: per seed over the points, then over seeds."""

    name: str
    measure: str
    relative: bool
    reduce: str
    label: str
    unit: str

    @property
    def title(self) -> str:
        """Label and unit, for axes and tables."""
        unit = "of the default's" if self.relative else self.unit
        return f"{self.label} ({unit})" if unit else self.label


@dataclass(frozen=True)
class Objective(Quantity):
    """What is to be small or large, and how much it counts where one trial of many is chosen."""

    goal: str = "min"
    weight: float = 1.0

    @property
    def sign(self) -> float:
        """What turns it into something to be small."""
        return 1.0 if self.goal == "min" else -1.0


@dataclass(frozen=True)
class Limit(Quantity):
    """What must be kept."""

    at_least: float | None = None
    at_most: float | None = None

    def excess(self, value: float) -> float:
        """How far outside of its bounds, as a part of the bound; zero or less inside."""
        found = []
        if self.at_least is not None:
            found.append((self.at_least - value) / (abs(self.at_least) or 1.0))
        if self.at_most is not None:
            found.append((value - self.at_most) / (abs(self.at_most) or 1.0))
        return max(found)

    def is_outside(self, low: float | None, high: float | None) -> bool:
        """Whether a whole interval is; False where there is none."""
        if low is None or high is None:
            return False
        is_below = self.at_least is not None and high < self.at_least
        return is_below or (self.at_most is not None and low > self.at_most)

    @property
    def words(self) -> str:
        """`at least 0.95`."""
        ends = [("at least", self.at_least), ("at most", self.at_most)]
        return ", ".join(f"{word} {end:g}" for word, end in ends if end is not None)


@dataclass(frozen=True)
class Networks:
    """Points of an experiment."""

    experiment: str
    path: Path
    where: Mapping[str, Any]
    place: str  # in the file, for errors


@dataclass(frozen=True)
class Tuning:
    """A tuning file, read."""

    name: str
    path: Path
    title: str
    description: str
    source: str
    seen: Networks
    unseen: Networks | None
    parameters: tuple[Parameter, ...]
    objectives: tuple[Objective, ...]
    limits: tuple[Limit, ...]
    sampler: str
    seed: int
    batch: int
    trials: int
    quick_trials: int
    seeds: int
    quick_seeds: int
    prune: int
    compare_seeds: int
    quick_compare_seeds: int
    text: str = field(repr=False, default="")

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """All that is measured."""
        return (*self.objectives, *self.limits)

    @property
    def measures(self) -> list[tuple[str, str]]:
        """What is measured, each with the place where it stands."""
        tables = {each.name: "objectives" for each in self.objectives}
        return [
            (self.place("tune", tables.get(each.name, "limits"), each.name, "measure"), each.measure)
            for each in self.quantities
        ]

    def place(self, *key: str) -> str:
        """File, line and key, for errors."""
        return f"{self.path}:{line_of(self.text, key)}: {'.'.join(key)}"


def shipped() -> dict[str, Path]:
    """The tunings that ship, by name."""
    folder = library.experiments_dir() / "tune"
    return {path.stem: path for path in sorted(folder.glob("*.toml")) if not path.name.startswith(("_", "."))}


def find(name: str) -> Tuning:
    """A tuning given as a file, or by the name of one that ships."""
    path = Path(name)
    if path.is_file():
        return read(path)
    known = shipped()
    short = name.removeprefix("tune/")
    if short in known:
        return read(known[short])
    if path.suffix == ".toml":
        library.require_file(Path(name))
    raise UsageError(f"no tuning {name!r}: there are {', '.join(known) or 'none'}, or a file with [tune]")


def read(path: Path) -> Tuning:
    """The tuning in a file; `InvalidFileError` with line and key where it is not what it should be."""
    tables, text = tables_of(path)
    if "tune" not in tables:
        raise InvalidFileError(f"{path}: no tuning: it has no table [tune] (docs/tuning.md)")
    file = Table(path, text, (), tables, FILE_KEYS)
    table = file.inner("tune", TUNE_KEYS)
    own = table.of_names("parameters", PARAMETER_KEYS, _PARAMETERS_MAX)
    parameters = tuple(_parameter(name, each) for name, each in own.items())
    taken: dict[str, str] = {}
    for parameter in parameters:
        for each in parameter.paths:
            if each in taken:
                key = "path" if len(parameter.paths) == 1 else "paths"
                own[parameter.name].fail(key, f"{each} is that of {taken[each]} already")
            taken[each] = parameter.name
    if not parameters:
        table.fail("parameters", "at least one: [tune.parameters.NAME]")
    objectives = tuple(
        Objective(
            **_quantity(name, each),
            goal=each.one_of("goal", GOALS),
            weight=_weight(each),
        )
        for name, each in table.of_names("objectives", OBJECTIVE_KEYS, _OBJECTIVES_MAX).items()
    )
    if not objectives:
        table.fail("objectives", "at least one: [tune.objectives.NAME]")
    if all(each.weight == 0 for each in objectives):
        table.fail("objectives", "all weights are 0: nothing says which trial is chosen")
    limits = tuple(
        _limit(name, each) for name, each in table.of_names("limits", LIMIT_KEYS, _PARAMETERS_MAX).items()
    )
    if both := {each.name for each in objectives} & {each.name for each in limits}:
        table.fail("limits", f"{', '.join(sorted(both))} is also an objective: give it another name")
    seen = _networks(table, path, None)
    unseen = None
    if "unseen" in table.values:
        unseen = _networks(table.inner("unseen", UNSEEN_KEYS), path, seen)
        if unseen.path == seen.path and unseen.where == seen.where:
            table.fail("unseen", "these are the networks that are tuned on: give others in `where`")
    seeds = table.whole("seeds", 3, 1, _SEEDS_MAX)
    prune = table.whole("prune", 2, 0, _SEEDS_MAX)
    if prune == 1:
        table.fail("prune", "1 seed has no interval, so nothing is clearly worse: 2 or more, or 0 for never")
    trials = table.whole("trials", 64, 2, _TRIALS_MAX)
    compare = table.whole("compare_seeds", max(seeds, 5), 2, _SEEDS_MAX)
    return Tuning(
        name=path.stem,
        path=path,
        title=file.words("title", path.stem),
        description=file.words("description", ""),
        source=file.words("source", ""),
        seen=seen,
        unseen=unseen,
        parameters=parameters,
        objectives=objectives,
        limits=limits,
        sampler=table.one_of("sampler", SAMPLERS, "tpe"),
        seed=table.whole("seed", 1, 0, 2**32 - 1),
        batch=table.whole("batch", 8, 1, _BATCH_MAX),
        trials=trials,
        quick_trials=table.whole("quick_trials", min(trials, 8), 2, _TRIALS_MAX),
        seeds=seeds,
        quick_seeds=table.whole("quick_seeds", min(seeds, 2), 1, _SEEDS_MAX),
        prune=prune,
        compare_seeds=compare,
        quick_compare_seeds=table.whole("quick_compare_seeds", min(compare, 2), 2, _SEEDS_MAX),
        text=text,
    )


def _quantity(name: str, table: Table) -> dict[str, Any]:
    source = table.words("measure")
    try:
        measure.parse(source)
    except MeasureError as error:
        table.fail("measure", str(error))
    return {
        "name": name,
        "measure": source,
        "relative": table.flag("relative"),
        "reduce": table.one_of("reduce", REDUCTIONS, "mean"),
        "label": table.words("label", name.replace("_", " ")) or name,
        "unit": table.words("unit", ""),
    }


def _weight(table: Table) -> float:
    weight = table.number("weight", 1.0)
    if weight is None or not 0 <= weight < float("inf"):
        table.fail("weight", "a number, 0 or more: how much it counts where one trial is chosen")
    return weight


def _limit(name: str, table: Table) -> Limit:
    at_least, at_most = table.number("at_least", None), table.number("at_most", None)
    if at_least is None and at_most is None:
        table.fail("", "needs `at_least` or `at_most`")
    if at_least is not None and at_most is not None and at_least > at_most:
        table.fail("at_least", f"{at_least:g} is more than at_most, {at_most:g}: nothing can keep that")
    return Limit(**_quantity(name, table), at_least=at_least, at_most=at_most)


def _networks(table: Table, path: Path, seen: Networks | None) -> Networks:
    where = table.values.get("where", {})
    if not isinstance(where, dict):
        table.fail("where", 'a table, as checks have it: { network = ["a", "b"] }')
    for name, wanted in where.items():
        if isinstance(wanted, dict) and not set(wanted) <= {"at_least", "at_most"}:
            table.fail("where", f"{name}: a value, a list, or {{ at_least, at_most }}")
    place = f"{path}:{line_of(table.text, (*table.key, 'where'))}: {'.'.join((*table.key, 'where'))}"
    if seen is not None and "experiment" not in table.values:
        return Networks(seen.experiment, seen.path, where, place)
    name = table.words("experiment")
    beside = path.parent / (name if name.endswith(".toml") else f"{name}.toml")
    if beside.is_file():
        if not reach.holds(path, beside):
            table.fail("experiment", f"{name} lies outside of the folder of this file: --allow its folder")
        return Networks(beside.stem.lstrip("_"), beside, where, place)
    known = library.all_experiments()
    if name not in known:
        table.fail("experiment", f"no file {beside.name} beside, and no experiment {name!r} that ships")
    return Networks(name, known[name], where, place)


def _parameter(name: str, table: Table) -> Parameter:
    paths = table.values.get("paths", [table.values["path"]] if "path" in table.values else None)
    is_list = isinstance(paths, list) and paths and all(isinstance(each, str) and each for each in paths)
    if not is_list or {"path", "paths"} <= table.values.keys():
        table.fail("path", 'one of `path = "parameters.NAME"` and `paths = ["...", "..."]`')
    if "default" not in table.values:
        table.fail("default", "is missing: the value that the experiment has, which others are compared with")
    if ("range" in table.values) == ("values" in table.values):
        table.fail("range", "one of `range = [LOW, HIGH]` and `values = [...]`")
    texts = {key: _text(table, key, table.values[key]) for key in ("default", "step") if key in table.values}
    of: Range | Choices
    if "values" in table.values:
        for key in ("scale", "step"):
            if key in table.values:
                table.fail(key, "goes with `range`, not with `values`")
        of = Choices(tuple(_texts(table, "values")))
        if len(of.values) < 2 or len(set(of.values)) < len(of.values):
            table.fail("values", "at least two, each once")
    else:
        ends = _texts(table, "range")
        if len(ends) != 2:
            table.fail("range", "two values: [LOW, HIGH]")
        scale = table.one_of("scale", SCALES, "linear")
        try:
            of = Range.between(ends[0], ends[1], scale == "log", texts.get("step"))
        except ValueError as error:
            table.fail("range", str(error))
    if not of.has(texts["default"]):
        table.fail("default", f"{texts['default']} is not among what is tried: {of.words}")
    label = table.words("label", name.replace("_", " "))
    return Parameter(name, tuple(paths or ()), texts["default"], of, label, table.words("why", ""))


def _texts(table: Table, key: str) -> list[str]:
    values = table.values[key]
    if not isinstance(values, list):
        table.fail(key, "a list")
    return [_text(table, key, each) for each in values]


def _text(table: Table, key: str, value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    table.fail(key, f"{value!r}: a number, a text or true or false; quantities are texts with their unit")
