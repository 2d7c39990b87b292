"""The points of a tuning's experiments as runs with the values of a trial, and what must hold of them.

Before anything runs it is made sure that the defaults are what the experiment has, that both ends of each
range are taken and change something, that a file with the values does the same as setting them, and that no
network that is kept apart is among those that are tuned on.
"""

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidegate import _core, experiment, experiment_checks, library, quantities, reach
from tidegate.checks import measured
from tidegate.errors import InvalidFileError, MeasureError
from tidegate.experiment import Experiment, Overrides, PointResult, Task
from tidegate.tuning.choice import settings_toml
from tidegate.tuning.declared import Networks, Tuning
from tidegate.tuning.space import Parameter, Range, overrides_of

# Axes of the results of a comparison, before those of the experiment: seen or unseen, default or tuned.
COLUMNS = ("networks", "settings")
# How far between the ends of a range a value is tried: at none that would be whole by chance.
_INSIDE = 0.3819660


@dataclass(frozen=True)
class Wanted:
    """In which form runs are asked for."""

    quick: bool
    overrides: Overrides


def tasks_of(networks: Networks, wanted: Wanted, values: Overrides, seeds: int, first: int = 1) -> list[Task]:
    """The runs of a trial: its points, each with `seeds` seeds from `first` on, seeds innermost."""
    each = Experiment(networks.experiment, networks.path, [*wanted.overrides, *values])
    return each.tasks(wanted.quick, seeds, first, only=lambda point: _is_among(point, networks))


def _is_among(point: Any, networks: Networks) -> bool:
    try:
        return measured.matches(PointResult(point.variant, dict(point.axes), 0, {}), networks.where)
    except MeasureError as error:
        raise InvalidFileError(f"{networks.place}: {str(error).removeprefix('where: ')}") from None


def require(tuning: Tuning, wanted: Wanted) -> experiment.Info:
    """Refuse what cannot be tuned; what the experiment says about itself."""
    _allow(tuning)
    info = _require_measures(tuning.seen, tuning, wanted)
    if tuning.unseen is not None:
        _require_measures(tuning.unseen, tuning, wanted)
    seen = _contents(tuning.seen, wanted, ())
    if tuning.unseen is not None:
        unseen = tasks_of(tuning.unseen, wanted, (), 1)
        if both := [task for task in unseen if _content(task) in seen]:
            raise InvalidFileError(f"{tuning.unseen.place}: {_label(both[0])} is tuned on: it is not unseen")
        defaults = {parameter.name: parameter.default for parameter in tuning.parameters}
        own = overrides_of(tuning.parameters, defaults)
        is_other = tuning.unseen.path != tuning.seen.path
        if is_other and [_content(task) for task in unseen] != _contents(tuning.unseen, wanted, own):
            raise InvalidFileError(
                f"{tuning.place('tune', 'unseen', 'experiment')}: {tuning.unseen.path} has other defaults "
                f"than {', '.join(f'{path} = {value}' for path, value in own)}"
            )
    with tempfile.TemporaryDirectory() as scratch:
        for parameter in tuning.parameters:
            _require_parameter(tuning, parameter, wanted, seen, Path(scratch))
            _require_inside(tuning, parameter, wanted)
    return info


def _require_parameter(
    tuning: Tuning, parameter: Parameter, wanted: Wanted, seen: list[str], scratch: Path
) -> None:
    """Refuse a default that is none, an end that is not taken, and a path that does nothing."""
    place = ("tune", "parameters", parameter.name)
    own = overrides_of((parameter,), {parameter.name: parameter.default})
    if _tried(tuning, parameter, "default", wanted, own) != seen:
        raise InvalidFileError(
            f"{tuning.place(*place, 'default')}: {parameter.default} is not what {tuning.seen.path} has: "
            "a default is what others are compared with"
        )
    for text in parameter.of.ends:
        values = overrides_of((parameter,), {parameter.name: text})
        found = _tried(tuning, parameter, "range", wanted, values)
        if found == seen and not quantities.is_same(text, parameter.default):
            raise InvalidFileError(
                f"{tuning.place(*place, 'path')}: {', '.join(parameter.paths)} changes nothing in the "
                "networks that are tuned on"
            )
        if found != seen:
            _require_file(tuning, parameter, values, wanted, found, scratch)


def _require_inside(tuning: Tuning, parameter: Parameter, wanted: Wanted) -> None:
    """Refuse a range between whose ends nothing is taken, as where only whole numbers are."""
    if not isinstance(parameter.of, Range) or parameter.of.step is not None:
        return
    inside = parameter.of.low + _INSIDE * (parameter.of.high - parameter.of.low)
    try:
        _tried(
            tuning,
            parameter,
            "range",
            wanted,
            overrides_of((parameter,), {parameter.name: parameter.of.text(inside)}),
        )
    except InvalidFileError as error:
        step = json.dumps(f"1{parameter.of.unit}") if parameter.of.unit else "1"
        whole = f"; where only whole numbers are taken: step = {step}"
        raise InvalidFileError(f"{error}{whole if 'whole' in str(error) else ''}") from None


