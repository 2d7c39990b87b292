"""Which keys a summary will have, as far as the scenario tells: what measures can name before anything runs.

The keys are those of `docs/results.md`. What only a run decides (`classes`), and what
lies below a key that is not listed, is taken as there; so is everything of flows whose hosts are real, whose
commands may add keys.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

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

# What lies below a key: None is a number, a mapping a table with these keys, ANY a table whose keys only
# a run decides.
Below = Mapping[str, Any] | None
ANY: Mapping[str, Any] = {}


def _numbers(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names)


_TIMES = _numbers("mean", *QUANTILES)
_OF_TRANSFERS = {"completion_s": _TIMES, "slowdown": _TIMES, "completed": None}
SIZE_CLASSES = ("to_1kB", "to_10kB", "to_100kB", "to_1MB", "to_10MB", "above_10MB")
TABLES: Mapping[str, Mapping[str, Below]] = {
    "flows": {
        "delay_ms": _numbers("mean", "min", "max", *QUANTILES),
        "receivers": ANY,
        "transfers": _OF_TRANSFERS
        | _numbers("arrived", "arrived_bytes", "refused", "completed_bytes", "unfinished", "active_max")
        | {"by_size": dict.fromkeys(SIZE_CLASSES, _OF_TRANSFERS)},
        "pages": _numbers("begun", "loaded", "objects", "connections")
        | {"load_s": _TIMES, "object_s": _TIMES},
        "video": _numbers(
            "segments", "mean_bitrate_bps", "switches", "startup_s", "played_s", "stalls", "stalled_s",
            "stalled_ratio",
        ),
    },
    "links": {
        "queue_packets": _numbers("mean", "max"),
        "queue_bytes": _numbers("mean", "max"),
        "delay_ms": _numbers("mean", "max", *QUANTILES),
        **{key: _numbers(*reasons) for key, reasons in paths.BY_REASON.items()},
        "classes": ANY,
        "fluid": _numbers("throughput_bps", "offered_bps", "loss_ratio", "marked_ratio"),
        "reverse": ANY,
    },
    "state": {"routers": ANY},
    "emulation": {},
}  # fmt: skip
_TEXTS = ("title", "tidegate_version")
# Tables whose keys are names of the scenario.
FAMILIES = ("flows", "links", "fluids", "markers", "domains")
_OF_FLOW = dict.fromkeys((*FLOW, *TCP, *APPLICATION)) | TABLES["flows"]
_OF_LINK = dict.fromkeys(LINK) | TABLES["links"]
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
    if head in _TEXTS:
        raise Lack(f"`{head}` is a text, not a number")
    if not rest and (head in PLAIN or head == "emulation"):
        _refuse_table(f"`{head}`", PLAIN.get(head, ()))
    if head in FAMILIES and len(rest) < 2:
        keys = {"flows": FLOW, "links": LINK, **ENTRIES}.get(head, ())
        _refuse_table(f"`{path}`", keys)
    if head in PLAIN:
        _require_switch(head, record)
        if rest:
            _require_key(f"`{head}`", rest[0], PLAIN[head])
            _require_switch(f"{head}.{rest[0]}", record)
            _require_number(f"`{head}`", rest, dict.fromkeys(PLAIN[head]) | TABLES.get(head, {}))
        if head == "delay_ms":
            _require_delays(["flows.*"], "flows.*", record)
    elif head in ENTRIES and len(rest) > 1:
        _require_key(f"a {head[:-1]}", rest[1], ENTRIES[head])
        _require_number(f"a {head[:-1]}", rest[1:], dict.fromkeys(ENTRIES[head]))
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
    _require_number("a flow", [key, *below], _OF_FLOW)
    if key == "delay_ms" and below and below[0] in QUANTILES:
        _require_delays([f"flows.{flow}" for flow in flows], f"flows.{name}", record)


def _require_of_link(parts: Sequence[str], scenario: Scenario, record: _Entry) -> None:
    name, key, *below = parts
    way = ""
    if key == "reverse":
        if not below:
            _refuse_table("`reverse` of a link", LINK)
        way, key, below = ".reverse", below[0], below[1:]
    if key == "forward" and below:
        own = ".".join(["links", name, *below])
        raise Lack(f"what goes forward over a link stands at the link itself: {own}")
    _require_key("a link", key, (*LINK, "reverse"))
    _require_switch(f"links.{key}", record)
    _require_number("a link", [key, *below], _OF_LINK)
    if key == "delay_ms" and below and below[0] in QUANTILES:
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


def _refuse_table(what: str, keys: Sequence[str]) -> NoReturn:
    told = f"; a number is one of its keys: {', '.join(keys)}" if keys else ""
    raise Lack(f"{what} is a table, not a number{told}")


def _require_number(of: str, parts: Sequence[str], table: Below) -> None:
    """Raise `Lack` where no key that `parts` match leads to a number; `of` is what has the `table`."""
    key, *below = parts
    if not table:  # whatever a run decides
        return
    _require_key(of, key, list(table))
    lack: Lack | None = None
    for known in (each for each in table if paths.matches(each, key)):
        what = f"`{known}` of {of}"
        under = table[known]
        try:
            if below and under is None:
                raise Lack(f"{what} is a number, with nothing below it")
            if below:
                _require_number(what, below, under)
            elif under is not None:
                _refuse_table(what, list(under))
            return
        except Lack as error:
            lack = lack or error
    if lack:
        raise lack


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
