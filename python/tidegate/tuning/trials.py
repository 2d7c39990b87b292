"""What a trial is: values of the parameters, its runs, what they are worth, and when it is clearly worse.

An objective or limit is measured per seed: of each point, divided by what the defaults give at the same
point with the same seed if it is `relative`, and reduced over the points. A trial's value is the mean over
seeds. All trials have the same seeds, so two of them are compared seed by seed: what a seed does to both
falls out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate import stats
from tidegate.errors import TidegateError
from tidegate.experiment import Place, Task, place_of
from tidegate.tuning.declared import Limit, Objective, Quantity, Tuning
from tidegate.tuning.runs import Measured

WHOLE, STOPPED, FAILED = "whole", "stopped", "failed"
DEFAULTS = 0  # the number of the trial that has the defaults
# So many seeds that gave the same say something.
_EQUAL_SEEDS = 4
# Of one run, by name; and of all runs of the defaults by place and seed.
Values = Mapping[str, float]
Base = Mapping[tuple[Place, int], Values]


class ZeroBaseError(TidegateError):
    """Something is relative to the defaults, and these give zero."""


@dataclass
class Trial:
    """Values that were tried, and what came of it."""

    number: int
    texts: dict[str, str]
    state: str = WHOLE
    reason: str = ""  # why it was stopped, or failed
    # By objective or limit, a value for each seed that was run, from the first.
    per_seed: dict[str, list[float]] = field(default_factory=dict)
    runs: int = 0

    @property
    def seeds(self) -> int:
        """With how many seeds it was run."""
        return len(next(iter(self.per_seed.values()), ()))

    def value(self, name: str) -> float:
        """The mean over its seeds."""
        return stats.mean(self.per_seed[name])

    def keeps(self, limits: Sequence[Limit]) -> bool:
        """Whether the means keep all limits."""
        return all(limit.excess(self.value(limit.name)) <= 0 for limit in limits)


def add_seeds(
    trial: Trial, tuning: Tuning, tasks: Sequence[Task], measured: Sequence[Measured], base: Base
) -> None:
    """What runs of further seeds gave; a run without a value makes the trial a failed one."""
    by_seed: dict[int, dict[Place, Values]] = {}
    for task, values in zip(tasks, measured, strict=True):
        trial.runs += 1
        if isinstance(values, str):
            trial.state, trial.reason = FAILED, trial.reason or values
            continue
        by_seed.setdefault(task.seed, {})[place_of(task)] = values
    if trial.state == FAILED:
        return
    for seed in sorted(by_seed):
        for quantity in tuning.quantities:
            value = reduced(quantity, seed, by_seed[seed], base)
            trial.per_seed.setdefault(quantity.name, []).append(value)


def reduced(quantity: Quantity, seed: int, by_place: Mapping[Place, Values], base: Base) -> float:
    """One seed's value of a quantity over the points."""
    found = []
    for place, values in by_place.items():
        value = values[quantity.name]
        if quantity.relative:
            divisor = base[place, seed][quantity.name]
            if divisor == 0:
                raise ZeroBaseError(
                    f"{quantity.name}: relative to the defaults, which give 0 at {_words(place)}, "
                    f"seed {seed}: leave `relative` out, or measure something that is not 0"
                )
            value /= divisor
        found.append(value)
    return {"mean": stats.mean, "min": min, "max": max}[quantity.reduce](found)


def _words(place: Place) -> str:
    variant, axes = place
    return ", ".join([*([variant] if variant else []), *(f"{name}={value}" for name, value in axes)]) or "all"


def clearly_worse(trial: Trial, others: Sequence[Trial], tuning: Tuning) -> str:
    """Why a trial need not go on, after the seeds that it has; empty if it might still be one of the best.

    It breaks a limit, or another trial is better in every objective, in both cases with the whole 95 %
    interval over seeds (of the second, of the difference seed by seed).
    """
    for limit in tuning.limits:
        estimate = stats.estimate(trial.per_seed[limit.name])
        if _is_spread(estimate) and limit.is_outside(estimate.low, estimate.high):
            return f"breaks the limit {limit.label}"
    for other in others:
        if all(_is_worse(trial, other, objective) for objective in tuning.objectives):
            return f"worse than trial {other.number}"
    return ""


def _is_worse(trial: Trial, other: Trial, objective: Objective) -> bool:
    difference = stats.estimate(differences(trial, other, objective))
    return _is_spread(difference) and difference.low is not None and difference.low > 0


def _is_spread(estimate: stats.Estimate) -> bool:
    """Whether an interval says something: of few seeds that gave the same, as counts do, it does not."""
    return estimate.low != estimate.high or estimate.count >= _EQUAL_SEEDS


def differences(trial: Trial, other: Trial, objective: Objective) -> list[float]:
    """By how much a trial is worse than another, seed by seed, over the seeds that both have."""
    pairs = zip(trial.per_seed[objective.name], other.per_seed[objective.name], strict=False)
    return [objective.sign * (own - others) for own, others in pairs]


def front(trials: Sequence[Trial], tuning: Tuning) -> list[Trial]:
    """Of the whole ones that keep the limits, those that no other is better than: the Pareto front.

    With one objective the best; of several that are alike, the first.
    """
    able = [trial for trial in trials if trial.state == WHOLE and trial.keeps(tuning.limits)]
    points = {trial.number: signed(trial, tuning.objectives) for trial in able}
    found = []
    for trial in able:
        own = points[trial.number]
        beaten = any(
            all(a <= b for a, b in zip(points[other.number], own, strict=True))
            and (points[other.number] != own or other.number < trial.number)
            for other in able
            if other is not trial
        )
        if not beaten:
            found.append(trial)
    return found


def signed(trial: Trial, objectives: Sequence[Objective]) -> tuple[float, ...]:
    """The values of the objectives, turned so that less is better."""
    return tuple(objective.sign * trial.value(objective.name) for objective in objectives)


def chosen(best: Sequence[Trial], objectives: Sequence[Objective]) -> tuple[Trial | None, dict[int, float]]:
    """The trial of the front with the least weighted shortfall, and the shortfall of each by number.

    Of each objective: how far a trial is from the best of the front, as a part of what lies between the best
    and the worst there; times its weight, and added up.
    """
    if not best:
        return None, {}
    scores = dict.fromkeys((trial.number for trial in best), 0.0)
    for objective in objectives:
        values = {trial.number: objective.sign * trial.value(objective.name) for trial in best}
        low, high = min(values.values()), max(values.values())
        for number, value in values.items():
            if high > low:
                scores[number] += objective.weight * (value - low) / (high - low)
    return min(best, key=lambda trial: (scores[trial.number], trial.number)), scores
