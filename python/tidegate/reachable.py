"""Whether what measures name is there: flows, links, their keys, and series of the scenarios to be run.

A mistake costs the time of all runs where nobody notices before they are made. `summary_keys` knows what a
summary will have; what only runs decide is left to `measure.evaluate`.
"""

import ast
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidegate import calls, measure, paths, quantities, summary_keys
from tidegate.errors import MeasureError
from tidegate.experiment import named
from tidegate.summary_keys import FAMILIES

# What a summary has beside the tables whose keys are the scenario's names (`docs/results.md`).
_OTHERS = (
    "schema_version",
    "tidegate_version",
    "title",
    "seed",
    "duration_s",
    "warmup_s",
    "delay_ms",
    "fairness",
    "waste",
    "state",
    "control",
    "totals",
    "emulation",
)
_NAMES_SHOWN = 12


class Names:
    """Names that measures need, each with its place, until scenarios have been seen that have them."""

    def __init__(
        self,
        measures: Iterable[tuple[str, str]],
        series: Iterable[tuple[str, str]] = (),
        axes: Mapping[str, Sequence[str]] | None = None,
    ):
        """`measures` and names of `series` with where they stand; values of `axes` by name, if known.

        `MeasureError` where a table or an axis is unknown.
        """
        # Why the last scenario has no such thing, as soon as one was seen.
        self._paths: dict[str, tuple[str, str]] = {}
        self._series: dict[str, str] = {name: place for place, name in series}
        for place, source in measures:
            tree = measure.parse(source)
            if axes is not None:
                _require_axes(tree, axes, place)
            for path, is_series in _paths(tree):
                if is_series:
                    self._series.setdefault(path, place)
                else:
                    _require_table(path, place, source)
                    self._paths.setdefault(path, (place, ""))
        self._last: Mapping[str, Any] = {}

    @property
    def are_open(self) -> bool:
        """Whether some have not been seen."""
        return bool(self._paths or self._series)

    def see(self, scenario: str, is_real: bool = False) -> None:
        """Cross off what a scenario has, by its JSON, which is read only while names are open.

        With `is_real` hosts its flows have keys that their commands write.
        """
        if self.are_open:
            self._last = known = json.loads(scenario)
            for path, (place, _) in [*self._paths.items()]:
                if lack := _lack(path, known, is_real):
                    self._paths[path] = place, lack
                else:
                    del self._paths[path]
            recorded = _recorded(known)
            for name in [*self._series]:
                if any(paths.matches(each, name) for each in recorded):
                    del self._series[name]

    def require(self) -> None:
        """Refuse what no scenario has, with why the last one has not; nothing if none was seen."""
        if not self._last:
            return
        for place, lack in self._paths.values():
            raise MeasureError(f"{place}: {lack}")
        for name, place in self._series.items():
            there = _recorded(self._last)
            raise MeasureError(f"{place}: no series {name!r} is recorded{_instead(name, there)}")


def _require_axes(tree: ast.expr, axes: Mapping[str, Sequence[str]], place: str) -> None:
    """Refuse `axis("NAME")` where there is no such axis, or where its values are names."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="axis"), args=[ast.Constant(value=str() as name), *_]):
                if name not in axes:
                    raise MeasureError(f"{place}: no axis {name!r}{_instead(name, list(axes))}")
                if all(quantities.base_value(text) is None for text in axes[name]):
                    raise MeasureError(
                        f"{place}: the values of axis {name!r} are names, and no quantities: "
                        f"{', '.join(axes[name][:_NAMES_SHOWN])}"
                    )


def _lack(path: str, scenario: Mapping[str, Any], is_real: bool) -> str:
    """Why a summary of the scenario has nothing at `path`; empty where it may."""
    family, _, rest = path.partition(".")
    if family in FAMILIES and rest:
        name = rest.partition(".")[0]
        there = _names(scenario, family)
        if not any(paths.matches(each, name) for each in there):
            fluids = _names(scenario, "fluids") if family == "flows" else []
            hint = f"; it is a fluid: fluids.{name}" if name in fluids else _instead(name, there)
            return f"no {family[:-1]} {name!r}{hint}"
    try:
        summary_keys.require(path, scenario, is_real)
    except summary_keys.Lack as lack:
        return f"{lack}{_instead(lack.name, lack.there, len(lack.there)) if lack.name else ''}"
    return ""


def _require_table(path: str, place: str, source: str) -> None:
    head = path.partition(".")[0]
    if not any(paths.matches(known, head) for known in (*FAMILIES, *_OTHERS)):
        # `flows.a-b.goodput_bps` is a difference.
        for name in re.findall(rf"(?<![\w\"'])(?:{'|'.join(FAMILIES)})\.[\w.]+-[\w.-]+", source):
            if name.endswith(f"-{path}"):
                raise MeasureError(
                    f'{place}: `-` takes away; where it is part of a name, write value("{name}")'
                )
        raise MeasureError(f"{place}: a summary has no {head!r}{_instead(head, [*FAMILIES, *_OTHERS])}")


def _instead(name: str, there: Sequence[str], shown: int = _NAMES_SHOWN) -> str:
    """What may be meant; where nothing is close what there is, of a network's many names `shown`."""
    close = difflib.get_close_matches(name, there, n=3)
    if close:
        return f"; did you mean {', '.join(close)}?"
    more = f" and {len(there) - shown} more" if len(there) > shown else ""
    return f"; there are: {', '.join(there[:shown]) or 'none'}{more}"


def _names(scenario: Mapping[str, Any], family: str) -> list[str]:
    return list(named(scenario.get(family)))


def _recorded(scenario: Mapping[str, Any]) -> list[str]:
    return list((scenario.get("record") or {}).get("series") or ())


def _paths(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """The paths that a checked measure reads, and whether each is a series."""
    match node:
        case ast.Attribute() | ast.Name():
            yield ast.unparse(node), False
        case ast.Call(func=ast.Name(id=name), args=arguments):
            is_series = name.startswith("series_")
            is_first_alone = is_series or name in ("mos", "r_factor")
            for index, argument in enumerate(arguments):
                if not isinstance(argument, ast.Constant):
                    yield from _paths(argument)
                # Further texts of series are times, those of calls a codec and a time; that of `axis` is
                # looked up by its own function.
                elif isinstance(argument.value, str) and name != "axis" and not (is_first_alone and index):
                    if name not in ("mos", "r_factor"):
                        yield argument.value, is_series
                        continue
                    yield f"{argument.value}.loss_ratio", False
                    if not _may_wait_for_all(arguments):
                        yield f"{argument.value}.delay_ms.{calls.PLAY_OUT[0.95]}", False
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _paths(child)


def _may_wait_for_all(arguments: Sequence[ast.expr]) -> bool:
    """Whether the receiver of a call waits for every packet, so that no distribution of delays is needed."""
    play_out = arguments[2] if len(arguments) > 2 else ast.Constant(calls.BEST)
    return not isinstance(play_out, ast.Constant) or play_out.value == 1
