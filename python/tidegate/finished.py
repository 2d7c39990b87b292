"""Which points of an experiment are finished: kept on disk as they come, found again after an interruption.

`tidegate sweep` and `tidegate reproduce` both run what `missing` says, give each finished point to `add`, and
end with `ordered` and `complete`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate import _core, display, store
from tidegate.errors import UsageError
from tidegate.experiment import PointResult, Task


@dataclass
class Finished:
    """The points of one experiment whose results go to `target`.

    Hold the lock of `target` while it is used.
    """

    target: Path
    tasks: Sequence[Task]
    resume: bool = False
    fresh: bool = False
    missing: list[Task] = field(init=False)

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
        self._points = {task.key: kept[task.key] for task in self.tasks if task.key in kept}
        self.missing = [task for task in self.tasks if task.key not in self._points]

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

    def ordered(self) -> list[PointResult]:
        """The finished points in the order of the tasks.

        A key holds all that results depend on, so points that were kept may carry another point's labels.
        """
        found = [(task, self._points[task.key]) for task in self.tasks if task.key in self._points]
        return [
            PointResult(task.variant, task.axes, task.seed, point.summary, task.key, point.result)
            for task, point in found
        ]

    def complete(self) -> None:
        """The result is written: what was kept for it is not needed any more."""
        self._partial.remove()

    def _require_no_loss(self, kept: Mapping[str, PointResult]) -> None:
        """Refuse to go on with less than was asked for before.

        The result would replace points that are good.
        """
        asked = {_place(task) for task in self.tasks}
        beyond = sum(_place(point) not in asked for point in kept.values())
        if beyond:
            points = "1 finished point" if beyond == 1 else f"{beyond} finished points"
            raise UsageError(
                f"{self.target} has {points} that this run does not ask for (other seeds, the quick form?) "
                "and that it would throw away: ask for them too, give another --out, or add --fresh"
            )


def _place(point: PointResult | Task) -> tuple[Any, ...]:
    return (point.variant, tuple(sorted(point.axes.items())), point.seed)
