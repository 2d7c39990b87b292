"""Which keys a summary will have, as far as the scenario tells: what measures can name before anything runs.

The keys are those of `docs/results.md`. What only a run decides (`drops_by_reason`, `classes`), and what
lies below a key that is not listed, is taken as there; so is everything of flows whose hosts are real, whose
commands may add keys.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate import paths
from tidegate.experiment import named

Scenario = Mapping[str, Any]
_Entry = Mapping[str, Any]

QUANTILES = ("p50", "p95", "p99")
# Of each flow; where not of each, with what it must have.
FLOW = (
    "throughput_bps", "goodput_bps", "sent_bps", "max_min_bps", "marked_bps", "sent_packets",
    "received_packets", "lost_packets", "loss_ratio", "marked_packets", "delay_ms",
)  # fmt: skip
TCP = (
    "retransmissions", "sent_payload_bytes", "duplicate_acks", "timeouts", "fast_retransmits",
    "ecn_reductions", "duplicate_segments", "acks_sent_packets", "acks_lost_packets",
)  # fmt: skip
# By the kind of application whose flows have them.
APPLICATION = {
    "completion_s": "transfer",
    "transfers": "transfers",
    "pages": "pages",
    "video": "video",
}
MULTICAST = ("receivers",)
LINK = (
    "rate_bps", "rate_end_bps", "throughput_bps", "utilization", "arrived_packets", "delivered_packets",
    "dropped_packets", "duplicated_packets", "marked_packets", "loss_ratio", "queue_packets", "queue_bytes",
    "delay_ms", "control_bps", "wasted_bps", "drops_by_reason", "marks_by_reason", "classes", "fluid",
)  # fmt: skip
# Of tables that are there once, and of those whose entries all have the same keys.
PLAIN = {
    "fairness": ("jain", "cov", "max_min_deviation"),
    "waste": ("bps", "ratio"),
    "state": ("entries_max", "core_entries_max", "routers"),
    "control": ("packets", "bytes", "lost_packets", "overhead_ratio", "shaper_dropped_packets"),
    "totals": (
        "packet_hops", "created_packets", "delivered_packets", "dropped_packets", "duplicated_packets",
    ),
    "delay_ms": QUANTILES,
}  # fmt: skip
ENTRIES = {
    "fluids": (
        "throughput_bps", "sent_bps", "loss_ratio", "marked_ratio", "rtt_ms", "cwnd_segments", "timed_out",
    ),
    "markers": ("green_bps", "yellow_bps", "red_bps", "dropped_packets"),
}  # fmt: skip
_DELAYS = {"flows": ("mean", "min", "max", *QUANTILES), "links": ("mean", "max", *QUANTILES)}
# Keys that `record` switches on.
_SWITCHED = {
    "flows.max_min_bps": "max_min",
    "links.wasted_bps": "waste",
    "fairness.max_min_deviation": "max_min",
    "waste": "waste",
    "state": "state",
}


class Lack(Exception):
    """Why a summary will not have a key; with `name`, the names of which it should have been."""

    def __init__(self, why: str, name: str = "", there: Sequence[str] = ()):
        super().__init__(why)
        self.name, self.there = name, there


def require(path: str, scenario: Scenario, is_real: bool) -> None:
    """Raise `Lack` where no summary of the scenario has anything at `path`, which may be a pattern."""
    head, *rest = path.split(".")
    record = scenario.get("record") or {}
    if head in PLAIN:
        _require_switch(head, record)
        if rest:
            _require_key(f"`{head}`", rest[0], PLAIN[head])
            _require_switch(f"{head}.{rest[0]}", record)
        if head == "delay_ms":
            _require_delays(["flows.*"], "flows.*", record)
    elif head in ENTRIES and len(rest) > 1:
        _require_key(f"a {head[:-1]}", rest[1], ENTRIES[head])
    elif head == "flows" and len(rest) > 1 and not is_real:
        _require_of_flow(rest, scenario, record)
    elif head == "links" and len(rest) > 1:
        _require_of_link(rest, scenario, record)


def _require_of_flow(parts: Sequence[str], scenario: Scenario, record: _Entry) -> None:
    name, key, *below = parts
    flows = _members(scenario, "flows", name)
    _require_key("a flow", key, (*FLOW, *TCP, *APPLICATION, *MULTICAST))
    _require_switch(f"flows.{key}", record)
    if key in TCP and not any(_is_kind(flow, "transport", "tcp") for flow in flows.values()):
        raise Lack(f"`{key}` is of TCP, and flow {name!r} is of another transport")
    if (kind := APPLICATION.get(key)) and not any(
        _is_kind(flow, "application", kind) for flow in flows.values()
    ):
        raise Lack(f"`{key}` is of the application {kind!r}, and flow {name!r} has another one")
    if key in MULTICAST and not any(len(flow.get("to") or ()) > 1 for flow in flows.values()):
        raise Lack(f"`{key}` is of flows to several hosts, and flow {name!r} goes to one")
    if key == "delay_ms" and below:
        _require_key("`delay_ms` of a flow", below[0], _DELAYS["flows"])
        if below[0] in QUANTILES:
            _require_delays([f"flows.{flow}" for flow in flows], f"flows.{name}", record)


def _require_of_link(parts: Sequence[str], scenario: Scenario, record: _Entry) -> None:
    name, key, *below = parts
    way = ""
    if key == "reverse":
        if not below:
            return
        way, key, below = ".reverse", below[0], below[1:]
    _require_key("a link", key, (*LINK, "reverse"))
    _require_switch(f"links.{key}", record)
    if key == "delay_ms" and below:
        _require_key("`delay_ms` of a link", below[0], _DELAYS["links"])
        if below[0] in QUANTILES:
            links = [f"links.{link}{way}" for link in _members(scenario, "links", name)]
            _require_delays(links, f"links.{name}{way}", record)


def _members(scenario: Scenario, family: str, name: str) -> dict[str, _Entry]:
    entries = named(scenario.get(family)).items()
    return {each: entry for each, entry in entries if paths.matches(each, name)}


def _is_kind(flow: _Entry, part: str, kind: str) -> bool:
    """Whether it is of that kind, or may be."""
    given = flow.get(part)
    return given is None or kind == (given.get("kind") if isinstance(given, Mapping) else given)


def _require_key(of: str, key: str, there: Sequence[str]) -> None:
    if not any(paths.matches(known, key) for known in there):
        raise Lack(f"{of} has no {key!r}", key, there)


def _require_switch(key: str, record: _Entry) -> None:
    switch = _SWITCHED.get(key)
    if switch and record.get(switch) is False:
        raise Lack(f"`{key.rpartition('.')[2]}` is there only where the scenario has record.{switch} = true")


def _require_delays(names: Sequence[str], asked: str, record: _Entry) -> None:
    recorded = record.get("delays")
    if recorded is not None and not any(paths.matches(each, name) for each in recorded for name in names):
        raise Lack(
            "quantiles of delays are there only where the scenario records the distribution: "
            f'record.delays = ["{asked}"]'
        )
