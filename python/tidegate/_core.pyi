"""Types of the compiled module: the engine and the scenario format, written in Rust (crates/python)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

__version__: str
# The revision that it was built of, with a plus where sources differed, and the profile. A module that a user
# makes has none.
__build__: str
__engine__: str

Overrides = Sequence[tuple[str, str]]
# Folders in which the files that a file names may lie, beside its own.
Allowed = Sequence[str]

class ConfigError(ValueError):
    """A file is not valid. `str(error)` is one line, `rendered` shows the place in the file."""

    file: str | None
    line: int | None
    column: int | None
    path: str | None
    rendered: str

class Scenario:
    """A validated network with its traffic. Times in seconds."""

    name: str
    title: str
    duration_s: float
    warmup_s: float
    seed: int
    is_real: bool
    warnings: list[str]
    @staticmethod
    def from_file(path: str | Path, overrides: Overrides = ..., allowed: Allowed = ...) -> Scenario: ...
    @staticmethod
    def from_text(text: str, name: str = "<text>", overrides: Overrides = ...) -> Scenario: ...
    def to_json(self) -> str: ...

class Point:
    """One run of an experiment: a variant, one value per axis as written in the file, a seed."""

    variant: str | None
    axes: dict[str, str]
    seed: int
    overrides: list[tuple[str, str]]

class Experiment:
    """A validated scenario with variants, swept axes, seeds and figures."""

    warnings: list[str]
    @staticmethod
    def from_file(path: str | Path, overrides: Overrides = ..., allowed: Allowed = ...) -> Experiment: ...
    def to_json(self) -> str: ...
    def points(self, quick: bool) -> list[Point]: ...
    def scenario(self, point: Point) -> Scenario: ...

class Timing(TypedDict):
    """What a run cost; no part of its results."""

    build_s: float
    run_s: float
    events: int
    packet_hops: int
    cores: int
    peak_rss_bytes: int

class RunResult:
    """What one run leaves behind."""

    summary_json: str
    series_names: list[str]
    timing: Timing
    undivided: str | None
    def series(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def write_parquet(self, path: str) -> None: ...

class Packet:
    """A packet, as a queue manager in Python sees it. Times in seconds."""

    flow: int
    is_reverse: bool
    bytes: int
    dscp: int
    traffic_class: int
    can_mark: bool
    arrived: float

class Backlog:
    """What waits, the packet in transmission not counted."""

    packets: int
    bytes: int

class Ack:
    """An acknowledgment, as a congestion control in Python sees it. Times in seconds."""

    acked_bytes: int
    delivered_bytes: int
    lost_bytes: int
    marked_bytes: int
    in_flight_bytes: int
    opens_window: bool
    is_in_recovery: bool
    rtt: float | None
    srtt: float
    delivery_rate_bps: float | None
    is_app_limited: bool

class Congestion:
    """A signal of congestion: `loss`, `loss-restart`, `timeout`, `idle` or `ecn`."""

    signal: str
    window_segments: float
    flight_bytes: int
    srtt: float

class AgentRun:
    """A run that is steered from sample to sample.

    `handles` are pairs of `window`, `rate` or `drop` and a name.
    """

    names: list[str]
    now_s: float
    def __init__(self, scenario: Scenario, handles: Sequence[tuple[str, str]], seed: int) -> None: ...
    def step(self, settings: NDArray[np.float64], sample: NDArray[np.float32]) -> bool: ...

# Functions that get a dictionary about the place, and give the methods of the mechanism there.
Places = Sequence[tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]]

def run(
    scenario: Scenario,
    seed: int | None = None,
    trace: str | None = None,
    trace_at: Sequence[str] | None = None,
    trace_drops: str | None = None,
    queues: Places = ...,
    controls: Places = ...,
    cores: int = 1,
    watch: Callable[[float], object] | None = None,
) -> RunResult: ...
def replace_folder(new: Path, target: Path) -> None: ...
def emulate(arguments: Sequence[str]) -> int: ...
def quantity(text: str, kind: str) -> tuple[float, str]: ...
def schema() -> str: ...
def explain(kind: str) -> str: ...
def list_keys() -> str: ...
def list_mechanisms() -> str: ...
def validate(path: str | Path, overrides: Overrides = ..., allowed: Allowed = ...) -> str: ...
