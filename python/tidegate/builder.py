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

Table = dict[str, Any]


class Scenario:
    """A network and its traffic, put together piece by piece; methods that add give the scenario back."""

    def __init__(
        self, duration: str, title: str = "", warmup: str | None = None, seed: int | None = None, **more: Any
    ):
        given = {"title": title, "duration": duration, "warmup": warmup, "seed": seed, **more}
        self.table: Table = {key: value for key, value in given.items() if value not in (None, "")}
        self._nodes: dict[str, list[str]] = {}

    def hosts(self, *names: str) -> Self:
        """Nodes that send and receive. `"S{1..3}"` gives three."""
        self._nodes.setdefault("hosts", []).extend(names)
        return self

    def routers(self, *names: str) -> Self:
        """Nodes that forward."""
        self._nodes.setdefault("routers", []).extend(names)
        return self

    def link(
        self,
        a: str,
        b: str,
        rate: str,
        delay: str,
        queue: str | Mapping[str, Any] | None = None,
        name: str | None = None,
        **more: Any,
    ) -> Self:
        """A link in both directions; `forward={...}`, `reverse={...}` say what differs. Name: `a-b`."""
        table = {"between": [a, b], "rate": rate, "delay": delay, "queue": queue, **more}
        return self._add("links", name or f"{a}-{b}", table)

    def flow(
        self,
        name: str,
        source: str,
        to: str | Sequence[str],
        transport: str | Mapping[str, Any] = "tcp",
        application: str | Mapping[str, Any] | None = None,
        start: str | Mapping[str, Any] | None = None,
        stop: str | None = None,
        **more: Any,
    ) -> Self:
        """Traffic from one host to another, or to several over UDP."""
        to = to if isinstance(to, str) else list(to)
        table = {"from": source, "to": to, "transport": transport, "application": application}
        return self._add("flows", name, table | {"start": start, "stop": stop, **more})

    def domain(
        self, name: str, edges: Sequence[str], mechanism: str | Mapping[str, Any] = "none", **more: Any
    ) -> Self:
        """A controlled network: its border routers and what they do."""
        return self._add("domains", name, {"edges": list(edges), "mechanism": mechanism, **more})

    def event(self, at: str, link: str, **change: Any) -> Self:
        """A change of a link at a time: `rate`, `delay` or `state`."""
        self.table.setdefault("events", []).append({"at": at, "link": link, **change})
        return self

    def record(self, *series: str, every: str | None = None, delays: Sequence[str] = ()) -> Self:
        """Time series to record, as patterns: `flows.*.throughput_bps`; where to record delays: `flows.f`."""
        record = self.table.setdefault("record", {})
        record.setdefault("series", []).extend(series)
        if every is not None:
            record["every"] = every
        if delays:
            record.setdefault("delays", []).extend(delays)
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

    def __repr__(self) -> str:
        counts = {"nodes": sum(map(len, self._nodes.values()))}
        counts |= {key: len(self.table.get(key, ())) for key in ("links", "flows")}
        return f"<Scenario in the making: {', '.join(f'{count} {what}' for what, count in counts.items())}>"

    def _add(self, section: str, name: str, table: Mapping[str, Any]) -> Self:
        entries = self.table.setdefault(section, {})
        if name in entries:
            raise ValueError(f"there is already {section[:-1]} {name!r}; give this one another name")
        entries[name] = {key: value for key, value in table.items() if value is not None}
        return self


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
