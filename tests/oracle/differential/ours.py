"""Tidegate: a scenario as TOML, the counters of a run, and its packets."""

from __future__ import annotations

import pathlib
import struct
import tempfile
from collections.abc import Iterator

from .packets import Event
from .scenario import ENDLESS, SECOND, Flow, Queue, Scenario, direction_name


def queue_text(queue: Queue) -> str:
    """The queue of a bottleneck as an inline table."""
    limit = f'limit = "{queue.limit}p"'
    if queue.kind == "droptail":
        return f'{{ kind = "droptail", {limit} }}'
    if queue.kind == "sfq":
        return f'{{ kind = "sfq", buckets = {queue.buckets}, hash = "modulo", {limit} }}'
    if queue.kind == "drr":
        return f'{{ kind = "drr", quantum = "1000B", limit = "{queue.limit}kB" }}'
    bounds = ", floor = 1e-9, ceiling = 1.0" if queue.kind == "adaptive-red" else ""
    return (
        f'{{ kind = "{queue.kind}", {limit}, min = "{queue.low}p", max = "{queue.high}p", '
        f'max_p = {queue.max_p}, weight = {queue.weight}, mean_packet = "{queue.mean_packet}B", '
        f'gap = "ns", flavor = "ns", mark_forced = false, '
        f"gentle = {_word(queue.gentle)}{bounds} }}"
    )


def flow_text(flow: Flow, number: int, start: int) -> str:
    """One line of the section `[flows]`."""
    if flow.is_tcp:
        # A mark at a window of one stops ns-2's sender for a time-out: its integer half of one is a window of
        # zero.
        ecn = ", ecn = true, ecn_timeout = true" if flow.ecn else ""
        transport = (
            f'{{ kind = "tcp", profile = "ns-1999", variant = "{flow.variant}", window = "{flow.window}p", '
            f'packet = "{flow.packet}B", delayed_ack = {_word(flow.delayed_ack)}{ecn} }}'
        )
        size = f'{{ kind = "transfer", size = "{(flow.transfer or 0) * flow.packet}B" }}'
        application = size if flow.transfer else '"bulk"'
    else:
        transport = f'{{ kind = "udp", packet = "{flow.packet}B" }}'
        more = {
            "cbr": f", jitter = {0.5 if flow.jitter else 0.0}",
            "on-off": f', on = "{flow.on}ns", off = "{flow.off}ns"',
        }.get(flow.kind, "")
        application = f'{{ kind = "{flow.kind}", rate = "{flow.rate}bit"{more} }}'
    return (
        f'f{number} = {{ from = "s{number}", to = "d{number}", transport = {transport}, '
        f'application = {application}, start = "{start}ns" }}'
    )


def toml(scenario: Scenario, seed: int) -> str:
    """The file that Tidegate runs."""
    plain = f'queue = {{ kind = "droptail", limit = "{ENDLESS}p" }}'
    hosts = [f'"{end}{number}"' for number in range(len(scenario.flows)) for end in "sd"]
    routers = [f'"r{number}"' for number in range(len(scenario.hops) + 1)]
    lines = [
        f'title = "Differential test {scenario.name}"',
        f'duration = "{scenario.stop}ns"',
        f'warmup = "{scenario.begin}ns"',
        f"seed = {seed}",
        f"nodes = {{ hosts = [{', '.join(hosts)}], routers = [{', '.join(routers)}] }}",
        "",
        "[links]",
    ]
    for number, hop in enumerate(scenario.hops):
        queue = f"queue = {queue_text(hop.queue)}"
        if not scenario.is_two_way:
            queue = f"{plain}, forward = {{ {queue} }}"
        lines.append(
            f'hop{number} = {{ between = ["r{number}", "r{number + 1}"], rate = "{hop.rate}bit", '
            f'delay = "{hop.delay}ns", {queue} }}'
        )
    for number, flow in enumerate(scenario.flows):
        rest = f'rate = "{flow.access_rate}bit", {plain}'
        for name, ends, delay in (
            ("in", f'"s{number}", "r{flow.enters}"', flow.access_delay),
            ("out", f'"r{flow.leaves}", "d{number}"', flow.exit_delay),
        ):
            lines.append(f'{name}{number} = {{ between = [{ends}], delay = "{delay}ns", {rest} }}')
    starts = scenario.starts(seed)
    flows = [flow_text(flow, number, starts[number]) for number, flow in enumerate(scenario.flows)]
    return "\n".join([*lines, "", "[flows]", *flows, ""])


