"""When a difference between two simulators is one.

Each quantity of each scenario has a margin, below which a difference is of no practical importance. Two
questions are asked of the runs (Welch's test, Welch 1947; the null hypothesis "within the margin" and its
opposite, Wellek, *Testing Statistical Hypotheses of Equivalence and Noninferiority*, 2010):

- does it differ by more than the margin? Over all quantities of all scenarios the share of false discoveries
  is held at `FALSE_DISCOVERIES` (Benjamini and Hochberg 1995);
- is it shown to be within the margin? What is neither is open: the runs are too few, or too different.

The margins: 1 % of the total goodput, for two simulators of one network must agree on how full it is. Of a
flow 2 %, or 0.5 % of its slowest link: nobody gives shares more exactly. Of a queue 5 %, or half a packet,
which is less than the packet in transmission by which definitions differ. Of drops, marks and retransmissions
5 %, or one in a thousand packets that came: 5 % more losses are 2.5 % less throughput of a TCP, which goes by
their square root.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from .scenario import Scenario

FALSE_DISCOVERIES = 0.05
CONFIDENCE = 0.95

# Quantity, and its margin as a part of ns-2's mean.
QUANTITIES = {"goodput": 0.02, "queue": 0.05, "drops": 0.05, "marks": 0.05, "retransmissions": 0.05}
TOTAL_GOODPUT = 0.01
QUEUE_FLOOR = 0.5
LOSS_FLOOR = 0.001
SHARE_FLOOR = 0.005


@dataclass(frozen=True)
class Verdict:
    """One quantity of one scenario."""

    scenario: str
    quantity: str
    ours: float
    theirs: float
    error: float  # standard error of the difference
    margin: float
    p_differs: float
    p_same: float

    @property
    def relative(self) -> float:
        """The difference as a part of ns-2's mean."""
        if self.ours == self.theirs:
            return 0.0
        return (self.ours - self.theirs) / self.theirs if self.theirs else math.copysign(math.inf, self.ours)

    @property
    def in_margins(self) -> float:
        """The difference in units of the margin."""
        return (self.ours - self.theirs) / self.margin

    @property
    def is_same(self) -> bool:
        """Whether it is shown to be within the margin."""
        return self.p_same < 1 - CONFIDENCE


def tail_of_t(t: float, freedom: float) -> float:
    """The probability that Student's t with so many degrees of freedom is above `t`."""
    half = 0.5 * _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))
    return half if t >= 0 else 1 - half


