"""Runs of a scenario on both sides."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from . import judge, ours, theirs
from .packets import Divergence, Event, first_divergence
from .scenario import Scenario

# By how much delays and starts move, in microseconds, to get out of the way of a tie.
NUDGE_US = 200


class Runner:
    """Both simulators, `jobs` runs at a time."""

    def __init__(self, jobs: int) -> None:
        self.pool = ThreadPoolExecutor(jobs)
        self.runs = 0

    def verdicts(self, scenario: Scenario, seeds: Iterable[int]) -> list[judge.Verdict]:
        """The scenario under each seed, on both sides."""
        seeds = list(seeds)
        both = [self.pool.submit(side.counters, scenario, seed) for side in (ours, theirs) for seed in seeds]
        self.runs += len(both)
        runs = [run.result() for run in both]
        return judge.compare(scenario, runs[: len(seeds)], runs[len(seeds) :])

    def divergence(self, scenario: Scenario, seed: int = 1, plain: bool = False) -> tuple[Divergence | None, int]:
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


def nudged(scenario: Scenario, number: int) -> Scenario:
    """The same network, its access links and starts a little longer and later."""
    draw = random.Random(f"nudge {scenario.name} {number}")

    def some() -> int:
        return draw.randint(1, NUDGE_US) * 1000

    flows = tuple(
        dataclasses.replace(
            flow,
            access_delay=flow.access_delay + some(),
            exit_delay=flow.exit_delay + some(),
            start=tuple(time + moved for moved in [some()] for time in flow.start),
        )
        for flow in scenario.flows
    )
    return dataclasses.replace(scenario, name=f"{scenario.name}+{number}", flows=flows)
