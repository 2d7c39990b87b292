"""What has a `kind` in a scenario, with its parameters by name, so that notebooks complete them.

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


class Family:
    """All kinds of one thing, each a function of its parameters that gives the table of a scenario."""

    def __init__(self, definition: str, what: str):
        """`definition` is its name in the schema, `what` what one of them is."""
        self._definition, self._what = definition, what

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
    kind = table["properties"]["kind"]["const"]
    properties = {_identifier(key): about for key, about in table["properties"].items() if key != "kind"}
    required = {_identifier(key) for key in table.get("required", ())}

    def make(**parameters: Any) -> dict[str, Any]:
        return {"kind": kind} | {key.rstrip("_"): value for key, value in parameters.items()}

    def parameter(name: str) -> inspect.Parameter:
        default = properties[name].get("default", inspect.Parameter.empty if name in required else None)
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)

    make.__name__ = make.__qualname__ = _identifier(kind)
    made = inspect.Signature(list(map(parameter, properties)), return_annotation=dict[str, Any])
    make.__signature__ = made  # type: ignore[attr-defined]
    lines = [f"    {name}: {about.get('description', '')}" for name, about in properties.items()]
    make.__doc__ = "\n".join([table.get("description", kind), "", *lines]).rstrip()
    return make


def _identifier(name: str) -> str:
    """A name that Python takes: `adaptive_red`, and `from_`."""
    plain = name.replace("-", "_")
    return f"{plain}_" if keyword.iskeyword(plain) else plain


queues = Family("Discipline", "queue of a link")
losses = Family("Loss", "loss of a link")
jitters = Family("Jitter", "jitter of a link")
transports = Family("TransportText", "transport of a flow")
controls = Family("CongestionControl", "congestion control of TCP")
applications = Family("Application", "application of a flow")
mechanisms = Family("Mechanism", "mechanism of a domain")
markers = Family("Marker", "mechanism of a marker")
