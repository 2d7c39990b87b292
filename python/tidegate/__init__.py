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

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate import design
    from tidegate._core import ConfigError, __version__
    from tidegate.api import LoadedScenario, Result, load, run
    from tidegate.builder import Scenario
    from tidegate.errors import MeasureError, TidegateError
    from tidegate.home import ExperimentResult, reproduce, sweep
    from tidegate.home import open_result as open
    from tidegate.kinds import (
        applications,
        controls,
        jitters,
        losses,
        markers,
        mechanisms,
        queues,
        transports,
    )
    from tidegate.own import CongestionControl, QueueManager
    from tidegate.tuning.result import TuningResult, tune

__all__ = [
    "ConfigError",
    "CongestionControl",
    "ExperimentResult",
    "LoadedScenario",
    "MeasureError",
    "QueueManager",
    "Result",
    "Scenario",
    "TidegateError",
    "TuningResult",
    "__version__",
    "applications",
    "controls",
    "design",
    "load",
    "jitters",
    "losses",
    "markers",
    "mechanisms",
    "open",
    "queues",
    "reproduce",
    "run",
    "sweep",
    "transports",
    "tune",
    "use_core",
]

_HOME = {
    "ConfigError": "_core",
    "__version__": "_core",
    "LoadedScenario": "api",
    "Result": "api",
    "load": "api",
    "run": "api",
    "ExperimentResult": "home",
    "open": "home",
    "reproduce": "home",
    "sweep": "home",
    "Scenario": "builder",
    "MeasureError": "errors",
    "TidegateError": "errors",
    "TuningResult": "tuning.result",
    "tune": "tuning.result",
    "CongestionControl": "own",
    "QueueManager": "own",
    "applications": "kinds",
    "controls": "kinds",
    "jitters": "kinds",
    "losses": "kinds",
    "markers": "kinds",
    "mechanisms": "kinds",
    "queues": "kinds",
    "transports": "kinds",
}


def use_core(core: ModuleType) -> None:
    """Make `core` the compiled part of Tidegate: a module with mechanisms of its own (docs/own-mechanism.md).

    Call it in the `__init__` of the package that brings the module, before anything else of Tidegate is used.
    """
    current = sys.modules.get("tidegate._core")
    if current is core:
        return
    if current is not None:
        raise ImportError(f"{core.__name__} comes too late: import it before anything else of tidegate")
    sys.modules["tidegate._core"] = core
    globals()["_core"] = core


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "design":
        return import_module("tidegate.design")
    if name in _HOME:
        # In its module it does not hide what Python calls so.
        inner = "open_result" if name == "open" else name
        return getattr(import_module(f"tidegate.{_HOME[name]}"), inner)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
