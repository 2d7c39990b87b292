"""What must hold in every case, and whether it does."""

from __future__ import annotations

import pathlib
import tempfile

import tidegate

from .case import RATE_MAX_BPS, RATE_MIN_BPS, RECOVERY, FAULTS_END, Case

# After recovery datagrams get this part of what they would have without edges, and TCP this.
PART_OF_DATAGRAMS = 0.85
PART_OF_TCP = 0.5
# The path's queue is then no longer than this on the average, s: the target, what jitter adds, and room for whole packets.
QUEUE = 0.025
PACKETS = 8
# Probes and reports take no more of what is sent: a hundredth, and what the first ones of each life cost.
CONTROL_SHARE = 0.011
CONTROL_FREE_BPS = 4_000


def broken(case: Case, again: bool = False) -> list[str]:
    """What does not hold in `case`; with `again` it runs twice, and must give the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "case.toml"
        path.write_text(case.text(), encoding="utf-8")
        loaded = tidegate.load(path)
        result = loaded.run()
        told = _judge(case, result)
        if again and loaded.run().summary != result.summary:
            told.append("a second run gives something else")
        if told or not case.tcp:
            return told
        # What TCP gets on a path with losses is compared with what it gets without edges.
        path.write_text(_without_edges(case.text()), encoding="utf-8")
        plain = _goodput(tidegate.load(path).run())
    with_edges = _goodput(result)
    if with_edges < PART_OF_TCP * plain:
        return [f"TCP gets {with_edges / 1e6:.3f} Mbit/s, and {plain / 1e6:.3f} without edges"]
    return []


def _without_edges(text: str) -> str:
    lines = text.splitlines()
    kept = [
        'mechanism = "none"' if line.startswith("mechanism =") else line
        for line in lines
        if not line.startswith(("GA = {", "GB = {", "[domains.net.clocks]", "control_loss", "series ="))
    ]
    whole = "\n".join(kept)
    # Events of edges have nothing to act on.
    parts = whole.split("[[events]]")
    return "[[events]]".join(part for part in parts if "\nedge = " not in part)


def _goodput(result: tidegate.Result) -> float:
    return sum(flow["goodput_bps"] for flow in result.flows.values())


def _judge(case: Case, result: tidegate.Result) -> list[str]:
    told = []
    time_s, rate = result.series("domains.net.load1.ingress_rate_bps")
    known = rate[rate == rate]  # NaN while there is no virtual link
    if len(known) and (known.min() < 0.999 * RATE_MIN_BPS or known.max() > 1.001 * RATE_MAX_BPS):
        told.append(
            f"the rate is from {known.min():.0f} to {known.max():.0f} bit/s, not within {RATE_MIN_BPS} and {RATE_MAX_BPS}"
        )
    summary = result.summary
    path = result.links["path"]
    control = path["control_bps"] + path["reverse"]["control_bps"]
    if control > CONTROL_SHARE * path["throughput_bps"] + CONTROL_FREE_BPS:
        told.append(f"control takes {control:.0f} of {path['throughput_bps']:.0f} bit/s")
    if not summary["totals"]:
        told.append("no totals")
    if not case.tcp:
        delivered = _goodput(result) * 1028 / 1000
        if delivered < PART_OF_DATAGRAMS * case.final_rate * 1e6 * _kept(case):
            told.append(f"{delivered / 1e6:.3f} of {case.final_rate} Mbit/s are used after recovery")
    at, queue = result.series("links.path.queue_bytes")
    after = queue[at >= FAULTS_END + RECOVERY].mean()
    allowed = (QUEUE + 3 * _jitter(case)) * case.final_rate * 1e6 / 8 + PACKETS * 1500
    if after > allowed:
        told.append(f"{after:.0f} bytes wait in the path after recovery, and {allowed:.0f} are allowed")
    return told


def _number(case: Case, name: str, unit: str = " ") -> float:
    for one in case.medium:
        if one.startswith(name):
            return float(one.split("probability = ")[1].split()[0].rstrip(",")) if unit == " " else float(
                one.split('"')[-2].removesuffix(unit)
            )
    return 0.0


def _kept(case: Case) -> float:
    return 1 - _number(case, "loss")


def _jitter(case: Case) -> float:
    return 1e-3 * (_number(case, "jitter", "ms") + _number(case, "reorder", "ms"))
