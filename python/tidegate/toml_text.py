"""TOML files that Tidegate reads itself: their tables, and on which line a key of them stands.

Scenarios and experiments are read by the core. Cards of suites and tunings are not, and their errors name
the line as well.
"""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    for number, line in enumerate(text.splitlines(), 1):
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


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", dotted)]
