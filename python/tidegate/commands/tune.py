"""`tidegate tune`: parameters found for a stated goal on some networks, and tried on others."""

import contextlib
import json
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tidegate import _core, display, experiment, parallel, progress, store
from tidegate.commands import parse_overrides
from tidegate.errors import EXIT_DONE, EXIT_FAILED, ClusterError
from tidegate.experiment import PointResult
from tidegate.tuning import compared, declared, networks, outcome, search, trials
from tidegate.tuning.declared import Tuning
from tidegate.tuning.networks import Wanted
from tidegate.tuning.outcome import Outcome, Provenance
from tidegate.tuning.runs import Runs

PAGE = "tuning.html"
NUMBERS = "tuning.json"
TRIALS = "trials"
POINTS = "points"


def list_tunings(as_json: bool) -> int:
    """Print the tunings that ship."""
    tunings = [declared.read(path) for path in declared.shipped().values()]
    if as_json:
        entries = [{"id": each.name, "title": each.title} for each in tunings]
        print(json.dumps({"schema_version": 1, "tunings": entries}, indent=1, ensure_ascii=False))
    else:
        rows = [[each.name, each.title] for each in tunings]
        print(display.table(["tuning", "title"], rows, [False] * 2, fit=True))
    return EXIT_DONE


def validate(path: Path, override_texts: Sequence[str]) -> None:
    """Check a tuning as `tune` does, without running anything; raises what is wrong with it."""
    networks.require(declared.read(path), Wanted(False, parse_overrides(list(override_texts))))


def tune(
    name: str,
    quick: bool,
    count: int | None,
    out: Path | None,
    workers: parallel.Workers,
    resume: bool,
    fresh: bool,
    override_texts: list[str],
    as_json: bool,
) -> int:
    """Search, choose, compare, and write page, numbers and files; 1 if no trial keeps the limits."""
    target = out or Path("results") / "tune" / declared.find(name).name
    found = made(name, quick, count, target, workers, resume, fresh, override_texts)
    print(outcome.json_text(found) if as_json else outcome.text(found))
    where = f"report: {target / PAGE}"
    if as_json:
        display.progress_line(where)
    else:
        print(where)
    return EXIT_FAILED if found.chosen is None else EXIT_DONE


def made(
    name: str,
    quick: bool,
    count: int | None,
    target: Path,
    workers: parallel.Workers,
    resume: bool,
    fresh: bool,
    override_texts: Sequence[str],
) -> Outcome:
    """What comes of a tuning, whose page, numbers and files are written to `target`."""
    optuna_version = search.require_optuna()
    tuning = declared.find(name)
    wanted = Wanted(quick, parse_overrides(list(override_texts)))
    store.require_place(target / POINTS)
    # Before anything of an earlier tuning is thrown away.
    info = networks.require(tuning, wanted)
    with store.locked(target / POINTS):
        measures = {each.name: each.measure for each in tuning.quantities}
        runs = Runs(target / TRIALS, measures, resume, fresh)
        about = Provenance(
            version=_core.__version__,
            optuna_version=optuna_version,
            command=_command(name, quick, count, override_texts),
            overridden=tuple(override_texts),
        )
        trial_count = count or (tuning.quick_trials if quick else tuning.trials)
        with _telling(runs):
            under_way, found = _run(tuning, wanted, runs, workers, trial_count, about)
        _write(found, under_way, info, runs, target)
    return found


