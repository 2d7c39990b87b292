"""What the approaches of the five documents cost by their laws, beyond what is simulated.

`scale.md` and the figures of `experiments/scale` set these laws beside what was measured. Each cites its
document; sizes of messages are those of this implementation. Where a document has no law, it says so and is
ours.

    python docs/scale_laws.py           # writes the tables of scale.md, and the curves of expected.toml
    python docs/scale_laws.py --check   # exits 1 if they are not as they would be written

What is assumed throughout: packets of 1000 bytes, bursts of IEC (sigma) and segments of NBP of one packet,
addresses of IPv4, shares that are alike, sources that never slow down, and virtual links and flows that all
have something to send. None of that was fitted.
"""

import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "scale.md"
EXPECTED = DOCS.parent / "experiments/scale/expected.toml"

PACKET_BYTES = 1000
HEADERS_BYTES = 28  # of IP and UDP, or ICMP
MTU_BYTES = 1500
# crates/mechanism/src/edge/nbp/wire.rs
NBP_FORWARD_BYTES, NBP_BACKWARD_BYTES, NBP_FLOW_BYTES, NBP_RATE_BYTES = 11, 13, 14, 4
NBP_ASYNCHRONOUS_S = 0.01
NBP_MRC_FACTOR = 10
# crates/mechanism/src/edge/iec/wire.rs
IEC_CONTROL_BYTES, IEC_FEEDBACK_BYTES = 58, 46
# crates/mechanism/src/hop/wire.rs
NBQ_REPORT_BYTES, NBQ_FLOW_BYTES, NBQ_INTERVAL_S = 11, 14, 0.1
RM_BYTES, RM_DATA_BYTES = HEADERS_BYTES + 15, 31 * 53


@dataclass(frozen=True)
class Loop:
    """What N equal parts of a link have in common: virtual links of IEC, or flows of NBP."""

    share_bps: float  # the part of each
    rtt_s: float  # between the edges, without queues

    @property
    def packets(self) -> float:
        """How many packets of each are under way: the share in a round trip. What most depends on."""
        return self.share_bps * self.rtt_s / (8 * PACKET_BYTES)


# State: entries, as `state` of the summary counts them (results.md).


def iec_edge_entries(edges: float) -> float:
    """Of an edge that sends to all others and hears from all: a virtual link to each, and one from each
    (section II).
    """
    return 2 * (edges - 1)


def nbp_edge_entries(flows: float) -> float:
    """Of an edge: a shaper for each flow that enters, a meter for each that leaves (NBP, sections II.A and
    IV.1).
    """
    return flows


def nbq_entries(destinations: float, neighbours: float) -> float:
    """Of any router: a flow is named by protocol and destination (NBQ, section 4), and each neighbour has an
    entry.
    """
    return destinations + neighbours


def backpressure_entries(routers: float, hosts: float = 0) -> float:
    """Of a router with these neighbours: a share of each output for each input, all hosts being one (Pazos
    and Gerla, section 4.2, steps 1 and 2).
    """
    return (routers + hosts) * (routers + 1)


# Control traffic: bit/s at the access link of an edge, both ways.


def nbp_control_bps(flows: float, rtt_s: float) -> float:
    """Of a pair of edges: once per base round trip all flows go forward, and come back with their rates
    (NBP, section II.B, Fig. 5); and once more unasked, where round trips are longer than
    `AsynchInterval`. In packets of 1500 bytes.
    """
    forward = _listed(flows, NBP_FORWARD_BYTES, NBP_FLOW_BYTES)
    backward = _listed(flows, NBP_BACKWARD_BYTES, NBP_FLOW_BYTES + NBP_RATE_BYTES)
    answers = 2 if rtt_s > NBP_ASYNCHRONOUS_S else 1
    return 8 * (forward + answers * backward) / rtt_s


def _listed(flows: float, head: int, each: int) -> float:
    """Bytes of a list of flows with the headers of its packets."""
    fit = (MTU_BYTES - HEADERS_BYTES - head) // each
    return flows * each + math.ceil(flows / fit) * (HEADERS_BYTES + head)


def iec_control_bps(path: Loop) -> float:
    """Of a virtual link, at most: two control packets per round trip, and no more than data (IEC, section
    III.A), and one back per round trip while an epoch lasts.
    """
    control = min(2 / path.rtt_s, path.share_bps / (8 * PACKET_BYTES))
    return 8 * (
        control * (HEADERS_BYTES + IEC_CONTROL_BYTES) + (HEADERS_BYTES + IEC_FEEDBACK_BYTES) / path.rtt_s
    )


def nbq_control_bps(flows: float) -> float:
    """To a neighbour whose packets overflow an output: a report of their flows every 100 ms (NBQ, sections 4
    and 5).
    """
    return 8 * _listed(flows, NBQ_REPORT_BYTES, NBQ_FLOW_BYTES) / NBQ_INTERVAL_S


