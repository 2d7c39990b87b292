"""Mechanisms that a suite compares: small files, those that ship and those that a user brings.

    title = "CoDel"                           # its name on the card
    description = "One plain sentence."
    [defaults.link]
    queue = { kind = "codel", limit = "{buffer}p" }

Such a file may be a stranger's. It sets what the suite compares and nothing else: whoever could change the
duration or the traffic would be measured in another test than the others.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.errors import InvalidFileError, UsageError
from tidegate.suite import declared
from tidegate.suite.declared import Suite
from tidegate.toml_text import line_of, tables_of

# What can still be read side by side on one page.
MECHANISMS_MAX = 24
_ABOUT = ("title", "description", "source")
_TITLE_MAX = 16
_DESCRIPTION_MAX = 300
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


@dataclass(frozen=True)
class Mechanism:
    """One that takes part: the name of its file, its name on the card, and one sentence about it."""

    name: str
    path: Path
    title: str
    description: str
    unfit: str = ""  # why it cannot take part in this suite, if it cannot


def shipped() -> dict[str, Path]:
    """The files of the mechanisms that ship, by name."""
    return {path.stem: path for path in sorted((declared.suites_dir() / "mechanisms").glob("*.toml"))}


def chosen(suite: Suite, wanted: Sequence[str]) -> list[Mechanism]:
    """Those that are `wanted`, by name or as a file; those that the suite names where nothing is."""
    known = shipped()
    found: dict[str, Mechanism] = {}
    titles: dict[str, Path] = {}
    for each in wanted or suite.mechanisms:
        path = Path(each)
        if each in known:
            path = known[each]
        elif path.suffix != ".toml":
            raise UsageError(f"no mechanism {each!r}: there are {', '.join(known)}, or a file NAME.toml")
        mechanism = read(path, suite)
        if mechanism.name in found:
            raise UsageError(f"{path} and {found[mechanism.name].path} would both be called {path.stem!r}")
        if mechanism.title in titles:
            raise UsageError(
                f"{path}: title: {mechanism.title!r} is that of {titles[mechanism.title]} too: "
                "a card needs names that differ"
            )
        found[mechanism.name] = mechanism
        titles[mechanism.title] = path
    if len(found) > MECHANISMS_MAX:
        raise UsageError(
            f"{len(found)} mechanisms, at most {MECHANISMS_MAX}: more cannot be read side by side on a page"
        )
    return list(found.values())


def read(path: Path, suite: Suite) -> Mechanism:
    """A mechanism for `suite`; `InvalidFileError` with line and key where the file is wrong."""
    tables, text = tables_of(path)
    if not _NAME.fullmatch(path.stem):
        raise InvalidFileError(
            f"{path}: its name becomes that of files: letters, digits, - and _, at most 40, a letter first"
        )
    for key, longest in (("title", _TITLE_MAX), ("description", _DESCRIPTION_MAX)):
        value = tables.get(key)
        if not isinstance(value, str) or not 1 <= len(value.strip()) <= longest or not value.isprintable():
            raise InvalidFileError(
                f"{path}:{line_of(text, [key])}: {key}: a text of one line, 1 to {longest} letters, "
                "for the card"
            )
    here, elsewhere = [], []
    for key in _leaves({name: value for name, value in tables.items() if name not in _ABOUT}, suite):
        dotted = ".".join(key)
        if _is_taken(dotted, suite.takes):
            here.append(dotted)
        elif _is_taken(dotted, [each for name in declared.names() for each in _takes(name)]):
            elsewhere.append(dotted)
        else:
            raise InvalidFileError(
                f"{path}:{line_of(text, key)}: {dotted}: a mechanism of this suite sets "
                f"{' or '.join(suite.takes)}, and nothing that would change the test itself"
            )
    unfit = ""
    if elsewhere or not here:
        sets = ", ".join(dict.fromkeys(elsewhere)) or "nothing"
        unfit = f"it sets {sets}, and this suite compares {suite.compares} ({', '.join(suite.takes)})"
    return Mechanism(path.stem, path, tables["title"].strip(), tables["description"].strip(), unfit)


@functools.lru_cache
def _takes(name: str) -> tuple[str, ...]:
    return declared.find(f"suite/{name}").takes


def _leaves(table: dict[str, Any], suite: Suite, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys that are set, no deeper than where something is taken as a whole."""
    for name, value in table.items():
        key = (*prefix, str(name))
        if isinstance(value, dict) and value and not _is_taken(".".join(key), suite.takes):
            yield from _leaves(value, suite, key)
        else:
            yield key


def _is_taken(key: str, takes: Sequence[str]) -> bool:
    return any(key == each or key.startswith(f"{each}.") for each in takes)
