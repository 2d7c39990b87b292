"""`tidegate reproduce`: runs published experiments and sets what is measured against what is reported.

All runs of all chosen experiments share one pool of workers; each experiment is judged and its folder written
as soon as its last run is in.
"""

import contextlib
import functools
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate import _core, checks, display, experiment, figures, library, parallel, progress, real, store
from tidegate.commands import parse_overrides
from tidegate.errors import EXIT_DONE, EXIT_FAILED, NotKeptError
from tidegate.finished import Finished, telling
from tidegate.seeding import Seeding

REPORT = "report.html"


def list_experiments(ids: list[str], as_json: bool) -> int:
    """Print what could be reproduced."""
    entries = []
    for name, path in library.select(ids).items():
        info = experiment.Experiment(name, path).info
        entries.append({"id": name, "title": info.title, "source": info.source})
    if as_json:
        print(json.dumps({"schema_version": 1, "experiments": entries}, indent=1, ensure_ascii=False))
    else:
        rows = [[entry["id"], entry["title"], entry["source"]] for entry in entries]
        print(display.table(["id", "title", "source"], rows, [False] * 3, fit=True))
    return EXIT_DONE


def reproduce(
    ids: list[str],
    quick: bool,
    seeds: int | None,
    out: Path,
    workers: parallel.Workers,
    override_texts: list[str],
    as_json: bool,
    resume: bool = False,
    fresh: bool = False,
    all_seeds: bool = False,
    first_seed: int = 1,
    ties: int | None = None,
) -> int:
    """Run, judge, write folders and the report; exit code 1 if a check fails."""
    overrides = parse_overrides(override_texts)
    wanted = Wanted(quick, seeds, all_seeds or quick or seeds is not None, first_seed)
    results = results_of(ids, wanted, Places(out, resume, fresh), workers, overrides, ties)
    report_path = out / REPORT
    from tidegate import report

    store.write_atomic(report_path, report.render(results, "Published and measured"))
    if as_json:
        print(json.dumps(to_json(results), indent=1, ensure_ascii=False))
    else:
        print(display.expected_table(results))
        print()
        if tables := display.tables_of(results):
            print(tables)
            print()
        print(_count(results))
        if told := display.explanations(results):
            print(told)
        print(f"report: {report_path}")
    if as_json:
        display.progress_line(f"report: {report_path}")
    return EXIT_FAILED if any(result.status == "fail" for result in results) else EXIT_DONE


def results_of(
    ids: list[str],
    wanted: "Wanted",
    places: "Places",
    workers: parallel.Workers,
    overrides: experiment.Overrides = (),
    ties: int | None = None,
) -> list[store.StoredResult]:
    """Run and judge experiments and write their folders; all that need no real hosts if none is named."""
    chosen = library.select(ids)
    if not ids:
        # Real hosts need privileges and their time: they run when they are named.
        chosen = {name: path for name, path in chosen.items() if not library.is_real(path)}
    expected = expectations(chosen)
    for name in chosen:
        store.require_place(places.out / name)
    # Every file is read before anything runs: a mistake in the last one should not cost the time of the
    # first.
    experiments = [experiment.Experiment(name, path, overrides, ties) for name, path in chosen.items()]
    for each in experiments:
        if not places.fresh:
            store.require_same(places.out / each.id, each.id, each.overridden)
        checks.require_fits(expected.get(each.id, checks.Expectations()), each.info)
    with contextlib.ExitStack() as locks:
        for name in chosen:
            locks.enter_context(store.locked(places.out / name))
        return _run_all(experiments, expected, wanted, places, workers)


def expectations(chosen: Mapping[str, Path], tells: bool = True) -> dict[str, checks.Expectations]:
    """What is expected of experiments, by the `expected.toml` beside each; `tells` where there is none."""
    shipped = list(library.all_experiments())
    tables: dict[Path, dict[str, checks.Expectations]] = {}
    for name, path in chosen.items():
        file = library.expected_file(path)
        if file in tables:
            continue
        if not file.exists() and tells:
            display.progress_line(f"{name}: nothing to check, there is no {file}")
        tables[file] = checks.load(file, [other.stem for other in file.parent.glob("*.toml")], shipped)
    return {
        name: tables[library.expected_file(path)].get(path.stem, checks.Expectations())
        for name, path in chosen.items()
    }


@dataclass(frozen=True)
class Wanted:
    """Which runs of an experiment are asked for."""

    quick: bool
    seeds: int | None
    all_seeds: bool  # and not only as many as decide the checks
    first_seed: int


@dataclass
class _Work:
    """One experiment under way."""

    each: experiment.Experiment
    expectations: checks.Expectations
    finished: Finished
    seeding: Seeding
    obstacle: str | None
    problems: dict[str, str] = field(default_factory=dict)  # by the key of the run

    def points(self) -> list[experiment.PointResult]:
        """The results of what was asked for so far."""
        return self.finished.ordered(self.seeding.asked)

    def written(self) -> list[experiment.PointResult]:
        """The results that its folder is to have: also of more seeds, where these were there."""
        return self.finished.written(self.seeding.asked)

    def missing(self) -> list[experiment.Task]:
        """What was asked for and is neither there nor failed."""
        return [task for task in self.finished.missing(self.seeding.asked) if task.key not in self.problems]


