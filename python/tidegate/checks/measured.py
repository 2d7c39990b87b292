"""What is measured of a check: from the runs of its experiment, the values that are set against its bounds.

A value is measured per seed and averaged; the mean is what is compared, or the median where a check asks for
it, and its 95 % interval is reported.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from tidegate import measure, quantities, stats
from tidegate.checks.declared import Check
from tidegate.errors import MeasureError
from tidegate.experiment import Place, PointResult, place_of


def where_of(check: Check, members: Sequence[PointResult]) -> str:
    """Where a value was measured that comes from these runs."""
    labels = dict.fromkeys(point.label for point in members if matches(point, check.where))
    return next(iter(labels)) if len(labels) == 1 else f"{check.reduce} over {len(labels)} points"


def estimates(check: Check, points: Sequence[PointResult]) -> list[tuple[stats.Estimate, list[PointResult]]]:
    """What is measured, once per point or once over all of them, and the runs that it comes from.

    Where points have other seeds than those that they are set against, only the common ones count.
    """
    groups: dict[Place, dict[int, float]] = {}
    members: dict[Place, list[PointResult]] = {}
    problem: MeasureError | None = None
    base_of = _bases(check, points)
    for point in points:
        if not matches(point, check.where):
            continue
        place = place_of(point)
        base = base_of(point)
        members.setdefault(place, []).extend([point, *([base] if base else [])])
        value = measure.evaluate(check.measure, point)
        if not check.relative_to:
            groups.setdefault(place, {})[point.seed] = value
        elif base is None:
            problem = MeasureError(
                f"no point to compare with at {dict(check.relative_to)}, seed {point.seed}"
            )
        else:
            divisor = measure.evaluate(check.measure, base)
            if divisor == 0:
                raise MeasureError(f"relative to zero: {check.measure} at {base.label}")
            groups.setdefault(place, {})[point.seed] = value / divisor
    if not members:
        raise MeasureError(f"no point of the experiment matches where = {dict(check.where)}")
    if len(groups) < len(members) and problem:
        raise problem
    of_seeds = {"mean": stats.estimate, "median": stats.estimate_median}[check.over_seeds]
    if check.reduce == "each":
        return [(of_seeds(list(by_seed.values())), members[place]) for place, by_seed in groups.items()]
    reduction = {"mean": stats.mean, "median": median, "min": min, "max": max}[check.reduce]
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in groups.values())))
    if not seeds:
        raise MeasureError("its points have no seed in common")
    per_seed = [reduction([by_seed[seed] for by_seed in groups.values()]) for seed in seeds]
    return [(of_seeds(per_seed), [point for own in members.values() for point in own])]


def _bases(check: Check, points: Sequence[PointResult]) -> Callable[[PointResult], PointResult | None]:
    """What a point is divided by: the one with the same axes and seed but for `relative_to`."""
    if not check.relative_to:
        return lambda point: None
    # A value may be written in another way than in the experiment: 1Mbit, 1000kbit.
    wanted = {}
    for key, text in check.relative_to.items():
        values = dict.fromkeys(point.variant if key == "variant" else point.axes.get(key) for point in points)
        wanted[key] = next(
            (value for value in values if value is not None and quantities.is_same(value, text)), text
        )
    at = {(place_of(point), point.seed): point for point in points}

    def base_of(point: PointResult) -> PointResult | None:
        axes = point.axes | {key: text for key, text in wanted.items() if key != "variant"}
        return at.get(((wanted.get("variant", point.variant), tuple(sorted(axes.items()))), point.seed))

    return base_of


def matches(point: PointResult, where: Mapping[str, Any]) -> bool:
    """Whether a point is one of those that `where` describes."""
    for key, wanted in where.items():
        if key != "variant" and key not in point.axes:
            raise MeasureError(f"where: no axis {key!r}; there are variant, {', '.join(point.axes)}")
        have = point.variant if key == "variant" else point.axes[key]
        if isinstance(wanted, Mapping):
            if (is_inside := quantities.is_within(have or "", wanted)) is None:
                raise MeasureError(f"where: cannot compare {have!r} with {dict(wanted)}")
            if not is_inside:
                return False
        elif not any(
            quantities.is_same(have, text) for text in (wanted if isinstance(wanted, list) else [wanted])
        ):
            return False
    return True


def looks_at(check: Check, place: Place) -> bool:
    """Whether a check compares what is measured at a place."""
    variant, axes = place
    point = PointResult(variant, dict(axes), 0, {})
    try:
        return any(matches(point, where) for where in (check.where, {**check.where, **check.relative_to}))
    except MeasureError:
        # It will be said when the check is judged.
        return True
