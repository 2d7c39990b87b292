"""What measures reckon with: operators and functions of numbers, on one value or on each of several.

Numbers are floats, so that no power takes long. Whatever has no result is a `MeasureError` in plain words.
"""

import ast
import contextlib
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

from tidegate.errors import MeasureError
from tidegate.paths import Vector

Value = float | Vector
Law = Callable[[float, float], Any]

BINARY: dict[type[ast.AST], Law] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
}
COMPARE: dict[type[ast.AST], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_SIGNS: dict[Any, str] = {operator.truediv: "/", operator.mod: "%", operator.pow: "**", operator.mul: "*"}
# Of one number, each with what it takes.
UNARY: dict[str, tuple[Callable[[float], float], str]] = {
    "abs": (abs, "any number"),
    "sqrt": (math.sqrt, "numbers from 0 on"),
    "log": (math.log, "numbers above 0"),
    "exp": (math.exp, "numbers up to 709"),
}
_TOO_LARGE = "the result is larger than any number here, 1.8e308"


@contextlib.contextmanager
def worded(what: str = "") -> Iterator[None]:
    """Say what has no result in plain words, where Python has its own; `what` is what was to be reckoned."""
    before = f"{what}: " if what else ""
    try:
        yield
    except ZeroDivisionError:
        raise MeasureError(f"{before}a division by zero") from None
    except OverflowError:
        raise MeasureError(f"{before}{_TOO_LARGE}") from None


def each(law: Law, left: Value, right: Value) -> Value:
    """Arithmetic or a comparison; with several values on a side, on each of them."""
    if not isinstance(left, list) and not isinstance(right, list):
        return _reckoned(law, left, right)
    length = len(left) if isinstance(left, list) else len(right) if isinstance(right, list) else 1
    lefts = left if isinstance(left, list) else [left] * length
    rights = right if isinstance(right, list) else [right] * length
    if len(lefts) != len(rights):
        raise MeasureError(f"{len(lefts)} values against {len(rights)}")
    return [_reckoned(law, a, b) for a, b in zip(lefts, rights, strict=True)]


def _reckoned(law: Law, left: float, right: float) -> float:
    try:
        return real(law(left, right))
    except ArithmeticError:
        with worded(f"{left:g} {_SIGNS[law]} {right:g}" if law in _SIGNS else ""):
            raise


def unary(name: str, value: Value) -> Value:
    """One of `UNARY`; of several values, of each."""
    if isinstance(value, list):
        return [_unary(name, one) for one in value]
    return _unary(name, value)


def _unary(name: str, value: float) -> float:
    law, takes = UNARY[name]
    try:
        return real(law(value))
    except (ArithmeticError, ValueError):
        raise MeasureError(f"{name}() takes {takes}, not {value:g}") from None


def real(value: Any) -> float:
    """The number as a float; no root of a negative one is one."""
    if isinstance(value, complex):
        raise MeasureError("the root of a negative number")
    return float(value)
