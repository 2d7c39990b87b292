"""What must hold in every case, and whether it does."""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile

import tidegate

from .case import FAULTS_END, RATE_MAX_BPS, RATE_MIN_BPS, RECOVERY, Case


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What is allowed after recovery."""

    # Datagrams get this part of what they would have without edges, and TCP this.
    part_of_datagrams: float = 0.85
    part_of_tcp: float = 0.5
    # The path's queue is no longer than this on the average, s: the target, what jitter adds, whole packets.
    queue: float = 0.025
    packets: int = 8
    # Probes and reports take no more of the rates of the two virtual links: a hundredth, and what the first
    # ones of each life cost.
    control_share: float = 0.011
    control_free_bps: float = 4_000


BOUNDS = Bounds()


def broken(case: Case, again: bool = False, bounds: Bounds = BOUNDS) -> list[str]:
    """What does not hold in `case`; with `again` it runs twice, and must give the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "case.toml"
        path.write_text(case.text(), encoding="utf-8")
        loaded = tidegate.load(path)
        result = loaded.run()
        told = _judge(case, result, bounds)
        if again and loaded.run().summary != result.summary:
            told.append("a second run gives something else")
        if told or not case.tcp:
            return told
        # What TCP gets on a path with losses is compared with what it gets without edges.
        path.write_text(_without_edges(case.text()), encoding="utf-8")
        plain = _goodput(tidegate.load(path).run())
    with_edges = _goodput(result)
    if with_edges < bounds.part_of_tcp * plain:
        return [f"TCP gets {with_edges / 1e6:.3f} Mbit/s, and {plain / 1e6:.3f} without edges"]
    return []


def _without_edges(text: str) -> str:
    """The same without a mechanism, and without what acts on it or tells of it."""
    whole = text.replace("control_loss", "# control_loss").replace('series = ["domains', '# ["domains')
    before, rest = whole.split("[domains.net.mechanism]")
    _, after = rest.split("[record]")
    parts = f"{before}[record]{after}".split("[[events]]")
    return "[[events]]".join(part for part in parts if "\nedge = " not in part)


def _goodput(result: tidegate.Result) -> float:
    return sum(flow["goodput_bps"] for name, flow in result.flows.items() if name.startswith("load"))


def _judge(case: Case, result: tidegate.Result, bounds: Bounds) -> list[str]:
    told = []
    rates = 0.0
    for name in ("load1", "back"):
        at, rate = result.series(f"domains.net.{name}.ingress_rate_bps")
        known = rate[rate == rate]  # NaN while there is no virtual link
        if len(known) and (known.min() < 0.999 * RATE_MIN_BPS or known.max() > 1.001 * RATE_MAX_BPS):
            low, high = known.min(), known.max()
            told.append(f"{name}: the rate is from {low:.0f} to {high:.0f} bit/s")
        late = rate[(at >= FAULTS_END + RECOVERY) & (rate == rate)]
        rates += late.mean() if len(late) else 0.0
    path = result.links["path"]
    control = path["control_bps"] + path["reverse"]["control_bps"]
    if control > bounds.control_share * rates + bounds.control_free_bps:
        told.append(f"control takes {control:.0f} bit/s of rates of {rates:.0f}")
    if not case.tcp:
        delivered = _goodput(result) * 1028 / 1000
        if delivered < bounds.part_of_datagrams * case.final_rate * 1e6 * _kept(case):
            told.append(f"{delivered / 1e6:.3f} of {case.final_rate} Mbit/s are used after recovery")
    totals = result.summary["totals"]
    made = totals["created_packets"] + totals.get("duplicated_packets", 0)
    if made < totals["delivered_packets"] + totals["dropped_packets"]:
        told.append(f"{made} packets were made, and more arrived or were lost: {totals}")
    at, queue = result.series("links.path.queue_bytes")
    after = queue[at >= FAULTS_END + RECOVERY].mean()
    allowed = (bounds.queue + 3 * _jitter(case)) * case.final_rate * 1e6 / 8 + bounds.packets * 1500
    if after > allowed:
        told.append(f"{after:.0f} bytes wait in the path after recovery, and {allowed:.0f} are allowed")
    return told


def _number(case: Case, name: str, unit: str = " ") -> float:
    for one in case.medium:
        if one.startswith(name):
            return (
                float(one.split("probability = ")[1].split()[0].rstrip(","))
                if unit == " "
                else float(one.split('"')[-2].removesuffix(unit))
            )
    return 0.0


def _kept(case: Case) -> float:
    return 1 - _number(case, "loss")


def _jitter(case: Case) -> float:
    return 1e-3 * (_number(case, "jitter", "ms") + _number(case, "reorder", "ms"))
