"""TOML files that Tidegate reads itself: their tables, and on which line a key of them stands.

Scenarios and experiments are read by the core. Cards of suites and tunings are not, and their errors name
the line as well. Lines end where TOML ends them: U+2028 in a text is a letter.
"""

import difflib
import math
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tidegate.errors import InvalidFileError

_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")


def tables_of(path: Path) -> tuple[dict[str, Any], str]:
    """The tables of a TOML file, and its text."""
    try:
        if path.stat().st_size > 1 << 20:
            raise InvalidFileError(f"{path}: larger than 1 MiB")
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text), text
    except OSError as error:
        raise InvalidFileError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidFileError(f"{path}: {error}") from None


def line_of(text: str, key: Sequence[str]) -> int:
    """The line of a TOML text on which `key` is first set, or a table that holds it; else 1."""
    header: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if found := _HEADER.match(line):
            header = _parts(found[1])
            at = header
        elif found := _KEY.match(line):
            at = header + _parts(found[1])
        else:
            continue
        if at[: len(key)] == list(key) or (line.lstrip()[:1] != "[" and list(key[: len(at)]) == at):
            return number
    return 1


def line_in_list(text: str, name: str, entry: str, key: str) -> int | None:
    """The line of `key` in the `[[name]]` whose `id` is `entry`, or of its header; None if there is none."""
    at: dict[str, int] = {}  # the lines of keys, and of the header under no name
    is_it = False
    for number, line in enumerate([*text.split("\n"), "[end]"], 1):
        if found := _HEADER.match(line):
            if is_it:
                return at.get(key, at[""])
            at = {"": number} if line.lstrip().startswith("[[") and found[1] == name else {}
        elif at and (found := _KEY.match(line)):
            at.setdefault(found[1], number)
            is_it = is_it or (found[1] == "id" and line[found.end() :].split("#")[0].strip()[1:-1] == entry)
    return None


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", dotted)]


class Table:
    """A table of the file, which knows where it stands."""

    def __init__(self, path: Path, text: str, key: Sequence[str], values: Any, allowed: set[str]):
        self.path, self.text, self.key = path, text, tuple(key)
        self.values: dict[str, Any] = {}
        if not isinstance(values, dict):
            self.fail("", "must be a table")
        self.values = values
        for name in values:
            if name not in allowed:
                close = difflib.get_close_matches(name, sorted(allowed), 1, 0.7)
                meant = f"did you mean {close[0]}? " if close else ""
                self.fail(name, f"unknown key; {meant}allowed: {', '.join(sorted(allowed))}")

    def fail(self, key: str, message: str) -> NoReturn:
        """Refuse the value of `key`."""
        at = (*self.key, key) if key else self.key
        # What is missing stands where its table does.
        line = line_of(self.text, at if not key or key in self.values else self.key)
        raise InvalidFileError(f"{self.path}:{line}: {'.'.join(at) or 'the file'}: {message}")

    def inner(self, key: str, allowed: set[str], default: Any = None) -> "Table":
        """The table `key`."""
        return Table(self.path, self.text, (*self.key, key), self.values.get(key, default), allowed)

    def of_names(self, key: str, allowed: set[str], most: int) -> dict[str, "Table"]:
        """Tables by name below `key`."""
        values = self.values.get(key, {})
        if not isinstance(values, dict) or not all(isinstance(each, dict) for each in values.values()):
            self.fail(key, f"tables by name: [{'.'.join((*self.key, key))}.NAME]")
        if len(values) > most:
            self.fail(key, f"{len(values)} of them; at most {most}")
        at = (*self.key, key)
        return {
            name: Table(self.path, self.text, (*at, name), value, allowed) for name, value in values.items()
        }

    def words(self, key: str, default: str | None = None) -> str:
        """A text of one line."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            self.fail(key, "a text" if key in self.values else "is missing: a text")
        return value.strip()

    def one_of(self, key: str, allowed: Sequence[str], default: str | None = None) -> str:
        """One of some words."""
        value = self.values.get(key, default)
        if value not in allowed:
            told = "is missing" if value is None else f"{value!r} is none of these"
            self.fail(key, f"{told}: {', '.join(allowed)}")
        return str(value)

    def whole(self, key: str, default: int, least: int, most: int) -> int:
        """A whole number between two."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.fail(key, f"{value!r} is no whole number from {least} to {most}")
        return value

    def number(self, key: str, default: float | None) -> float | None:
        """A number, or what stands for none."""
        value = self.values.get(key, default)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            self.fail(key, f"{value!r} is no number")
        if value is not None and not math.isfinite(value):
            self.fail(key, f"{value} is no finite number")
        return value if value is None else float(value)

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self.fail(key, "true or false")
        return value
