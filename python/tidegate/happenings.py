"""What happens during a run at instants that the scenario sets: for figures over time.

In: scenarios as the core describes them. Out: `figure.Event`s, in order.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tidegate import quantities
from tidegate.figure import Event

# Flows whose beginnings and ends are told; with more of them they are load, not events.
_FLOWS_MAX = 8
_SCENARIOS_MAX = 100
# Where an experiment keeps what happens in all of its runs, since the scenario of only one is kept.
_KEY = "happenings"


def common(texts: Sequence[str]) -> dict[str, list[list[Any]]]:
    """What happens in all scenarios of an experiment alike, as an entry for what is kept of it.

    `texts` are the scenarios as JSON, of each of its points; of very many nothing is told.
    """
    if not texts or len(texts) > _SCENARIOS_MAX:
        return {_KEY: []}
    found = [_of_scenario(json.loads(text)) for text in dict.fromkeys(texts)]
    alike = [event for event in found[0] if all(event in other for other in found)]
    return {_KEY: [[event.at_s, event.label] for event in alike]}


def of(scenario: dict[str, Any], raw: dict[str, Any]) -> list[Event]:
    """What happens in every run; things of one instant are one event.

    `raw` is what is kept of an experiment besides the scenario of its first run.
    """
    if _KEY in raw:
        happened = [Event(float(at_s), str(label)) for at_s, label in raw[_KEY]]
    elif raw.get("variants") or raw.get("axes"):
        return []
    else:
        happened = _of_scenario(scenario)
    by_instant: dict[float, list[str]] = {}
    for event in happened:
        by_instant.setdefault(event.at_s, []).append(event.label)
    return [Event(at_s, ", ".join(dict.fromkeys(labels))) for at_s, labels in sorted(by_instant.items())]


def _of_scenario(scenario: dict[str, Any]) -> list[Event]:
    happened = [*_changes(scenario), *_flows(scenario)]
    if warmup_s := scenario.get("warmup_s"):
        happened.append(Event(float(warmup_s), "end of the warm-up"))
    return happened


def _changes(scenario: dict[str, Any]) -> Iterator[Event]:
    for event in scenario.get("events") or ():
        told = []
        if event.get("state"):
            told.append(str(event["state"]))
        for key, words, as_text in (
            ("rate_bps", "", quantities.rate),
            ("delay_s", "delay ", quantities.duration),
            ("background_bps", "background ", quantities.rate),
            ("reservation_bps", "reserves ", quantities.rate),
        ):
            if event.get(key) is not None:
                told.append(f"{words}{as_text(event[key])}")
        direction = event.get("direction")
        way = f" ({direction})" if direction in ("forward", "reverse") else ""
        yield Event(float(event["at_s"]), f"{event.get('link') or event.get('flow')}{way} {', '.join(told)}")


def _flows(scenario: dict[str, Any]) -> Iterator[Event]:
    found = []
    for flow in scenario.get("flows") or ():
        for key, word in (("start_s", "begins"), ("stop_s", "ends")):
            # A start that is drawn at random is no instant.
            if isinstance(flow.get(key), int | float) and flow[key] > 0:
                found.append(Event(float(flow[key]), f"{flow['name']} {word}"))
    if len(found) <= 2 * _FLOWS_MAX:
        yield from found
