"""Expected against measured: reads the `expected.toml` beside an experiment and judges its results by it.

The file has, by name of an experiment's file, a list of checks:

    [["fig8a".checks]]
    name = "TCP starves under FIFO"                # what is claimed
    measure = "flows.tcp.throughput_bps / 1e6"     # see measure.py
    unit = "Mb/s"                                  # of the measure, for people
    where = { variant = "fifo", load = "1.5Mbit" } # or a list, or { at_least = "..", at_most = ".." }
    reduce = "each"                                # (default) | mean | min | max over the remaining points
    at_most = 0.1                                  # or: value + tolerance ("3%", "0.02"), at_least, between
    relative_to = { variant = "fifo" }             # optional: divide by it there, same axes and seed
    kind = "quantitative"                          # | qualitative
    provenance = "text"                            # | derived | literature | assumed
    source = "section III.A"                       # where the document says so
    fitted = "delay, from Fig. 4.6"                # optional: inferred from this very number
    quick = false                                  # optional: not in the quick form
    differs = { cause = "...", sensitivity = "nbp/fig8a-delay", band = [0.2, 0.3] }   # optional: a miss

and, for figures, what the document itself shows:

    [["table2".references]]
    figure = "table2"
    label = "paper"
    x = ["A", "B"]
    y = [10.0, 5.04]

A value is measured per seed and averaged; the mean is what is compared, the 95 % interval is reported with
it. Where that could go either way with other seeds, `undecided` says so, and `seeding` runs more.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tidegate import measure, quantities, stats
from tidegate.errors import InvalidFileError, MeasureError
from tidegate.experiment import Info, Place, PointResult, place_of

KINDS = ("quantitative", "qualitative")
PROVENANCES = ("text", "derived", "literature", "assumed")
REDUCTIONS = ("each", "mean", "min", "max")
# Of a check whose experiment was run with other values than the document's.
NOT_COMPARABLE = "not comparable"
# A measurement that lies less than this inside its bounds could as well lie outside.
NOISE_SIGMAS = 2.0
_COMPARISONS = ("value", "at_least", "at_most", "between")
_KEYS = {
    "name", "measure", "unit", "where", "reduce", "tolerance", "relative_to", "kind", "provenance", "source",
    "quick", "differs", "fitted", *_COMPARISONS,
}  # fmt: skip
_CHECK_HEADER = re.compile(
    r"""\s*\[\[\s*(?:["'](?P<quoted>[^"']+)["']|(?P<bare>[\w-]+))\s*\.\s*checks\s*\]\]"""
)
_REFERENCE_KEYS = {"figure", "label", "x", "y", "source", "provenance", "line", "variant"}


@dataclass(frozen=True)
class Bounds:
    """What a measured value must lie in, and how a table writes that."""

    low: float
    high: float
    expected: float | list[float]
    tolerance: str

    def margin(self, measured: float) -> float:
        """How far inside the bounds; negative outside."""
        return min(measured - self.low, self.high - measured)


@dataclass(frozen=True)
class Check:
    """One thing a document reports, and how close to it a measurement must come."""

    experiment: str
    name: str
    measure: str
    bounds: Bounds
    kind: str
    provenance: str
    source: str
    unit: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    reduce: str = "each"
    relative_to: Mapping[str, str] = field(default_factory=dict)
    quick: bool = True
    cause: str = ""
    sensitivity: str = ""
    # Where it was measured, as its cause explains it; None where that is not said.
    band: tuple[float, float] | None = None
    # The parameter that was inferred from what is compared here, so that agreement says nothing; or empty.
    fitted: str = ""
    place: str = ""  # file and line


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
            "where": self.where,
            "note": self.note,
            "cause": self.check.cause,
            "sensitivity": self.check.sensitivity,
            "fitted": self.check.fitted,
        }
        return self.to_json() | details


@dataclass(frozen=True)
class Expectations:
    """Everything `expected.toml` says about one experiment."""

    checks: tuple[Check, ...] = ()
    references: tuple[dict[str, Any], ...] = ()


def load(
    path: Path, known: Sequence[str] | None = None, shipped: Sequence[str] = ()
) -> dict[str, Expectations]:
    """Read and validate `expected.toml`; empty where there is no file.

    Names must be among `known`, the files beside it; what shows the cause of a difference may be one of them
    or of the experiments that are `shipped`, by id.
    """
    if not path.exists():
        return {}
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except OSError as error:
        raise InvalidFileError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidFileError(f"{path}: {error}") from None
    lines = _lines_of_checks(text)
    expected = {name: _expectations(name, table, path, lines) for name, table in tables.items()}
    try:
        _check_names(expected, known, shipped)
    except InvalidFileError as error:
        raise InvalidFileError(f"{path}: {error}") from None
    return expected


def _lines_of_checks(text: str) -> dict[tuple[str, int], int]:
    """Where `[["ID".checks]]` stands for the first time, the second, ...; other forms have no line."""
    found: dict[tuple[str, int], int] = {}
    counts: dict[str, int] = {}
    for line, words in enumerate(text.splitlines(), 1):
        match = _CHECK_HEADER.match(words)
        if match:
            name = match["quoted"] or match["bare"]
            counts[name] = counts.get(name, 0) + 1
            found[name, counts[name]] = line
    return found


def _expectations(name: str, table: Any, path: Path, lines: Mapping[tuple[str, int], int]) -> Expectations:
    if not isinstance(table, dict):
        raise InvalidFileError(f'{path}: {name!r} is no table; write [["{name}".checks]]')
    _refuse_unknown(table, {"checks", "references"}, f"{path}: {name}")
    checks = []
    for number, entry in enumerate(table.get("checks", ()), 1):
        place = f"{path}:{lines[name, number]}" if (name, number) in lines else str(path)
        checks.append(_check(name, number, entry, place))
    references = tuple(table.get("references", ()))
    for number, reference in enumerate(references, 1):
        where = f"{path}: {name}, reference {number}"
        _refuse_unknown(reference, _REFERENCE_KEYS, where)
        if not isinstance(reference.get("figure"), str) or not isinstance(
            reference.get("y"), list | int | float
        ):
            raise InvalidFileError(f"{where}: needs `figure` and `y`")
        if isinstance(reference["y"], list) and len(reference.get("x", ())) != len(reference["y"]):
            raise InvalidFileError(f"{where}: x and y must be equally long")
    return Expectations(tuple(checks), references)


def _check(experiment: str, number: int, entry: dict[str, Any], place: str) -> Check:
    where = f"{place}: {experiment}, check {number} ({entry.get('name', 'no name')})"
    _refuse_unknown(entry, _KEYS, where)
    for key in ("name", "measure", "kind", "provenance", "source"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise InvalidFileError(f"{where}: `{key}` is missing")
    _one_of(entry["kind"], KINDS, f"{where}: kind")
    _one_of(entry["provenance"], PROVENANCES, f"{where}: provenance")
    _one_of(entry.get("reduce", "each"), REDUCTIONS, f"{where}: reduce")
    try:
        measure.parse(entry["measure"])
    except MeasureError as error:
        raise InvalidFileError(f"{where}: {error}") from None
    for axis, wanted in entry.get("where", {}).items():
        if isinstance(wanted, Mapping):
            _refuse_unknown(wanted, {"at_least", "at_most"}, f"{where}: where.{axis}")
    if not isinstance(entry.get("fitted", ""), str):
        raise InvalidFileError(f"{where}: `fitted` says which parameter was inferred, and from what")
    differs = entry.get("differs", {})
    if differs:
        _refuse_unknown(differs, {"cause", "sensitivity", "band"}, f"{where}: differs")
        if not differs.get("cause") or not differs.get("sensitivity"):
            raise InvalidFileError(f"{where}: `differs` needs a `cause` and a `sensitivity` that shows it")
        if entry["provenance"] == "derived":
            raise InvalidFileError(f"{where}: what follows from arithmetic cannot differ")
    band = differs.get("band")
    if band is not None and not _is_range(band):
        raise InvalidFileError(f"{where}: differs: `band` is [low, high]")
    return Check(
        experiment=experiment,
        name=entry["name"],
        measure=entry["measure"],
        bounds=_bounds(entry, where),
        kind=entry["kind"],
        provenance=entry["provenance"],
        source=entry["source"],
        unit=entry.get("unit", ""),
        where=entry.get("where", {}),
        reduce=entry.get("reduce", "each"),
        relative_to=entry.get("relative_to", {}),
        quick=entry.get("quick", True),
        cause=differs.get("cause", ""),
        sensitivity=differs.get("sensitivity", ""),
        band=(float(band[0]), float(band[1])) if band else None,
        fitted=entry.get("fitted", ""),
        place=place,
    )


def _bounds(entry: dict[str, Any], where: str) -> Bounds:
    given = [key for key in _COMPARISONS if key in entry]
    if len(given) != 1:
        raise InvalidFileError(f"{where}: needs exactly one of {', '.join(_COMPARISONS)}")
    key, value = given[0], entry[given[0]]
    if "tolerance" in entry and key != "value":
        raise InvalidFileError(f"{where}: `tolerance` goes with `value`")
    if key == "between":
        if not _is_range(value):
            raise InvalidFileError(f"{where}: `between` is [low, high]")
        return Bounds(float(value[0]), float(value[1]), [float(value[0]), float(value[1])], "between")
    if not _is_number(value):
        raise InvalidFileError(f"{where}: `{key}` must be a number")
    value = float(value)
    if key == "at_least":
        return Bounds(value, float("inf"), value, "at least")
    if key == "at_most":
        return Bounds(float("-inf"), value, value, "at most")
    text = str(entry.get("tolerance", "")).strip()
    allowed = quantities.parse(text)
    if allowed is None or allowed[1] or allowed[0] < 0:
        raise InvalidFileError(f'{where}: `value` needs a `tolerance` such as "3%" or "0.02"')
    width = abs(value) * allowed[0] if text.endswith("%") else allowed[0]
    return Bounds(value - width, value + width, value, text)


def _check_names(
    expected: dict[str, Expectations], known: Sequence[str] | None, shipped: Sequence[str]
) -> None:
    if known is None:
        return
    for name, expectations in expected.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"; did you mean {', '.join(close)}?" if close else ""
            raise InvalidFileError(f"no experiment {name!r}{hint}")
        for check in expectations.checks:
            # A variant of the same experiment may show it too: `require_fits`, once that file is
            # read.
            if "/" in check.sensitivity and check.sensitivity not in shipped:
                raise InvalidFileError(
                    f"{name}, {check.name!r}: no experiment {check.sensitivity!r} (sensitivity)"
                )


def require_fits(expectations: Expectations, info: Info) -> None:
    """Refuse, before anything runs, checks that name what the experiment does not have."""
    _require_sensitivities(expectations, list(info.variants))
    _require_places(expectations, info)


def _require_sensitivities(expectations: Expectations, variants: Sequence[str]) -> None:
    """Refuse an explained difference whose sensitivity is neither an experiment nor one of `variants`."""
    for check in expectations.checks:
        if check.sensitivity and "/" not in check.sensitivity and check.sensitivity not in variants:
            raise InvalidFileError(
                f"{check.place}: {check.name!r}: sensitivity {check.sensitivity!r} is neither "
                f"an experiment nor one of the variants {', '.join(variants)}"
            )


def _require_places(expectations: Expectations, info: Info) -> None:
    """Refuse checks that name a variant, an axis or a value of it that the experiment does not have."""
    for check in expectations.checks:
        for key, table in (("where", check.where), ("relative_to", check.relative_to)):
            for name, wanted in table.items():
                known = list(info.variants) if name == "variant" else _axis_values(info, name)
                place = f"{check.place}: {check.experiment}, {check.name!r}: {key}.{name}"
                if known is None:
                    axes = ", ".join(["variant", *info.axes])
                    raise InvalidFileError(f"{place}: the experiment has no such axis; there are {axes}")
                if isinstance(wanted, Mapping):
                    continue
                for text in wanted if isinstance(wanted, list) else [wanted]:
                    if not any(_same(value, text) for value in known):
                        raise InvalidFileError(f"{place}: {text!r} is none of {', '.join(known) or 'none'}")


def _axis_values(info: Info, name: str) -> list[str] | None:
    return list(info.axes[name].values) if name in info.axes else None


def evaluate(check: Check, points: Sequence[PointResult], quick: bool = False) -> Outcome:
    """Judge one check by the results of its experiment. Never raises for what results contain."""
    if quick and not check.quick:
        return Outcome(check, "skipped", note="not part of the quick form")
    try:
        if quick and points and not any(matches(point, check.where) for point in points):
            return Outcome(check, "skipped", note="its points are not part of the quick form")
        measured, where, margin = _measure(check, points)
    except MeasureError as error:
        return Outcome(check, "fail", note=str(error))
    interval = None if measured.low is None or measured.high is None else (measured.low, measured.high)
    sigmas = stats.in_standard_errors(margin, measured)
    if margin >= 0:
        note = "within its noise" if sigmas is not None and sigmas < NOISE_SIGMAS else ""
        if check.cause and not quick:
            # A quick form is too short for many a difference to show.
            note = f"it does not differ any more: `differs` is stale{', or ' if note else ''}{note}"
        return Outcome(check, "pass", measured.mean, interval, where, note, sigmas)
    if not check.cause or check.provenance == "derived":
        return Outcome(check, "fail", measured.mean, interval, where, "", sigmas)
    if check.band is not None and not check.band[0] <= measured.mean <= check.band[1]:
        low, high = (quantities.number(end) for end in check.band)
        note = f"outside of {low} to {high}, where it was measured: the named cause does not explain it"
        return Outcome(check, "fail", measured.mean, interval, where, note, sigmas)
    return Outcome(check, "differs", measured.mean, interval, where, check.cause, sigmas)


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
            for estimate, members in _estimates(check, points):
                if not _is_decided(check, estimate):
                    found |= {place_of(point) for point in members}
        except MeasureError:
            continue
    return found


def _is_decided(check: Check, measured: stats.Estimate) -> bool:
    sigmas = stats.in_standard_errors(check.bounds.margin(measured.mean), measured)
    return sigmas is None or abs(sigmas) >= stats.t_995(measured.count - 1)


def _measure(check: Check, points: Sequence[PointResult]) -> tuple[stats.Estimate, str, float]:
    """The value that decides, where it was measured, and its margin to the bounds."""
    measured = _estimates(check, points)
    estimate, members = min(measured, key=lambda each: check.bounds.margin(each[0].mean))
    labels = dict.fromkeys(point.label for point in members if matches(point, check.where))
    where = next(iter(labels)) if len(labels) == 1 else f"{check.reduce} over {len(labels)} points"
    return estimate, where, check.bounds.margin(estimate.mean)


def _estimates(check: Check, points: Sequence[PointResult]) -> list[tuple[stats.Estimate, list[PointResult]]]:
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
    if check.reduce == "each":
        return [(stats.estimate(list(by_seed.values())), members[place]) for place, by_seed in groups.items()]
    reduction = {"mean": stats.mean, "min": min, "max": max}[check.reduce]
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in groups.values())))
    if not seeds:
        raise MeasureError("its points have no seed in common")
    per_seed = [reduction([by_seed[seed] for by_seed in groups.values()]) for seed in seeds]
    return [(stats.estimate(per_seed), [point for own in members.values() for point in own])]


def _bases(check: Check, points: Sequence[PointResult]) -> Callable[[PointResult], PointResult | None]:
    """What a point is divided by: the one with the same axes and seed but for `relative_to`."""
    if not check.relative_to:
        return lambda point: None
    # A value may be written in another way than in the experiment: 1Mbit, 1000kbit.
    wanted = {}
    for key, text in check.relative_to.items():
        values = dict.fromkeys(point.variant if key == "variant" else point.axes.get(key) for point in points)
        wanted[key] = next((value for value in values if value is not None and _same(value, text)), text)
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
            if not _in_range(have or "", wanted):
                return False
        elif not any(_same(have, text) for text in (wanted if isinstance(wanted, list) else [wanted])):
            return False
    return True


def _same(have: str | None, wanted: Any) -> bool:
    if have == str(wanted):
        return True
    left, right = quantities.parse(have or ""), quantities.parse(str(wanted))
    return left is not None and left == right


def _in_range(have: str, wanted: Mapping[str, Any]) -> bool:
    value = quantities.base_value(have)
    low = quantities.base_value(str(wanted.get("at_least", "-1e300")))
    high = quantities.base_value(str(wanted.get("at_most", "1e300")))
    if value is None or low is None or high is None:
        raise MeasureError(f"where: cannot compare {have!r} with {dict(wanted)}")
    return low <= value <= high


def status_of(outcomes: Sequence[Outcome]) -> str:
    """The status of an experiment from those of its checks."""
    statuses = {outcome.status for outcome in outcomes} - {"skipped"}
    if not statuses:
        return "skipped" if outcomes else "unchecked"
    if NOT_COMPARABLE in statuses:
        return NOT_COMPARABLE
    return "fail" if "fail" in statuses else "differs" if "differs" in statuses else "pass"


# What a check that passes is worth: a number that follows from the document and came out; a claim in words; a
# number from which a parameter was inferred; what we assume ourselves, as a rule to show a cause.
WORTHS = ("predicted", "qualitative", "fitted", "own")


def worth(check: Mapping[str, Any]) -> str:
    """One of `WORTHS`, of a check as it is stored."""
    if check["provenance"] == "fitted":
        return "fitted"
    if check["provenance"] == "assumed":
        return "own"
    return "qualitative" if check["kind"] == "qualitative" else "predicted"


def counts(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many checks there are of each status; those that pass by what they are worth."""
    found = {worth: 0 for worth in WORTHS} | {"differs": 0, "fail": 0, NOT_COMPARABLE: 0, "skipped": 0}
    for check in outcomes:
        found[worth(check) if check["status"] == "pass" else check["status"]] += 1
    return found


def _refuse_unknown(table: Any, allowed: set[str], where: str) -> None:
    if not isinstance(table, Mapping):
        raise InvalidFileError(f"{where}: must be a table")
    unknown = sorted(set(table) - allowed)
    if unknown:
        raise InvalidFileError(f"{where}: unknown key `{unknown[0]}`; allowed: {', '.join(sorted(allowed))}")


def _one_of(value: Any, allowed: Sequence[str], where: str) -> None:
    if value not in allowed:
        raise InvalidFileError(f"{where}: {value!r} is none of {', '.join(allowed)}")


def _is_range(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(map(_is_number, value))
        and bool(value[0] <= value[1])
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