def welch(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """Standard error of the difference of the means, and its degrees of freedom."""
    parts = [statistics.variance(sample) / len(sample) for sample in (ours, theirs)]
    total = sum(parts)
    if total == 0:
        return 0.0, math.inf
    below = sum(part**2 / (len(sample) - 1) for part, sample in zip(parts, (ours, theirs), strict=True))
    return math.sqrt(total), total**2 / below


def verdict(scenario: str, quantity: str, ours: list[float], theirs: list[float], margin: float) -> Verdict:
    """The two tests of one quantity: each list has one value for each seed."""
    mine, other = statistics.fmean(ours), statistics.fmean(theirs)
    error, freedom = welch(ours, theirs)
    beyond = abs(mine - other) - margin
    if error <= 1e-12 * max(abs(mine), abs(other)):
        differs, same = (0.0, 1.0) if beyond > 0 else (1.0, 0.0)
    else:
        differs = tail_of_t(beyond / error, freedom)
        same = 1 - differs
    return Verdict(scenario, quantity, mine, other, error, margin, differs, same)


def is_gone(found: Verdict, left: Verdict) -> bool:
    """Whether what made `found` differ is no more there in `left`, another comparison with as many runs.

    Either what is left is within the margin; or, where a margin is small against the error of the means, it is
    less than half of what was found, and not beyond the margin but by chance.
    """
    is_less = abs(left.ours - left.theirs) < 0.5 * abs(found.ours - found.theirs)
    return abs(left.in_margins) <= 1 or (is_less and left.p_differs >= 1 - CONFIDENCE)


def discoveries(p_values: list[float], rate: float = FALSE_DISCOVERIES) -> list[bool]:
    """Which hypotheses are rejected, with at most `rate` of them wrongly (Benjamini and Hochberg 1995)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    last = 0
    for rank, i in enumerate(order, 1):
        if p_values[i] <= rate * rank / len(order):
            last = rank
    chosen = set(order[:last])
    return [i in chosen for i in range(len(p_values))]


def derived(scenario: Scenario, run: dict[str, float]) -> dict[str, float]:
    """The quantities of one run that are compared: its counters, with sums over flows."""
    found = {
        name: value
        for name, value in run.items()
        if name.split(".")[0] in ("goodput", "queue", "drops", "marks")
    }
    found["goodput.total"] = sum(value for name, value in run.items() if name.startswith("goodput."))
    found["retransmissions.total"] = sum(
        value for name, value in run.items() if name.startswith("retransmissions.")
    )
    return found


def margins(scenario: Scenario, theirs: list[dict[str, float]]) -> dict[str, float]:
    """The margin of each quantity, from the means of ns-2."""
    mean = {name: statistics.fmean(run[name] for run in theirs) for name in theirs[0]}
    sent = sum(value for name, value in mean.items() if name.startswith("sent."))
    found = {}
    for name, value in mean.items():
        kind, _, place = name.partition(".")
        if kind not in QUANTITIES or kind == "retransmissions":
            continue
        floor = {
            "goodput": lambda place=place: SHARE_FLOOR * _slowest(scenario, place),
            "queue": lambda: QUEUE_FLOOR,
            "drops": lambda place=place: LOSS_FLOOR * mean[f"arrivals.{place}"],
            "marks": lambda place=place: LOSS_FLOOR * mean[f"arrivals.{place}"],
        }[kind]()
        found[name] = max(QUANTITIES[kind] * value, floor, 1e-9)
    total = sum(value for name, value in mean.items() if name.startswith("goodput."))
    found["goodput.total"] = max(TOTAL_GOODPUT * total, 1e-9)
    again = sum(value for name, value in mean.items() if name.startswith("retransmissions."))
    found["retransmissions.total"] = max(QUANTITIES["retransmissions"] * again, LOSS_FLOOR * sent, 1e-9)
    return found


def compare(
    scenario: Scenario, ours: list[dict[str, float]], theirs: list[dict[str, float]]
) -> list[Verdict]:
    """All quantities of a scenario, from the counters of its runs."""
    limits = margins(scenario, theirs)
    mine, other = ([derived(scenario, run) for run in runs] for runs in (ours, theirs))
    return [
        verdict(scenario.name, name, [run[name] for run in mine], [run[name] for run in other], limit)
        for name, limit in limits.items()
        # Nothing ever happened on either side.
        if any(run[name] > 1e-9 for run in (*mine, *other))
    ]


@dataclass(frozen=True)
class Pooled:
    """The mean relative difference of one quantity over all scenarios of one kind."""

    group: str
    quantity: str
    scenarios: int
    mean: float
    error: float
    p: float


def pool(groups: dict[str, set[str]], verdicts: list[Verdict]) -> list[Pooled]:
    """What is too small to be seen in one scenario. `groups` names scenarios; each scenario counts once.

    A scenario's value is the mean of its relative differences. What is so rare that the margin is more than a
    fifth of it does not count.
    """
    found = []
    for group, names in sorted(groups.items()):
        for quantity in ("goodput.total", *(kind for kind in QUANTITIES if kind != "goodput")):
            by_scenario: dict[str, list[float]] = {}
            for one in verdicts:
                fits = one.quantity == quantity or one.quantity.split(".")[0] == quantity
                if fits and one.scenario in names and one.theirs > 0 and one.margin <= 0.2 * one.theirs:
                    by_scenario.setdefault(one.scenario, []).append(one.relative)
            values = [statistics.fmean(some) for some in by_scenario.values()]
            if len(values) < 5:
                continue
            mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
            p = 1.0 if error == 0 else 2 * tail_of_t(abs(mean) / error, len(values) - 1)
            found.append(Pooled(group, quantity, len(values), mean, error, p))
    return found


def _slowest(scenario: Scenario, place: str) -> int:
    flow = scenario.flows[int(place.removeprefix("f"))]
    low, high = sorted((flow.enters, flow.leaves))
    return min(hop.rate for hop in scenario.hops[low:high])


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function, by its continued fraction (Abramowitz and Stegun, 26.5.8)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = (
        math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
        / a
    )
    tiny = 1e-300
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1), tiny)
    total = d
    for m in range(1, 500):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _nonzero(1 + step * d, tiny)
            c = _nonzero(1 + step / c, tiny)
            total *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * total


def _nonzero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
