"""Which points of an experiment are finished: kept on disk as they come, found again after an interruption.

`tidegate sweep` and `tidegate reproduce` both run what `missing` says, give each finished point to `add`, and
end with `ordered` and `complete`. A reproduction asks for part of the points first (see `seeding`).
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate import display, experiment, parallel, progress, store
from tidegate.errors import ClusterError, InvalidFileError, NotKeptError, UsageError
from tidegate.experiment import Place, PointResult, Task, place_of


@dataclass
class Finished:
    """The points of one experiment whose results go to `target`; `tasks` are all that may be asked for.

    Hold the lock of `target` while it is used.
    """

    target: Path
    tasks: Sequence[Task]
    resume: bool = False
    fresh: bool = False

    def __post_init__(self) -> None:
        self._partial = store.PartialResult(self.target)
        if self._partial.exists() and not (self.resume or self.fresh):
            raise UsageError(
                f"{self._partial.folder} holds points of an earlier run: add --resume to keep them or --fresh"
            )
        if self.fresh:
            self._partial.remove()
        # What stands at the target, or waits beside it, and of that what these tasks would give again.
        there = [] if self.fresh else self._there()
        keys = {task.key for task in self.tasks}
        asked = {_labels(task) for task in self.tasks}
        self._refuse_loss(sum(point.key not in keys and _labels(point) not in asked for point in there))
        self._current = {point.key: point for point in there if point.key in keys}
        self._held = {_labels(point) for point in there if point.key in keys}
        if stale := sum(point.key not in keys for point in there):
            points = "1 point is" if stale == 1 else f"{stale} points are"
            display.progress_line(f"{self.target}: {points} of another version or other values; run again")
        self._points = dict(self._current) if self.resume else {}

    def _there(self) -> list[PointResult]:
        """Whole points of earlier runs. With --resume it is told how many others there are."""
        waiting, damaged = self._partial.points()
        try:
            whole, edited = store.kept_points(self.target)
        except InvalidFileError:
            if self.resume:
                raise
            return waiting  # what is damaged is no loss
        if self.resume and edited + damaged:
            points = "1 point was" if edited + damaged == 1 else f"{edited + damaged} points were"
            display.progress_line(f"{self.target}: {points} changed after being written; run again")
        return whole + waiting

    def missing(self, asked: Sequence[Task] | None = None) -> list[Task]:
        """Those of `asked`, as a rule all, that are not finished."""
        return [task for task in self._asked(asked) if task.key not in self._points]

    @property
    def count(self) -> int:
        """How many points are finished."""
        return sum(task.key in self._points for task in self.tasks)

    @property
    def folder(self) -> Path:
        """Where they are until all are."""
        return self._partial.folder

    def add(self, task: Task, point: PointResult) -> None:
        """Keep what a task gave, here or in another experiment: it survives the process from now on."""
        self._partial.add(_as(task, point))
        self._points[task.key] = point

    def run(
        self,
        workers: parallel.Workers,
        title: str,
        is_excused: Callable[[Task, Exception], bool] = lambda task, error: False,
    ) -> list[str]:
        """Run what is missing, with progress. What failed and is not excused, in words."""
        missing = self.missing()
        failures = []
        with contextlib.ExitStack() as left, progress.Progress(len(missing), title) as bar:
            pool = left.enter_context(workers.opened())
            made = experiment.run_tasks(missing, pool, bar, self.add)
            outcomes = left.enter_context(contextlib.closing(made))
            for task, outcome in zip(missing, outcomes, strict=True):
                if isinstance(outcome, NotKeptError):
                    raise outcome
                if isinstance(outcome, Exception) and not is_excused(task, outcome):
                    failures.append(f"{task.variant or 'run'} {task.axes}, seed {task.seed}: {outcome}")
                    bar.say(f"failed: {failures[-1]}")
        return failures

    def ordered(self, asked: Sequence[Task] | None = None) -> list[PointResult]:
        """The finished points of `asked`, as a rule all, in their order."""
        return [_as(task, self._points[task.key]) for task in self._asked(asked) if task.key in self._points]

    def written(self, asked: Sequence[Task]) -> list[PointResult]:
        """What the result is to have: the finished points of `asked`, and those that were there before."""
        wanted = {_labels(task) for task in asked}
        return [
            _as(task, point)
            for task in self.tasks
            if (labels := _labels(task)) in wanted or labels in self._held
            if (
                point := self._points.get(task.key)
                or (None if labels in wanted else self._current.get(task.key))
            )
        ]

    def _asked(self, asked: Sequence[Task] | None) -> Sequence[Task]:
        return self.tasks if asked is None else asked

    def complete(self) -> None:
        """The result is written: what was kept for it is not needed any more."""
        self._partial.remove()

    def _refuse_loss(self, beyond: int) -> None:
        """Nothing is asked for that would replace points which are good by less."""
        if beyond:
            points = "1 finished point" if beyond == 1 else f"{beyond} finished points"
            raise UsageError(
                f"{self.target} has {points} that this run does not ask for (other seeds, the quick form?) "
                "and that it would throw away: ask for them too, give another --out, or add --fresh"
            )

    def found(self, key: str) -> PointResult | None:
        """The finished point of this key, if there is one."""
        return self._points.get(key)


def _labels(of: PointResult | Task) -> tuple[Place, int]:
    return place_of(of), of.seed


def _as(task: Task, point: PointResult) -> PointResult:
    """A point under the labels of a task: its key holds all that results depend on, and no label."""
    return PointResult(task.variant, task.axes, task.seed, point.summary, task.key, point.result)


@contextlib.contextmanager
def telling(finished: Sequence[Finished], folder: Path) -> Iterator[None]:
    """If the runs are interrupted, or lose their cluster: how many are kept in `folder`, and how to go on."""
    try:
        yield
    except (KeyboardInterrupt, ClusterError):
        if count := sum(each.count for each in finished):
            display.progress_line(
                f"{count} of {sum(len(each.tasks) for each in finished)} points are finished and kept in "
                f"{folder}; --resume goes on"
            )
        raise