def backpressure_control_bps(rate_bps: float) -> float:
    """Of a link with this rate of data: an RM cell for 31 cells of it, and its answer (Pazos and Gerla,
    section 4.2).
    """
    return 2 * rate_bps * RM_BYTES / (RM_DATA_BYTES + RM_BYTES)


# The queue of the bottleneck, packets.


def iec_queue(links: float, packets: float) -> float:
    """The longest: (5.5 + 3a) N sigma with a = N sigma / BDP, and two control packets of each. Ours, after
    the fluid model of IEC, section II.C: docs/mechanisms/iec.md.
    """
    return links * (5.5 + 3 / packets) + _control_packets(links)


def eec_queue(links: float) -> float:
    """The longest: 4 N sigma (IEC, section II.C), and two control packets of each."""
    return 4 * links + _control_packets(links)


def _control_packets(links: float) -> float:
    return links * 2 * (HEADERS_BYTES + IEC_CONTROL_BYTES) / PACKET_BYTES


def nbp_queue(flows: float, hops: int = 2) -> float:
    """The longest. A flow is taken for congested once more than a packet for each hop waits (NBP, section
    II.C, Fig. 6). Ours: as for IEC, rates together grow by N packets per round trip and round trip: f, then
    f + 1 and so on. The next feedback packet that sees the threshold passed comes up to a round trip later,
    what it changes shows another one later, and each flow may have a packet on the way.
    """
    worst = 0.0
    for step in range(1, 1001):
        excess, queue = step / 1000, 0.0  # f is above 0 and at most 1
        while queue + excess < hops:
            queue, excess = queue + excess, excess + 1
        within = (hops - queue) / excess  # of the round trip in which it is passed
        worst = max(worst, hops + (1 - within) * excess + (excess + 1) + within * (excess + 2))
    return flows * (worst + 1)


# How long until what became free is used.


def iec_refill_s(path: Loop, before: float = 0.5, used: float = 0.9) -> float:
    """From this part of the share to that: a sigma per round trip and round trip (IEC, section II.C)."""
    return (used - before) * path.packets * path.rtt_s


def nbp_refill_s(path: Loop, before: float = 0.5, used: float = 0.9) -> float:
    """The same: a segment, but at most a tenth of the rate, per round trip and round trip (NBP, section
    II.C, Fig. 6).
    """
    window, rounds = before * path.packets, 0
    while window < used * path.packets:
        if window >= NBP_MRC_FACTOR:
            return (rounds + used * path.packets - window) * path.rtt_s
        window, rounds = window + min(1.0, window / NBP_MRC_FACTOR), rounds + 1
    return rounds * path.rtt_s


@dataclass(frozen=True)
class Curve:
    """A law in a figure of an experiment."""

    experiment: str
    figure: str
    label: str
    x: Sequence[float]
    law: Callable[[float], float]
    source: str


N = (10, 100, 1000, 10_000)
F = (10, 100, 1000, 10_000, 100_000)
SHARES = (1e3, 1e4, 1e5, 1e6, 1e7, 4e7)  # kb/s of each of ten: to 400 Gb/s
TRIPS = (10, 20, 50, 100, 200, 500)  # ms
PAIR = Loop(2e6, 0.04)


def _by_share(share: float) -> Loop:
    return Loop(share * 1e3, 0.01)


def _by_trip(trip: float) -> Loop:
    return Loop(2e6, trip / 1e3)


def _by_flows(flows: float) -> Loop:
    return Loop(1e5 * flows, 0.04)


BOUNDS = "bounds of NBP, IEC and EEC, from above"

LAW = "by law"
LAWS_OF_STATE = "IEC, section II; NBP, section II.A; NBQ, section 4; Pazos and Gerla, section 4.2"
LAWS_OF_CONTROL = (
    "NBP, section II.B; IEC, section III.A, at most; NBQ, section 5; Pazos and Gerla, section 4.2"
)
LAWS_OF_QUEUE = "NBP, section II.C, and ours; docs/mechanisms/iec.md; IEC, section II.C"


def _state(experiment: str, x: Sequence[float], *laws: Callable[[float], float]) -> list[Curve]:
    return [Curve(experiment, "state", LAW, x, law, LAWS_OF_STATE) for law in laws]


def _control(
    experiment: str, x: Sequence[float], loop: Callable[[float], Loop], flows: Callable[[float], float]
) -> list[Curve]:
    """Of a pair of edges that has this loop and so many flows, kb/s."""
    # A round trip is a little longer than the delays: whether it is above `AsynchInterval` depends on that.
    laws: tuple[Callable[[float], float], ...] = (
        lambda at: nbp_control_bps(flows(at), loop(at).rtt_s + 1e-5) / 1e3,
        lambda at: iec_control_bps(loop(at)) / 1e3,
        lambda at: nbq_control_bps(flows(at)) / 1e3,
        lambda at: backpressure_control_bps(loop(at).share_bps) / 1e3,
    )
    return [Curve(experiment, "control", LAW, x, law, LAWS_OF_CONTROL) for law in laws]


