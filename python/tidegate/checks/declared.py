"""What is expected: reads and validates the `expected.toml` beside an experiment.

The file has, by name of an experiment's file, a list of checks:

    [["fig8a".checks]]
    name = "TCP starves under FIFO"                # what is claimed
    measure = "flows.tcp.throughput_bps / 1e6"     # see measure.py
    unit = "Mb/s"                                  # of the measure, for people
    where = { variant = "fifo", load = "1.5Mbit" } # or a list, or { at_least = "..", at_most = ".." }
    reduce = "each"                                # (default) | mean | median | min | max, over these points
    at_most = 0.1                                  # or: value + tolerance ("3%", "0.02"), at_least, between
    over_seeds = "mean"                            # (default) | median, where few runs are of another kind
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
"""

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate import measure, quantities
from tidegate.errors import InvalidFileError, MeasureError
from tidegate.experiment import Info

KINDS = ("quantitative", "qualitative")
PROVENANCES = ("text", "derived", "literature", "assumed")
REDUCTIONS = ("each", "mean", "median", "min", "max")
OVER_SEEDS = ("mean", "median")
_COMPARISONS = ("value", "at_least", "at_most", "between")
_KEYS = {
    "name", "measure", "unit", "where", "reduce", "tolerance", "relative_to", "kind", "provenance", "source",
    "over_seeds", "quick", "differs", "fitted", *_COMPARISONS,
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
    over_seeds: str = "mean"
    relative_to: Mapping[str, str] = field(default_factory=dict)
    quick: bool = True
    cause: str = ""
    sensitivity: str = ""
    # Where it was measured, as its cause explains it; None where that is not said.
    band: tuple[float, float] | None = None
    # The same of the quick form, where that has other points or less time.
    quick_band: tuple[float, float] | None = None
    # The parameter that was inferred from what is compared here, so that agreement says nothing; or empty.
    fitted: str = ""
    place: str = ""  # file and line


@dataclass(frozen=True)
class Expectations:
    """Everything `expected.toml` says about one experiment."""

    checks: tuple[Check, ...] = ()
    references: tuple[dict[str, Any], ...] = ()

    @property
    def measures(self) -> list[tuple[str, str]]:
        """What the checks measure, each with the place where it stands."""
        return [(f"{check.place}: {check.name!r}, measure", check.measure) for check in self.checks]


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
    for line, words in enumerate(text.split("\n"), 1):
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
    _one_of(entry.get("over_seeds", "mean"), OVER_SEEDS, f"{where}: over_seeds")
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
        _refuse_unknown(differs, {"cause", "sensitivity", "band", "quick_band"}, f"{where}: differs")
        if not differs.get("cause") or not differs.get("sensitivity") or "band" not in differs:
            raise InvalidFileError(
                f"{where}: `differs` needs a `cause`, a `sensitivity` that shows it, and the `band` "
                "in which it was measured"
            )
    band, quick_band = differs.get("band"), differs.get("quick_band")
    for name, ends in (("band", band), ("quick_band", quick_band)):
        if ends is not None and not _is_range(ends):
            raise InvalidFileError(f"{where}: differs: `{name}` is [low, high]")
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
        over_seeds=entry.get("over_seeds", "mean"),
        relative_to=entry.get("relative_to", {}),
        quick=entry.get("quick", True),
        cause=differs.get("cause", ""),
        sensitivity=differs.get("sensitivity", ""),
        band=(float(band[0]), float(band[1])) if band else None,
        quick_band=(float(quick_band[0]), float(quick_band[1])) if quick_band else None,
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
                    _require_comparable(place, known, wanted)
                    continue
                for text in wanted if isinstance(wanted, list) else [wanted]:
                    if not any(quantities.is_same(value, text) for value in known):
                        raise InvalidFileError(f"{place}: {text!r} is none of {', '.join(known) or 'none'}")


def _require_comparable(place: str, values: Sequence[str], ends: Mapping[str, Any]) -> None:
    """Refuse a range that cannot be compared with all values of an axis: 50 with 5ms."""
    for value in values:
        if quantities.is_within(value, ends) is None:
            told = ", ".join(f"{name} = {end!r}" for name, end in ends.items())
            raise InvalidFileError(f"{place}: {told} cannot be compared with {value}: write it in its unit")


def _axis_values(info: Info, name: str) -> list[str] | None:
    return list(info.axes[name].values) if name in info.axes else None


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
