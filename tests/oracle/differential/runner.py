"""Runs of a scenario on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from . import judge, ours, theirs
from .packets import Divergence, Event, first_divergence
from .scenario import Scenario


class Runner:
    """Both simulators, `jobs` runs at a time."""

    def __init__(self, jobs: int) -> None:
        self.pool = ThreadPoolExecutor(jobs)
        self.runs = 0

    def verdicts(self, scenario: Scenario, seeds: Iterable[int], plain: bool = True) -> list[judge.Verdict]:
        """The scenario under each seed, on both sides. Not `plain`: ns-2 with ties as in Tidegate."""
        seeds = list(seeds)
        both = [self.pool.submit(ours.counters, scenario, seed) for seed in seeds]
        both += [self.pool.submit(theirs.counters, scenario, seed, plain) for seed in seeds]
        self.runs += len(both)
        runs = [run.result() for run in both]
        return judge.compare(scenario, runs[: len(seeds)], runs[len(seeds) :])

    def divergence(
        self, scenario: Scenario, seed: int = 1, plain: bool = False
    ) -> tuple[Divergence | None, int]:
        """The first packet that differs, and how many there are of ns-2."""
        mine, other = self.pool.submit(ours.events, scenario, seed), theirs.events(scenario, seed, plain)
        self.runs += 2
        return first_divergence(mine.result(), other, next_links(scenario)), len(other)


def next_links(scenario: Scenario) -> Callable[[Event], str | None]:
    """To which queue a packet comes from the far end of a link: none behind the last."""
    table = {}
    for number in range(len(scenario.flows)):
        for kind in ("data", "ack"):
            way = scenario.way(number, kind == "ack")
            table |= {(number, kind, link): after for link, after in zip(way, [*way[1:], None], strict=True)}
    return lambda event: table[event.flow, event.kind, event.link]
