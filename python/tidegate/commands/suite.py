"""`tidegate suite`: mechanisms through an evaluation suite, and the score card of what came of it."""

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tidegate import _core, display, parallel, store
from tidegate.commands import parse_overrides
from tidegate.errors import EXIT_DONE, EXIT_FAILED, EXIT_PARTIAL
from tidegate.experiment import Overrides
from tidegate.finished import Finished, telling
from tidegate.suite import card as cards
from tidegate.suite import declared, mechanisms, page, pairs
from tidegate.suite.card import Card
from tidegate.suite.declared import Suite
from tidegate.suite.mechanisms import Mechanism

PAGE = "scorecard.html"
NUMBERS = "scorecard.json"
POINTS = "points"


def list_suites(as_json: bool) -> int:
    """Print the suites that ship, and the mechanisms that each compares if none is named."""
    suites = [declared.find(name) for name in declared.names()]
    if as_json:
        entries = [
            {"id": each.name, "title": each.title, "source": each.source, "mechanisms": list(each.mechanisms)}
            for each in suites
        ]
        known = list(mechanisms.shipped())
        report = {"schema_version": 1, "suites": entries, "mechanisms": known}
        print(json.dumps(report, indent=1, ensure_ascii=False))
        return EXIT_DONE
    rows = [[each.name, each.title, each.source] for each in suites]
    print(display.table(["suite", "title", "source"], rows, [False] * 3, fit=True))
    for each in suites:
        told = f"{each.name} compares {each.compares}: {', '.join(each.mechanisms)}"
        print(f"\n{display.wrapped(told)}")
    return EXIT_DONE


def suite(
    name: str,
    wanted: Sequence[str],
    quick: bool,
    seeds: int | None,
    out: Path | None,
    workers: parallel.Workers,
    resume: bool,
    fresh: bool,
    override_texts: list[str],
    as_json: bool,
) -> int:
    """Run every mechanism through every experiment of a suite, and write the card.

    4 if some runs failed; what a mechanism cannot take part in is said, and is no failure.
    """
    of_suite = declared.find(name)
    compared = mechanisms.chosen(of_suite, wanted)
    overrides = parse_overrides(override_texts)
    target = out or Path("results") / "suite" / of_suite.name
    store.require_place(target / POINTS)
    with store.locked(target / POINTS):
        laid = pairs.lay(of_suite, compared, target / pairs.PAIRS, quick, seeds, overrides)
        points = Finished(target / POINTS, laid.tasks, resume, fresh)
        if points.count:
            display.progress_line(f"{points.count} of {len(laid.tasks)} points are there already")
        with telling([points], points.folder):
            failures = points.run(workers, f"suite {of_suite.name}", laid.is_obstacle)
        card = _card(of_suite, compared, laid, points, quick, overrides)
        card.command = _command(name, wanted, quick, seeds, override_texts)
        store.write_atomic(target / PAGE, page.render(card))
        numbers = json.dumps(cards.to_json(card), indent=1, ensure_ascii=False)
        store.write_atomic(target / NUMBERS, numbers + "\n")
        if laid.tasks and not failures:
            store.write_result(target / POINTS, _stored(laid, points, quick, card), None)
            points.complete()
    print(numbers if as_json else cards.text(card))
    where = f"score card: {target / PAGE}"
    if as_json:
        display.progress_line(where)
    else:
        print(where)
    if failures and len(failures) == len(laid.tasks):
        return EXIT_FAILED
    return EXIT_PARTIAL if failures else EXIT_DONE


def _card(
    of_suite: Suite,
    compared: Sequence[Mechanism],
    laid: pairs.Pairs,
    points: Finished,
    quick: bool,
    overrides: Overrides,
) -> Card:
    made = points.ordered()
    asked = Counter((task.axes["mechanism"], task.axes["scenario"]) for task in laid.tasks)
    return Card(
        suite=of_suite,
        mechanisms=compared,
        lines=cards.lines_of(of_suite, compared, made, laid.obstacles, asked),
        runs=len(made),
        seeds=sorted({point.seed for point in made}),
        simulated_s=sum(task.scenario.duration_s for task in laid.tasks),
        quick=quick,
        version=_core.__version__,
        command="",
        overridden=[f"{path} = {value}" for path, value in overrides],
    )


def _stored(laid: pairs.Pairs, points: Finished, quick: bool, card: Card) -> store.StoredResult:
    """The points as a folder of results, which `tidegate export` and programs read."""
    told = [f"{name}: {reason}" for name, reasons in card.problems.items() for reason in reasons]
    return store.StoredResult(
        kind="experiment",
        info=laid.info,
        scenario=laid.scenario,
        points=points.ordered(),
        status="unchecked",
        problems=told,
        quick=quick,
        version=_core.__version__,
    )


def _command(
    name: str, wanted: Sequence[str], quick: bool, seeds: int | None, override_texts: Sequence[str]
) -> str:
    """What makes this card again."""
    words = ["tidegate", "suite", name, *wanted]
    words += ["--quick"] if quick else []
    words += ["--seeds", str(seeds)] if seeds else []
    words += [f"--set={text}" for text in override_texts]
    return shlex.join(words)
