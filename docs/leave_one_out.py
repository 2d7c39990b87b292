"""Leaves figures out: fits a parameter anew to the others of the figures that it was inferred from, and says
what it then predicts of the one left out.

`leave_one_out.toml` has the parameters, the values to be tried and the figures. Every value is run, with
other seeds than those that the parameters were found with, and what is measured goes to `left_out.json`.
Which value fits and what it predicts follows from that file and the checks; `make_documents.py` tells of it.

How badly a value fits is its loss: the mean square of `deviation` over the checks of a figure, summed over
the figures. A deviation of 1 is the end of a check's tolerance.

    python docs/leave_one_out.py            # runs all of it, some minutes
    python docs/leave_one_out.py sfb red    # these studies only; the others are kept
"""

import itertools
import json
import math
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from tidegate import checks, experiment, library, parallel, progress, store
from tidegate.checks.measured import estimates, matches
from tidegate.stats import Estimate

DOCS = Path(__file__).resolve().parent
LIST = DOCS / "leave_one_out.toml"
RESULTS = DOCS / "left_out.json"
FIRST_SEED = 1001
_DIGITS = 5

Candidate = str  # the values of all parameters of a study: `0.025, even`
# What each value gave of each check, in the order of the study.
Measured = Mapping[Candidate, Sequence[Estimate]]


@dataclass(frozen=True)
class Number:
    """A check of a figure, and what the document prints there, if that is a number."""

    figure: str
    experiment: str
    check: checks.Check
    document: float | None = None

    def is_met(self, measured: float) -> bool:
        """Whether it is within the check's tolerance."""
        return self.check.bounds.margin(measured) >= 0

    def deviation(self, measured: float) -> float:
        """How far from the document, in tolerances: from its number to the bound on that side, or to the
        other where there is none. Without a number how far outside of the bounds, in parts of the bound.
        """
        bounds, centre = self.check.bounds, self.document
        if centre is None and bounds.expected not in (bounds.low, bounds.high, [bounds.low, bounds.high]):
            centre = float(bounds.expected)  # with a tolerance on both sides
        if centre is None:
            bound = bounds.low if measured < bounds.low else bounds.high
            return max(0.0, -bounds.margin(measured)) / (abs(bound) or 1.0)
        below, above = centre - bounds.low, bounds.high - centre
        tolerance = below if measured < centre else above
        return abs(measured - centre) / (tolerance if math.isfinite(tolerance) else min(below, above))


@dataclass(frozen=True)
class Study:
    """A parameter, or several that were inferred together, and the figures that they were inferred from."""

    id: str
    names: tuple[str, ...]
    used: Candidate
    candidates: Mapping[Candidate, experiment.Overrides]
    numbers: tuple[Number, ...]
    seeds: int = 1
    until: Mapping[str, str] = field(default_factory=dict)  # when runs of an experiment may end
    why: str = ""  # nothing can be left out
    note: str = ""  # what to think of when reading its predictions

    @cached_property
    def figures(self) -> list[str]:
        """The names of its figures."""
        return list(dict.fromkeys(number.figure for number in self.numbers))

    def overrides(self, candidate: Candidate, experiment_id: str) -> experiment.Overrides:
        """What a run of an experiment with these values sets."""
        ends = [("duration", self.until[experiment_id])] if experiment_id in self.until else []
        return [*self.candidates[candidate], *ends]

    def loss(self, measured: Sequence[Estimate], left_out: str) -> float:
        """Of one value, over all figures but one."""
        squares: dict[str, list[float]] = {}
        for number, estimate in zip(self.numbers, measured, strict=True):
            if number.figure != left_out:
                squares.setdefault(number.figure, []).append(number.deviation(estimate.mean) ** 2)
        return math.fsum(math.fsum(each) / len(each) for each in squares.values())


@dataclass(frozen=True)
class Prediction:
    """What the other figures predict of a number that was left out."""

    study: Study
    number: Number
    found: tuple[Candidate, ...]  # several where they fit equally well
    loss: float
    estimates: tuple[Estimate, ...]  # of the number, by each of them
    met_by: tuple[Candidate, ...]  # of all values that were tried

    @property
    def verdict(self) -> str:
        """`predicted`, `not predicted`, or `left open` where values that fit equally well do not agree."""
        met = {candidate in self.met_by for candidate in self.found}
        return "left open" if len(met) > 1 else "predicted" if met == {True} else "not predicted"

    @property
    def is_within_noise(self) -> bool:
        """Whether other seeds may decide otherwise: one value fits, and a bound lies in its interval."""
        only = self.estimates[0]
        if len(self.estimates) > 1 or only.low is None or only.high is None:
            return False
        bounds = self.number.check.bounds
        return any(only.low < bound < only.high for bound in (bounds.low, bounds.high))

    @property
    def is_test(self) -> bool:
        """Whether some value that was tried fails: else agreement says nothing of the parameter."""
        return len(self.met_by) < len(self.study.candidates)


def predictions(study: Study, measured: Measured) -> list[Prediction]:
    """Each figure left out once, with all of its numbers. Raises ValueError if a value was not measured."""
    if missing := study.candidates.keys() - measured.keys():
        again = f"make leave-one-out STUDIES={study.id}"
        raise ValueError(f"{RESULTS}: {study.id} lacks {min(missing)!r}; run `{again}`")
    found = []
    for figure in study.figures:
        losses = {candidate: study.loss(measured[candidate], figure) for candidate in study.candidates}
        least = min(losses.values())
        best = tuple(candidate for candidate, loss in losses.items() if loss == least)
        for index, number in enumerate(study.numbers):
            if number.figure != figure:
                continue
            met = tuple(each for each in study.candidates if number.is_met(measured[each][index].mean))
            estimates = tuple(measured[candidate][index] for candidate in best)
            found.append(Prediction(study, number, best, least, estimates, met))
    return found


