"""Texts of figures: titles that tell them apart, axis values with units, ticks, line breaks.

Takes and gives plain texts and numbers; knows neither renderer.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from tidegate import quantities

_WIDTH_MAX = 34  # letters of an axis label in one line: what the height of a figure has room for
_TICKS_MIN, _TICKS_MAX = 3, 10

# How a figure counts a quantity whose axis names no unit.
_BASE_UNITS = {"s": "s", "bit/s": "bit/s", "bytes": "bytes", "packets": "packets"}


def base_unit(values: Sequence[str]) -> str:
    """The base unit that all `values` are given in; empty where they differ or have none."""
    units = {parsed[1] for value in values if (parsed := quantities.parse(value)) is not None}
    return _BASE_UNITS.get(next(iter(units)), "") if len(units) == 1 else ""


def axis_value(label: str, value: str, unit: str) -> str:
    """A value of an axis for people: `100 kB`, `8 packets`, `2 Mb/s`; names stay as they are."""
    parsed = quantities.parse(value)
    if parsed is None:
        return value
    if unit:
        number = quantities.in_unit(value, unit)
        return value if number is None else f"{quantities.number(number)} {unit}"
    by_unit = {"s": quantities.duration, "bit/s": quantities.rate, "bytes": quantities.size}
    if parsed[1] in by_unit:
        return by_unit[parsed[1]](parsed[0])
    number = quantities.number(parsed[0])
    # A label that says what is counted needs no unit: `window 8 packets`, but `connections 8`.
    return f"{number} {parsed[1]}" if parsed[1] and parsed[1] not in label else number


def pinned(spec: dict[str, Any], labelled: Callable[[str, str], str]) -> str:
    """What `where` leaves one value of, told by `labelled(axis, value)`: `rate 10 Mb/s, delay 20 ms`."""
    where = spec.get("where") or {}
    return ", ".join(labelled(axis, values[0]) for axis, values in where.items() if len(values) == 1)


def titles(
    specs: Sequence[dict[str, Any]],
    title: str,
    variants: dict[str, str],
    labelled: Callable[[str, str], str] = "{} {}".format,
) -> list[str]:
    """One title per figure: its own, else that of the experiment with what all that is drawn have alike.

    Where that leaves some alike, what tells them apart as well. `labelled` tells a value of an axis.
    """
    found = [str(spec.get("title") or _default_title(spec, title, variants, labelled)) for spec in specs]
    for distinguishing in (_quantity, _identity):
        for index in range(len(specs)):
            alike = [other for other, name in enumerate(found) if name == found[index]]
            parts = [distinguishing(specs[other]) for other in alike]
            if len(alike) > 1 and all(parts) and len(set(parts)) == len(parts):
                for other, part in zip(alike, parts, strict=True):
                    found[other] = _joined(found[other], part)
    return found


def _default_title(
    spec: dict[str, Any], title: str, variants: dict[str, str], labelled: Callable[[str, str], str]
) -> str:
    wanted = spec.get("variant") or spec.get("variants") or ""
    names = wanted if isinstance(wanted, list) else [wanted]
    only = variants.get(str(names[0]), "") if len(names) == 1 and len(variants) > 1 else ""
    parts = [part for part in (only, pinned(spec, labelled)) if part]
    return _joined(title, ", ".join(parts)) if parts else title


def _joined(title: str, part: str) -> str:
    return f"{title} {part[:1].upper()}{part[1:]}" if title.endswith(("?", "!", ".")) else f"{title}: {part}"


def _quantity(spec: dict[str, Any]) -> str:
    """What a figure shows, by its vertical axis, without the unit."""
    return str(spec.get("y_label") or "").partition(" (")[0]


def _identity(spec: dict[str, Any]) -> str:
    return str(spec.get("id") or "")


def wrapped(text: str, line_break: str, width_max: int = _WIDTH_MAX) -> str:
    """A long text in two lines of about the same length, broken between words; in one where it is short."""
    words = text.split(" ")
    if len(text) <= width_max or len(words) == 1:
        return text
    at = min(range(1, len(words)), key=lambda index: abs(2 * len(" ".join(words[:index])) - len(text)))
    return " ".join(words[:at]) + line_break + " ".join(words[at:])


def log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Ticks of a logarithmic axis: 1, 2 and 5 times powers of ten, or the powers alone, or some of them.

    Evenly spaced values where these would be less than three.
    """
    if not 0 < low <= high or not math.isfinite(high):
        return []
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors, step in (((1, 2, 5), 1), ((1,), 1), ((1,), 2), ((1,), 3), ((1,), 6)):
        values = [factor * 10.0**power for power in range(first, last + 1, step) for factor in factors]
        # Up to half a step beyond the data, so that ticks reach the ends of the axis.
        inside = [value for value in values if low / 1.6 <= value <= high * 1.6]
        if len(inside) < _TICKS_MIN:
            break
        if len(inside) <= _TICKS_MAX:
            return [(value, _plain(value)) for value in inside]
    # Less than a decade: the even steps of a linear axis.
    return linear_ticks(low / 1.05, high * 1.05)


def linear_ticks(low: float, high: float, count: int = 6) -> list[tuple[float, str]]:
    """Some `count` ticks of a linear axis: 1, 2 or 5 times a power of ten apart, with as many decimals."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return []
    rough = (high - low) / count
    power = math.floor(math.log10(rough))
    step = next(
        (factor * 10.0**power for factor in (1, 2, 5) if factor * 10.0**power >= rough * 0.999),
        10.0 ** (power + 1),
    )
    places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    values = [place * step for place in places]
    if step < 1e-4 or max(abs(low), abs(high)) >= 1e7:
        return [
            (value, f"−{_plain(-value)}" if value < 0 else _plain(value) if value else "0")
            for value in values
        ]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [(value, f"{value:,.{decimals}f}".replace(",", " ").replace("-", "−")) for value in values]


def _plain(value: float) -> str:
    """`0.02`, `500`, `2 000`; beyond that a power of ten."""
    if 0.99e-3 <= value < 1e6:
        return quantities.number(value, 6)
    power = math.floor(math.log10(value) + 1e-9)
    digits = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    factor = f"{value / 10.0**power:.3g}"
    return f"10{digits}" if factor == "1" else f"{factor}·10{digits}"
