"""`tidegate sweep`: every point of any experiment, in parallel; what is finished survives an interruption."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate import _core, checks, display, experiment, library, progress, store
from tidegate.commands import parse_overrides
from tidegate.commands.reproduce import expectations, judge
from tidegate.errors import EXIT_DONE, EXIT_FAILED, EXIT_PARTIAL, UsageError


def sweep(
    name: str,
    quick: bool,
    seeds: int | None,
    out: Path | None,
    workers: int | None,
    resume: bool,
    fresh: bool,
    overrides: list[str],
    as_json: bool,
) -> int:
    """Run what is not yet there; 4 if some runs failed, and then the folder stays a partial one."""
    experiment_id, path = library.resolve(name)
    each = experiment.Experiment(experiment_id, path, parse_overrides(overrides))
    expected = expectations({experiment_id: path})
    checks.require_fits(expected.get(experiment_id, checks.Expectations()), each.info)
    target = out or Path("results") / experiment_id
    store.require_place(target)
    partial = store.PartialSweep(target)
    if partial.exists() and not (resume or fresh):
        raise UsageError(
            f"{partial.folder} holds points of an earlier sweep: add --resume to keep them or --fresh"
        )
    if fresh:
        partial.remove()
    tasks = each.tasks(quick, seeds)
    kept = _kept(target, partial) if resume else {}
    _require_no_loss(kept, tasks, target)
    points = {task.key: kept[task.key] for task in tasks if task.key in kept}
    missing = [task for task in tasks if task.key not in points]
    if points:
        display.progress_line(f"{len(points)} of {len(tasks)} points are there already")
    failures = []
    try:
        with progress.Progress(len(missing), experiment_id) as bar:
            for task, outcome in zip(
                missing, experiment.run_tasks(missing, workers, bar.advance), strict=True
            ):
                if isinstance(outcome, Exception):
                    failures.append(f"{task.variant or 'run'} {task.axes}, seed {task.seed}: {outcome}")
                    bar.say(f"failed: {failures[-1]}")
                else:
                    partial.add(outcome)
                    points[task.key] = outcome
    except KeyboardInterrupt:
        if points:
            display.progress_line(
                f"{len(points)} of {len(tasks)} points are finished and kept in {partial.folder}; "
                "--resume goes on"
            )
        raise
    where = target if not failures else partial.folder
    judged: list[store.StoredResult] = []
    if not failures:
        # A key holds all that results depend on, so points that were kept may carry another point's labels.
        ordered = [_labelled(points[task.key], task) for task in tasks]
        result = judge(each, ordered, [], expected.get(experiment_id, checks.Expectations()), quick)
        if not as_json and (tables := display.tables_of([result])):
            print(tables)
            print()
        store.write_result(target, result, path)
        judged = [result] if result.checks else []
        partial.remove()
    summary = {
        "schema_version": 1,
        "id": experiment_id,
        "points": len(tasks),
        "run": len(missing),
        "failed": failures,
        "result": str(where),
    }
    if as_json:
        print(json.dumps(summary, indent=1, ensure_ascii=False))
    else:
        print(
            f"{experiment_id}: {len(tasks)} point{'s' if len(tasks) != 1 else ''}, {len(missing)} run now, "
            f"{len(failures)} failed; {where}"
        )
        if judged:
            print(f"\n{display.expected_table(judged)}")
    if failures and len(failures) == len(tasks):
        return EXIT_FAILED
    return EXIT_PARTIAL if failures else EXIT_DONE


def _kept(target: Path, partial: store.PartialSweep) -> dict[str, experiment.PointResult]:
    kept = {}
    if store.is_result(target):
        stored = store.read_result(target)
        if stored.version == _core.__version__:
            kept = {point.key: point for point in stored.points}
    return kept | partial.points()


def _require_no_loss(
    kept: Mapping[str, experiment.PointResult], tasks: Sequence[experiment.Task], target: Path
) -> None:
    """Refuse to go on with less than was asked for before: the result would replace points that are good."""
    asked = {_place(task) for task in tasks}
    beyond = sum(_place(point) not in asked for point in kept.values())
    if beyond:
        raise UsageError(
            f"{target} has {beyond} finished point{'s' if beyond > 1 else ''} that this sweep does not ask "
            "for (other seeds, or the quick form?) and that it would throw away: ask for them too, give "
            "another --out, or add --fresh"
        )


def _place(point: experiment.PointResult | experiment.Task) -> tuple[Any, ...]:
    return (point.variant, tuple(sorted(point.axes.items())), point.seed)


def _labelled(point: experiment.PointResult, task: experiment.Task) -> experiment.PointResult:
    return experiment.PointResult(task.variant, task.axes, task.seed, point.summary, task.key, point.result)
