"""What has a `kind` in a scenario, with its parameters by name, so that editors and notebooks complete them.

    s.link("r", "b", rate="5Mbit", delay="20ms", queue=tidegate.queues.red(limit="60p", ecn=True))

Families and their functions come from the schema, which mechanisms declare themselves: those of one's own are
there too. A function only makes the table that a file would have; whether it is valid is said by `build`.
"""

import inspect
import json
import keyword
from collections.abc import Callable
from difflib import get_close_matches
from functools import cached_property
from typing import Any

# By what a scenario calls them: the definition in the schema, and what one of them is.
_FAMILIES = {
    "queues": ("Discipline", "queue of a link"),
    "transports": ("TransportText", "transport of a flow"),
    "controls": ("CongestionControl", "congestion control of TCP"),
    "applications": ("Application", "application of a flow"),
    "mechanisms": ("Mechanism", "mechanism of a domain"),
    "markers": ("Marker", "mechanism of a marker"),
    "losses": ("Loss", "loss of a link"),
}
NAMES = tuple(_FAMILIES)


def definition(name: str) -> str:
    """What the schema calls a family."""
    return _FAMILIES[name][0]


class Family:
    """All kinds of one thing, each a function of its parameters that gives the table of a scenario."""

    def __init__(self, name: str):
        self._definition, self._what = _FAMILIES[name]

    @cached_property
    def _kinds(self) -> dict[str, Callable[..., dict[str, Any]]]:
        from tidegate import _core

        choices = json.loads(_core.schema())["$defs"][self._definition]["anyOf"]
        tables = next(choice["oneOf"] for choice in choices if "oneOf" in choice)
        made = [_function(table) for table in tables]
        return {function.__name__: function for function in made}

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        if name.startswith("_"):  # what Python and IPython look for themselves
            raise AttributeError(name)
        if name not in self._kinds:
            near = get_close_matches(name, self._kinds, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise AttributeError(f"no {self._what} is called {name!r}: {', '.join(self._kinds)}{meant}")
        return self._kinds[name]

    def __dir__(self) -> list[str]:
        return list(self._kinds)

    def __repr__(self) -> str:
        return f"<{self._what}: {', '.join(self._kinds)}>"


def _function(table: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    """A function that makes the table of one kind; what it is not told is left to the kind's defaults."""
    properties = {key: about for key, about in table["properties"].items() if key != "kind"}
    kind = table["properties"]["kind"]["const"]

    def make(**parameters: Any) -> dict[str, Any]:
        return {"kind": kind} | {key.rstrip("_"): value for key, value in parameters.items()}

    make.__name__ = make.__qualname__ = _identifier(kind)
    make.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                _identifier(key),
                inspect.Parameter.KEYWORD_ONLY,
                default=about.get("default", inspect.Parameter.empty if key in required else None),
            )
            for required in [table.get("required", ())]
            for key, about in properties.items()
        ],
        return_annotation=dict[str, Any],
    )
    lines = [f"    {_identifier(key)}: {about.get('description', '')}" for key, about in properties.items()]
    make.__doc__ = "\n".join([table.get("description", kind), "", *lines]).rstrip()
    return make


def _identifier(name: str) -> str:
    """A name that Python takes: `adaptive_red`, and `from_`."""
    plain = name.replace("-", "_")
    return f"{plain}_" if keyword.iskeyword(plain) else plain
