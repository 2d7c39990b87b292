"""How a check comes out: the value that was measured, judged by the bounds that are declared.

Where that could go either way with other seeds, `undecided` says so, and `seeding` runs more.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate import quantities, stats
from tidegate.checks.declared import Check
from tidegate.checks.measured import estimates, matches, where_of
from tidegate.errors import MeasureError
from tidegate.experiment import Place, PointResult, place_of

# Of a check whose experiment was run with other values than the document's.
NOT_COMPARABLE = "not comparable"
# A measurement that lies less than this inside its bounds could as well lie outside, and the other way round:
# it passes, and says so. More seeds were run before that, up to as many as the experiment allows.
NOISE_SIGMAS = 2.0
# What decides among the points of a check.
_WORST_FIRST = ("fail", "differs", "pass")
# So many seeds that gave the same decide, where others may give something else: what comes in one of four
# is seen by then with 97 %.
_EQUAL_SEEDS = 12
WITHIN_NOISE = "within its noise"


@dataclass(frozen=True)
class Outcome:
    """How a check came out. `status` is pass, differs, fail, skipped or not comparable."""

    check: Check
    status: str
    measured: float | None = None
    ci95: tuple[float, float] | None = None
    where: str = ""
    note: str = ""
    # How far inside its bounds, in standard errors; negative outside. None for one seed, or without spread.
    margin_sigma: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The entry of `tidegate reproduce --json`."""
        return {
            "name": self.check.name,
            "expected": self.check.bounds.expected,
            "measured": self.measured,
            "where": self.where,
            "ci95": list(self.ci95) if self.ci95 else None,
            "tolerance": self.check.bounds.tolerance,
            "kind": self.check.kind,
            "provenance": "fitted" if self.check.fitted else self.check.provenance,
            "status": self.status,
            "margin_sigma": self.margin_sigma,
            "band": list(self.check.band) if self.check.band else None,
        }

    def to_record(self) -> dict[str, Any]:
        """All of it, for the result folder and the report."""
        details = {
            "unit": self.check.unit,
            "measure": self.check.measure,
            "source": self.check.source,
            "note": self.note,
            "cause": self.check.cause,
            "sensitivity": self.check.sensitivity,
            "fitted": self.check.fitted,
        }
        return self.to_json() | details


def evaluate(check: Check, points: Sequence[PointResult], quick: bool = False) -> Outcome:
    """Judge one check by the results of its experiment. Never raises for what results contain."""
    if quick and not check.quick:
        return Outcome(check, "skipped", note="not part of the quick form")
    try:
        if quick and points and not any(matches(point, check.where) for point in points):
            return Outcome(check, "skipped", note="its points are not part of the quick form")
        judged = [_judged(check, measured, members, quick) for measured, members in estimates(check, points)]
    except MeasureError as error:
        return Outcome(check, "fail", note=str(error))
    # The worst decides: one that fails for certain does not pass because another is farther off, and noisier.
    _, outcome = min(judged, key=lambda one: (_WORST_FIRST.index(one[1].status), one[0]))
    return outcome


def _judged(
    check: Check, measured: stats.Estimate, members: Sequence[PointResult], quick: bool
) -> tuple[float, Outcome]:
    """The margin of one value to the bounds, and its outcome."""
    margin = check.bounds.margin(measured.mean)
    interval = None if measured.low is None or measured.high is None else (measured.low, measured.high)
    sigmas = stats.in_standard_errors(margin, measured)
    status, note = _judge(check, measured, margin, sigmas, quick)
    return margin, Outcome(check, status, measured.mean, interval, where_of(check, members), note, sigmas)


def _judge(
    check: Check, measured: stats.Estimate, margin: float, sigmas: float | None, quick: bool
) -> tuple[str, str]:
    """The status of a check and why."""
    is_near = sigmas is not None and abs(sigmas) < NOISE_SIGMAS
    if not check.cause:
        return ("pass" if margin >= 0 or is_near else "fail"), WITHIN_NOISE if is_near else ""
    if margin >= 0:
        if quick:
            # A quick form is too short for many a difference to show.
            return "pass", WITHIN_NOISE if is_near else ""
        if _is_decided(check, measured):
            return "pass", "it does not differ any more: `differs` is stale"
        # What was measured and explained stands until seeds decide otherwise.
        return "differs", f"{WITHIN_NOISE}, so it may still differ: {check.cause}"
    band = check.quick_band if quick and check.quick_band else check.band
    if band is not None and not band[0] <= measured.mean <= band[1]:
        low, high = (quantities.number(end) for end in band)
        note = f"outside of {low} to {high}, where it was measured: the named cause does not explain it"
        return "fail", note
    return "differs", check.cause


def not_comparable(outcome: Outcome) -> Outcome:
    """The outcome where values of the document were overridden: what it reports is of another network."""
    if outcome.status == "skipped":
        return outcome
    return replace(outcome, status=NOT_COMPARABLE, note="")


def undecided(judged: Sequence[Check], points: Sequence[PointResult]) -> set[Place]:
    """The points of which more seeds could turn the verdict of a check: those whose mean lies so near to the
    bounds that it is on its side with less than 99.5 % (Student's t), and those that they are compared with.

    A check that cannot be measured is decided: more seeds do not help it.
    """
    found: set[Place] = set()
    for check in judged:
        try:
            for estimate, members in estimates(check, points):
                if not _is_decided(check, estimate) or _may_be_chance(check, estimate, members):
                    found |= {place_of(point) for point in members}
        except MeasureError:
            continue
    return found


def _is_decided(check: Check, measured: stats.Estimate) -> bool:
    sigmas = stats.in_standard_errors(check.bounds.margin(measured.mean), measured)
    return sigmas is None or abs(sigmas) >= stats.t_995(measured.count - 1)


def _may_be_chance(check: Check, measured: stats.Estimate, members: Sequence[PointResult]) -> bool:
    """Whether seeds that all gave the same may yet differ, as counts do; what draws nothing does not."""
    if measured.low is None or measured.low != measured.high or measured.count >= _EQUAL_SEEDS:
        return False
    whole: dict[Place, set[str]] = {}
    for point in members:
        summary = {key: value for key, value in point.summary.items() if key != "seed"}
        whole.setdefault(place_of(point), set()).add(json.dumps(summary, sort_keys=True))
    return any(len(texts) > 1 for texts in whole.values())


def status_of(outcomes: Sequence[Outcome]) -> str:
    """The status of an experiment from those of its checks."""
    statuses = {outcome.status for outcome in outcomes} - {"skipped"}
    if not statuses:
        return "skipped" if outcomes else "unchecked"
    if NOT_COMPARABLE in statuses:
        return NOT_COMPARABLE
    return "fail" if "fail" in statuses else "differs" if "differs" in statuses else "pass"
