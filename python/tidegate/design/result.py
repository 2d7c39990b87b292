"""What a design is: parameters, and the steps that lead to them."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

from tidegate import quantities
from tidegate.errors import UsageError

# What the core calls a quantity of this unit.
_KINDS = {"bit/s": "rate", "s": "time", "bytes": "size"}

# Where a queue is tried, in the table of its link.
_NETWORK = """
duration = "1s"
nodes = { hosts = ["a", "b"] }
flows.one = { from = "a", to = "b", transport = "tcp" }
[links.one]
between = ["a", "b"]
rate = "1Gbit"
delay = "1ms"
"""


@dataclass(frozen=True)
class Step:
    """One conclusion of a design."""

    about: str
    """What it settles, in a sentence."""
    symbol: str
    """Its published symbol, or the name of the parameter."""
    formula: str
    """How it follows from what came before."""
    value: float | None
    """In base units: packets, seconds, a probability. None where nothing is computed."""
    shown: str
    """The value for people."""
    source: str
    """Document and section."""


class Steps(list[Step]):
    """The argument of a design, as it grows."""

    def add(self, about: str, symbol: str, formula: str, value: float, unit: str, source: str) -> float:
        """One more conclusion, whose value is shown in its unit; the value comes back."""
        shown = quantities.duration(value) if unit == "s" else f"{quantities.number(value)} {unit}".rstrip()
        self.append(Step(about, symbol, formula, value, shown, source))
        return value


@dataclass(frozen=True)
class Design:
    """Parameters of one mechanism, with the reasoning and what speaks against it."""

    kind: str
    """The `kind` of the queue in a scenario."""
    inputs: dict[str, float | int | bool | str | None]
    """What was asked for, in base units; the unit ends the name."""
    parameters: dict[str, Any]
    """The keys of the queue as a scenario writes them."""
    steps: list[Step]
    """In the order of the argument."""
    warnings: list[str] = field(default_factory=list)
    """Where the mechanism, or the reasoning, reaches its limit."""

    def __post_init__(self) -> None:
        """Refuse what no scenario takes, as follows for numbers that no network has."""
        from tidegate import _core

        try:
            _core.Scenario.from_text(_NETWORK + self.toml())
        except _core.ConfigError as error:
            first = str(error).split(": ", 1)[-1].splitlines()[0]
            raise UsageError(
                f"for these numbers there is no {self.kind} queue ({first}): is one of them a mistake?"
            ) from None

    def queue(self) -> dict[str, Any]:
        """The queue for `Scenario.link(queue=...)`."""
        return {"kind": self.kind, **self.parameters}

    def toml(self) -> str:
        """The line to paste into the table of a link."""
        entries = ", ".join(f"{key} = {_toml(value)}" for key, value in self.queue().items())
        return f"queue = {{ {entries} }}"

    def as_dict(self) -> dict[str, Any]:
        """Plain data with stable keys, for JSON."""
        return {
            "schema_version": 1,
            "kind": self.kind,
            "inputs": self.inputs,
            "parameters": self.parameters,
            "steps": [vars(step) for step in self.steps],
            "warnings": self.warnings,
            "toml": self.toml(),
        }

    def json(self) -> str:
        """`as_dict` as text."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False)

    def text(self) -> str:
        """The steps, the warnings and the line to paste."""
        lines = []
        for number, step in enumerate(self.steps, 1):
            lines.append(f"{number}. {step.about}")
            lines.append(f"   {step.symbol} = {step.formula} = {step.shown}")
            lines.append(f"   [{step.source}]")
        lines += [f"Mind: {warning}" for warning in self.warnings]
        lines += ["", self.toml()]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from tidegate import notebook, tidy

        columns = {
            "what": [step.about for step in self.steps],
            "symbol": [step.symbol for step in self.steps],
            "follows from": [step.formula for step in self.steps],
            "value": [step.shown for step in self.steps],
            "source": [step.source for step in self.steps],
        }
        said = "\n".join([*(f"Mind: {warning}" for warning in self.warnings), self.toml()])
        return (
            notebook.heading(f"Design of {self.kind}")
            + tidy.Frame(columns)._repr_html_()
            + notebook.text(said)
        )


def quantity(given: str | float, unit: str, name: str, *, zero: bool = False) -> float:
    """`given`, a text like `10Mbit` as scenarios have it or a number, in `unit`: `bit/s`, `s`, `bytes`.

    `UsageError` with `name` in it where it is no such quantity, or not above zero, which `zero` allows.
    """
    value = float(given) if isinstance(given, int | float) else _read(given, _KINDS[unit], name)[0]
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        raise UsageError(f"{name}: {given!r} is not above zero")
    return value


def limit_bytes(given: str | float, packet_bytes: float, name: str, rate_bps: float | None = None) -> float:
    """What may wait in bytes: of a text like `100p`, `32kB` or `20ms` as scenarios have it.

    A time is what the link sends in it, and needs `rate_bps`; packets are of `packet_bytes`.
    """
    value, counted = _read(given, "limit", name) if isinstance(given, str) else (float(given), "packets")
    if counted == "s" and rate_bps is None:
        raise UsageError(f"{name}: {given!r} is a time, and no rate of a link is given: packets or bytes")
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{name}: {given!r} is not above zero")
    return value * {"packets": packet_bytes, "bytes": 1.0, "s": (rate_bps or 0) / 8}[counted]


def _read(given: str, kind: str, name: str) -> tuple[float, str]:
    """By the parser of scenarios: there is no other idea of what a quantity is."""
    from tidegate import _core

    try:
        return _core.quantity(given, kind)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
