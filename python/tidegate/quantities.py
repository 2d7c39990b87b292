"""Quantities as files write them (`1.5Mbit`, `10ms`, `100kB`, `100p`), as numbers for axes and tables.

Only for display and for reading axis values: the scenario format itself is parsed and validated by the core.
"""

import functools
import math
import re
from collections.abc import Mapping
from typing import Any

_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS: dict[str, tuple[str, float]] = {
    "s": ("s", 1.0),
    "ms": ("s", 1e-3),
    "us": ("s", 1e-6),
    "µs": ("s", 1e-6),
    "ns": ("s", 1e-9),
    "min": ("s", 60.0),
    "p": ("packets", 1.0),
    "packets": ("packets", 1.0),
    "%": ("", 0.01),
    "": ("", 1.0),
}
for _prefix, _factor in _PREFIX.items():
    for _suffix in ("bit", "bit/s", "bps", "b/s"):
        _UNITS[_prefix + _suffix] = ("bit/s", _factor)
    _UNITS[_prefix + "B"] = ("bytes", _factor)
    if _prefix:
        _UNITS[{"k": "Ki", "K": "Ki", "M": "Mi", "G": "Gi", "T": "Ti"}[_prefix] + "B"] = (
            "bytes",
            1024.0 ** ("kMGT".index(_prefix.replace("K", "k")) + 1),
        )
_UNITS["bytes"] = ("bytes", 1.0)
_WRITTEN = {
    "s": ("ns", "us", "ms", "s", "min"),
    "bit/s": ("b/s", "kb/s", "Mb/s", "Gb/s"),
    "bytes": ("B", "kB", "MB", "KiB", "MiB"),
    "packets": ("packets",),
}

_QUANTITY = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s][^\s]*)?\s*")


# The same few values are asked for once per run and check.
@functools.lru_cache(maxsize=4096)
def parse(text: str) -> tuple[float, str] | None:
    """Value in base units (bit/s, s, bytes, packets) and that base unit; None where `text` is no quantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    known = _UNITS.get(match[2] or "")
    if known is None:
        return None
    value = float(match[1].replace("_", "")) * known[1]
    return (value, known[0]) if math.isfinite(value) else None


def base_value(text: str) -> float | None:
    """The number in base units, or None."""
    parsed = parse(text)
    return None if parsed is None else parsed[0]


def unit_of(text: str) -> str:
    """The unit as it is written: `ms` of `10ms`; empty for plain numbers and what is no quantity."""
    match = _QUANTITY.fullmatch(text)
    return (match[2] or "") if match else ""


def base_unit(unit: str) -> str | None:
    """The base unit of what is counted in `unit`, empty for %; None where no quantity is."""
    known = _UNITS.get(unit.strip())
    return None if known is None else known[0]


def units_of(base: str) -> tuple[str, ...]:
    """What may be written for quantities of a base unit, as people do."""
    return _WRITTEN[base]


def is_same(have: str | None, wanted: Any) -> bool:
    """Whether two values are the same as text, or the same quantity in another spelling: 1Mbit, 1000kbit."""
    if have == str(wanted):
        return True
    left, right = parse(have or ""), parse(str(wanted))
    return left is not None and left == right


def is_within(have: str, ends: Mapping[str, Any]) -> bool | None:
    """Whether a value lies within `at_least` and `at_most`, as far as they are given; None where it cannot be
    compared with them, because it is no quantity or one of another unit."""
    value = parse(have)
    low, high = (parse(str(ends[name])) if name in ends else value for name in ("at_least", "at_most"))
    if value is None or low is None or high is None or not low[1] == value[1] == high[1]:
        return None
    return low[0] <= value[0] <= high[0]


def in_unit(text: str, unit: str) -> float | None:
    """The value of `text` counted in `unit`: `in_unit("500kbit", "Mb/s")` is 0.5. None if impossible."""
    parsed = parse(text)
    if parsed is None:
        return None
    known = _UNITS.get(unit.strip())
    if known is None or (parsed[1] and known[0] and parsed[1] != known[0]):
        return parsed[0]
    # `50` on an axis of % is as many; `50%` is 0.5.
    return parsed[0] / known[1] if parsed[1] or unit_of(text) == "%" else parsed[0]


def rate(value_bps: float) -> str:
    """A bit rate for people: `1.5 Mb/s`."""
    return _scaled(value_bps, (("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3)), "b/s")


def duration(value_s: float) -> str:
    """A time for people: `10 ms`."""
    return _scaled(value_s, (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)), "s", small=("ns", 1e-9))


def size(value_bytes: float) -> str:
    """An amount of data for people, decimal: `100 kB`."""
    return _scaled(value_bytes, (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)), "B")


def number(value: float, digits: int = 4) -> str:
    """A number for people: `digits` significant digits, thousands apart where it is a large whole."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", " ")
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{digits}g}"
    return f"{int(float(text)):,}".replace(",", " ") if "e+" in text else text  # `12 090`, not `1.209e+04`


# Of fewer values an interval says little: of two it is 12.7 standard errors to each side (Student's t).
INTERVAL_OF_MIN = 3


def half_width(low: float | None, high: float | None, count: int) -> str:
    """What stands behind a mean of `count` values for its interval: ` ±0.02`; nothing where these are few."""
    if low is None or high is None or count < INTERVAL_OF_MIN:
        return ""
    half = (high - low) / 2
    # Means of equal values differ from these by the last digits of arithmetic (2^-52).
    is_rounding = math.isfinite(half) and half <= 1e-13 * max(abs(low), abs(high))
    return f" ±{number(0 if is_rounding else half, 2)}"


def _scaled(
    value: float, units: tuple[tuple[str, float], ...], plain: str, small: tuple[str, float] | None = None
) -> str:
    for unit, factor in units:
        if abs(value) >= factor * 0.9999995:
            return f"{value / factor:.4g} {unit}"
    if small is not None and value:
        return f"{value / small[1]:.4g} {small[0]}"
    return f"{value:.4g} {plain}"
