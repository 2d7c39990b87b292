"""How many seeds a reproduction runs: a few for everything, more only where a check is not decided by them.

The number of seeds that an experiment file gives is the most. Every point that a check looks at begins with
`FIRST` of them; one that is only drawn has `DRAWN`. After each round, points at which a check's mean lies so
near to its bounds that other seeds could move it across get as many again. Which points go on depends on
results alone, so that any number of workers, any order and a run that was resumed end with the same seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate import checks
from tidegate.experiment import Place, PointResult, Task, place_of

# With fewer, a standard error says little: Student's t of three degrees of freedom asks for 5.8 of them.
FIRST = 4
GROWTH = 2
# Enough for a mean and an interval in a figure.
DRAWN = 3


@dataclass
class Seeding:
    """The runs of one experiment: those that are asked for so far, and those that could be."""

    tasks: Sequence[Task]  # at most these; seeds of a point in their order
    judged: Sequence[checks.Check]
    is_whole: bool  # all of them at once
    asked: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._of_place: dict[Place, list[Task]] = {}
        for task in self.tasks:
            self._of_place.setdefault(place_of(task), []).append(task)
        self._counts = {
            place: FIRST if any(checks.looks_at(check, place) for check in self.judged) else DRAWN
            for place in self._of_place
        }
        self._ask()

    def _ask(self) -> None:
        """Those asked for, in the order of the experiment."""
        self.asked = [
            task
            for place, tasks in self._of_place.items()
            for task in (tasks if self.is_whole else tasks[: self._counts[place]])
        ]

    def go_on(self, points: Sequence[PointResult]) -> bool:
        """Ask for more seeds where `points`, the results of what was asked, leave a check open; False if no
        seed is to be had, or none needed."""
        before = len(self.asked)
        if before < len(self.tasks):
            for place in checks.undecided(self.judged, points):
                self._counts[place] *= GROWTH
            self._ask()
        return len(self.asked) > before
