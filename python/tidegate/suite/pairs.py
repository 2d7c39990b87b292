"""Every mechanism of a suite under each of its experiments: the runs, and what cannot be run.

A pair is an experiment file of a few lines, which lays the mechanism under the experiment as an axis of files
does; so its runs are those of any experiment, on threads or on a cluster.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidegate import _core, checks, experiment, library, reach, store
from tidegate.errors import InvalidFileError
from tidegate.experiment import Info, Overrides, Task
from tidegate.suite.declared import Suite
from tidegate.suite.mechanisms import Mechanism

PAIRS = "pairs"
_TEXT = """# The mechanism {mechanism} under the experiment {scenario}, as `tidegate suite` runs it.
include = {experiment}
parameters.scenario = {scenario}
axes.scenario = {{ path = "parameters.scenario", values = [{scenario}] }}
axes.mechanism = {{ include = [{file}], values = [{mechanism}] }}
"""


@dataclass
class Pairs:
    """What is to be run for a card, and why some of it cannot be."""

    info: Info
    tasks: list[Task] = field(default_factory=list)
    scenario: dict[str, object] = field(default_factory=dict)  # of the first run
    obstacles: dict[tuple[str, str], str] = field(default_factory=dict)  # by mechanism and experiment
    _laid: dict[tuple[str, str], tuple[Mechanism, Path]] = field(default_factory=dict)

    def is_obstacle(self, task: Task, error: Exception) -> bool:
        """Whether a run ended because its network cannot be built with its mechanism; notes why."""
        if not isinstance(error, _core.ConfigError):
            return False
        pair = task.axes["mechanism"], task.axes["scenario"]
        self.obstacles.setdefault(pair, _obstacle(error, *self._laid[pair]))
        return True


def lay(
    suite: Suite,
    compared: Sequence[Mechanism],
    folder: Path,
    quick: bool,
    seeds: int | None,
    overrides: Overrides,
) -> Pairs:
    """The runs of all pairs, whose files are written into `folder`.

    What a mechanism's own file has wrong raises `InvalidFileError`, with line and key; where only the
    experiment does not suit it, that is an obstacle, and the others go on.
    """
    reach.allow([*map(Path, reach.allowed()), suite.folder, library.experiments_dir()])
    reach.allow([*map(Path, reach.allowed()), *(each.path.absolute().parent for each in compared)])
    pairs = Pairs(_info(suite, compared))
    for scenario, path in suite.experiments.items():
        for mechanism in compared:
            if mechanism.unfit:
                pairs.obstacles[mechanism.name, scenario] = mechanism.unfit
                continue
            file = folder / f"{scenario}-{mechanism.name}.toml"
            store.write_atomic(file, _text(scenario, path, mechanism, folder), tidies=False)
            try:
                each = experiment.Experiment(f"{suite.name}/{scenario}", file, overrides)
                checks.require_fits(suite.checks(scenario), each.info)
                tasks = each.tasks(quick, seeds, measures=suite.checks(scenario).measures)
            except _core.ConfigError as error:
                pairs.obstacles[mechanism.name, scenario] = _obstacle(error, mechanism, path)
                continue
            pairs._laid[mechanism.name, scenario] = mechanism, path
            pairs.tasks += tasks
            pairs.scenario = pairs.scenario or each.scenario
            for name, axis in each.info.axes.items():
                pairs.info.axes.setdefault(name, axis)
    return pairs


def _text(scenario: str, path: Path, mechanism: Mechanism, folder: Path) -> str:
    def relative(to: Path) -> str:
        way = Path(os.path.relpath(to.resolve(), folder.resolve())).as_posix()
        return json.dumps(way, ensure_ascii=False)

    return _TEXT.format(
        mechanism=json.dumps(mechanism.name),
        scenario=json.dumps(scenario),
        experiment=relative(path),
        file=relative(mechanism.path),
    )


def _info(suite: Suite, compared: Sequence[Mechanism]) -> Info:
    """What the folder of the results says that they are."""
    raw = {
        "title": suite.title,
        "description": suite.description,
        "source": suite.source,
        "axes": {
            "scenario": {"values": list(suite.experiments), "path": "parameters.scenario"},
            "mechanism": {"values": [each.name for each in compared]},
        },
    }
    return Info.from_raw(f"suite/{suite.name}", raw)


def _obstacle(error: "_core.ConfigError", mechanism: Mechanism, path: Path) -> str:
    """Why this pair cannot be run; raises where the mechanism's own file is wrong."""
    place = Path(error.file) if error.file else None
    if place is not None and _is_same(place, mechanism.path):
        text = (error.rendered or str(error)).removeprefix("error: ")
        raise InvalidFileError(text.replace(error.file or "", str(mechanism.path)))
    return str(error).replace(error.file, path.name) if error.file else str(error)


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
