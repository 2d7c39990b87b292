"""Stands in for the compiled module: the interface of `_core.pyi`, with a formula instead of an engine.

Tests of everything above the core use it, so that they are fast and know what a run will give. Throughputs
follow max-min-like rules of thumb with a little noise that depends on the seed; nothing here is a simulation.
"""

import contextlib
import hashlib
import itertools
import json
import math
import os
import re
import shutil
import time
import tomllib
from pathlib import Path

import numpy as np

from tidegate import quantities

__version__ = "0.0.0-fake"


class ConfigError(ValueError):
    def __init__(self, message, file=None, line=None, path=None):
        super().__init__(message)
        self.file, self.line, self.column, self.path = file, line, 1, path
        self.rendered = f"error: {message}\n  --> {file}:{line}"


def _read(path):
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}", str(path), 1) from None


def _override(table, path, value):
    with contextlib.suppress(tomllib.TOMLDecodeError):
        value = tomllib.loads(f"x = {value}")["x"]
    parts = path.split(".")
    for part in parts[:-1]:
        table = table.setdefault(part, {})
    table[parts[-1]] = value


def _expand(names):
    for name in names:
        match = re.fullmatch(r"(.*)\{(\d+)\.\.(\d+)\}(.*)", name)
        if match:
            yield from (f"{match[1]}{i}{match[4]}" for i in range(int(match[2]), int(match[3]) + 1))
        else:
            yield name


class Scenario:
    ALLOWED = {
        "title", "description", "source", "duration", "warmup", "seed", "nodes", "links", "flows", "domains",
        "record", "routing", "events", "model", "parameters",
    }  # fmt: skip

    def __init__(self, table, name):
        for key in table:
            if key not in self.ALLOWED:
                raise ConfigError(f"{name}: unknown key `{key}`", name, 1, key)
        if quantities.parse(str(table.get("duration", ""))) is None or isinstance(
            table["duration"], int | float
        ):
            raise ConfigError(f"{name}: duration needs a unit", name, 1, "duration")
        self.table, self.name = table, name
        self.title = table.get("title", "")
        self.duration_s = quantities.base_value(table["duration"])
        self.warmup_s = quantities.base_value(table.get("warmup", "0s"))
        self.seed = table.get("seed", 1)
        self.warnings = []
        self.is_real = False

    @staticmethod
    def from_file(path, overrides=(), allowed=()):
        table = _read(path)
        for key, value in overrides:
            _override(table, key, value)
        for key in ("seeds", "quick_seeds", "axes", "variants", "figures"):
            table.pop(key, None)
        return Scenario(table, Path(path).stem)

    @staticmethod
    def from_text(text, name="<text>", overrides=()):
        return Scenario(tomllib.loads(text), name)

    def to_json(self):
        table = self.table
        nodes = [{"name": name, "kind": "host"} for name in _expand(table.get("nodes", {}).get("hosts", []))]
        nodes += [
            {"name": name, "kind": "router"} for name in _expand(table.get("nodes", {}).get("routers", []))
        ]
        links = []
        for name, link in table.get("links", {}).items():
            direction = {
                "rate_bps": quantities.base_value(link["rate"]),
                "delay_s": quantities.base_value(link["delay"]),
                "queue": link.get("queue", "droptail"),
            }
            a, b = link["between"]
            links.append({"name": name, "a": a, "b": b, "forward": direction, "reverse": direction})
        flows = [
            {"name": name, **flow, "to": flow["to"] if isinstance(flow["to"], list) else [flow["to"]]}
            for name, flow in table.get("flows", {}).items()
        ]
        domains = [{"name": name, **domain} for name, domain in table.get("domains", {}).items()]
        for domain in domains:
            domain["edges"] = list(_expand(domain["edges"]))
        return json.dumps(
            {
                "title": self.title,
                "duration_s": self.duration_s,
                "warmup_s": self.warmup_s,
                "nodes": nodes,
                "links": links,
                "flows": flows,
                "domains": domains,
                "record": {
                    "series": [
                        pattern.replace("*", flow["name"])
                        for pattern in table.get("record", {}).get("series", [])
                        for flow in flows
                    ],
                    "delays": table.get("record", {}).get("delays", []),
                },
                "model": table.get("model", {}),
            }
        )


class Point:
    def __init__(self, variant, axes, seed):
        self.variant, self.axes, self.seed = variant, axes, seed


class Experiment:
    warnings = ()

    def __init__(self, table, path):
        self.table, self.path = table, path

    @staticmethod
    def from_file(path, overrides=(), allowed=()):
        table = _read(path)
        for key, value in overrides:
            _override(table, key, value)
        return Experiment(table, path)

    def to_json(self):
        keys = ("title", "description", "source", "seeds", "axes", "variants", "figures", "parameters")
        return json.dumps({key: self.table[key] for key in keys if key in self.table})

    def points(self, quick):
        axes = self.table.get("axes", {})
        values = [axis.get("quick", axis["values"]) if quick else axis["values"] for axis in axes.values()]
        seeds = self.table.get("quick_seeds", 1) if quick else self.table.get("seeds", 1)
        return [
            Point(variant, dict(zip(axes, map(str, combination), strict=True)), seed)
            for variant in self.table.get("variants", {None: {}})
            for combination in itertools.product(*values)
            for seed in range(1, seeds + 1)
        ]

    def scenario(self, point):
        table = json.loads(json.dumps(self.table))
        for key in ("seeds", "quick_seeds", "axes", "variants", "figures", "parameters"):
            table.pop(key, None)
        if point.variant:
            for key, value in self.table["variants"][point.variant].get("set", {}).items():
                _override(table, key, value)
        for name, value in point.axes.items():
            _override(table, self.table["axes"][name]["path"], value)
        return Scenario(table, Path(self.path).stem)