def studies() -> list[Study]:
    """All of `leave_one_out.toml`."""
    tables = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return [_study(name, table) for name, table in tables.items()]


def _study(name: str, table: dict) -> Study:
    parameters = table["parameters"]
    # For each parameter its values, each with what it sets.
    choices = [
        [
            (values[0], list(zip(parameter["paths"], values, strict=True)))
            for values in zip(*parameter["paths"].values(), strict=True)
        ]
        for parameter in parameters
    ]
    candidates = {
        ", ".join(text for text, _ in chosen): [pair for _, pairs in chosen for pair in pairs]
        for chosen in itertools.product(*choices)
    }
    used = ", ".join(parameter["used"] for parameter in parameters)
    if used not in candidates:
        raise ValueError(f"{LIST}: {name}: {used} is none of the values")
    numbers = tuple(number for figure in table["figures"] for number in _numbers(name, figure))
    names = tuple(parameter["name"] for parameter in parameters)
    more = {key: table[key] for key in ("seeds", "until", "why", "note") if key in table}
    return Study(name, names, used, candidates, numbers, **more)


def _numbers(study: str, figure: Mapping) -> list[Number]:
    experiment_id = figure["experiment"]
    path = library.all_experiments()[experiment_id]
    known = checks.load(library.expected_file(path))[path.stem].checks
    # A check that differs for a named cause cannot be fitted.
    wanted = figure.get("checks", [check.name for check in known if check.fitted and not check.cause])
    document = figure.get("document", {})
    by_name = {check.name: check for check in known}
    for name in [*wanted, *document]:
        if name not in by_name:
            raise ValueError(f"{LIST}: {study}: {experiment_id} has no check {name!r}")
    for name, value in document.items():
        if by_name[name].bounds.margin(value) <= 0:
            raise ValueError(f"{LIST}: {study}: {value} does not meet the check {name!r}")
    where = figure.get("where", {})
    return [
        Number(
            figure["name"],
            experiment_id,
            replace(by_name[name], where={**by_name[name].where, **where}),
            document.get(name),
        )
        for name in wanted
    ]


def measure(study: Study, candidates: Sequence[Candidate], workers: int | None = None) -> Measured:
    """Run `candidates`, with as many seeds as the study has."""
    known = library.all_experiments()
    wheres: dict[str, list[Mapping]] = {}
    for number in study.numbers:
        check = number.check
        wheres.setdefault(number.experiment, []).extend([check.where, {**check.where, **check.relative_to}])
    tasks = {}
    for candidate, name in itertools.product(candidates, wheres):
        each = experiment.Experiment(name, known[name], study.overrides(candidate, name))
        tasks[candidate, name] = each.tasks(
            seeds=study.seeds,
            first_seed=FIRST_SEED,
            only=lambda point, name=name: any(matches(point, where) for where in wheres[name]),
        )
    everything = [task for own in tasks.values() for task in own]
    with progress.Progress(len(everything), study.id) as bar:
        outcomes = iter(list(experiment.run_tasks(everything, parallel.Threads(workers), bar)))
    points = {place: list(itertools.islice(outcomes, len(own))) for place, own in tasks.items()}
    return {
        candidate: [_estimate(number, points[candidate, number.experiment]) for number in study.numbers]
        for candidate in candidates
    }


def _estimate(number: Number, points: Sequence[experiment.PointResult | Exception]) -> Estimate:
    for point in points:
        if isinstance(point, Exception):
            raise point
    bounds = number.check.bounds
    measured = [one for one, _ in estimates(number.check, points)]
    estimate = min(measured, key=lambda one: bounds.margin(one.mean))
    return Estimate(*map(_rounded, estimate[:3]), estimate.count)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def read(path: Path = RESULTS) -> dict[str, Measured]:
    """What was measured, by study."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: {
            candidate: [Estimate(*values, study["seeds"]) for values in rows]
            for candidate, rows in study["measured"].items()
        }
        for name, study in kept.items()
    }


def _write(measured: Mapping[str, Measured]) -> None:
    """One value of a study in a line, so that changes can be read."""
    parts = []
    for name, values in measured.items():
        seeds = next(iter(values.values()))[0].count
        rows = [
            f"   {json.dumps(candidate)}: {json.dumps([[*estimate[:3]] for estimate in estimates])}"
            for candidate, estimates in values.items()
        ]
        lines = ",\n".join(rows)
        parts.append(f' {json.dumps(name)}: {{\n  "seeds": {seeds},\n  "measured": {{\n{lines}\n  }}\n }}')
    store.write_atomic(RESULTS, "{\n" + ",\n".join(parts) + "\n}\n")


def main() -> int:
    """Run the studies that are named, or all, and keep what they measured."""
    known = {study.id: study for study in studies() if not study.why}
    wanted = sys.argv[1:] or list(known)
    if unknown := [name for name in wanted if name not in known]:
        print(f"no study {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    kept = read() if RESULTS.exists() else {}
    for name in wanted:
        kept[name] = measure(known[name], list(known[name].candidates))
        _write({each: kept[each] for each in known if each in kept})
    return 0


if __name__ == "__main__":
    sys.exit(main())
