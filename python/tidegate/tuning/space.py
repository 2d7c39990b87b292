"""What a parameter may be, a range or choices, and what an optimizer and a file call a value of it.

An optimizer asks for numbers; a scenario and whoever reads the chosen file get texts. A number is rounded to
four digits before it is used, so that the text is exactly what was run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate import quantities

# Of a value: more would say what no tuning knows.
DIGITS = 4


@dataclass(frozen=True)
class Choices:
    """One of some values, without an order."""

    values: tuple[str, ...]

    @property
    def words(self) -> str:
        """For people."""
        return ", ".join(self.values)

    @property
    def ends(self) -> tuple[str, ...]:
        """What is to be tried before all else."""
        return self.values

    def has(self, text: str) -> bool:
        """Whether this is one of them."""
        return any(quantities.is_same(each, text) for each in self.values)

    def native(self, text: str) -> Any:
        """What an optimizer calls it."""
        return next(each for each in self.values if quantities.is_same(each, text))

    def text(self, native: Any) -> str:
        """What a scenario calls it."""
        return str(native)

    def distribution(self) -> Any:
        """For optuna."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.values)


@dataclass(frozen=True)
class Range:
    """Numbers between two, in the unit of the lower end; multiples of `step` if there is one."""

    low: float
    high: float
    unit: str
    log: bool
    step: float | None

    @classmethod
    def between(cls, low: str, high: str, log: bool, step: str | None) -> "Range":
        """From texts; `ValueError` with the reason where they are no range."""
        ends = {text: quantities.parse(text) for text in (low, high, *([step] if step is not None else []))}
        for text, parsed in ends.items():
            if parsed is None:
                raise ValueError(f"{text!r} is no quantity; choices are given with `values`")
        if len(kinds := {parsed[1] for parsed in ends.values() if parsed}) > 1:
            told = [kind or "a plain number" for kind in sorted(kinds)]
            raise ValueError(f"its ends and its step are of different kinds: {', '.join(told)}")
        unit = quantities.unit_of(low)
        bottom, top = _in(low, unit), _in(high, unit)
        each = _in(step, unit) if step is not None else None
        if bottom >= top:
            raise ValueError(f"{low} is not below {high}")
        if log and bottom <= 0:
            raise ValueError(f"a logarithmic range begins above 0, and not at {low}")
        if each is not None:
            if each <= 0 or not (_is_whole(bottom / each) and _is_whole(top / each)):
                raise ValueError(f"{low} and {high} are no multiples of the step {step}")
            if log and bottom < each:
                raise ValueError(f"a logarithmic range with a step of {step} begins at that step or above")
        return cls(bottom, top, unit, log, each)

    @property
    def words(self) -> str:
        """For people."""
        step = f", in steps of {self._text(self.step)}" if self.step is not None else ""
        return f"{self._text(self.low)} to {self._text(self.high)}{', logarithmic' if self.log else ''}{step}"

    @property
    def ends(self) -> tuple[str, str]:
        """Least and greatest value."""
        return self._text(self.low), self._text(self.high)

    def has(self, text: str) -> bool:
        """Whether this is a value of it."""
        parsed, low = quantities.parse(text), quantities.parse(self._text(self.low))
        if parsed is None or low is None or parsed[1] != low[1]:
            return False
        value = _in(text, self.unit)
        if self.step is not None and not _is_whole(value / self.step):
            return False
        return self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)

    def native(self, text: str) -> Any:
        """What an optimizer calls it: a number in the unit of the range, or how many steps."""
        value = _in(text, self.unit)
        return round(value / self.step) if self.step is not None else min(max(value, self.low), self.high)

    def text(self, native: Any) -> str:
        """What a scenario calls it."""
        return self._text(native * self.step if self.step is not None else native)

    def _text(self, value: float) -> str:
        return f"{plain(value)}{self.unit}"

    def position(self, text: str) -> float:
        """Where it stands on an axis, in the unit of the range."""
        return _in(text, self.unit)

    def distribution(self) -> Any:
        """For optuna."""
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.step is not None:
            ends = round(self.low / self.step), round(self.high / self.step)
            return IntDistribution(*ends, log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Parameter:
    """A value that is tuned: which keys get it, what it is by default, and what it may be."""

    name: str
    paths: tuple[str, ...]
    default: str
    of: Range | Choices
    label: str
    why: str


def plain(value: float) -> str:
    """A number with four digits and no exponent, as files of every kind take it."""
    import numpy as np

    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    text = np.format_float_positional(value, precision=DIGITS, fractional=False, unique=True, trim="-")
    return str(text)


def texts_of(parameters: tuple[Parameter, ...], native: Mapping[str, Any]) -> dict[str, str]:
    """Values as a scenario has them, of what an optimizer asked for."""
    return {each.name: each.of.text(native[each.name]) for each in parameters}


def overrides_of(parameters: tuple[Parameter, ...], texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """What is set for these values."""
    return [(path, texts[each.name]) for each in parameters for path in each.paths]


def _in(text: str, unit: str) -> float:
    """A quantity counted in a unit of its kind; both were checked."""
    value, of = quantities.base_value(text), quantities.base_value(f"1{unit}")
    assert value is not None and of is not None, (text, unit)
    return value / of


def _is_whole(value: float) -> bool:
    return abs(value - round(value)) < 1e-6 * max(1.0, abs(value))