class RunResult:
    def __init__(self, summary, series):
        self.summary_json = json.dumps(summary)
        self._series = series
        self.series_names = list(series)
        self.undivided = None
        self.timing = {
            "build_s": 0.001, "run_s": 0.01, "events": 1000, "packet_hops": 20000, "cores": 1,
            "peak_rss_bytes": 1 << 24,
        }  # fmt: skip

    def series(self, name):
        return self._series[name]

    def _frame(self):
        import polars

        frames = [
            polars.DataFrame({"time_s": time_s, "name": [name] * len(time_s), "value": values})
            for name, (time_s, values) in self._series.items()
        ]
        return polars.concat(frames)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._frame().__arrow_c_stream__(requested_schema)

    def write_parquet(self, path):
        self._frame().write_parquet(path)


def _noise(*parts):
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**31 - 1


def replace_folder(new, target):
    """As the real one does, but without bringing anything to the disk first."""
    if target.exists():
        shutil.rmtree(target)
    os.replace(new, target)


def run(scenario, seed=None, trace=None, trace_at=None, trace_drops=None, cores=1, watch=None):
    """Throughputs as `model.shares` says (Mb/s per flow, expressions of `load`), or equal shares."""
    seed = scenario.seed if seed is None else seed
    model = scenario.table.get("model", {})
    if model.get("fail") in (True, seed):
        raise RuntimeError("the fake run fails as it was told to")
    time.sleep(float(model.get("sleep_s", 0)))
    load = quantities.base_value(str(model.get("load", "1Mbit"))) / 1e6
    for share in (0.25, 0.255, 0.75) if watch else ():
        watch(share)
    names = list(scenario.table.get("flows", {}))
    shares = model.get("shares", {})
    flows, series = {}, {}
    for name in names:
        formula = shares.get(name) or shares.get(re.sub(r"\d+$", "", name)) or str(1.5 / len(names))
        share = float(eval(str(formula), {"load": load, "min": min, "max": max, "exp": math.exp}))
        share *= 1 + model.get("noise", 0.01) * _noise(scenario.name, name, seed, load)
        flows[name] = {
            "throughput_bps": share * 1e6,
            "goodput_bps": share * 0.96e6,
            "sent_packets": int(share * 12500),
            "lost_packets": int(share * 100),
            "loss_ratio": 0.008,
            "retransmissions": int(share * 90),
            "timeouts": 2,
            "delay_ms": {"mean": 41.2, "p50": 40.0, "p95": 60.1, "p99": 71.0, "max": 80.0},
        }
        patterns = scenario.table.get("record", {}).get("series", [])
        if any(pattern.startswith("flows") for pattern in patterns):
            time_s = np.arange(0.05, scenario.duration_s, 0.05)
            rise = share * (1 - np.exp(-time_s / 0.25) * np.cos(9 * time_s))
            wiggle = np.array([_noise(name, seed, index) for index in range(len(time_s))])
            series[f"flows.{name}.throughput_bps"] = (time_s, 1e6 * np.maximum(rise * (1 + 0.03 * wiggle), 0))
    total = sum(flow["throughput_bps"] for flow in flows.values())
    links = {
        name: {
            "utilization": min(1.0, total / quantities.base_value(link["rate"])),
            "arrived_packets": int(total / 8000 * 1.05),
            "dropped_packets": 123,
            "marked_packets": 0,
            "loss_ratio": 0.01,
            "queue_packets": {"mean": 42.5, "max": 100},
            "queue_bytes": {"mean": 42500.0, "max": 100000},
        }
        for name, link in scenario.table.get("links", {}).items()
    }
    if trace:
        Path(trace).write_bytes(b"")
    values = [flow["throughput_bps"] for flow in flows.values()]
    jain = sum(values) ** 2 / (len(values) * sum(value * value for value in values)) if values else 1.0
    summary = {
        "schema_version": 1,
        "seed": seed,
        "flows": flows,
        "links": links,
        "fairness": {"jain": jain, "cov": 0.1},
        "control": {"packets": 120, "bytes": 9600, "overhead_ratio": 0.0013},
    }
    return RunResult(summary, series)


def schema():
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Tidegate"})


def explain(kind):
    if kind != "red":
        raise ConfigError(f"no mechanism `{kind}`; did you mean `red`?")
    parameters = [{"name": "limit", "unit": "packets", "default": "100p", "about": "How much may wait."}]
    return json.dumps({"name": "red", "about": "Random Early Detection.", "parameters": parameters})


def list_keys():
    places = ["ties", "links.NAME.delay", "links.NAME.forward.delay", "links.NAME.queue"]
    key = {"type": "time", "default": "1us", "description": "How long.", "keys": []}
    words = [["short", "Not long."]]
    family = {"links.NAME.queue": "queue"}
    return json.dumps(
        [
            {"path": at, "name": at.rpartition(".")[2], "words": words, "family": family.get(at), **key}
            for at in places
        ]
    )


def list_mechanisms():
    parameters = [{"name": "limit", "type": "limit", "default": "100p"}]
    red = {"family": "queue", "kind": "red", "about": "Random Early Detection", "parameters": parameters}
    return json.dumps([red])


def validate(path, overrides=(), allowed=()):
    table = _read(path)
    if any(key in table for key in ("axes", "variants", "figures", "seeds")):
        experiment = Experiment.from_file(path, overrides)
        experiment.scenario(experiment.points(True)[0])
        return json.dumps({"kind": "experiment"})
    Scenario.from_file(path, overrides)
    return json.dumps({"kind": "scenario"})
