"""`tidegate run`: one scenario, once."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate import _core, library, reach, store
from tidegate.commands import parse_overrides
from tidegate.display import progress_line, run_summary
from tidegate.errors import NotStoredError, UsageError
from tidegate.progress import Progress

# What takes no longer shows nothing.
_SOON_S = 0.5


def run(
    path: Path,
    overrides: list[str],
    seed: int | None,
    as_json: bool,
    timing: bool,
    trace: Path | None,
    trace_at: list[str],
    trace_drops: Path | None,
    out: Path | None,
    force: bool = False,
    cores: int = 1,
    variant: str | None = None,
) -> int:
    """Run `path`, or a `variant` of it; the summary goes to stdout, the cost to stderr."""
    library.require_file(path)
    if out is not None:
        store.require_place(out)
        if store.is_result(out) and not force:
            raise UsageError(f"{out} holds a result: add --force to replace it, or give another --out")
    files = {"trace": trace, "trace_drops": trace_drops}
    for key, file in files.items():
        if file is not None:
            store.require_output(file, f"--{key.replace('_', '-')}")
    if (
        trace is not None
        and trace_drops is not None
        and os.path.realpath(trace) == os.path.realpath(trace_drops)
    ):
        raise UsageError(f"--trace and --trace-drops name one file, {trace}: give two")
    for key, file in files.items() if out is not None else ():
        if file is not None and Path(os.path.realpath(file)).is_relative_to(os.path.realpath(out)):
            raise UsageError(
                f"--{key.replace('_', '-')} {file} lies in {out}, which the result replaces as a whole: "
                "give a place beside it"
            )
    sets = parse_overrides(overrides)
    if variant is not None:
        sets = [*_set_by(variant, path), *sets]
    scenario = _core.Scenario.from_file(path, sets, reach.of(path))
    for warning in scenario.warnings:
        progress_line(warning)
    named = {}
    for key, file in files.items():
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            named[key] = str(file)
    there = _cores_there()
    if cores > there:
        progress_line(f"--cores {cores}: this machine has {there}, and more parts than cores are slower")
        cores = there
    try:
        result = _watched(scenario, seed=seed, trace_at=trace_at, cores=cores, **named)
    except _core.ConfigError:
        raise
    except ValueError as error:
        raise UsageError(f"--trace-at: {error}") from error
    if result.undivided is not None:
        progress_line(f"one core: {result.undivided}")
    used_seed = scenario.seed if seed is None else seed
    # Before anything is said of it: who reads the summary may go away before its end.
    not_stored: OSError | None = None
    if out is not None:
        try:
            _store(out, path, sets, scenario, result, used_seed)
        except OSError as error:
            not_stored = error
    if as_json:
        sys.stdout.write(result.summary_json.rstrip("\n") + "\n")
    else:
        title = scenario.title or scenario.name
        summary = json.loads(result.summary_json)
        print(run_summary(title, summary, scenario.duration_s, scenario.warmup_s, used_seed))
    if not_stored is not None:
        raise NotStoredError(str(not_stored)) from not_stored
    if out is not None:
        progress_line(f"results: {out}")
    for what, name in named.items():
        progress_line(f"{what.replace('_', ' of ')}: {name}")
    if timing:
        _say_timing(result.timing, as_json)
    return 0


def _cores_there() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _set_by(variant: str, path: Path) -> list[tuple[str, str]]:
    """What a variant of an experiment sets."""
    raw = json.loads(_core.Experiment.from_file(path, [], reach.of(path)).to_json())
    variants = raw.get("variants") or {}
    if variant not in variants:
        there = f"there are: {', '.join(variants)}" if variants else f"{path} has no variants"
        raise UsageError(f"--variant {variant}: no variant is called so; {there}")
    return list(variants[variant].get("set", {}).items())


def _watched(scenario: _core.Scenario, **options: Any) -> _core.RunResult:
    """The run, with a bar where somebody sees it and it takes long enough to be worth one."""
    began_s = time.monotonic()
    with contextlib.ExitStack() as left:
        bar: Progress | None = None

        def watch(share: float) -> None:
            nonlocal bar
            if bar is None and time.monotonic() - began_s > _SOON_S:
                bar = left.enter_context(Progress(100, "percent simulated"))
            if bar is not None:
                bar.reach(int(100 * share))

        return _core.run(scenario, watch=watch, **options)


def _store(
    out: Path,
    path: Path,
    overrides: list[tuple[str, str]],
    scenario: _core.Scenario,
    result: _core.RunResult,
    seed: int,
) -> None:
    from tidegate import experiment

    description = json.loads(scenario.to_json())
    raw = {"title": scenario.title or scenario.name} | {
        key: description[key] for key in ("description", "source", "parameters") if description.get(key)
    }
    key = experiment.content_key(scenario.to_json(), seed, experiment.engine())
    point = experiment.PointResult(None, {}, seed, json.loads(result.summary_json), key, result)
    info = experiment.Info.from_raw(scenario.name or path.stem, raw)
    overridden = experiment.overridden(path, overrides)
    stored = store.StoredResult(
        "run", info, description, [point], version=_core.__version__, overridden=overridden
    )
    with store.locked(out):
        store.write_result(out, stored, path)


def _say_timing(timing: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        progress_line(json.dumps(timing))
        return
    run_s, hops = timing["run_s"], timing["packet_hops"]
    speed = f"{hops / run_s / 1e6:.2f} million packet-hops/s" if run_s > 0 else "-"
    progress_line(
        f"build {timing['build_s']:.3f} s, run {run_s:.3f} s, {timing['events']:,} events, "
        f"{hops:,} packet-hops, cores {timing['cores']}, {speed}, "
        f"peak memory {timing['peak_rss_bytes'] / 2**20:.1f} MiB"
    )
