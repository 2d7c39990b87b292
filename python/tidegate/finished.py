"""Which points of an experiment are finished: kept on disk as they come, found again after an interruption.

`tidegate sweep` and `tidegate reproduce` both run what `missing` says, give each finished point to `add`, and
end with `ordered` and `complete`. A reproduction asks for part of the points first (see `seeding`).
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate import _core, display, experiment, parallel, progress, store
from tidegate.errors import ClusterError, InvalidFileError, NotKeptError, UsageError
from tidegate.experiment import PointResult, Task, place_of


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
        kept: Mapping[str, PointResult] = {}
        if self.resume:
            whole, edited = store.kept_points(self.target, _core.__version__)
            waiting, damaged = self._partial.points()
            kept = whole | waiting
            if edited + damaged:
                points = "1 point was" if edited + damaged == 1 else f"{edited + damaged} points were"
                display.progress_line(f"{self.target}: {points} changed after being written; run again")
            self._require_no_loss(kept)
        elif not self.fresh:
            # What is asked for again is replaced by the same; what is damaged is no loss.
            with contextlib.suppress(InvalidFileError):
                self._require_no_loss(store.kept_points(self.target, _core.__version__)[0])
        self._points = {task.key: kept[task.key] for task in self.tasks if task.key in kept}

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

    def add(self, point: PointResult) -> None:
        """Keep a point: it survives the process from now on."""
        self._partial.add(point)
        self._points[point.key] = point

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
            made = experiment.run_tasks(missing, pool, bar, lambda _, point: self.add(point))
            outcomes = left.enter_context(contextlib.closing(made))
            for task, outcome in zip(missing, outcomes, strict=True):
                if isinstance(outcome, NotKeptError):
                    raise outcome
                if isinstance(outcome, Exception) and not is_excused(task, outcome):
                    failures.append(f"{task.variant or 'run'} {task.axes}, seed {task.seed}: {outcome}")
                    bar.say(f"failed: {failures[-1]}")
        return failures

    def ordered(self, asked: Sequence[Task] | None = None) -> list[PointResult]:
        """The finished points of `asked`, as a rule all, in their order.

        A key holds all that results depend on, so points that were kept may carry another point's labels.
        """
        found = [(task, self._points[task.key]) for task in self._asked(asked) if task.key in self._points]
        return [
            PointResult(task.variant, task.axes, task.seed, point.summary, task.key, point.result)
            for task, point in found
        ]

    def _asked(self, asked: Sequence[Task] | None) -> Sequence[Task]:
        return self.tasks if asked is None else asked

    def complete(self) -> None:
        """The result is written: what was kept for it is not needed any more."""
        self._partial.remove()

    def _require_no_loss(self, kept: Mapping[str, PointResult]) -> None:
        """Refuse to go on with less than was asked for before.

        The result would replace points that are good.
        """
        asked = {(place_of(task), task.seed) for task in self.tasks}
        beyond = sum((place_of(point), point.seed) not in asked for point in kept.values())
        if beyond:
            points = "1 finished point" if beyond == 1 else f"{beyond} finished points"
            raise UsageError(
                f"{self.target} has {points} that this run does not ask for (other seeds, the quick form?) "
                "and that it would throw away: ask for them too, give another --out, or add --fresh"
            )


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