def _queue(
    experiment: str, x: Sequence[float], loop: Callable[[float], Loop], links: Callable[[float], float]
) -> list[Curve]:
    """Of so many virtual links, with a flow each, that have this loop."""
    laws: tuple[Callable[[float], float], ...] = (
        lambda at: nbp_queue(links(at)),
        lambda at: iec_queue(links(at), loop(at).packets),
        lambda at: eec_queue(links(at)),
    )
    return [Curve(experiment, "queue", BOUNDS, x, law, LAWS_OF_QUEUE) for law in laws]


def _refill(experiment: str, x: Sequence[float], loop: Callable[[float], Loop]) -> list[Curve]:
    return [Curve(experiment, "refill", LAW, x, lambda at: iec_refill_s(loop(at)), "IEC, section II.C")]


CURVES = (
    *_state("edges", N, lambda n: 1, lambda n: nbq_entries(n, n + 1), lambda n: backpressure_entries(n + 1)),
    *_control("edges", N, lambda n: PAIR, lambda n: 1),
    *_queue("edges", N, lambda n: PAIR, lambda n: n),
    *_queue("edges-far", N[1:], lambda n: PAIR, lambda n: n),
    *_state(
        "flows",
        F,
        nbp_edge_entries,
        lambda f: 1,
        lambda f: nbq_entries(2 * f, 3),
        lambda f: max(backpressure_entries(1, f), backpressure_entries(3)),
    ),
    *_control("flows", F, _by_flows, lambda f: f),
    *_refill("flows", F[1:4], _by_flows),
    *_control("rates", SHARES, _by_share, lambda s: 1),
    *_queue("rates", SHARES, _by_share, lambda s: 10),
    *_refill("rates", SHARES[2:], _by_share),
    *_control("delays", TRIPS, _by_trip, lambda t: 1),
    *_queue("delays", TRIPS, _by_trip, lambda t: 10),
    *_refill("delays", TRIPS, _by_trip),
    *_state("mesh", N, iec_edge_entries, lambda n: nbq_entries(n, n), backpressure_entries),
)

# Tables of scale.md.

# Bytes of an entry of this implementation. NBP and IEC as measured, resident memory above that of a run
# without control, packets at shapers included: 10,000 flows of each of two pairs, and 64 edges that all send
# to each other. NBQ and back-pressure by the fields of their entries.
ENTRY_BYTES = {"NBP": 1500, "IEC": 4600, "NBQ": 150, "back-pressure": 32}


@dataclass(frozen=True)
class Continent:
    """E edges alike, half of whose traffic crosses one link in the middle, to which half of them are
    attached.
    """

    edges: int
    rtt_s: float = 0.1
    edge_bps: float = 160e6
    flows: int = 1000  # that enter at an edge, each to a host of its own; as many leave there
    peers_max: int | None = None  # edges that an edge sends to at once; None: all

    @property
    def peers(self) -> int:
        """Edges that an edge sends to: no more than it has flows."""
        return min(self.edges - 1, self.flows, self.peers_max or self.edges)

    @property
    def middle_bps(self) -> float:
        """The rate of the link in the middle."""
        return self.edges / 2 * self.edge_bps / 2

    @property
    def link(self) -> Loop:
        """A virtual link."""
        return Loop(self.edge_bps / self.peers, self.rtt_s)

    @property
    def flow(self) -> Loop:
        """A flow."""
        return Loop(self.edge_bps / self.flows, self.rtt_s)

    def wait_s(self, packets: float) -> float:
        """How long so many packets last in the middle."""
        return packets * 8 * PACKET_BYTES / self.middle_bps


def _times(wait_s: float, free_s: float) -> tuple[str, str]:
    return f"{number(wait_s * 1e3)} ms", f"{number(free_s)} s"


