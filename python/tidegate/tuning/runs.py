"""The runs of a tuning: made in parallel, kept on the disk as they come, found again after an interruption.

A tuning goes on by doing everything again from the beginning: the optimizer asks for the same trials, and the
runs of those that were made are read instead. So whatever was killed, wherever it was, ends as if it had not
been, and what was kept of another file or version is never taken for this one's: runs are found by all that
they depend on.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidegate import display, experiment, measure, parallel, progress, store
from tidegate.errors import ClusterError, MeasureError, NotKeptError, UsageError
from tidegate.experiment import Place, PointResult, Task, place_of

# What was measured of a run by name, or why there is nothing.
Measured = Mapping[str, float] | str


class Runs:
    """Makes runs and measures them. Hold the lock of `target` while it is used."""

    def __init__(self, target: Path, measures: Mapping[str, str], resume: bool, fresh: bool):
        """`measures` by name are what is wanted of each run.

        Runs are kept in `target`.partial; `UsageError` if there are some and nobody said what of them.
        """
        self._partial = store.PartialResult(target)
        self._measures = measures
        if fresh:
            self._partial.remove()
        elif self._partial.exists():
            if not resume:
                raise UsageError(
                    f"{self.folder} holds runs of an earlier tuning: add --resume to keep them or --fresh"
                )
            display.progress_line(f"{self._partial.count()} runs are there already, in {self.folder}")
        self.made = 0
        self.kept = 0
        self._measured: dict[tuple[str, Place], Measured] = {}

    @property
    def folder(self) -> Path:
        """Where they are kept."""
        return self._partial.folder

    @property
    def on_disk(self) -> int:
        """How many are kept there now."""
        return self._partial.count()

    def measure(
        self,
        tasks: Sequence[Task],
        pool: parallel.Pool,
        bar: progress.Progress,
    ) -> list[Measured]:
        """What each run gives; those that are neither measured nor kept are made."""
        missing: dict[str, Task] = {}
        again: list[Task] = []
        for task in tasks:
            if (task.key, place_of(task)) in self._measured:
                bar.advance()
            elif (point := self._partial.point(task.key)) is not None:
                self._note(task, _measured(_as(task, point), self._measures))
                self.kept += 1
                bar.advance()
            elif task.key in missing:
                again.append(task)
            else:
                missing[task.key] = task
        made = experiment.run_tasks(
            list(missing.values()), pool, bar, lambda _, point: self._partial.add(point)
        )
        with contextlib.closing(made) as outcomes:
            for task, outcome in zip(missing.values(), outcomes, strict=True):
                if isinstance(outcome, NotKeptError | ClusterError | OSError):
                    raise outcome  # of the machines, not of the values that were tried
                self.made += 1
                if isinstance(outcome, Exception):
                    self._note(task, f"{_place(task)}: {outcome}")
                else:
                    self._note(task, _measured(_as(task, outcome), self._measures))
        for task in again:
            # Two trials may ask for the same; also under another label.
            point = self._partial.point(task.key)
            failed = self._measured[task.key, place_of(missing[task.key])]
            self._note(task, failed if point is None else _measured(_as(task, point), self._measures))
            bar.advance()
        return [self._measured[task.key, place_of(task)] for task in tasks]

    def _note(self, task: Task, measured: Measured) -> None:
        self._measured[task.key, place_of(task)] = measured

    def points(self, tasks: Sequence[Task]) -> list[PointResult]:
        """The whole results of runs that were made."""
        found = [(task, self._partial.point(task.key)) for task in tasks]
        return [_as(task, point) for task, point in found if point is not None]


def _as(task: Task, point: PointResult) -> PointResult:
    """A kept run under the labels of the task: one of another trial may have been the same."""
    return PointResult(task.variant, task.axes, task.seed, point.summary, task.key, point.result)


def _measured(point: PointResult, measures: Mapping[str, str]) -> Measured:
    found = {}
    for name, source in measures.items():
        try:
            found[name] = measure.evaluate(source, point)
        except MeasureError as error:
            return f"{point.label}, seed {point.seed}: {name}: {error}"
        if not math.isfinite(found[name]):
            return f"{point.label}, seed {point.seed}: {name} is {found[name]}"
    return found


def _place(task: Task) -> str:
    return f"{PointResult(task.variant, task.axes, task.seed, {}).label}, seed {task.seed}"
