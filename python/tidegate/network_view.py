"""The network over time, for the stepped view of the report: queues, rates of links, edges and flows.

In: a result with time series. Out: the topology with gauges, and the values of all frames as JSON. Nothing is
there where nothing of this was recorded.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate import happenings, quantities, topology_svg
from tidegate.experiment import PointResult, named
from tidegate.figure_kinds import series_quantity, series_unit
from tidegate.network import Network, shortest_path
from tidegate.store import StoredResult
from tidegate.topology import Drawing, Place, layout

_FRAMES_MAX = 120
_RUNS_MAX = 4
_CHANNELS_MAX = 24
_FULL = 999  # how a frame counts: in thousandths of the greatest value
_WELL = (26, 7)  # pixels of a gauge
_NODE_GAUGES_MAX = 3

_LINK = re.compile(
    r"links\.(?P<name>.+?)(?P<reverse>\.reverse)?(?P<part>\.(?:flows|classes)\..+)?\.(?P<quantity>[a-z_]+)"
)
_QUEUES = ("queue_packets", "queue_bytes")
_RATES = ("throughput_bps", "utilization")


@dataclass
class _Channel:
    """One recorded series that is shown."""

    series: str
    kind: str  # `queue` or `rate` of a link, or rate at a `node`
    thing: str  # which direction of which link, or which node
    label: str
    greatest: float = 0.0


def build(result: StoredResult) -> dict[str, Any] | None:
    """What the template draws; None where nothing of the network was recorded."""
    runs = _runs(result)
    network = Network.from_scenario(result.scenario)
    names = list(dict.fromkeys(name for point in runs for name in point.series_names))
    channels = _channels(names, result.scenario, network)
    drawing = layout(result.scenario)
    if not channels or not drawing.places:
        return None
    read = [[_known(point, channel) for channel in channels] for point in runs]
    end_s = max((time_s[-1] for values in read for time_s, _ in values if len(time_s)), default=0.0)
    if end_s <= 0:
        return None
    frames = min(_FRAMES_MAX, max(len(time_s) for values in read for time_s, _ in values))
    _set_greatest(channels, read, result.scenario)
    values = [
        [
            _sampled(time_s, of, end_s, frames, channel.greatest)
            for channel, (time_s, of) in zip(channels, each, strict=True)
        ]
        for each in read
    ]
    shown = _fullest(channels, values[0], frames)
    data = {
        "end": end_s,
        "frames": frames,
        "greatest": [_round(channel.greatest * series_unit(channel.series)[0]) for channel in channels],
        "units": [series_unit(channel.series)[1] for channel in channels],
        "events": [[event.at_s, event.label] for event in happenings.of(result.scenario, result.info.raw)],
        "runs": values,
    }
    first = [each[shown] for each in values[0]]
    under, over = _gauges(drawing, channels, first)
    return {
        "svg": topology_svg.render(drawing, under, over),
        "runs": [_run_label(result, point) for point in runs],
        "frames": frames,
        "shown": shown,
        "time": f"{quantities.number(end_s * (shown + 1) / frames)} s",
        "channels": [
            {
                "label": channel.label,
                "kind": channel.kind,
                "value": _told(channel, value),
                "share": value / 10,
            }
            for channel, value in zip(channels, first, strict=True)
        ],
        # `<` would let a text end the script element.
        "json": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }


def _runs(result: StoredResult) -> list[PointResult]:
    """The first seed of the first versions that recorded something."""
    found: dict[tuple[Any, ...], PointResult] = {}
    for point in result.points:
        if any(
            _LINK.fullmatch(name) or name.startswith(("domains.", "flows.")) for name in point.series_names
        ):
            found.setdefault((point.variant, *point.axes.items()), point)
    return list(found.values())[:_RUNS_MAX]


def _run_label(result: StoredResult, point: PointResult) -> str:
    axes = result.info.axes
    parts = [result.info.variants.get(point.variant or "", point.variant or "")]
    parts += [
        axes[name].labelled(value) if name in axes else f"{name} {value}"
        for name, value in point.axes.items()
    ]
    return ", ".join(filter(None, parts)) or "the run"


def _channels(names: Sequence[str], scenario: dict[str, Any], network: Network) -> list[_Channel]:
    """Queues, then rates of links, of edges, of flows; of each thing the first quantity that is there."""
    found: dict[tuple[str, str], _Channel] = {}
    for wanted, kind in ((_QUEUES, "queue"), (_RATES, "rate")):
        for quantity in wanted:
            for name in names:
                match = _LINK.fullmatch(name)
                if match is None or match["quantity"] != quantity:
                    continue
                thing, part = match["name"] + (match["reverse"] or ""), match["part"] or ""
                label = f"{match['name']}{' (reverse)' * bool(match['reverse'])}"
                label += f", {part.split('.', 2)[2]}" if part else f": {series_quantity(name)}"
                found.setdefault((kind, thing + part), _Channel(name, kind, thing, label))
    ends = {flow.name: (flow.source, flow.sinks) for flow in network.flows}
    edges = {name: set(domain.get("edges") or ()) for name, domain in named(scenario.get("domains")).items()}
    neighbours = network.neighbours()
    for name in names:
        parts = name.split(".")
        if parts[0] == "domains" and parts[-1] == "ingress_rate_bps" and ".".join(parts[2:-1]) in ends:
            flow = ".".join(parts[2:-1])
            source, sinks = ends[flow]
            path = shortest_path(neighbours, source, sinks[0]) if sinks else []
            edge = next((node for node in path if node in edges.get(parts[1], ())), "")
            found.setdefault(
                ("edge", name), _Channel(name, "node", edge, f"{edge or parts[1]} lets in {flow}")
            )
    for name in names:
        flow = name.removeprefix("flows.").removesuffix(".throughput_bps")
        if name == f"flows.{flow}.throughput_bps" and flow in ends:
            sink = next(iter(ends[flow][1]), "")
            found.setdefault(("flow", name), _Channel(name, "node", sink, f"{flow} delivers"))
    return list(found.values())[:_CHANNELS_MAX]


def _known(point: PointResult, channel: _Channel) -> tuple[list[float], list[float]]:
    """Times and values of a series, without those that do not exist."""
    if channel.series not in point.series_names:
        return [], []
    time_s, values = (part.tolist() for part in point.series(channel.series))
    kept = [(at, value) for at, value in zip(time_s, values, strict=True) if math.isfinite(value)]
    return [at for at, _ in kept], [value for _, value in kept]


def _set_greatest(
    channels: Sequence[_Channel],
    read: Sequence[Sequence[tuple[list[float], list[float]]]],
    scenario: dict[str, Any],
) -> None:
    """What fills a gauge: of a link its rate, else the most that was there in any run."""
    rates = {
        f"{name}{suffix}": (link.get(way) or {}).get("rate_bps")
        for name, link in named(scenario.get("links")).items()
        for way, suffix in (("forward", ""), ("reverse", ".reverse"))
    }
    for index, channel in enumerate(channels):
        channel.greatest = max((max(each[index][1], default=0.0) for each in read), default=0.0)
        if channel.kind == "rate" and channel.series.endswith("_bps"):
            channel.greatest = max(channel.greatest, rates.get(channel.thing) or 0.0)
    # Rates at nodes are compared with each other.
    nodes = [channel for channel in channels if channel.kind == "node"]
    for channel in nodes:
        channel.greatest = max(other.greatest for other in nodes)


def _sampled(
    time_s: Sequence[float], values: Sequence[float], end_s: float, frames: int, greatest: float
) -> list[int]:
    """The last value at each frame, in thousandths of the greatest; 0 before there is one."""
    found, index = [], -1
    for frame in range(frames):
        at = end_s * (frame + 1) / frames * (1 + 1e-9)
        while index + 1 < len(time_s) and time_s[index + 1] <= at:
            index += 1
        share = values[index] / greatest if index >= 0 and greatest > 0 else 0.0
        found.append(round(_FULL * min(max(share, 0.0), 1.0)))
    return found


def _fullest(channels: Sequence[_Channel], values: Sequence[Sequence[int]], frames: int) -> int:
    """The frame that is shown at first: where queues, or else rates, are greatest together."""
    for kind in ("queue", "rate", "node"):
        own = [each for channel, each in zip(channels, values, strict=True) if channel.kind == kind]
        if own:
            return max(range(frames), key=lambda frame: sum(each[frame] for each in own))
    return 0


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def _told(channel: _Channel, share: int) -> str:
    factor, unit = series_unit(channel.series)
    return f"{quantities.number(share / _FULL * channel.greatest * factor, 3)} {unit}".strip()


def _gauges(drawing: Drawing, channels: Sequence[_Channel], values: Sequence[int]) -> tuple[str, str]:
    """What lies under the nodes, the carried rates as wide lines, and over them, gauges."""
    under, over = [], []
    ends: dict[str, tuple[Place, Place]] = {}
    for wire in drawing.wires:
        for link in wire.links:
            a, b = drawing.place_of(link.a), drawing.place_of(link.b)
            if a is not None and b is not None:
                ends[link.name], ends[f"{link.name}.reverse"] = (a, b), (b, a)
    taken: dict[tuple[str, str], int] = {}
    for index, (channel, value) in enumerate(zip(channels, values, strict=True)):
        row = taken.get((channel.kind, channel.thing), 0)
        taken[channel.kind, channel.thing] = row + 1
        if channel.kind == "node":
            place = drawing.place_of(channel.thing)
            if place is not None and row < _NODE_GAUGES_MAX:
                below = topology_svg.name_end(place) + 3 + (_WELL[1] + 2) * row
                over.append(_gauge(index, "node", value, place.x - _WELL[0] / 2, below, 0.0))
        elif channel.thing in ends:
            a, b = ends[channel.thing]
            angle = math.atan2(b.y - a.y, b.x - a.x)
            if channel.kind == "rate":
                # Parts of a link, and its other direction, lie beside each other.
                side = 5.0 * row + (3.0 if channel.thing.endswith(".reverse") else 0.0)
                under.append(_carried(index, value, a, b, -side * math.sin(angle), side * math.cos(angle)))
            else:
                along = topology_svg.RADIUS + 4
                over.append(
                    _gauge(
                        index,
                        "queue",
                        value,
                        a.x + along * math.cos(angle),
                        a.y + along * math.sin(angle),
                        angle,
                    )
                )
    return "".join(under), "".join(over)


def _carried(index: int, value: int, a: Place, b: Place, dx: float, dy: float) -> str:
    """A line as wide as what is carried from `a` to `b`."""
    ends = f'x1="{a.x + dx:.1f}" y1="{a.y + dy:.1f}" x2="{b.x + dx:.1f}" y2="{b.y + dy:.1f}"'
    return f'<line class="carried" data-c="{index}" stroke-width="{value / _FULL * 9:.1f}" {ends}/>'


def _gauge(index: int, kind: str, value: int, x: float, y: float, angle: float) -> str:
    """A well that fills from its beginning; of a queue from the far end, where packets leave."""
    width, height = _WELL
    top = -height / 2 if kind == "queue" else 0
    turn = f" rotate({math.degrees(angle):.0f})" if angle else ""
    filled = width * value / _FULL
    start = width - filled if kind == "queue" else 0.0
    well = f'y="{top}" width="{width}" height="{height}" rx="1.5"'
    fill = f'x="{start:.1f}" y="{top}" width="{filled:.1f}" height="{height}" rx="1.5"'
    return (
        f'<g class="gauge {kind}" transform="translate({x:.1f} {y:.1f}){turn}">'
        f'<rect class="well" {well}/><rect class="fill" data-c="{index}" {fill}/></g>'
    )