def _growth(of: Continent) -> list[list[str]]:
    """What each approach costs there, by its laws."""
    attached = of.edges / 2
    links, flows = attached * of.peers / 2, attached * of.flows / 2
    names, neighbours = flows, attached + 1
    reports = attached * math.ceil(of.flows / 2 / 100) / NBQ_INTERVAL_S
    # Cells and their answers, both ways, on the links to the edges and on the one in the middle.
    cells = 4 * (of.middle_bps + attached * of.edge_bps) / 8 / (RM_DATA_BYTES + RM_BYTES)
    nbp = of.peers * nbp_control_bps(of.flows / of.peers, of.rtt_s)
    nbp_messages = 2 * of.peers * 3 * math.ceil(of.flows / of.peers / 81) / of.rtt_s
    told = []

    def tell(
        name: str, where: str, entries: float, control: float, messages: float, then: Sequence[str]
    ) -> None:
        state = f"{number(entries)}, {memory(entries * ENTRY_BYTES[name])} ({where})"
        told.append([name, state, f"{number(control / of.edge_bps * 100)} %", number(messages), *then])

    wait, free = of.wait_s(nbp_queue(flows)), nbp_refill_s(of.flow)
    tell("NBP", "an edge", nbp_edge_entries(2 * of.flows), nbp, nbp_messages, _times(wait, free))
    iec, iec_messages = of.peers * iec_control_bps(of.link), 2 * of.peers * 3 / of.rtt_s
    wait, free = of.wait_s(iec_queue(links, of.link.packets)), iec_refill_s(of.link)
    tell("IEC", "an edge", 2 * of.peers, iec, iec_messages, _times(wait, free))
    unsaid = ("what there is", "–")
    tell("NBQ", "the middle", nbq_entries(names, neighbours), nbq_control_bps(of.flows / 2), reports, unsaid)
    shares, answers = backpressure_entries(neighbours), backpressure_control_bps(of.edge_bps)
    tell("back-pressure", "the middle", shares, answers, cells, unsaid)
    return told


def memory(size: float) -> str:
    """Bytes as they are read."""
    unit, name = next(one for one in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (0, "B")) if size >= one[0])
    return f"{number(size / (unit or 1))} {name}"


def number(value: float) -> str:
    """Two digits, as it is read in a table."""
    if value == 0:
        return "0"
    digits = max(0, 1 - math.floor(math.log10(abs(value))))
    rounded = round(value, 1 - math.floor(math.log10(abs(value))))
    if rounded >= 1e6:
        return f"{rounded / 1e6:g} million"
    return f"{rounded:,.{digits}f}" if digits else f"{rounded:,.0f}"


def growth_table() -> str:
    """What a continent costs as it grows to 10,000 edges, 10^7 flows and 400 Gb/s."""
    head = [
        "edges", "approach", "state at the largest router", "control, of an edge's rate",
        "messages per second there", "queue in the middle", "refill",
    ]  # fmt: skip
    rows = []
    for of in (
        Continent(10),
        Continent(100),
        Continent(1000),
        Continent(10_000),
        Continent(10_000, peers_max=100),
    ):
        limited = " of 100 others at once" if of.peers_max else ""
        name = f"{of.edges:,}{limited}"
        rows += [[name, *row] for row in _growth(of)]
    return _table(head, rows)


def loop_table() -> str:
    """What a virtual link costs by how many packets of it are under way."""
    head = [
        "packets under way", "queue, round trips", "control, of the share", "refill, round trips",
        "virtual links on 400 Gb/s, 100 ms",
    ]  # fmt: skip
    rows = []
    for packets in (0.2, 1, 2, 5, 10, 20, 50, 100, 1000, 10_000):
        loop = Loop(packets * 8 * PACKET_BYTES / 0.1, 0.1)
        rows.append([
            f"{packets:,g}",
            number(iec_queue(1, packets) / packets),
            f"{number(iec_control_bps(loop) / loop.share_bps * 100)} %",
            number(iec_refill_s(loop) / loop.rtt_s),
            number(400e9 / loop.share_bps),
        ])  # fmt: skip
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


TABLES = {"growth": growth_table, "loop": loop_table}
_TABLE = re.compile(r"(<!-- laws: (\w+) -->\n)(?:\|[^\n]*\n)*")
_CURVES = re.compile(r"(# Laws: written by docs/scale_laws\.py\.\n).*?(# End of the laws\.\n)", re.DOTALL)


def page(text: str) -> str:
    """A page with its tables as they are now."""
    return _TABLE.sub(lambda found: found[1] + TABLES[found[2]](), text)


def curves(text: str) -> str:
    """An `expected.toml` with its curves as they are now."""
    told = "".join(
        f'\n[["{curve.experiment}".references]]\nfigure = "{curve.figure}"\nlabel = "{curve.label}"\n'
        f"x = {[float(f'{x:g}') for x in curve.x]}\n"
        f"y = {[float(f'{curve.law(x):.4g}') for x in curve.x]}\n"
        f'line = true\nprovenance = "derived"\nsource = "{curve.source}"\n'
        for curve in CURVES
    )
    return _CURVES.sub(lambda found: f"{found[1]}{told}\n{found[2]}", text)


def main(arguments: Sequence[str]) -> int:
    """Writes the page and the curves, or says whether they are as they would be."""
    stale = False
    for path, written in ((PAGE, page), (EXPECTED, curves)):
        text = path.read_text(encoding="utf-8")
        stale |= text != written(text)
        if "--check" not in arguments:
            path.write_text(written(text), encoding="utf-8")
    return int(stale and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
