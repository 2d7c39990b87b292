"""Numbers of a summary by their path: `flows.tcp.throughput_bps`, `flows.*.delay_ms.mean`.

`*`, `?` and `[...]` match within one part of a path. Counters that a summary leaves out where nothing was
counted are 0.
"""

import difflib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tidegate.errors import LackingError, MeasureError, NoValueError

Vector = list[float]
# Why packets are dropped and marked (`docs/results.md`): a summary has the reasons that occurred.
DROP_REASONS = (
    "overflow", "early", "forced", "unresponsive", "fair_share", "shaper", "policed", "neighbor", "link_down",
    "medium", "ttl_expired", "no_route", "redundant",
)  # fmt: skip
MARK_REASONS = ("early", "forced", "step")
BY_REASON = {"drops_by_reason": DROP_REASONS, "marks_by_reason": MARK_REASONS}
# Of a link, and in `totals`: there if there were any.
DUPLICATED = "duplicated_packets"
# All keys of a flow, and of a network's names what somebody still reads.
_NAMES_SHOWN = 30


def select(path: str, summary: Mapping[str, Any]) -> Vector:
    """All numbers whose path matches `path`; `*` and `?` match within one part of it."""
    found: list[tuple[str, Any]] = []
    _walk(path.split("."), "", summary, found)
    if not found:
        raise LackingError(f"nothing matches {shown(path)}{_suggestion(path, summary)}")
    return [_number(value, where) for where, value in found]


def matches(name: str, pattern: str) -> bool:
    """Whether each part of a dotted name matches the same part of the pattern."""
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def shown(text: str) -> str:
    """A text of a user's in a message, cut where it is long."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _walk(parts: list[str], prefix: str, node: Any, found: list[tuple[str, Any]]) -> None:
    if not parts:
        found.append((prefix, node))
    elif isinstance(node, Mapping):
        first = parts[0]
        keys = [first] if first in node else [key for key in node if fnmatchcase(str(key), first)]
        for key in keys:
            _walk(parts[1:], f"{prefix}.{key}" if prefix else str(key), node[key], found)
        if not keys and len(parts) == 1:
            found += [(f"{prefix}.{key}", 0) for key in _uncounted(prefix, node) if fnmatchcase(key, first)]


def _uncounted(prefix: str, table: Mapping[str, Any]) -> Sequence[str]:
    """The counters of a table that are left out where there is nothing to count."""
    if (key := prefix.rpartition(".")[2]) in BY_REASON:
        return BY_REASON[key]
    return [DUPLICATED] if {"delivered_packets", "dropped_packets"} <= table.keys() else []


def is_left_out_if_zero(path: str) -> bool:
    """Whether a summary has this key of a link, or of `totals`, only where something was counted."""
    return path.partition(".")[0] in BY_REASON or path == DUPLICATED


def _number(value: Any, where: str) -> float:
    if value is None:
        raise NoValueError(f"{where} has no value in this run")
    if isinstance(value, bool | int | float):
        return float(value)
    kind = "a table" if isinstance(value, Mapping) else type(value).__name__
    raise MeasureError(f"{where} is {kind}, not a number")


def _suggestion(path: str, summary: Mapping[str, Any]) -> str:
    """What may be meant, and what is there, where the path ends."""
    node: Any = summary
    missing = ""
    for part in path.split("."):
        if isinstance(node, Mapping) and part in node:
            node = node[part]
            continue
        matching = [key for key in node if fnmatchcase(str(key), part)] if isinstance(node, Mapping) else []
        if not matching:
            missing = part
            break
        node = node[matching[0]]
    if not isinstance(node, Mapping) or not node:
        return ""
    names = [str(key) for key in node]
    close = difflib.get_close_matches(missing, names, n=3)
    meant = f"; did you mean {', '.join(close)}?" if close else ""
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{meant or ';'} here are: {', '.join(names[:_NAMES_SHOWN])}{more}"
