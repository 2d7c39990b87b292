"""Builds a scenario in code and turns it into the text a file would have; the core validates both alike.

    s = tidegate.Scenario(duration="10s", warmup="1s")
    s.hosts("a", "b").routers("r")
    s.link("a", "r", rate="10Mbit", delay="1ms").link("r", "b", rate="1Mbit", delay="5ms", name="bottleneck")
    s.flow("f", "a", "b", transport="tcp")
    s.record("flows.f.throughput_bps", every="100ms")
    s.run(seed=1)

Quantities are texts with units, as in files: `"10Mbit"`, `"5ms"`, `"100p"`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

if TYPE_CHECKING:
    from tidegate.api import LoadedScenario, Result, RunOptions
    from tidegate.home import ExperimentResult

Table = dict[str, Any]
# A kind alone, or a table, as `tidegate.queues.red(limit="60p")` makes it.
Kind = str | Mapping[str, Any]
Value = str | int | float | bool


class Scenario:
    """A network and its traffic, put together piece by piece; methods that add give the scenario back.

    Keywords are the keys of files, so that editors and notebooks complete them; docs/scenarios.md and
    docs/experiments.md say what they mean. Words of Python get an underline behind them: `class_`.
    `build`, `run` and `sweep` check them, with the errors that a file gets.
    """

    def __init__(
        self,
        duration: str,
        title: str = "",
        warmup: str | None = None,
        seed: int | None = None,
        *,
        description: str | None = None,
        source: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        defaults: Mapping[str, Any] | None = None,
        routing: Mapping[str, Any] | None = None,
        ties: Mapping[str, Any] | None = None,
        event_order: str | None = None,
        seeds: int | None = None,
        quick_seeds: int | None = None,
        quick_set: Mapping[str, Any] | None = None,
        also: Sequence[str] | None = None,
        **more: Any,
    ):
        given = {
            "title": title or None, "description": description, "source": source, "duration": duration,
            "warmup": warmup, "seed": seed, "seeds": seeds, "quick_seeds": quick_seeds, "also": also,
            "parameters": parameters, "defaults": defaults, "routing": routing, "ties": ties,
            "event_order": event_order,
            "quick_set": quick_set,
        }  # fmt: skip
        self.table: Table = _given(given | more)
        self._nodes: dict[str, list[str]] = {}

    def hosts(self, *names: str) -> Self:
        """Nodes that send and receive. `"S{1..3}"` gives three."""
        return self._add_nodes("hosts", names)

    def routers(self, *names: str) -> Self:
        """Nodes that forward."""
        return self._add_nodes("routers", names)

    def real(self, *names: str) -> Self:
        """Those of the hosts that `tidegate emulate` makes real."""
        return self._add_nodes("real", names)

    def link(
        self,
        a: str,
        b: str,
        rate: str | Mapping[str, Any] | None = None,
        delay: str | None = None,
        queue: Kind | None = None,
        name: str | None = None,
        *,
        device: Mapping[str, Any] | None = None,
        loss: Kind | None = None,
        reorder: Mapping[str, Any] | None = None,
        duplicate: float | None = None,
        jitter: Kind | None = None,
        circuit: Mapping[str, Any] | None = None,
        cost: int | None = None,
        duplex: str | None = None,
        forward: Mapping[str, Any] | None = None,
        reverse: Mapping[str, Any] | None = None,
        repeat: str | None = None,
        **more: Any,
    ) -> Self:
        """A link in both directions; `forward={...}`, `reverse={...}` say what differs. Name: `a-b`."""
        table = {
            "between": [a, b], "rate": rate, "delay": delay, "queue": queue, "device": device, "loss": loss,
            "reorder": reorder, "duplicate": duplicate, "jitter": jitter, "circuit": circuit, "cost": cost,
            "duplex": duplex, "forward": forward, "reverse": reverse, "repeat": repeat,
        }  # fmt: skip
        return self._add("links", name or f"{a}-{b}", table | more)

    def flow(
        self,
        name: str,
        source: str,
        to: str | Sequence[str],
        transport: Kind = "tcp",
        application: Kind | None = None,
        start: str | Mapping[str, Any] | None = None,
        stop: str | None = None,
        *,
        weight: float | None = None,
        class_: int | None = None,
        dscp: int | None = None,
        back_of: str | None = None,
        fluid: Mapping[str, Any] | None = None,
        repeat: str | None = None,
        **more: Any,
    ) -> Self:
        """Traffic from one host to another, or to several over UDP; with `fluid={...}` many connections."""
        table = {
            "from": source, "to": to if isinstance(to, str) else list(to),
            "transport": transport if fluid is None else None,
            "application": application, "start": start, "stop": stop, "weight": weight, "class": class_,
            "dscp": dscp, "back_of": back_of, "fluid": fluid, "repeat": repeat,
        }  # fmt: skip
        return self._add("flows", name, table | more)

    def domain(
        self,
        name: str,
        edges: Sequence[str],
        mechanism: Kind = "none",
        *,
        core: Sequence[str] | None = None,
        labels: Kind | None = None,
        clocks: Mapping[str, Any] | None = None,
        trusts: Sequence[str] | None = None,
        control_loss: float | None = None,
        lies: dict[str, Any] | None = None,
        repeat: str | None = None,
        **more: Any,
    ) -> Self:
        """A controlled network: its border routers, what they do, and its inner routers as `core`."""
        table = {
            "edges": list(edges), "mechanism": mechanism, "core": core, "labels": labels, "clocks": clocks,
            "trusts": trusts, "control_loss": control_loss, "lies": lies, "repeat": repeat,
        }  # fmt: skip
        return self._add("domains", name, table | more)

    def marker(
        self,
        name: str,
        mechanism: Kind,
        flows: Sequence[str],
        at: str | None = None,
        *,
        repeat: str | None = None,
        **more: Any,
    ) -> Self:
        """What meters flows and colours their packets; at their hosts, or `at` a node."""
        table = {"mechanism": mechanism, "flows": list(flows), "at": at, "repeat": repeat}
        return self._add("markers", name, table | more)

    def command(
        self,
        name: str,
        host: str,
        run: str,
        needs: Sequence[str] | None = None,
        *,
        repeat: str | None = None,
        **more: Any,
    ) -> Self:
        """What a real host runs while the scenario is emulated."""
        return self._add(
            "commands", name, {"host": host, "run": run, "needs": needs, "repeat": repeat} | more
        )

    def event(
        self,
        at: str,
        link: str | None = None,
        *,
        direction: str | None = None,
        rate: str | None = None,
        delay: str | None = None,
        background: str | None = None,
        state: str | None = None,
        flow: str | None = None,
        reservation: str | None = None,
        edge: str | None = None,
        domain: str | None = None,
        clock_ahead: str | None = None,
        clock_back: str | None = None,
        restart: bool | None = None,
        repeat: str | None = None,
        **more: Any,
    ) -> Self:
        """A change of a link at a time, of a flow's reservation, or of the clock or machine of an edge."""
        change = {
            "at": at, "link": link, "direction": direction, "rate": rate, "delay": delay, "state": state,
            "background": background, "flow": flow, "reservation": reservation, "edge": edge,
            "domain": domain, "clock_ahead": clock_ahead, "clock_back": clock_back, "restart": restart,
            "repeat": repeat,
        }  # fmt: skip
        self.table.setdefault("events", []).append(_given(change | more))
        return self

    def record(
        self,
        *series: str,
        every: str | None = None,
        delays: Sequence[str] = (),
        waste: bool | None = None,
        max_min: bool | None = None,
        state: bool | None = None,
        **more: Any,
    ) -> Self:
        """Time series to record, as patterns: `flows.*.throughput_bps`; where to record delays: `flows.f`."""
        record = self.table.setdefault("record", {})
        record.setdefault("series", []).extend(series)
        record |= _given({"every": every, "waste": waste, "max_min": max_min, "state": state} | more)
        if delays:
            record.setdefault("delays", []).extend(delays)
        return self

    def axis(
        self,
        name: str,
        path: str | None = None,
        values: Sequence[Value] = (),
        *,
        paths: Sequence[str] | None = None,
        include: Sequence[str] | None = None,
        quick: Sequence[Value] | None = None,
        label: str | None = None,
        unit: str | None = None,
        **more: Any,
    ) -> Self:
        """What an experiment sweeps: the key at `path` takes each of the values."""
        table = {
            "path": path, "values": list(values), "paths": paths, "include": include, "quick": quick,
            "label": label, "unit": unit,
        }  # fmt: skip
        return self._add("axes", name, table | more)

    def variant(
        self, name: str, set: Mapping[str, Any] | None = None, label: str | None = None, **more: Any
    ) -> Self:
        """A named version of the scenario: `set={"links.core.queue": tidegate.queues.red()}`."""
        return self._add("variants", name, {"set": set, "label": label} | more)

    def figure(
        self,
        id: str,
        y: str | Sequence[str],
        kind: str = "lines",
        x: str | None = None,
        *,
        title: str | None = None,
        labels: Sequence[str] | None = None,
        x_label: str | None = None,
        y_label: str | None = None,
        scale: str | None = None,
        x_range: Sequence[float] | None = None,
        y_range: Sequence[float] | None = None,
        variant: str | None = None,
        variants: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Self:
        """What an experiment draws: a measure `y` over the axis `x`, or as bars, over time, as a table."""
        table = {
            "id": id, "title": title, "kind": kind, "x": x, "y": y if isinstance(y, str) else list(y),
            "labels": labels, "x_label": x_label, "y_label": y_label, "scale": scale, "variant": variant,
            "variants": variants, "where": where,
            "x_range": None if x_range is None else list(x_range),
            "y_range": None if y_range is None else list(y_range),
        }  # fmt: skip
        self.table.setdefault("figures", []).append(_given(table | more))
        return self

    def to_toml(self) -> str:
        """The file that describes this scenario."""
        nodes = {"nodes": self._nodes} if self._nodes else {}
        return to_toml(self.table | nodes)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write that file."""
        target = Path(path)
        target.write_text(self.to_toml(), encoding="utf-8")
        return target

    def build(self) -> "LoadedScenario":
        """Validate it."""
        from tidegate import _core
        from tidegate.api import LoadedScenario

        return LoadedScenario(
            _core.Scenario.from_text(self.to_toml(), str(self.table.get("title") or "scenario"))
        )

    def run(self, seed: int | None = None, **options: "Unpack[RunOptions]") -> "Result":
        """Validate and run it, as `LoadedScenario.run` does."""
        return self.build().run(seed, **options)

    def sweep(
        self,
        *,
        name: str = "scenario",
        seeds: int | None = None,
        quick: bool = False,
        workers: int | None = None,
    ) -> "ExperimentResult":
        """Run every point of the experiment that it describes, as `tidegate.sweep` does with its file.

        `name` is what the result is called. Nothing is kept: for that, `save` it and sweep the file.
        """
        from tempfile import TemporaryDirectory

        from tidegate.errors import UsageError
        from tidegate.home import sweep

        if name != Path(name).name or not name:
            raise UsageError(f"{name!r} is no name of a result: letters, digits, - and _")

        self.build()  # so that what is wrong with it is told without the name of a file that nobody knows
        with TemporaryDirectory(prefix="tidegate-") as folder:
            file = self.save(Path(folder) / f"{name}.toml")
            return sweep(file, seeds=seeds, quick=quick, workers=workers)

    def _repr_html_(self) -> str:
        from tidegate import notebook
        from tidegate._core import ConfigError

        try:
            return self.build()._repr_html_()
        except ConfigError as error:
            return notebook.text(f"{self!r}\n\n{error.rendered}")

    def __repr__(self) -> str:
        counts = {"nodes": sum(map(len, self._nodes.values()))}
        counts |= {key: len(self.table.get(key, ())) for key in ("links", "flows")}
        return f"<Scenario in the making: {', '.join(f'{count} {what}' for what, count in counts.items())}>"

    def _add(self, section: str, name: str, table: Mapping[str, Any]) -> Self:
        entries = self.table.setdefault(section, {})
        if name in entries:
            raise ValueError(f"there is already {section[:-1]} {name!r}; give this one another name")
        entries[name] = _given(table)
        return self

    def _add_nodes(self, kind: str, names: Sequence[str]) -> Self:
        self._nodes.setdefault(kind, []).extend(names)
        return self


def _given(table: Mapping[str, Any]) -> Table:
    """What is said; the rest is left to the defaults."""
    return {key.rstrip("_"): value for key, value in table.items() if value is not None}


def to_toml(table: Mapping[str, Any]) -> str:
    """TOML for nested dicts, lists, texts, numbers and booleans."""
    lines: list[str] = []
    _write(table, (), lines)
    return "\n".join(lines).strip() + "\n"


def _write(table: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    """Plain values first, tables after them: after a header, everything would belong to it."""
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping) and len(path) < 2}
    lists = {key: value for key, value in table.items() if _is_table_list(value) and not path}
    for key, value in table.items():
        if key not in tables and key not in lists:
            lines.append(f"{_key(key)} = {toml_value(value)}")
    for key, value in tables.items():
        inner = (*path, key)
        if path or not value or not all(isinstance(entry, Mapping) for entry in value.values()):
            lines += ["", f"[{'.'.join(map(_key, inner))}]"]
        _write(value, inner, lines)
    for key, value in lists.items():
        for entry in value:
            lines += ["", f"[[{_key(key)}]]"]
            lines += [f"{_key(inner)} = {toml_value(content)}" for inner, content in entry.items()]


def _is_table_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _text(text: str) -> str:
    # A JSON string is a TOML string, but for the DEL character, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: Any) -> str:
    """One value as TOML, dicts and lists inline."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {toml_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    raise TypeError(f"{value!r} cannot stand in a scenario: use texts, numbers, lists and dicts")
