"""The chosen values beside the defaults, with seeds of their own, on seen and unseen networks.

Both have the same seeds, so the difference is taken seed by seed and has an interval of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate import parallel, progress, stats
from tidegate.experiment import Place, Task, place_of
from tidegate.stats import Estimate
from tidegate.tuning import networks, trials
from tidegate.tuning.declared import Limit, Networks, Objective, Quantity, Tuning
from tidegate.tuning.networks import Wanted
from tidegate.tuning.runs import Runs
from tidegate.tuning.space import overrides_of
from tidegate.tuning.trials import Trial, Values

SEEN, UNSEEN = "seen", "unseen"
DEFAULT, TUNED = "default", "tuned"


@dataclass(frozen=True)
class Row:
    """One quantity on some networks: of the defaults, of the chosen values, and the difference."""

    networks: str  # seen or unseen
    point: str  # empty: over all points, as the search has it
    quantity: Quantity
    default: Estimate
    tuned: Estimate
    difference: Estimate

    @property
    def verdict(self) -> str:
        """What is known of it."""
        if isinstance(self.quantity, Limit):
            if self.point:
                return ""  # limits are kept over all points
            low, high = self.tuned.low, self.tuned.high
            if self.quantity.excess(self.tuned.mean) > 0:
                return "broken" if self.quantity.is_outside(low, high) else "broken, within its noise"
            ends = [end for end in (low, high) if end is not None]
            return "kept" if all(self.quantity.excess(end) <= 0 for end in ends) else "kept, within its noise"
        assert isinstance(self.quantity, Objective)
        low, high = self.difference.low, self.difference.high
        if low is None or high is None or low <= 0 <= high:
            return "not told apart"
        return "better" if (self.quantity.sign * self.difference.mean) < 0 else "worse"


@dataclass(frozen=True)
class Comparison:
    """All rows, and the runs that they are of."""

    rows: tuple[Row, ...]
    problems: tuple[str, ...]  # what is left out and why: points without a value, what is relative to 0
    tasks: dict[tuple[str, str], list[Task]]  # by networks, and default or tuned
    seeds: tuple[int, int]  # the first and the last


def tasks_of(
    tuning: Tuning, wanted: Wanted, chosen: Trial, seeds: int, after: int
) -> dict[tuple[str, str], list[Task]]:
    """The runs of a comparison, with `seeds` seeds beyond `after`."""
    defaults = {each.name: each.default for each in tuning.parameters}
    found = {}
    places: list[tuple[str, Networks]] = [(SEEN, tuning.seen)]
    if tuning.unseen is not None:
        places.append((UNSEEN, tuning.unseen))
    for name, where in places:
        for which, texts in ((DEFAULT, defaults), (TUNED, chosen.texts)):
            values = overrides_of(tuning.parameters, texts)
            found[name, which] = networks.tasks_of(where, wanted, values, seeds, after + 1)
    return found


def compare(
    tuning: Tuning,
    tasks: dict[tuple[str, str], list[Task]],
    seeds: int,
    after: int,
    runs: Runs,
    pool: parallel.Pool,
    bar: progress.Progress,
) -> Comparison:
    """Make the runs, all at once, and say what they give."""
    flat = [task for group in tasks.values() for task in group]
    measured = iter(runs.measure(flat, pool, bar))
    found: dict[tuple[str, str], Found] = {}
    problems: dict[str, dict[Place, str]] = {}
    for (name, which), group in tasks.items():
        of = found[name, which] = {}
        for task in group:
            values = next(measured)
            if isinstance(values, str):
                told = f"{name} networks, {which} values: {values}"
                problems.setdefault(name, {}).setdefault(place_of(task), told)
            else:
                of[place_of(task), task.seed] = values
    rows: list[Row] = []
    told_all = [text for by_place in problems.values() for text in by_place.values()]
    for name in dict.fromkeys(key[0] for key in tasks):
        both = found[name, DEFAULT], found[name, TUNED]
        points = {place_of(task): _label(task) for task in tasks[name, DEFAULT]}
        known = [place for place in points if place not in problems.get(name, {})]
        for quantity in tuning.quantities if known else ():
            try:
                rows.append(_over_all(name, quantity, known, *both))
                is_alone = len(points) == 1
            except trials.ZeroBaseError as error:
                # The search is done, and its other rows are good: this one stands as it was measured.
                told_all.append(f"{name} networks: {error}")
                is_alone = False
            if not is_alone:
                rows += [_at(name, quantity, place, points[place], *both) for place in known]
    return Comparison(tuple(rows), tuple(told_all), tasks, (after + 1, after + seeds))


Found = dict[tuple[Place, int], Values]


def _over_all(name: str, quantity: Quantity, points: Sequence[Place], default: Found, tuned: Found) -> Row:
    """As the search has it: relative if it is, and reduced over the points."""
    seeds = sorted({seed for place, seed in default if place in points})
    per_seed = [
        [
            trials.reduced(quantity, seed, {place: of[place, seed] for place in points}, default)
            for seed in seeds
        ]
        for of in (default, tuned)
    ]
    return _row(name, "", quantity, *per_seed)


def _at(name: str, quantity: Quantity, place: Place, label: str, default: Found, tuned: Found) -> Row:
    """At one point, as it was measured."""
    seeds = sorted({seed for at, seed in default if at == place})
    per_seed = [[of[place, seed][quantity.name] for seed in seeds] for of in (default, tuned)]
    return _row(name, label, quantity, *per_seed)


def _row(name: str, point: str, quantity: Quantity, default: list[float], tuned: list[float]) -> Row:
    difference = [one - other for one, other in zip(tuned, default, strict=True)]
    return Row(
        name, point, quantity, stats.estimate(default), stats.estimate(tuned), stats.estimate(difference)
    )


def _label(task: Task) -> str:
    parts = [task.variant] if task.variant else []
    return ", ".join([*parts, *(f"{name} {value}" for name, value in task.axes.items())]) or "the network"
