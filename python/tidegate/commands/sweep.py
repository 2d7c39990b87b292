"""`tidegate sweep`: every point of any experiment, in parallel; what is finished survives an interruption."""

import json
from pathlib import Path

from tidegate import checks, display, experiment, library, parallel, store
from tidegate.commands import parse_overrides
from tidegate.commands.reproduce import expectations, judge
from tidegate.errors import EXIT_DONE, EXIT_FAILED, EXIT_PARTIAL
from tidegate.finished import Finished, telling


def sweep(
    name: str,
    quick: bool,
    seeds: int | None,
    out: Path | None,
    workers: parallel.Workers,
    resume: bool,
    fresh: bool,
    overrides: list[str],
    as_json: bool,
) -> int:
    """Run what is not yet there; 4 if some runs failed, and then the folder stays a partial one."""
    experiment_id, path = library.resolve(name)
    each = experiment.Experiment(experiment_id, path, parse_overrides(overrides))
    for warning in each.warnings:
        display.progress_line(warning)
    # A sweep is mostly of one's own, where nothing is expected: no word about that.
    expected = expectations({experiment_id: path}, tells=False).get(experiment_id, checks.Expectations())
    checks.require_fits(expected, each.info)
    target = out or Path("results") / experiment_id
    store.require_place(target)
    if not fresh:
        store.require_same(target, experiment_id, each.overridden)
    with store.locked(target):
        tasks = each.tasks(quick, seeds, measures=expected.measures)
        return _run(each, Finished(target, tasks, resume, fresh), path, expected, quick, workers, as_json)


def _run(
    each: experiment.Experiment,
    points: Finished,
    path: Path,
    expectations: checks.Expectations,
    quick: bool,
    workers: parallel.Workers,
    as_json: bool,
) -> int:
    """Run what is missing, judge and write what is there, say what came of it."""
    tasks, missing, target = points.tasks, points.missing(), points.target
    if points.count:
        display.progress_line(f"{points.count} of {len(tasks)} points are there already")
    with telling([points], points.folder):
        failures = points.run(workers, each.id)
    where = target if not failures else points.folder
    judged: list[store.StoredResult] = []
    if not failures:
        result = judge(each, points.ordered(), [], expectations, quick)
        # Before anything is printed: who reads it may go away before its end.
        store.write_result(target, result, path)
        points.complete()
        judged = [result] if result.checks else []
        if not as_json and (tables := display.tables_of([result])):
            print(tables)
            print()
        for problem in display.figure_problems(result):
            display.progress_line(problem)
    summary = {
        "schema_version": 1,
        "id": each.id,
        "points": len(tasks),
        "run": len(missing),
        "failed": failures,
        "result": str(where),
    }
    if as_json:
        print(json.dumps(summary, indent=1, ensure_ascii=False))
    else:
        print(
            f"{each.id}: {len(tasks)} point{'s' if len(tasks) != 1 else ''}, {len(missing)} run now, "
            f"{len(failures)} failed; {where}"
        )
        if judged:
            print(f"\n{display.expected_table(judged)}")
    if failures and len(failures) == len(tasks):
        return EXIT_FAILED
    return EXIT_PARTIAL if failures else EXIT_DONE
