"""What a drawn network is: which version and values, its queues, traffic, domains and events, in words.

In: a result. Out: pairs of a heading and its lines, for the place beside the drawing.
"""

from collections.abc import Iterable
from typing import Any

from tidegate import happenings, quantities
from tidegate.experiment import named
from tidegate.store import StoredResult

_LINES_MAX = 6
_NAMES_MAX = 4
_LIMITS = (
    ("limit_packets", lambda value: f"{quantities.number(value)} packets"),
    ("limit_bytes", quantities.size),
    ("limit_s", quantities.duration),
)


def of(result: StoredResult) -> list[tuple[str, list[str]]]:
    """Headings with their lines; those without any are left out."""
    scenario = result.scenario
    found = [
        ("Drawn", [_drawn(result)]),
        ("Time", [_time(scenario)] if "duration_s" in scenario else []),
        ("Queues between routers", _queues(scenario)),
        ("Traffic", _traffic(scenario)),
        ("Domains", _domains(scenario)),
        ("Events", _events(result)),
    ]
    return [(heading, _shortened(lines)) for heading, lines in found if lines]


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - _LINES_MAX
    return lines if more <= 0 else [*lines[:_LINES_MAX], f"and {more} more"]


def _drawn(result: StoredResult) -> str:
    """Which of the experiment's networks this is: that of the first run."""
    if not result.points:
        return "the scenario"
    point, info = result.points[0], result.info
    parts = [info.variants.get(point.variant, point.variant)] if point.variant else []
    parts += [
        info.axes[name].labelled(value) if name in info.axes else f"{name} {value}"
        for name, value in point.axes.items()
    ]
    others = len({(each.variant, *each.axes.items()) for each in result.points}) - 1
    text = ", ".join(parts) or "the scenario"
    return f"{text}; {others} other version{'s' if others > 1 else ''} not drawn" if others else text


def _time(scenario: dict[str, Any]) -> str:
    text = quantities.duration(scenario["duration_s"])
    warmup_s = scenario.get("warmup_s") or 0.0
    return f"{text}, counted after {quantities.duration(warmup_s)}" if warmup_s else text


def _grouped(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Names by what they share: `drop-tail, 100 packets: R1-R2, R2-R3`."""
    groups: dict[str, list[str]] = {}
    for name, text in pairs:
        groups.setdefault(text, []).append(name)
    return [f"{text}: {_names(names)}" for text, names in groups.items()]


def _names(names: list[str]) -> str:
    more = len(names) - _NAMES_MAX
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_NAMES_MAX])} and {more} more"


def _queues(scenario: dict[str, Any]) -> list[str]:
    kinds = {name: node.get("kind", "router") for name, node in named(scenario.get("nodes")).items()}
    pairs = []
    for name, link in named(scenario.get("links")).items():
        if "host" in (kinds.get(link.get("a")), kinds.get(link.get("b"))):
            continue
        for way, suffix in (("forward", ""), ("reverse", " (reverse)")):
            if queue := (link.get(way) or {}).get("queue"):
                pairs.append((name + suffix, _queue(queue)))
    alike = dict(pairs)
    # Both directions alike are told as one.
    return _grouped(
        (name, text)
        for name, text in pairs
        if not (name.endswith(" (reverse)") and alike.get(name.removesuffix(" (reverse)")) == text)
    )


def _queue(queue: Any) -> str:
    if not isinstance(queue, dict):
        return str(queue)
    inner = queue.get("queue")
    kind = str(queue.get("kind", ""))
    limit = next(
        (as_text(queue[key]) for key, as_text in _LIMITS if isinstance(queue.get(key), int | float)), ""
    )
    parts = [kind, limit, f"each {_queue(inner)}" if isinstance(inner, dict) else ""]
    return ", ".join(filter(None, parts))


def _traffic(scenario: dict[str, Any]) -> list[str]:
    flows = [(name, _flow(flow)) for name, flow in named(scenario.get("flows")).items()]
    fluids = [(name, _fluid(flow)) for name, flow in named(scenario.get("fluids")).items()]
    return _grouped(flows + fluids)


def _flow(flow: dict[str, Any]) -> str:
    transport, application = flow.get("transport") or {}, flow.get("application") or {}
    if not isinstance(transport, dict) or not isinstance(application, dict):
        return str(flow.get("transport"))
    text = str(transport.get("kind", "")).upper()
    if variant := transport.get("variant"):
        control = (transport.get("control") or {}).get("kind", variant)
        text += f" {variant}" + (f" with {control}" if control != variant and control != "reno" else "")
    text += f", {application['kind']}" if application.get("kind") else ""
    rate = application.get("rate_bps")
    return f"{text} {quantities.rate(rate)}" if isinstance(rate, int | float) else text


def _fluid(flow: dict[str, Any]) -> str:
    fluid = flow.get("fluid") or {}
    return f"fluid of {fluid.get('count')} connections, {fluid.get('control')}"


def _domains(scenario: dict[str, Any]) -> list[str]:
    found = []
    for name, domain in named(scenario.get("domains")).items():
        kind = (domain.get("mechanism") or {}).get("kind", "none")
        text = f"{name}: {'no mechanism' if kind == 'none' else kind}"
        labels = domain.get("labels")
        found.append(f"{text}, labels for {labels.get('kind', 'csfq')}" if isinstance(labels, dict) else text)
    return found


def _events(result: StoredResult) -> list[str]:
    events = happenings.of(result.scenario, result.info.raw)
    return [f"{quantities.duration(event.at_s)}: {event.label}" for event in events]
