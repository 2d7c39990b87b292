"""Differences that are understood: `tests/oracle/ns2/known.toml`.

Each is a table of the list `difference`:

    name         what it is called in reports
    quantity     which counters, with `*`; or `packets`: the first packet that differs
    queue        in which scenarios: the kinds of queue
    variant      the variants of which one is among the flows
    two_way      whether data goes both ways
    cause        what the tool finds: `simultaneous` of packets, `ties` of counters
    at_most      the largest relative difference that it explains
    why          the cause, and
    evidence     what shows that it is this
"""

from __future__ import annotations

import fnmatch
import pathlib
import tomllib

from .judge import Verdict
from .packets import Divergence
from .scenario import Scenario

FILE = pathlib.Path(__file__).resolve().parent.parent / "ns2" / "known.toml"
KEYS = {"name", "quantity", "queue", "variant", "two_way", "cause", "at_most", "why", "evidence"}
NEEDED = {"name", "quantity", "why", "evidence"}


def load(path: pathlib.Path = FILE) -> list[dict]:
    """The list, checked."""
    entries = tomllib.loads(path.read_text()).get("difference", [])
    for entry in entries:
        wrong = (set(entry) - KEYS) | (NEEDED - set(entry))
        if wrong:
            name = entry.get("name", "an entry")
            raise ValueError(f"{path.name}: {name}: keys unknown or missing: {', '.join(sorted(wrong))}")
    return entries


def of_verdict(entries: list[dict], scenario: Scenario, found: Verdict, cause: str = "") -> str | None:
    """The name of the entry that explains a difference of counters. `cause`: what was found out about it."""
    for entry in entries:
        if entry.get("cause", cause) != cause or abs(found.relative) > entry.get("at_most", float("inf")):
            continue
        if fnmatch.fnmatchcase(found.quantity, entry["quantity"]) and _fits(entry, scenario):
            return entry["name"]
    return None


def of_divergence(entries: list[dict], scenario: Scenario, found: Divergence) -> str | None:
    """The name of the entry that explains a difference of packets."""
    for entry in entries:
        if entry["quantity"] == "packets" and entry.get("cause") == found.cause and _fits(entry, scenario):
            return entry["name"]
    return None


def _fits(entry: dict, scenario: Scenario) -> bool:
    queues = {hop.queue.kind for hop in scenario.hops}
    variants = {flow.variant for flow in scenario.flows if flow.is_tcp}
    return (
        (not entry.get("queue") or bool(queues & set(entry["queue"])))
        and (not entry.get("variant") or bool(variants & set(entry["variant"])))
        and entry.get("two_way", scenario.is_two_way) == scenario.is_two_way
    )
