"""The Python interface: load or build a scenario, run it, look at what it gave.

import tidegate
result = tidegate.load("dumbbell.toml", links__bottleneck__rate="2Mbit").run(seed=1)
result.flows["tcp"]["throughput_bps"]
time_s, queue = result.series("links.bottleneck.queue_packets")
"""

import json
import math
import operator
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from tidegate import _core, reach
from tidegate.builder import toml_value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tidegate import own
    from tidegate.builder import Scenario as BuiltScenario
    from tidegate.experiment import PointResult


# No network is divided into more parts.
CORES_MAX = 64


class RunOptions(TypedDict, total=False):
    """What `run` takes besides a seed."""

    trace: str | PathLike[str] | None
    trace_at: Sequence[str]
    trace_drops: str | PathLike[str] | None
    queues: "own.Own | None"
    controls: "own.Own | None"
    cores: int


class LoadedScenario:
    """A validated scenario, ready to run."""

    def __init__(self, core: _core.Scenario):
        self.core = core

    @property
    def name(self) -> str:
        """Its name: that of its file."""
        return self.core.name

    @property
    def title(self) -> str:
        """The line that names it."""
        return self.core.title

    @property
    def duration_s(self) -> float:
        """Simulated time of a run, in seconds."""
        return self.core.duration_s

    @property
    def warmup_s(self) -> float:
        """When statistics start, in seconds."""
        return self.core.warmup_s

    @property
    def warnings(self) -> list[str]:
        """What is valid and hardly meant, as `tidegate validate` says it: promises beyond what a link has."""
        return list(self.core.warnings)

    @cached_property
    def description(self) -> dict[str, Any]:
        """Everything about it, defaults filled in; units are in the names."""
        return json.loads(self.core.to_json())

    def run(self, seed: int | None = None, **options: "Unpack[RunOptions]") -> "Result":
        """Run it. Without `seed`, the scenario's own; `trace` writes packets as pcapng.

        `trace_at`: `hosts` for those that send data, `links`, or names of hosts and links (`bottleneck`,
        `bottleneck.reverse`). `trace_drops` writes what was dropped or marked, with the reasons.

        `queues` and `controls` put mechanisms in Python in the place of the scenario's: by names or patterns
        of links (`bottleneck`, `bottleneck.reverse`, `*`) and of TCP flows, a subclass of `QueueManager` or
        `CongestionControl`.

        `cores`: so many may simulate, where that is possible and faster; `Result.undivided` says why not.
        """
        if seed is not None:
            seed = _whole("seed", seed, 0, (1 << 64) - 1)
        if unknown := options.keys() - RunOptions.__annotations__.keys():
            raise TypeError(f"run() has no keyword {', '.join(map(repr, sorted(unknown)))}")
        cores = _whole("cores", options.get("cores", 1), 1, CORES_MAX)
        given: dict[str, Any] = {"seed": seed, "cores": cores}
        for key in ("trace", "trace_drops"):
            if path := options.get(key):
                given[key] = fspath(path)
        if "trace_at" in options:
            given["trace_at"] = list(options["trace_at"])
        queues, controls = options.get("queues"), options.get("controls")
        if queues or controls:
            from tidegate import own

            links = [link["name"] for link in self.description["links"]]
            sides = [side for name in links for side in (name, f"{name}.reverse")]
            flows = [flow["name"] for flow in self.description["flows"] if flow["transport"]["kind"] == "tcp"]
            given["queues"] = own.places(queues, sides, "link", own.QueueManager)
            given["controls"] = own.places(controls, flows, "TCP flow", own.CongestionControl)
        return Result(self, _core.run(self.core, **given), seed)

    def __repr__(self) -> str:
        nodes, flows = len(self.description.get("nodes", ())), len(self.description.get("flows", ()))
        return f"<Scenario {self.title or self.name!r}: {nodes} nodes, {flows} flows, {self.duration_s:g} s>"

    def _repr_html_(self) -> str:
        from tidegate import notebook

        return notebook.heading(self.title or self.name) + notebook.topology(self.description)


def _whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number of any kind, such as NumPy's, as Python's own; `ValueError` for anything else."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise ValueError(f"{name} is {value!r}: a whole number from {least} to {most}")
    return number