def _run(
    tuning: Tuning, wanted: Wanted, runs: Runs, workers: parallel.Workers, count: int, about: Provenance
) -> tuple[search.Search, Outcome]:
    """The search, and the comparison of what it chose."""
    seeds = tuning.quick_seeds if wanted.quick else tuning.seeds
    compare_seeds = tuning.quick_compare_seeds if wanted.quick else tuning.compare_seeds
    points = len(networks.tasks_of(tuning.seen, wanted, (), 1))
    with progress.Progress(count * points * seeds, tuning.name) as bar, workers.opened() as pool:
        under_way = search.Search(tuning, wanted, runs, count, seeds, pool, bar)
        under_way.go()
        best = trials.front(under_way.trials, tuning)
        chosen, shortfalls = trials.chosen(best, tuning.objectives)
        comparison = None
        if chosen is not None:
            tasks = compared.tasks_of(tuning, wanted, chosen, compare_seeds, seeds)
            bar.expect(sum(map(len, tasks.values())))
            comparison = compared.compare(tuning, tasks, compare_seeds, seeds, runs, pool, bar)
    found = Outcome(
        tuning=tuning,
        trials=under_way.trials,
        front=best,
        chosen=chosen,
        shortfalls=shortfalls,
        importance=under_way.importance(),
        comparison=comparison,
        seeds=seeds,
        compare_seeds=compare_seeds,
        points=points,
        runs_made=runs.made,
        runs_kept=runs.kept,
        quick=wanted.quick,
        about=about,
    )
    return under_way, found


def _write(found: Outcome, under_way: search.Search, info: experiment.Info, runs: Runs, target: Path) -> None:
    """Page, numbers, the chosen values, the study, and the runs of the comparison as a result folder."""
    from tidegate.tuning import page

    texts = outcome.files(found, target)
    for name in (outcome.CHOSEN, outcome.EXPERIMENT):
        if name in texts:
            store.write_atomic(target / name, texts[name])
        else:
            (target / name).unlink(missing_ok=True)  # of an earlier tuning
    store.write_atomic(target / PAGE, page.render(found))
    store.write_atomic(target / NUMBERS, outcome.json_text(found) + "\n")
    under_way.keep_study(target)
    if found.comparison is not None:
        store.write_result(target / POINTS, _stored(found, info, runs), None)
    elif store.is_result(target / POINTS):
        shutil.rmtree(target / POINTS)


def _stored(found: Outcome, info: experiment.Info, runs: Runs) -> store.StoredResult:
    """The comparison as a folder of results, which `tidegate export` and programs read."""
    assert found.comparison is not None
    points: list[PointResult] = []
    scenario: dict[str, Any] = {}
    for (name, which), tasks in found.comparison.tasks.items():
        scenario = scenario or json.loads(tasks[0].scenario.to_json())
        for point in runs.points(tasks):
            point.axes = dict(zip(networks.COLUMNS, (name, which), strict=True)) | point.axes
            points.append(point)
    axes = {
        "networks": {"values": list(dict.fromkeys(point.axes["networks"] for point in points))},
        "settings": {"values": [compared.DEFAULT, compared.TUNED]},
    }
    for axis in dict.fromkeys(name for point in points for name in point.axes):
        values = dict.fromkeys(point.axes[axis] for point in points if axis in point.axes)
        axes.setdefault(axis, {"values": list(values)})
    raw = {
        "title": found.tuning.title,
        "description": found.tuning.description,
        "source": found.tuning.source,
        "axes": axes,
        "variants": info.raw.get("variants"),
    }
    return store.StoredResult(
        kind="experiment",
        info=experiment.Info.from_raw(f"tune/{found.tuning.name}", raw),
        scenario=scenario,
        points=points,
        status="unchecked",
        quick=found.quick,
        version=_core.__version__,
    )


def _command(name: str, quick: bool, count: int | None, override_texts: Sequence[str]) -> str:
    """What makes this again."""
    words = ["tidegate", "tune", name]
    words += ["--quick"] if quick else []
    words += ["--trials", str(count)] if count else []
    words += [f"--set={text}" for text in override_texts]
    return shlex.join(words)


@contextlib.contextmanager
def _telling(runs: Runs) -> Iterator[None]:
    """If it is interrupted, or loses its cluster: how many runs are kept, and how to go on."""
    try:
        yield
    except (KeyboardInterrupt, ClusterError):
        if count := runs.on_disk:
            display.progress_line(f"{count} runs are kept in {runs.folder}; --resume goes on")
        raise
