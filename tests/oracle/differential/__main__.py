"""Random networks through Tidegate and ns-2.35; what differs is reduced, and explained or reported.

Needs ns-2.35 as the command `ns`, and the package `tidegate`. Exit code 1 if there are more differences
without a known cause than chance gives.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time

from . import generate, judge, known, ours, reduce, report, theirs
from .report import Finding, Outcome
from .runner import Runner
from .scenario import Scenario

# Runs of a network that is being reduced, how many networks are tried, and how sure a difference must be
# there.
TRIES = 30
SURE = 0.001


def main() -> int:
    """The whole of it."""
    parser = argparse.ArgumentParser(prog="differential", description=__doc__.splitlines()[0])
    parser.add_argument("--scenarios", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the generator")
    parser.add_argument("--seeds", type=int, default=24, help="runs of each scenario on each side")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", help="a scenario by its name, SEED.NUMBER")
    parser.add_argument("--reduce", type=int, default=4, help="how many differences are reduced")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/differential"))
    options = parser.parse_args()
    entries = known.load()
    began, runner = time.monotonic(), Runner(options.jobs)
    scenarios = generate.scenarios(options.seed, options.scenarios)
    if options.only:
        scenarios = [scenario for scenario in scenarios if scenario.name in options.only]
    outcome = Outcome(options.seed, options.seeds, scenarios, [], {})
    for number, scenario in enumerate(scenarios, 1):
        _look(scenario, options.seeds, runner, outcome)
        _tell(f"{number}/{len(scenarios)} {scenario.name}")
    outcome.findings = [
        Finding(scenario, divergence=outcome.packets[scenario.name][1])
        for scenario in scenarios
        if scenario.name in outcome.packets and outcome.packets[scenario.name][1]
    ]
    outcome.findings += _confirmed(outcome, options.seeds, runner)
    for finding in outcome.findings:
        if finding.divergence:
            finding.known = known.of_divergence(entries, finding.scenario, finding.divergence)
        else:
            finding.cause = _cause(finding, 2 * options.seeds, runner)
            finding.known = known.of_verdict(entries, finding.scenario, finding.verdict, finding.cause)
    for finding in outcome.unexplained[: options.reduce]:
        _tell(f"reducing {finding.scenario.name} {finding.quantity}")
        _reduce(
            finding, 2 * options.seeds, runner, options.out / f"{finding.scenario.name}-{finding.quantity}"
        )
    _tell("")
    outcome.seconds, outcome.runs = time.monotonic() - began, runner.runs
    report.save(outcome, options.out)
    print(report.text(outcome))
    return 0 if outcome.is_good else 1


def _look(scenario: Scenario, seeds: int, runner: Runner, outcome: Outcome) -> None:
    """Compares one scenario."""
    if scenario.is_deterministic:
        divergence, events = runner.divergence(scenario)
        plain, _ = runner.divergence(scenario, plain=True)
        alike = divergence.matched if divergence else events
        outcome.packets[scenario.name] = alike, divergence, plain is None
    else:
        outcome.verdicts += runner.verdicts(scenario, range(1, seeds + 1))


def _confirmed(outcome: Outcome, seeds: int, runner: Runner) -> list[Finding]:
    """The discoveries that are discoveries again with twice as many other seeds."""
    chosen = judge.discoveries([verdict.p_differs for verdict in outcome.verdicts])
    suspected = {
        (v.scenario, v.quantity) for v, is_chosen in zip(outcome.verdicts, chosen, strict=True) if is_chosen
    }
    outcome.suspected = len(suspected)
    again = []
    for scenario in outcome.scenarios:
        if any(name == scenario.name for name, _ in suspected):
            _tell(f"again {scenario.name}")
            found = runner.verdicts(scenario, range(seeds + 1, 3 * seeds + 1))
            again += [(scenario, v) for v in found if (v.scenario, v.quantity) in suspected]
    chosen = judge.discoveries([verdict.p_differs for _, verdict in again])
    return [
        Finding(scenario, verdict) for (scenario, verdict), stays in zip(again, chosen, strict=True) if stays
    ]


def _cause(finding: Finding, seeds: int, runner: Runner) -> str:
    """`ties`, if where ns-2 has ties as Tidegate has them no difference of counters is left that chance does not explain."""
    found = runner.verdicts(finding.scenario, range(1, seeds + 1), plain=False)
    left = next((verdict for verdict in found if verdict.quantity == finding.quantity), None)
    return "ties" if left is None or judge.is_gone(finding.verdict, left) else ""


def _reduce(finding: Finding, seeds: int, runner: Runner, folder: pathlib.Path) -> None:
    """The smallest network with the difference, and the first packet that differs without chance."""
    small = finding.scenario
    if finding.verdict:
        kind, up = finding.quantity.split(".")[0], finding.verdict.ours > finding.verdict.theirs

        def stays(scenario: Scenario) -> bool:
            return any(
                v.quantity.split(".")[0] == kind and (v.ours > v.theirs) == up and v.p_differs < SURE
                for v in runner.verdicts(scenario, range(1, seeds + 1))
            )

        small, finding.steps = reduce.reduce(small, stays, TRIES)
    finding.reduced = small

    def parts(scenario: Scenario) -> bool:
        divergence, _ = runner.divergence(scenario)
        return divergence is not None and divergence.cause == (
            finding.divergence.cause if finding.divergence else ""
        )

    fixed = next((f for f in _deterministic_forms(small) if parts(f)), None)
    if fixed is None:
        report.reproduce(finding, small, 1, folder, [], [])
        finding.note = (
            "With nothing left to chance all packets are the same: the difference needs random drops or gaps."
        )
        if any(runner.divergence(f, plain=True)[0] for f in _deterministic_forms(small)):
            finding.note = (
                "With nothing left to chance all packets are the same, but for the order of ties in ns-2."
            )
        return
    fixed, steps = reduce.reduce(fixed, parts, 4 * TRIES)
    finding.steps += [f"(packets) {step}" for step in steps]
    finding.reduced = fixed
    finding.first, _ = runner.divergence(fixed)
    report.reproduce(finding, fixed, 1, folder, ours.events(fixed, 1), theirs.events(fixed, 1))


def _deterministic_forms(scenario: Scenario) -> list[Scenario]:
    """A network with nothing left to chance, with the starts of several runs."""
    if scenario.is_deterministic:
        return [scenario]
    return [reduce.deterministic(scenario, seed) for seed in range(1, 6)]


def _tell(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
