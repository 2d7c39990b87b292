"""Types of the compiled module: the engine and the scenario format, written in Rust (crates/python)."""

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

__version__: str

Overrides = Sequence[tuple[str, str]]

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
    warnings: list[str]
    @staticmethod
    def from_file(path: str, overrides: Overrides = ...) -> Scenario: ...
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

    @staticmethod
    def from_file(path: str, overrides: Overrides = ...) -> Experiment: ...
    def to_json(self) -> str: ...
    def points(self, quick: bool) -> list[Point]: ...
    def scenario(self, point: Point) -> Scenario: ...

class Timing(TypedDict):
    """What a run cost; no part of its results."""

    build_s: float
    run_s: float
    events: int
    packet_hops: int
    peak_rss_bytes: int

class RunResult:
    """What one run leaves behind."""

    summary_json: str
    series_names: list[str]
    timing: Timing
    def series(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def write_parquet(self, path: str) -> None: ...

def run(scenario: Scenario, seed: int | None = None, trace: str | None = None) -> RunResult: ...
def schema() -> str: ...
def explain(kind: str) -> str: ...
def list_mechanisms() -> str: ...
def validate(path: str, overrides: Overrides = ...) -> str: ...