def _require_measures(networks: Networks, tuning: Tuning, wanted: Wanted) -> experiment.Info:
    """All points are looked at, so that a wrong name in a measure is noticed."""
    each = Experiment(networks.experiment, networks.path, wanted.overrides)
    for name in each.info.axes:
        experiment_checks.require_name(name, COLUMNS, networks.path)
    tasks = each.tasks(wanted.quick, 1, measures=tuning.measures)
    if any(task.is_real for task in tasks):
        raise InvalidFileError(
            f"{networks.path}: real hosts give other numbers each time: only simulated experiments are tuned"
        )
    points = [PointResult(task.variant, task.axes, 0, {}) for task in tasks]
    _require_there(networks, each if wanted.quick else None, points)
    if not any(_is_among(point, networks) for point in points):
        raise InvalidFileError(
            f"{networks.place}: no point of {networks.path} matches; {_allowed(each.info)}"
        )
    return each.info


def _require_there(networks: Networks, each: Experiment | None, points: list[PointResult]) -> None:
    """Refuse values of `where` that no point has, of `each` where `points` are not all that it has."""
    if each is not None:
        points = [PointResult(task.variant, task.axes, 0, {}) for task in each.tasks(False, 1)]
    for name, values in networks.where.items():
        for value in values if isinstance(values, list) else [values]:
            only = replace(networks, where={name: value})
            if not any(_is_among(point, only) for point in points):
                own = (point.variant if name == "variant" else point.axes.get(name) for point in points)
                there = ", ".join(str(one) for one in dict.fromkeys(own) if one is not None)
                raise InvalidFileError(f"{networks.place}.{name}: {value!r} is none of {there}")


def _allowed(info: experiment.Info) -> str:
    parts = [f"{name}: {', '.join(axis.values)}" for name, axis in info.axes.items()]
    if info.variants:
        parts.insert(0, f"variant: {', '.join(info.variants)}")
    return f"there are {'; '.join(parts)}" if parts else "it has one point, and needs no `where`"


# What a scenario says that changes no result: values that are used stand where they are used.
_NO_RESULT = ("title", "description", "source", "parameters")


def _contents(networks: Networks, wanted: Wanted, values: Overrides) -> list[str]:
    """What the points are with these values, by all that their results depend on."""
    return [_content(task) for task in tasks_of(networks, wanted, values, 1)]


def _content(task: Task) -> str:
    about = json.loads(task.scenario.to_json())
    text = json.dumps({key: value for key, value in about.items() if key not in _NO_RESULT})
    return hashlib.sha256(text.encode()).hexdigest()


def _tried(tuning: Tuning, parameter: Parameter, key: str, wanted: Wanted, values: Overrides) -> list[str]:
    """What the points are with some values; the core's refusal is one of the tuning."""
    try:
        return _contents(tuning.seen, wanted, values)
    except _core.ConfigError as error:
        if any(words in str(error) for words in ("unknown key", "there is no")):
            key = "path" if len(parameter.paths) == 1 else "paths"
        elif key == "range" and not isinstance(parameter.of, Range):
            key = "values"
        place = tuning.place("tune", "parameters", parameter.name, key)
        set_to = ", ".join(f"{path} = {value}" for path, value in values)
        raise InvalidFileError(f"{place}: with {set_to}: {error}") from None


def _require_file(
    tuning: Tuning,
    parameter: Parameter,
    values: Overrides,
    wanted: Wanted,
    expected: list[str],
    scratch: Path,
) -> None:
    """Refuse a path that a file cannot set: the chosen values are to be one."""
    path = scratch / "tried.toml"
    path.write_text(tuned_toml(tuning.seen, values, scratch), encoding="utf-8")
    try:
        found = _contents(Networks(tuning.seen.experiment, path, tuning.seen.where, ""), wanted, ())
    except _core.ConfigError:
        found = []
    if found != expected:
        raise InvalidFileError(
            f"{tuning.place('tune', 'parameters', parameter.name, 'path')}: a file that sets "
            f"{', '.join(parameter.paths)} would not do what setting it does, since a variant or an axis of "
            f"{tuning.seen.path} wins over files: name the value there by a parameter, and tune that"
        )


def tuned_toml(networks: Networks, values: Overrides, folder: Path) -> str:
    """An experiment that is another one with these values, as a file in `folder`."""
    way = Path(os.path.relpath(networks.path.resolve(), folder.resolve())).as_posix()
    return f"include = {json.dumps(way, ensure_ascii=False)}\n{settings_toml(values)}"


def _allow(tuning: Tuning) -> None:
    """Let files that are written elsewhere include the experiments."""
    folders = [each.path.absolute().parent for each in (tuning.seen, tuning.unseen) if each is not None]
    shipped = library.experiments_dir()
    if any(each.resolve().is_relative_to(shipped.resolve()) for each in folders):
        folders.append(shipped)
    reach.allow([*map(Path, reach.allowed()), *folders])


def _label(task: Task) -> str:
    return PointResult(task.variant, task.axes, task.seed, {}).label
