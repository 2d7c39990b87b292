"""Smaller networks under which a difference stays.

Each step proposes simpler networks, the greatest simplification first, and keeps the first under which the
difference is still there; it ends when none is left, or when `tries` are used up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from .scenario import ENDLESS, FORCED_ONLY, MEAN, MS, SECOND, STEP, Flow, Queue, Scenario

SHORTEST = 4 * SECOND


def shrinks(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Simpler networks, each with what was done."""
    for hop in range(len(scenario.hops)) if len(scenario.hops) > 1 else ():
        yield f"only bottleneck {hop}", one_bottleneck(scenario, hop)
    others = [flow for flow in scenario.flows if flow.is_tcp]
    if 0 < len(others) < len(scenario.flows):
        yield "no datagrams", _with_flows(scenario, others)
    onward = [flow for flow in scenario.flows if not flow.is_backward]
    if 0 < len(onward) < len(scenario.flows):
        yield "one way", _with_flows(scenario, onward)
    count = len(scenario.flows)
    if count > 3:
        yield "first half of the flows", _with_flows(scenario, scenario.flows[: count // 2])
        yield "second half of the flows", _with_flows(scenario, scenario.flows[count // 2 :])
    for number in range(count) if count > 1 else ():
        rest = [flow for other, flow in enumerate(scenario.flows) if other != number]
        yield f"without flow {number}", _with_flows(scenario, rest)
    if scenario.stop >= 2 * SHORTEST:
        half = scenario.stop // 2 // SECOND * SECOND
        yield "half as long", dataclasses.replace(scenario, stop=half, begin=min(scenario.begin, half // 4))
    for name, change in QUEUE_CHANGES.items():
        hops = tuple(dataclasses.replace(hop, queue=change(hop.queue)) for hop in scenario.hops)
        if hops != scenario.hops:
            yield name, dataclasses.replace(scenario, hops=hops)
    for name, change in FLOW_CHANGES.items():
        flows = tuple(change(flow) for flow in scenario.flows)
        if flows != scenario.flows:
            yield name, dataclasses.replace(scenario, flows=flows)


def one_bottleneck(scenario: Scenario, hop: int) -> Scenario:
    """What crosses one hop, over that hop alone."""
    crossing = [
        dataclasses.replace(flow, enters=int(flow.is_backward), leaves=int(not flow.is_backward))
        for flow in scenario.flows
        if scenario.crosses(flow, hop, flow.is_backward)
    ]
    return dataclasses.replace(scenario, hops=(scenario.hops[hop],), flows=tuple(crossing))


def deterministic(scenario: Scenario, seed: int) -> Scenario:
    """The same network with nothing left to chance: the starts of one run, no random gaps or drops."""
    starts = scenario.starts(seed)
    flows = tuple(
        dataclasses.replace(
            flow,
            kind="tcp" if flow.is_tcp else "cbr",
            jitter=False,
            start=(start // STEP * STEP, start // STEP * STEP),
        )
        for flow, start in zip(scenario.flows, starts, strict=True)
    )
    hops = tuple(dataclasses.replace(hop, queue=_without_chance(hop.queue)) for hop in scenario.hops)
    return dataclasses.replace(scenario, flows=flows, hops=hops, begin=0)


def reduce(
    scenario: Scenario,
    persists: Callable[[Scenario], bool],
    tries: int,
    propose: Callable[[Scenario], Iterator[tuple[str, Scenario]]] = shrinks,
) -> tuple[Scenario, list[str]]:
    """The smallest network found under which `persists` holds, and the steps that led to it."""
    steps: list[str] = []
    refused: set[Scenario] = set()
    progress = True
    while progress and tries > 0:
        progress = False
        for what, smaller in propose(scenario):
            if not smaller.flows or smaller in refused:
                continue
            if tries == 0:
                break
            tries -= 1
            if persists(smaller):
                scenario, progress = smaller, True
                steps.append(what)
                break
            refused.add(smaller)
    return scenario, steps


def _with_flows(scenario: Scenario, flows: list[Flow] | tuple[Flow, ...]) -> Scenario:
    return dataclasses.replace(scenario, flows=tuple(flows))


def _without_chance(queue: Queue) -> Queue:
    if queue.kind in ("red", "adaptive-red"):
        return dataclasses.replace(queue, kind="red", max_p=FORCED_ONLY, gentle=False, mean_packet=MEAN)
    return dataclasses.replace(queue, limit=ENDLESS) if queue.kind == "drr" else queue


def _to_drop_tail(queue: Queue) -> Queue:
    return Queue("droptail", limit=min(queue.limit, 50))


def _to_red(queue: Queue) -> Queue:
    return dataclasses.replace(queue, kind="red") if queue.kind == "adaptive-red" else queue


QUEUE_CHANGES: dict[str, Callable[[Queue], Queue]] = {
    "drop-tail": _to_drop_tail,
    "RED that does not adapt": _to_red,
    "RED that is not gentle": lambda queue: dataclasses.replace(queue, gentle=False),
}

FLOW_CHANGES: dict[str, Callable[[Flow], Flow]] = {
    "no ECN": lambda flow: dataclasses.replace(flow, ecn=False),
    "no delayed acknowledgments": lambda flow: dataclasses.replace(flow, delayed_ack=False),
    "no end of transfers": lambda flow: dataclasses.replace(flow, transfer=None),
    "Reno": lambda flow: dataclasses.replace(flow, variant="reno"),
    "packets of 1000 bytes": lambda flow: dataclasses.replace(flow, packet=1000),
    "no jitter": lambda flow: dataclasses.replace(flow, jitter=False),
    "constant bit rate": lambda flow: (
        flow if flow.is_tcp else dataclasses.replace(flow, kind="cbr", on=0, off=0)
    ),
    "all start at once": lambda flow: dataclasses.replace(flow, start=(0, 0)),
    "short delays": lambda flow: dataclasses.replace(flow, access_delay=MS, exit_delay=MS),
}
