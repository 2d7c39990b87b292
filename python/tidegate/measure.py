"""Measures: the small expressions by which figures and expected values pick numbers out of a run.

`flows.tcp.throughput_bps / 1e6`, `sum("flows.*.throughput_bps")`, `value("links.R1-R2.utilization")`,
`series_mean("flows.a.throughput_bps", "4.5s", "5s")`, `axis("load") / 1e6`. A quoted pattern gives all that
match it; `values("flows.*.throughput_bps") / 1e6` works on each of them.

Expressions come from experiment files and are untrusted: they are parsed by `ast`, only the nodes named here
are evaluated, and whatever goes wrong is a `MeasureError`. Numbers come from the summary of a run (a nested
dict as DESIGN.md lays down) and from its time series. A comparison gives 1 or 0.
"""

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tidegate import arithmetic, calls, quantities, stats
from tidegate.arithmetic import BINARY, COMPARE, Value, each, real
from tidegate.emodel import Rating
from tidegate.errors import LackingError, MeasureError, NoValueError
from tidegate.paths import Vector, matches, select, shown

LENGTH_MAX = 2000
_DEPTH_MAX = 50


class Run(Protocol):
    """What a measure can look at: a summary, the axis values of the point, and time series by name."""

    summary: Mapping[str, Any]
    axes: Mapping[str, str]

    def series(self, name: str) -> tuple[Any, Any]:
        """Times in seconds and values; KeyError where the run recorded no such series."""

    @property
    def series_names(self) -> Sequence[str]:
        """The series that were recorded."""