def counters(scenario: Scenario, seed: int) -> dict[str, float]:
    """What `judge.QUANTITIES` names, from one run."""
    summary = _run(scenario, seed).summary
    seconds = (scenario.stop - scenario.begin) / SECOND
    found: dict[str, float] = {}
    for number, flow in enumerate(scenario.flows):
        ours = summary["flows"][f"f{number}"]
        found[f"goodput.f{number}"] = ours["goodput_bps" if flow.is_tcp else "throughput_bps"]
        if flow.is_tcp:
            found[f"retransmissions.f{number}"] = ours["retransmissions"] / seconds
            found[f"sent.f{number}"] = ours["sent_packets"] / seconds
    for hop, backward in scenario.directions():
        name = direction_name(hop, backward)
        link = summary["links"][f"hop{hop}"]
        link = link["reverse"] if backward else link
        # ns-2 counts what waits; here the packet in transmission is in the queue as well.
        found[f"queue.{name}"] = link["queue_packets"]["mean"] - link["utilization"]
        found[f"drops.{name}"] = link["dropped_packets"] / seconds
        found[f"marks.{name}"] = link["marked_packets"] / seconds
        found[f"arrivals.{name}"] = link["arrived_packets"] / seconds
    return found


def events(scenario: Scenario, seed: int) -> list[Event]:
    """All packets that reached the far end of a link, or were dropped, in the order of time."""
    with tempfile.TemporaryDirectory() as folder:
        seen, lost = pathlib.Path(folder) / "seen.pcapng", pathlib.Path(folder) / "lost.pcapng"
        _run(scenario, seed, trace=seen, trace_at=("links",), trace_drops=lost)
        found = [*_read(seen, scenario), *_read(lost, scenario)]
    return sorted(found)


def _run(scenario: Scenario, seed: int, **more):
    import tidegate

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "scenario.toml"
        path.write_text(toml(scenario, seed))
        return tidegate.load(path).run(seed=seed, **more)


def _read(path: pathlib.Path, scenario: Scenario) -> Iterator[Event]:
    """The packets of a pcapng file that Tidegate wrote."""
    data, interfaces, place = path.read_bytes(), [], 0
    while place < len(data):
        kind, length = struct.unpack_from("<II", data, place)
        body = data[place + 8 : place + length - 4]
        place += length
        if kind == 1:
            interfaces.append(dict(_options(body[8:]))[2].decode())
        elif kind == 6:
            interface, high, low, captured = struct.unpack_from("<IIII", body)
            comment = dict(_options(body[20 + (captured + 3) // 4 * 4 :])).get(1, b"").decode()
            if comment.startswith("mark"):
                continue
            what = "drop" if comment else "arrive"
            yield _event(scenario, (high << 32) | low, interfaces[interface], what, body[20:])


def _options(data: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + 4 <= len(data):
        code, length = struct.unpack_from("<HH", data, place)
        if code == 0:
            return
        yield code, data[place + 4 : place + 4 + length]
        place += 4 + (length + 3) // 4 * 4


def _event(scenario: Scenario, time: int, link: str, what: str, packet: bytes) -> Event:
    """One packet. Hosts have addresses in the order of the file: source and sink of each flow."""
    source = int.from_bytes(packet[13:16], "big") - 1
    flow, is_ack = divmod(source, 2)
    header = 4 * (packet[0] & 15)
    size = scenario.flows[flow].packet
    if packet[9] != 6:
        sequence = -1
    elif is_ack:
        sequence = int.from_bytes(packet[header + 8 : header + 12], "big") // size - 1
    else:
        sequence = int.from_bytes(packet[header + 4 : header + 8], "big") // size
    name, direction = link.removeprefix("links.").rsplit(".", 1)
    return Event(time, f"{name}.{direction}", what, flow, "ack" if is_ack else "data", sequence)


def _word(value: bool) -> str:
    return "true" if value else "false"
