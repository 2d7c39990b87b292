"""Tidegate: congestion management for networks that nobody owns end to end.

Load a scenario file or build one in code, run it, look at the result:

    import tidegate

    s = tidegate.Scenario(duration="10s")
    s.hosts("a", "b")
    s.link("a", "b", rate="10Mbit", delay="5ms", queue={"kind": "droptail", "limit": "100p"})
    s.flow("f", "a", "b", transport="tcp")
    result = s.run(seed=1)
    result.flows["f"]["throughput_bps"]

Names are imported when first used, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate import design
    from tidegate._core import ConfigError, __version__
    from tidegate.api import LoadedScenario, Result, load, run
    from tidegate.builder import Scenario
    from tidegate.errors import MeasureError, TidegateError

__all__ = [
    "ConfigError",
    "LoadedScenario",
    "MeasureError",
    "Result",
    "Scenario",
    "TidegateError",
    "__version__",
    "design",
    "load",
    "run",
]

_HOME = {
    "ConfigError": "_core",
    "__version__": "_core",
    "LoadedScenario": "api",
    "Result": "api",
    "load": "api",
    "run": "api",
    "Scenario": "builder",
    "MeasureError": "errors",
    "TidegateError": "errors",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "design":
        return import_module("tidegate.design")
    if name in _HOME:
        return getattr(import_module(f"tidegate.{_HOME[name]}"), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
