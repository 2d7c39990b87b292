"""The chosen values as TOML: a file to lay under an experiment, or over it."""

import re
from collections.abc import Sequence

from tidegate import quantities
from tidegate.builder import toml_value

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def settings_toml(values: Sequence[tuple[str, str]]) -> str:
    """A line for each key, by its whole path."""
    return "".join(f"{_key(path)} = {_value(text)}\n" for path, text in values)


def _key(path: str) -> str:
    return ".".join(part if _BARE.fullmatch(part) else toml_value(part) for part in path.split("."))


def _value(text: str) -> str:
    """Numbers and truth stand bare, all else is a text."""
    if text in ("true", "false"):
        return text
    is_number = quantities.parse(text) is not None and not quantities.unit_of(text)
    return text if is_number else toml_value(text)
