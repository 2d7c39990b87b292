"""The statistics that comparisons need: means with 95 % confidence intervals, quantiles, fairness.

Takes plain lists of numbers, gives plain numbers.
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

# Student t, two-sided 95 % (quantile 0.975), for 1 to 30 degrees of freedom. Source: any table of the
# distribution.
_T_975 = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
_Z_975 = 1.959964
# The same for 99 % (quantile 0.995).
_T_995 = (
    63.6567, 9.9248, 5.8409, 4.6041, 4.0321, 3.7074, 3.4995, 3.3554, 3.2498, 3.1693,
    3.1058, 3.0545, 3.0123, 2.9768, 2.9467, 2.9208, 2.8982, 2.8784, 2.8609, 2.8453,
    2.8314, 2.8188, 2.8073, 2.7969, 2.7874, 2.7787, 2.7707, 2.7633, 2.7564, 2.7500,
)  # fmt: skip
_Z_995 = 2.575829


class Estimate(NamedTuple):
    """A mean over seeds and its 95 % confidence interval; no interval for a single seed."""

    mean: float
    low: float | None
    high: float | None
    count: int


def t_975(degrees: int) -> float:
    """The 0.975 quantile of Student's t distribution."""
    return _t(degrees, _T_975, _Z_975)


def t_995(degrees: int) -> float:
    """The 0.995 quantile of Student's t distribution."""
    return _t(degrees, _T_995, _Z_995)


def _t(degrees: int, table: Sequence[float], z: float) -> float:
    """From a table, and beyond it from the quantile `z` of the normal distribution."""
    if degrees < 1:
        raise ValueError(f"t needs at least 1 degree of freedom, not {degrees}")
    if degrees <= len(table):
        return table[degrees - 1]
    # Cornish-Fisher expansion around the normal quantile: off by less than 1e-3 from 31 degrees on.
    first = (z**3 + z) / (4 * degrees)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    return z + first + second


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """Sample standard deviation; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and 95 % confidence interval of independent values."""
    centre = mean(values)
    if len(values) < 2:
        return Estimate(centre, None, None, len(values))
    half = t_975(len(values) - 1) * deviation(values) / math.sqrt(len(values))
    return Estimate(centre, centre - half, centre + half, len(values))


def estimate_median(values: Sequence[float]) -> Estimate:
    """Median and 95 % confidence interval of independent values: few that lie far off move neither.

    The standard error is that of a median of normal values, sqrt(pi / 2) of the mean's, with their deviation
    from the median distance to the median (times 1.4826).
    """
    centre = statistics.median(values)
    if len(values) < 2:
        return Estimate(centre, None, None, len(values))
    spread = 1.4826 * statistics.median([abs(value - centre) for value in values])
    half = t_975(len(values) - 1) * math.sqrt(math.pi / 2) * spread / math.sqrt(len(values))
    return Estimate(centre, centre - half, centre + half, len(values))


def in_standard_errors(distance: float, measured: Estimate) -> float | None:
    """`distance` in standard errors of the mean; None where there is one value, or all are the same."""
    if measured.low is None or measured.high is None or measured.high == measured.low:
        return None
    error = (measured.high - measured.low) / 2 / t_975(measured.count - 1)
    return distance / error if math.isfinite(distance) else None


def quantile(values: Sequence[float], q: float) -> float:
    """Quantile with linear interpolation between order statistics."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def jain(values: Sequence[float]) -> float | None:
    """Jain's fairness index: 1 where all are equal, 1/n where one has all; None where nobody has anything."""
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares else None


class Spread(NamedTuple):
    """Quartiles of values, the ends of what lies within 1.5 times their distance, and what lies beyond."""

    low: float
    first: float
    median: float
    third: float
    high: float
    outliers: list[float]


def spread(values: Sequence[float]) -> Spread:
    """What a box plot shows of one or more `values` (Tukey's fences, quartiles interpolated)."""
    ordered = sorted(values)
    first, median, third = (quantile(ordered, share) for share in (0.25, 0.5, 0.75))
    reach = 1.5 * (third - first)
    inside = [value for value in ordered if first - reach <= value <= third + reach]
    outliers = [value for value in ordered if not first - reach <= value <= third + reach]
    return Spread(inside[0], first, median, third, inside[-1], outliers)


_DENSITY_PLACES = 48
_DENSITY_VALUES_MAX = 2000


def density(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Places from the least to the greatest of `values`, and how densely they lie there, 1 at the densest.

    A Gaussian kernel with Scott's bandwidth. One place for values that are all alike.
    """
    ordered = sorted(values)
    # Of very many, every so manieth: the outline has only so many places.
    ordered = ordered[:: math.ceil(len(ordered) / _DENSITY_VALUES_MAX)]
    low, high = min(values), max(values)
    if low == high:
        return [low], [1.0]
    width = (deviation(ordered) or high - low) * len(ordered) ** -0.2
    places = [low + (high - low) * step / (_DENSITY_PLACES - 1) for step in range(_DENSITY_PLACES)]
    heights = [
        math.fsum(math.exp(-0.5 * ((place - value) / width) ** 2) for value in ordered) for place in places
    ]
    return places, [height / max(heights) for height in heights]