def _run_all(
    experiments: list[experiment.Experiment],
    expected: Mapping[str, checks.Expectations],
    wanted: Wanted,
    places: "Places",
    workers: parallel.Workers,
) -> list[store.StoredResult]:
    """Round by round: everything asked for in one pool, then more seeds where checks are open."""
    begun = parallel.Threads(workers.count).run_ordered(
        [
            parallel.Job(
                functools.partial(_begin, each, expected.get(each.id, checks.Expectations()), wanted, places)
            )
            for each in experiments
        ]
    )
    works = [_raised(work) for work in begun]
    if count := sum(work.finished.count for work in works):
        display.progress_line(
            f"{count} of {sum(len(work.finished.tasks) for work in works)} points are there"
        )
    begin = time.perf_counter()
    done: dict[str, store.StoredResult] = {}
    with contextlib.ExitStack() as left:
        kept = works[0].finished.folder if len(works) == 1 else places.out
        left.enter_context(telling([work.finished for work in works], kept))
        bar = left.enter_context(progress.Progress(sum(len(work.missing()) for work in works), "reproducing"))
        pool = left.enter_context(workers.opened())
        upcoming = works
        while upcoming:
            current, upcoming = upcoming, []
            for work in _round(current, works, pool, bar):
                points = work.points()
                if not work.problems and work.seeding.go_on(points):
                    bar.expect(len(work.missing()))
                    upcoming.append(work)
                    continue
                points = work.written()
                result = done[work.each.id] = _close(work, points, wanted, places)
                took = time.perf_counter() - begin
                bar.say(
                    f"{work.each.id}: {result.status}, {_runs(work, points)}, {took:.1f} s since the start"
                )
    return [done[each.id] for each in experiments]


def _raised(work: _Work | Exception) -> _Work:
    if isinstance(work, Exception):
        raise work
    return work


def _begin(
    each: experiment.Experiment, expectations: checks.Expectations, wanted: Wanted, places: "Places"
) -> _Work:
    for warning in each.warnings:
        display.progress_line(warning)
    tasks = each.tasks(wanted.quick, wanted.seeds, wanted.first_seed, expectations.measures)
    obstacle = _obstacle(tasks)
    tasks = [] if obstacle else tasks
    finished = Finished(places.out / each.id, tasks, places.resume, places.fresh)
    is_whole = wanted.all_seeds or any(task.is_real for task in tasks)
    return _Work(each, expectations, finished, Seeding(tasks, expectations.checks, is_whole), obstacle)


def _round(
    current: list[_Work], works: list[_Work], pool: parallel.Pool, bar: progress.Progress
) -> Iterator[_Work]:
    """Make the runs that `current` lacks, each once however many experiments hold it; each in turn when it
    has all of its own."""
    # What is written already needs no home: its partial folder is gone.
    homes: dict[str, list[tuple[Finished, experiment.Task]]] = {}
    for work in current:
        for task in {task.key: task for task in work.missing()}.values():
            if point := next(filter(None, (other.finished.found(task.key) for other in works)), None):
                work.finished.add(task, point)
            else:
                homes.setdefault(task.key, []).append((work.finished, task))
    tasks = list({task.key: task for work in current for task in work.missing()}.values())

    def keep(task: experiment.Task, point: experiment.PointResult) -> None:
        for finished, own in homes[task.key]:
            finished.add(own, point)

    with contextlib.closing(experiment.run_tasks(tasks, pool, bar, keep)) as outcomes:
        made = zip(tasks, outcomes, strict=True)
        failed: dict[str, Exception] = {}
        seen: set[str] = set()
        for work in current:
            own = {task.key: task for task in work.missing()}
            while own.keys() - seen:
                task, outcome = next(made)
                if isinstance(outcome, NotKeptError):
                    raise outcome
                seen.add(task.key)
                if isinstance(outcome, Exception):
                    failed[task.key] = outcome
            for key, task in own.items():
                if key in failed:
                    place = f"{task.variant or 'run'} {task.axes}, seed {task.seed}"
                    work.problems[key] = f"{place}: {failed[key]}"
            yield work


def _close(
    work: _Work, points: list[experiment.PointResult], wanted: Wanted, places: "Places"
) -> store.StoredResult:
    """Judge an experiment and write its folder."""
    each, expectations = work.each, work.expectations
    if work.obstacle:
        result = skipped(each, expectations, work.obstacle, wanted.quick)
    else:
        result = judge(each, points, list(work.problems.values()), expectations, wanted.quick)
    store.write_result(places.out / each.id, result, each.path)
    if not work.problems:
        work.finished.complete()
    return result


def _runs(work: _Work, points: list[experiment.PointResult]) -> str:
    """How many runs there were, and how many there could have been."""
    runs = f"{len(points)} run{'' if len(points) == 1 else 's'}"
    if max(len(points), len(work.seeding.asked)) < len(work.finished.tasks):
        runs += f" of at most {len(work.finished.tasks)}"
    return runs + _discarded(points)


