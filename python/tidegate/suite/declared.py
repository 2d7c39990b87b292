"""What a suite is: its `card.toml`, read and checked.

title = "Active queue management"
description = "..."                       # what is asked, in a sentence or two
source = "RFC 7928"
compares = "queues, and what borders do"  # in words, for whoever brings something else
takes = ["defaults.link.queue"]           # the keys that a mechanism of this suite may set
mechanisms = ["droptail", "codel"]        # those that are compared if none is named

[rows.delay]                              # what is measured, for all groups that name it
name = "waiting, 95 of 100 packets"
measure = "delay_ms.p95 - 50"             # see measure.py
unit = "ms"
better = "less"                           # | more | near, with `target`
same = 1.0                                # what differs by less counts as equal
means = "One sentence for people."

[[groups]]                                # a part of the card: one situation
title = "Mild congestion"
experiment = "levels"                     # the file beside, without .toml
where = { variant = "mild" }              # which of its points, as checks have it
reduce = "mean"                           # (default) | min | max, over these points
about = "What happens there, in a sentence."
source = "RFC 7928, section 8.2.2"
rows = ["delay"]
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tidegate import library, measure
from tidegate.checks import declared as checks
from tidegate.errors import InvalidFileError, MeasureError, UsageError
from tidegate.toml_text import tables_of

CARD = library.CARD
BETTER = ("less", "more", "near")
CARD_KEYS = {"title", "description", "source", "compares", "takes", "mechanisms", "rows", "groups"}
ROW_KEYS = {"name", "measure", "unit", "better", "target", "same", "means"}
GROUP_KEYS = {"title", "experiment", "where", "reduce", "about", "source", "rows"}
_ROWS_MAX = 200


@dataclass(frozen=True)
class Row:
    """One criterion of a card: what is measured where, what is better, and what it means."""

    name: str
    unit: str
    better: str
    target: float
    same: float
    means: str
    check: checks.Check  # what is measured, without bounds


@dataclass(frozen=True)
class Group:
    """Criteria of one situation."""

    title: str
    experiment: str
    about: str
    source: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Suite:
    """A suite: its experiments, what it takes, and the rows of its card."""

    name: str
    folder: Path
    title: str
    description: str
    source: str
    compares: str
    takes: tuple[str, ...]
    mechanisms: tuple[str, ...]
    groups: tuple[Group, ...]

    @cached_property
    def experiments(self) -> dict[str, Path]:
        """The files of its experiments by name, in the order of the card."""
        return {group.experiment: self.folder / f"{group.experiment}.toml" for group in self.groups}

    def checks(self, experiment: str) -> checks.Expectations:
        """What is measured of an experiment, and where."""
        found = [row.check for group in self.groups if group.experiment == experiment for row in group.rows]
        return checks.Expectations(tuple(found))


def suites_dir() -> Path:
    """The folder of the suites that ship."""
    return library.experiments_dir() / "suite"


def names() -> list[str]:
    """The suites that ship."""
    return sorted(card.parent.name for card in suites_dir().glob(f"*/{CARD}"))


def find(name: str) -> Suite:
    """A suite that ships, or the one in a folder that has a `card.toml`."""
    folder = Path(name)
    if (folder / CARD).is_file() and name not in names():
        return read(folder)
    short = name.removeprefix("suite/")
    if short not in names():
        raise UsageError(f"no suite {name!r}: there are {', '.join(names())}, or a folder with a {CARD}")
    return read(suites_dir() / short)


def read(folder: Path) -> Suite:
    """The suite in `folder`; `InvalidFileError` where its card is not what it should be."""
    path = folder / CARD
    tables, _ = tables_of(path)
    _refuse_unknown(tables, CARD_KEYS, str(path))
    texts = {key: _text(tables, key, str(path)) for key in ("title", "description", "source", "compares")}
    rows = tables.get("rows")
    groups = tables.get("groups")
    if not isinstance(rows, dict) or not isinstance(groups, list) or not groups:
        raise InvalidFileError(f"{path}: needs `[rows.NAME]` and `[[groups]]`")
    return Suite(
        name=folder.resolve().name,
        folder=folder,
        takes=_names(tables, "takes", str(path)),
        mechanisms=_names(tables, "mechanisms", str(path)),
        groups=tuple(_group(entry, number, rows, path) for number, entry in enumerate(groups, 1)),
        **texts,
    )


def _group(entry: Any, number: int, rows: Mapping[str, Any], path: Path) -> Group:
    where = f"{path}: group {number}"
    _refuse_unknown(entry, GROUP_KEYS, where)
    experiment = _text(entry, "experiment", where)
    if not (path.parent / f"{experiment}.toml").is_file() or "/" in experiment:
        raise InvalidFileError(f"{where}: there is no experiment {experiment}.toml beside {CARD}")
    places, reduce = entry.get("where", {}), entry.get("reduce", "mean")
    if not isinstance(places, dict):
        raise InvalidFileError(f"{where}: `where` is a table")
    if reduce not in ("mean", "min", "max"):
        raise InvalidFileError(f"{where}: reduce: {reduce!r} is none of mean, min, max")
    chosen = _names(entry, "rows", where)
    if len(chosen) > _ROWS_MAX or (unknown := [name for name in chosen if name not in rows]):
        told = ", ".join(unknown) if len(chosen) <= _ROWS_MAX else f"more than {_ROWS_MAX}"
        raise InvalidFileError(f"{where}: rows: {told}; there are {', '.join(rows)}")
    return Group(
        title=_text(entry, "title", where),
        experiment=experiment,
        about=_text(entry, "about", where),
        source=_text(entry, "source", where),
        rows=tuple(_row(name, rows[name], experiment, places, reduce, path) for name in chosen),
    )


def _row(name: str, entry: Any, experiment: str, places: Mapping[str, Any], reduce: str, path: Path) -> Row:
    where = f"{path}: rows.{name}"
    _refuse_unknown(entry, ROW_KEYS, where)
    better, target, same = entry.get("better"), entry.get("target", 1.0), entry.get("same", 0.0)
    if better not in BETTER:
        raise InvalidFileError(f"{where}: better: {better!r} is none of {', '.join(BETTER)}")
    if not _is_number(target) or target <= 0 or ("target" in entry and better != "near"):
        raise InvalidFileError(f'{where}: `target` is a number above zero, and goes with better = "near"')
    if not _is_number(same) or same < 0:
        raise InvalidFileError(f"{where}: `same` is a number, 0 or more: what differs by less is equal")
    source = _text(entry, "measure", where)
    try:
        measure.parse(source)
    except MeasureError as error:
        raise InvalidFileError(f"{where}: {error}") from None
    unbounded = checks.Bounds(float("-inf"), float("inf"), 0.0, "")
    check = checks.Check(
        experiment,
        name,
        source,
        unbounded,
        "quantitative",
        "assumed",
        "",
        where=places,
        reduce=reduce,
        place=str(path),
    )
    means = _text(entry, "means", where)
    return Row(_text(entry, "name", where), entry.get("unit", ""), better, target, same, means, check)


def _names(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise InvalidFileError(f"{where}: `{key}` is a list of names")
    return tuple(value)


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InvalidFileError(f"{where}: `{key}` is missing: a text")
    return value.strip()


def _refuse_unknown(table: Any, allowed: set[str], where: str) -> None:
    if not isinstance(table, Mapping):
        raise InvalidFileError(f"{where}: must be a table")
    if unknown := sorted(set(table) - allowed):
        raise InvalidFileError(f"{where}: unknown key `{unknown[0]}`; allowed: {', '.join(sorted(allowed))}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