def parse(source: str) -> ast.expr:
    """The checked syntax tree of a measure."""
    if not isinstance(source, str):
        raise MeasureError(f"a measure is a text, not {type(source).__name__}")
    if len(source) > LENGTH_MAX:
        raise MeasureError(f"measure longer than {LENGTH_MAX} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(source.strip(), mode="eval").body
    except SyntaxError as error:
        raise MeasureError(f"cannot read measure {shown(source)}: {_misread(source, error)}") from None
    except (ValueError, RecursionError, MemoryError, Warning) as error:
        raise MeasureError(f"cannot read measure {shown(source)}: {error}") from None
    _check(tree, source, 0)
    try:
        _require_computable(tree)
        if _is_constant(tree):
            _require_finite(_Evaluation(_Nothing()).visit(tree))
    except MeasureError as error:
        raise MeasureError(f"measure {shown(source)}: {error}") from None
    return tree


# A pattern that lacks its quotes: `flows.*.throughput_bps`, `links.core*.utilization`.
_PATTERN = re.compile(r"[A-Za-z_]\w*(?:\.[\w*?\[\]]+)*(?:\.[*?\[]|[*?\]]\.)[\w*?\[\]]*(?:\.[\w*?\[\]]+)*")


def _misread(source: str, error: SyntaxError) -> str:
    """What is wrong with the text of a measure."""
    if bare := _PATTERN.search(re.sub(r"\"[^\"]*\"|'[^']*'", "", source)):
        return (
            f"a pattern stands in quotes, in a function that makes one number of what it matches: "
            f'mean("{bare[0]}"), or sum, min, max, jain'
        )
    return f"{error.msg}{f' at letter {error.offset}' if error.offset else ''}"


def evaluate(source: str, run: Run) -> float:
    """The number that measure `source` gives for `run`; always finite."""
    result = _evaluate(source, run)
    if isinstance(result, list):
        raise MeasureError(f"measure {shown(source)} gives {len(result)} values where one is needed")
    return result


def evaluate_values(source: str, run: Run) -> Vector:
    """Like `evaluate`, for measures that may give several values (distributions)."""
    result = _evaluate(source, run)
    return result if isinstance(result, list) else [result]


def _evaluate(source: str, run: Run) -> Value:
    tree = parse(source)
    try:
        with arithmetic.worded():
            result = _Evaluation(run).visit(tree)
        _require_finite(result)
    except MeasureError as error:
        raise type(error)(f"in measure {shown(source)}: {error}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise MeasureError(f"in measure {shown(source)}: {error}") from None
    return result


def _require_finite(result: Value) -> None:
    if not all(map(math.isfinite, result if isinstance(result, list) else [result])):
        raise MeasureError("the result is not a finite number")


def _check(node: ast.AST, source: str, depth: int) -> None:
    """Refuse every kind of node that is not evaluated below, before anything is evaluated."""
    if depth > _DEPTH_MAX:
        raise MeasureError(f"measure {shown(source)} is nested too deeply")
    allowed = (
        ast.BinOp,
        ast.UnaryOp,
        ast.Compare,
        ast.BoolOp,
        ast.Call,
        ast.Attribute,
        ast.Name,
        ast.Constant,
    )
    if not isinstance(node, allowed):
        raise MeasureError(f"measure {shown(source)}: {type(node).__name__} is not allowed")
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool) or not isinstance(node.value, int | float | str):
            raise MeasureError(f"measure {shown(source)}: only numbers and texts, not {node.value!r}")
        return
    if isinstance(node, ast.BinOp) and type(node.op) not in BINARY:
        raise MeasureError(f"measure {shown(source)}: operator {type(node.op).__name__} is not allowed")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        raise MeasureError(f"measure {shown(source)}: operator ~ is not allowed")
    if isinstance(node, ast.Compare) and any(type(op) not in COMPARE for op in node.ops):
        raise MeasureError(f"measure {shown(source)}: only < <= > >= == != compare")
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            raise MeasureError(f"measure {shown(source)}: functions are {', '.join(FUNCTIONS)}")
        if node.keywords:
            raise MeasureError(f"measure {shown(source)}: functions take no named arguments")
        for argument in node.args:
            _check(argument, source, depth + 1)
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _check(child, source, depth + 1)


# Functions that look at nothing but their arguments, where these are numbers.
_OF_NUMBERS = {*arithmetic.UNARY, "sum", "mean", "min", "max", "count", "std", "cov", "jain", "quantile"}


def _require_computable(tree: ast.expr) -> None:
    """Refuse what has no result in any run, because all of it is constant: `1/0`, `log(-1)`."""
    if not _is_constant(tree):
        for child in ast.iter_child_nodes(tree):
            if isinstance(child, ast.expr) and not (isinstance(tree, ast.Call) and _is_text(child)):
                _require_computable(child)
        return
    try:
        with arithmetic.worded():
            _Evaluation(_Nothing()).visit(tree)
    except RecursionError:
        raise MeasureError("nested too deeply") from None


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_constant(node: ast.AST) -> bool:
    """Whether a checked tree gives the same in every run."""
    if isinstance(node, ast.Call):
        is_known = isinstance(node.func, ast.Name) and node.func.id in _OF_NUMBERS
        return is_known and not any(map(_is_text, node.args)) and all(map(_is_constant, node.args))
    if isinstance(node, ast.Name | ast.Attribute):
        return False
    return all(_is_constant(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))


class _Nothing:
    """A run without anything in it: for constants."""

    summary: Mapping[str, Any] = {}
    axes: Mapping[str, str] = {}
    series_names: Sequence[str] = ()

    def series(self, name: str) -> tuple[Any, Any]:
        raise KeyError(name)


class _Evaluation:
    """Evaluates a checked tree on one run."""

    def __init__(self, run: Run):
        self.run = run

    def visit(self, node: ast.AST) -> Value:
        match node:
            case ast.Constant(value=int() | float() as value):
                return float(value)
            case ast.Constant(value=str()):
                raise MeasureError("a quoted text can only be the argument of a function")
            case ast.Name() | ast.Attribute():
                values = select(_dotted(node), self.run.summary)
                return values[0]
            case ast.BinOp(left=left, op=op, right=right):
                return each(BINARY[type(op)], self.visit(left), self.visit(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return each(operator.sub, 0.0, self.visit(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return float(not self.scalar(operand))
            case ast.UnaryOp(operand=operand):
                return self.scalar(operand)
            case ast.BoolOp(op=op, values=values):
                decide = all if isinstance(op, ast.And) else any
                return float(decide(self.scalar(value) for value in values))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return each(COMPARE[type(op)], self.visit(left), self.visit(right))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                terms = [self.scalar(term) for term in (left, *comparators)]
                pairs = zip(ops, terms, terms[1:], strict=False)
                return float(all(COMPARE[type(op)](a, b) for op, a, b in pairs))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return FUNCTIONS[name](self, arguments)
        raise MeasureError(f"{type(node).__name__} is not allowed")

    def scalar(self, node: ast.AST) -> float:
        value = self.visit(node)
        if isinstance(value, list):
            raise MeasureError(f"{len(value)} values where one is needed; wrap them in sum, mean, min or max")
        return value

    def vector(self, arguments: list[ast.expr], name: str) -> Vector:
        """Arguments of an aggregate: path patterns in quotes, numbers, or both."""
        if not arguments:
            raise MeasureError(f"{name}() needs an argument")
        values: Vector = []
        for argument in arguments:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                values += select(argument.value, self.run.summary)
            else:
                value = self.visit(argument)
                values += value if isinstance(value, list) else [value]
        return values

    def window(self, arguments: list[ast.expr], name: str) -> tuple[Any, Any]:
        """The part of the series named by the first argument between the times of the next two, if given."""
        return self._part(_text(arguments, 0, name), arguments)

    def windows(self, arguments: list[ast.expr], name: str) -> list[tuple[Any, Any]]:
        """The same of each series that a pattern matches."""
        pattern = _text(arguments, 0, name)
        names = [known for known in self.run.series_names if matches(known, pattern)]
        return [self._part(each, arguments) for each in names or [pattern]]

    def _part(self, series_name: str, arguments: list[ast.expr]) -> tuple[Any, Any]:
        import numpy as np

        start = self.time(arguments[1]) if len(arguments) > 1 else -math.inf
        stop = self.time(arguments[2]) if len(arguments) > 2 else math.inf
        try:
            time_s, values = self.run.series(series_name)
        except KeyError:
            recorded = ", ".join(self.run.series_names[:12]) or "none"
            raise LackingError(f"no series {series_name!r} was recorded; recorded: {recorded}") from None
        chosen = (time_s >= start) & (time_s <= stop) & np.isfinite(values)
        if not chosen.any():
            raise NoValueError(f"series {series_name!r} has no value between {start:g} s and {stop:g} s")
        return time_s[chosen], values[chosen]

    def time(self, node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            parsed = quantities.parse(node.value)
            if parsed is None or parsed[1] not in ("s", ""):
                raise MeasureError(f"{node.value!r} is not a time; write it like '4.5s'")
            return parsed[0]
        return self.scalar(node)


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise MeasureError('write a name with special letters as value("...")')


def _text(arguments: list[ast.expr], index: int, name: str) -> str:
    if index < len(arguments):
        node = arguments[index]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
    raise MeasureError(f"{name}() needs a quoted text as argument {index + 1}")


def _aggregate(name: str, law: Callable[[Vector], float]) -> Callable[[_Evaluation, list[ast.expr]], Value]:
    return lambda evaluation, arguments: real(law(evaluation.vector(arguments, name)))


def _jain(values: Vector) -> float:
    """As the summary has it: nothing is no fair share."""
    index = stats.jain(values)
    if index is None:
        raise NoValueError("jain() has no value: all that it compares are zero")
    return index


def _unary(name: str) -> Callable[[_Evaluation, list[ast.expr]], Value]:
    def call(evaluation: _Evaluation, arguments: list[ast.expr]) -> Value:
        if len(arguments) != 1:
            raise MeasureError(f"{name}() takes one argument")
        return arithmetic.unary(name, evaluation.visit(arguments[0]))

    return call


def _series(name: str, law: Callable[[Any], float]) -> Callable[[_Evaluation, list[ast.expr]], Value]:
    def call(evaluation: _Evaluation, arguments: list[ast.expr]) -> Value:
        if not 1 <= len(arguments) <= 3:
            raise MeasureError(f'{name}("SERIES", "FROM", "TO") takes one to three arguments')
        if any(letter in _text(arguments, 0, name) for letter in "*?["):
            return [float(law(values)) for _, values in evaluation.windows(arguments, name)]
        return float(law(evaluation.window(arguments, name)[1]))

    return call


def _quantile(evaluation: _Evaluation, arguments: list[ast.expr]) -> Value:
    if len(arguments) < 2:
        raise MeasureError('quantile("PATH", Q) takes a path and a number between 0 and 1')
    q = _share(evaluation.scalar(arguments[-1]))
    return stats.quantile(evaluation.vector(arguments[:-1], "quantile"), q)


def _share(q: float) -> float:
    if not 0 <= q <= 1:
        raise MeasureError(f"the quantile must lie between 0 and 1, not be {q:g}")
    return q


def _value(evaluation: _Evaluation, arguments: list[ast.expr]) -> Value:
    values = select(_text(arguments, 0, "value"), evaluation.run.summary)
    if len(arguments) != 1 or len(values) != 1:
        raise MeasureError(f'value("PATH") takes one path to one number; this one matches {len(values)}')
    return values[0]


def _values(evaluation: _Evaluation, arguments: list[ast.expr]) -> Value:
    return evaluation.vector(arguments, "values")


def _axis(evaluation: _Evaluation, arguments: list[ast.expr]) -> Value:
    name = _text(arguments, 0, "axis")
    if name not in evaluation.run.axes:
        raise MeasureError(f"no axis {name!r}; axes: {', '.join(evaluation.run.axes) or 'none'}")
    number = quantities.base_value(evaluation.run.axes[name])
    if number is None:
        raise MeasureError(f"axis {name!r} is {evaluation.run.axes[name]!r}, not a quantity")
    return number


def _series_settling(evaluation: _Evaluation, arguments: list[ast.expr]) -> Value:
    """From when on the series stays within a fraction of a target; its last time where it never does."""
    if not 3 <= len(arguments) <= 5:
        raise MeasureError(
            'series_settling_s("SERIES", TARGET, FRACTION, "FROM", "TO") takes three to five arguments'
        )
    time_s, values = evaluation.window([arguments[0], *arguments[3:]], "series_settling_s")
    target, fraction = evaluation.scalar(arguments[1]), evaluation.scalar(arguments[2])
    outside = abs(values - target) > abs(target) * fraction
    if not outside.any():
        return float(time_s[0])
    last_outside = int(outside.nonzero()[0][-1])
    return float(time_s[min(last_outside + 1, len(time_s) - 1)])


def _series_below(evaluation: _Evaluation, arguments: list[ast.expr]) -> Value:
    """The part of the samples that lie below a level."""
    if not 2 <= len(arguments) <= 4:
        raise MeasureError('series_below("SERIES", LEVEL, "FROM", "TO") takes two to four arguments')
    values = evaluation.window([arguments[0], *arguments[2:]], "series_below")[1]
    return float((values < evaluation.scalar(arguments[1])).mean())


def _series_quantile(evaluation: _Evaluation, arguments: list[ast.expr]) -> Value:
    """A quantile of the samples."""
    if not 2 <= len(arguments) <= 4:
        raise MeasureError('series_quantile("SERIES", Q, "FROM", "TO") takes two to four arguments')
    q = _share(evaluation.scalar(arguments[1]))
    values = evaluation.window([arguments[0], *arguments[2:]], "series_quantile")[1]
    return stats.quantile([float(value) for value in values], q)


def _call(name: str, law: Callable[[Rating], float]) -> Callable[[_Evaluation, list[ast.expr]], Value]:
    """How good the calls are that flows carry: `law` of their ratings."""

    def call(evaluation: _Evaluation, arguments: list[ast.expr]) -> Value:
        if not 1 <= len(arguments) <= 4:
            raise MeasureError(f'{name}("FLOW", "CODEC", PLAY_OUT, "PACKET") takes one to four arguments')
        path = _text(arguments, 0, name)
        codec = _text(arguments, 1, name) if len(arguments) > 1 else calls.CODEC
        play_out: float | str = calls.BEST
        if len(arguments) > 2:
            third = arguments[2]
            is_text = isinstance(third, ast.Constant) and isinstance(third.value, str)
            play_out = _text(arguments, 2, name) if is_text else evaluation.scalar(third)
        packet_ms = 1e3 * evaluation.time(arguments[3]) if len(arguments) > 3 else None
        found = [
            law(each) for each in calls.ratings(path, evaluation.run.summary, codec, play_out, packet_ms)
        ]
        return found if any(letter in path for letter in "*?[") else found[0]

    return call


def _geometric_mean(values: Any) -> float:
    if not (values > 0).all():
        raise MeasureError("a geometric mean needs values above zero")
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


FUNCTIONS: dict[str, Callable[[_Evaluation, list[ast.expr]], Value]] = {
    "value": _value,
    "values": _values,
    "axis": _axis,
    "sum": _aggregate("sum", math.fsum),
    "mean": _aggregate("mean", stats.mean),
    "min": _aggregate("min", min),
    "max": _aggregate("max", max),
    "count": _aggregate("count", len),
    "std": _aggregate("std", stats.deviation),
    "cov": _aggregate("cov", lambda values: stats.deviation(values) / stats.mean(values)),
    "jain": _aggregate("jain", _jain),
    "quantile": _quantile,
    **{name: _unary(name) for name in arithmetic.UNARY},
    "series_mean": _series("series_mean", lambda values: values.mean()),
    "series_gmean": _series("series_gmean", _geometric_mean),
    "series_below": _series_below,
    "series_min": _series("series_min", lambda values: values.min()),
    "series_max": _series("series_max", lambda values: values.max()),
    "series_std": _series("series_std", lambda values: values.std()),
    "series_last": _series("series_last", lambda values: values[-1]),
    "series_settling_s": _series_settling,
    "series_quantile": _series_quantile,
    "mos": _call("mos", lambda rating: rating.mos),
    "r_factor": _call("r_factor", lambda rating: rating.R),
}