@dataclass(frozen=True)
class Places:
    """Where results go, and what becomes of points that are there already."""

    out: Path
    resume: bool
    fresh: bool


def _obstacle(tasks: list[experiment.Task]) -> str | None:
    """Why these runs cannot be made here: some need real hosts, and this machine has none."""
    if not any(task.is_real for task in tasks):
        return None
    return real.obstacle(sorted({name for task in tasks for name in task.needs}))


def _discarded(points: list[experiment.PointResult]) -> str:
    """How many runs with real hosts were thrown away because the machine was late."""
    count = sum(point.summary.get("emulation", {}).get("discarded_runs", 0) for point in points)
    return f" and {count} thrown away because the machine was late" if count else ""


def skipped(
    each: experiment.Experiment, expectations: checks.Expectations, why: str, quick: bool
) -> store.StoredResult:
    """The result of an experiment that this machine cannot run."""
    outcomes = [checks.Outcome(check, "skipped", note=why) for check in expectations.checks]
    return store.StoredResult(
        kind="experiment",
        info=each.info,
        scenario=each.scenario,
        points=[],
        checks=[outcome.to_record() for outcome in outcomes],
        references=list(expectations.references),
        status="skipped",
        problems=[f"skipped: {why}"],
        quick=quick,
        version=_core.__version__,
    )


def judge(
    each: experiment.Experiment,
    points: list[experiment.PointResult],
    problems: list[str],
    expectations: checks.Expectations,
    quick: bool,
) -> store.StoredResult:
    """The result of an experiment: its points, its checks' outcomes, and whatever went wrong."""
    outcomes = [checks.evaluate(check, points, quick) for check in expectations.checks]
    references = list(expectations.references)
    if each.overridden:
        # What the document shows is of another network.
        outcomes, references = [checks.not_comparable(outcome) for outcome in outcomes], []
    built = figures.build_all(each.info, points, references) if points else []
    problems = problems + [f"figure {figure.id}: {figure.problem}" for figure in built if figure.problem]
    return store.StoredResult(
        kind="experiment",
        info=each.info,
        scenario=each.scenario,
        points=points,
        checks=[outcome.to_record() for outcome in outcomes],
        references=references,
        status="fail" if problems else checks.status_of(outcomes),
        overridden=each.overridden,
        problems=problems,
        quick=quick,
        version=_core.__version__,
    )


_JSON_KEYS = (
    "name", "expected", "measured", "where", "ci95", "tolerance", "kind", "provenance", "status",
    "margin_sigma", "band",
)  # fmt: skip


def to_json(results: list[store.StoredResult]) -> dict[str, Any]:
    """What `--json` prints. Skipped checks are not in it: they were not made."""
    return {
        "schema_version": 1,
        "counts": checks.counts([check for result in results for check in result.checks]),
        "experiments": [
            {
                "id": result.info.id,
                "title": result.info.title,
                "source": result.info.source,
                "status": result.status,
                "checks": [
                    {key: check.get(key) for key in _JSON_KEYS}
                    for check in result.checks
                    if check["status"] != "skipped"
                ],
            }
            | _problems(result)
            | ({"overridden": result.overridden} if result.overridden else {})
            for result in results
        ],
    }


def _problems(result: store.StoredResult) -> dict[str, list[str]]:
    """Why an experiment was not made, or what went wrong in it; nothing if all went well."""
    if not result.problems:
        return {}
    return {"skipped" if result.status == "skipped" else "problems": result.problems}


def _count(results: list[store.StoredResult]) -> str:
    statuses = [check["status"] for result in results for check in result.checks]
    judged = len(statuses) - statuses.count("skipped")
    if judged:
        parts = [f"{statuses.count('pass')} of {judged} checks pass"]
    else:
        parts = ["no check was made" if statuses else "there was nothing to check"]
    if statuses.count("pass"):
        counts = checks.counts([check for result in results for check in result.checks])
        worths = ", ".join(f"{counts[worth]} {worth}" for worth in checks.WORTHS if counts[worth])
        parts[0] += f" ({worths})"
    if statuses.count("differs"):
        parts.append(f"{statuses.count('differs')} differ for a named cause")
    if judged:
        parts.append(f"{statuses.count('fail')} fail")
    if other := statuses.count(checks.NOT_COMPARABLE):
        parts.append(f"{other} not comparable: values were overridden")
    here = [result.status != "skipped" for result in results]
    if left_out := sum(
        check["status"] == "skipped"
        for result, is_here in zip(results, here, strict=True)
        for check in result.checks
        if is_here
    ):
        parts.append(f"{left_out} skipped in the quick form")
    if here.count(False):
        parts.append(f"{here.count(False)} experiment{'s' if here.count(False) > 1 else ''} skipped")
    troubled = sum(bool(result.problems) and result.status != "skipped" for result in results)
    if troubled:
        parts.append(f"{troubled} experiment{'s' if troubled > 1 else ''} with other problems")
    return ", ".join(parts)