class Result:
    """What one run gave: `summary` as a dict, time series as NumPy arrays or an Arrow stream."""

    def __init__(self, scenario: LoadedScenario, core: _core.RunResult, seed: int | None = None):
        self.scenario = scenario
        self.core = core
        self.seed = scenario.core.seed if seed is None else seed

    @cached_property
    def summary(self) -> dict[str, Any]:
        """All counters and statistics; units are in the keys."""
        return json.loads(self.core.summary_json)

    @property
    def flows(self) -> dict[str, dict[str, Any]]:
        """Statistics per flow: `throughput_bps`, `goodput_bps`, `loss_ratio`, `delay_ms`, ..."""
        return self.summary.get("flows", {})

    @property
    def links(self) -> dict[str, dict[str, Any]]:
        """Statistics per link: `utilization`, `dropped_packets`, `queue_packets`, ..."""
        return self.summary.get("links", {})

    @property
    def timing(self) -> Mapping[str, Any]:
        """What the run cost: `build_s`, `run_s`, `events`, `packet_hops`, `cores`, `peak_rss_bytes`."""
        return self.core.timing

    @property
    def undivided(self) -> str | None:
        """Why it was one core that simulated, where more were offered."""
        return self.core.undivided

    @property
    def series_names(self) -> list[str]:
        """The time series that the scenario's `record` asked for."""
        return list(self.core.series_names)

    def series(self, name: str) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """Times in seconds and values of one series, in the unit its name ends in."""
        if name not in self.core.series_names:
            raise KeyError(f"no series {name!r}; recorded: {', '.join(self.core.series_names) or 'none'}")
        return self.core.series(name)

    def measure(self, expression: str) -> float:
        """Evaluate a measure, e.g. `sum("flows.*.throughput_bps") / 1e6`; NaN if it has no value here."""
        from tidegate import measure
        from tidegate.errors import NoValueError

        try:
            return measure.evaluate(expression, self._point())
        except NoValueError:
            return math.nan

    def write_parquet(self, path: str | PathLike[str]) -> None:
        """Write all series as one table with columns time_s, name, value."""
        self.core.write_parquet(fspath(path))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.core.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> "Result":
        """This result: whatever speaks the Arrow C stream (polars, pandas, pyarrow, DuckDB) reads it."""
        return self

    def __str__(self) -> str:
        from tidegate.display import run_summary

        scenario = self.scenario
        title = scenario.title or scenario.name
        return run_summary(title, self.summary, scenario.duration_s, scenario.warmup_s, self.seed)

    def __repr__(self) -> str:
        rates = [flow.get("throughput_bps") or 0.0 for flow in self.flows.values()]
        name = self.scenario.title or self.scenario.name
        delivered = (
            f"{len(rates)} flow{'' if len(rates) == 1 else 's'}, {sum(rates) / 1e6:.4g} Mb/s delivered"
        )
        return f"<Result of {name!r}, seed {self.seed}: {delivered}>"

    def _repr_html_(self) -> str:
        from tidegate import figures, notebook
        from tidegate.experiment import Info

        drawn = figures.build_all(Info(self.scenario.name, {}), [self._point()])
        return notebook.charts(drawn) + notebook.text(str(self))

    def _point(self) -> "PointResult":
        from tidegate.experiment import PointResult

        return PointResult(None, {}, self.seed, self.summary, result=self.core)


def load(
    path: str | PathLike[str], *, allow: Sequence[str | PathLike[str]] = (), **overrides: Any
) -> LoadedScenario:
    """Read and validate a scenario file.

    Keywords override single values by path, two underscores for each dot: `links__core__rate="2Mbit"`. A dict
    replaces a whole table: `links__core__queue={"kind": "red"}`. Includes and traces lie in the folder of the
    file, or in one of those that `allow` names.
    """
    pairs = [(name.replace("__", "."), _override_text(value)) for name, value in overrides.items()]
    folders = [*reach.of(Path(path)), *map(fspath, allow)]
    return LoadedScenario(_core.Scenario.from_file(fspath(path), pairs, folders))


def run(
    scenario: "LoadedScenario | BuiltScenario | str | PathLike[str]",
    seed: int | None = None,
    **options: "Unpack[RunOptions]",
) -> Result:
    """Run a scenario: loaded, built in code, or a file. The rest is as in `LoadedScenario.run`."""
    if isinstance(scenario, str | PathLike):
        scenario = load(scenario)
    return scenario.run(seed, **options)


def _override_text(value: Any) -> str:
    if isinstance(value, Mapping | list | tuple):
        return toml_value(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
