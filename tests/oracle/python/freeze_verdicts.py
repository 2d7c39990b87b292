"""Writes the verdicts of the references (../verdicts); with --check compares them with what is there."""

import json
import re
import sys
from pathlib import Path

from frozen import hashes
import reference_aimd_er
from reference_cbq import Cbq
from reference_blue import Blue
from reference_csfq import Csfq, Edge
from reference_drr import Drr
from reference_ered import Ered
from reference_fred import Fred
from reference_red import Red
from reference_sfq import Sfq
from reference_red_family import AdaptiveRed, CountingRed, PenaltyBox, SmoothedRed
from reference_sfb import Sfb
from reference_world import Draws, Packet, run
from vectors import vectors, vectors_of_the_family

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts"
NANOS_PER_BYTE = 800  # 10 Mbit/s
RATE_BPS = 10_000_000

RED = {
    "min_th": 2.0,
    "max_th": 8.0,
    "w": 0.05,
    "max_p": 0.1,
    "limit": ["packets", 20],
    "packet_bytes": 1000,
    "unit": "packets",
    "gap_law": "paper",
    "flavor": "floyd_1993",
    "gentle": False,
    "victim": "arriving",
    "ecn": True,
    "ecn_when_forced": True,
}
RED_NS = RED | {
    "gap_law": "wait",
    "flavor": "ns",
    "ecn": False,
    "ecn_when_forced": False,
    "packet_bytes": 500,
}
RED_CASES = {
    "paper": RED,
    "paper_without_ecn": RED | {"ecn": False},
    "paper_forced_drops": RED | {"ecn_when_forced": False, "max_p": 0.02},
    "paper_slow": RED | {"w": 0.002, "min_th": 0.5, "max_th": 3.0},
    "paper_bytes": RED | {"unit": "bytes", "limit": ["bytes", 15_000]},
    "gentle": RED | {"gentle": True, "max_th": 5.0},
    "ns": RED_NS,
    "ns_no_wait": RED_NS | {"gap_law": "paper", "max_p": 0.5},
    "ns_random_victim": RED_NS | {"victim": "random", "limit": ["packets", 9]},
    "ns_bytes": RED_NS | {"unit": "bytes", "min_th": 4.0, "max_th": 16.0, "limit": ["bytes", 12_000]},
    "ns_bytes_no_wait": RED_NS
    | {"unit": "bytes", "gap_law": "paper", "limit": ["bytes", 30_000], "max_p": 0.3},
    "paper_bytes_wait": RED | {"unit": "bytes", "gap_law": "wait", "max_p": 0.5},
    "ns_quick": RED_NS | {"w": 0.9, "limit": ["packets", 7], "max_p": 0.9},
    "ns_gentle_ecn": RED_NS | {"gentle": True, "ecn": True, "max_th": 5.0},
}
ADAPTIVE = RED | {"alpha": 3.0, "beta": 2.0, "floor": 0.001, "ceiling": 1.0, "max_p": 0.02}
ADAPTIVE_CASES = {
    "adaptive": ADAPTIVE,
    "adaptive_non_linear": ADAPTIVE
    | {"ceiling": 16.0, "max_p": 1.0, "min_th": 4.0, "alpha": 1.2, "beta": 4.0},
    "adaptive_ns": ADAPTIVE | {"gap_law": "wait", "flavor": "ns", "ecn": False, "max_p": 0.1},
    "adaptive_gentle_bytes": ADAPTIVE
    | {"gentle": True, "unit": "bytes", "ceiling": 4.0, "max_p": 1.0, "max_th": 5.0},
    "adaptive_floor": ADAPTIVE | {"floor": 0.015, "w": 0.3},
}
SMOOTHED_CASES = {
    "smoothed": RED | {"smoothing": 0.02},
    "smoothed_ns": RED_NS | {"smoothing": 0.005, "max_p": 0.5},
    "smoothed_bytes": RED | {"smoothing": 0.01, "unit": "bytes", "gentle": True, "max_th": 5.0},
    "smoothed_adaptive": ADAPTIVE | {"smoothing": 0.05, "ceiling": 8.0, "max_p": 0.5},
}
COUNTING_CASES = {
    "counting": RED | {"flows_rtt": 0.005, "flows_window": 0.02},
    "counting_ns": RED_NS | {"flows_rtt": 0.02, "flows_window": 0.005},
}
PENALTY = RED | {
    "log": 20,
    "period": 0.05,
    "rtt": 0.01,
    "high": 12_000.0,
    "share": 0.05,
    "flows_max": 64,
    "max_p": 0.3,
}
PENALTY_CASES = {
    "penalty": PENALTY,
    "penalty_small": PENALTY | {"flows_max": 1, "log": 5, "period": 0.01, "share": 0.2},
    "penalty_high": PENALTY | {"rtt": 0.0001, "log": 12, "high": 3_000.0, "min_th": 0.5, "max_th": 4.0},
    "penalty_bytes": PENALTY
    | {"unit": "bytes", "ecn": False, "log": 10, "period": 0.02, "limit": ["bytes", 15_000]},
}
BLUE = {
    "delta_up": 0.05,
    "delta_down": 0.05,
    "freeze_ns": 2_000_000,
    "freeze_spread": 0.0,
    "timers": "shared",
    "threshold": None,
    "limit": ["packets", 10],
    "ecn": True,
    "priority": False,
}
BLUE_CASES = {
    "thesis": BLUE | {"delta_up": 0.01, "delta_down": 0.01, "freeze_ns": 10_000_000, "limit": ["packets", 6]},
    "quick": BLUE,
    "unequal": BLUE | {"delta_up": 0.1, "delta_down": 0.01, "freeze_ns": 1_000_000},
    "separate": BLUE | {"timers": "separate", "delta_up": 0.2, "freeze_ns": 5_000_000},
    "random_freeze": BLUE | {"freeze_spread": 0.5},
    "random_freeze_separate": BLUE | {"freeze_spread": 1.0, "timers": "separate", "delta_up": 0.08},
    "threshold": BLUE | {"threshold": ["packets", 4]},
    "threshold_bytes": BLUE | {"threshold": ["bytes", 4000], "limit": ["bytes", 9000], "delta_up": 0.02},
    "dropping": BLUE | {"ecn": False},
    "priority": BLUE | {"priority": True, "delta_up": 0.1},
    "saturated": BLUE | {"delta_up": 1.0, "delta_down": 0.3, "limit": ["packets", 3], "freeze_ns": 700_001},
}
FRED = {
    "min_th": 3.0,
    "max_th": 6.0,
    "w": 0.05,
    "max_p": 0.1,
    "min_q": 2,
    "variant": "basic",
    "limit": ["packets", 12],
    "packet_bytes": 1000,
    "ecn": False,
}
MANY = FRED | {"variant": "many_flows"}
FRED_CASES = {
    "basic": FRED,
    "basic_quick": FRED | {"w": 0.5, "max_p": 0.5},
    "basic_marking": FRED | {"ecn": True, "w": 0.2, "max_p": 0.8, "min_q": 1, "min_th": 2.0, "max_th": 9.0},
    "basic_published": FRED | {"w": 0.002, "max_p": 0.02},
    "many": MANY,
    "many_quick": MANY | {"w": 0.5, "max_p": 0.5, "min_th": 2.5, "max_th": 4.0},
    "many_overflowing": MANY | {"limit": ["packets", 5], "w": 0.3, "max_p": 0.9, "min_q": 1},
    "many_low": MANY | {"min_th": 0.5, "max_th": 1.0, "min_q": 0, "w": 0.1},
}
ERED = {
    "min_th": 3.0,
    "max_th": 8.0,
    "w": 0.05,
    "max_p": 0.1,
    "min_q": 2,
    "limit": ["packets", 12],
    "packet_bytes": 1000,
    "counted": "all",
    "absolute": False,
    "unmarked_limit": None,
    "fair": False,
}
FAIR = ERED | {"fair": True}
ERED_CASES = {
    "thesis": ERED,
    "quick": ERED | {"w": 0.5, "max_p": 0.5},
    "of_unmarked": ERED | {"counted": "unmarked", "w": 0.2, "min_th": 1.0, "max_th": 4.0},
    "absolute": ERED | {"absolute": True, "w": 0.002, "min_th": 1.0, "max_th": 6.0},
    "reserved": ERED | {"unmarked_limit": 5, "max_th": 11.0},
    "fair": FAIR,
    "fair_quick": FAIR | {"w": 0.5, "max_p": 0.5},
    "fair_of_unmarked": FAIR | {"counted": "unmarked", "w": 0.2, "min_th": 1.5, "max_th": 4.0},
    "fair_bounded": FAIR | {"absolute": True, "unmarked_limit": 6, "max_th": 7.0, "w": 0.1},
}
DRR_CASES = {
    "nbq": {"quantum": 1000, "limit": ["bytes", 32_000]},
    "small_quantum": {"quantum": 250, "limit": ["bytes", 10_000]},
    "in_packets": {"quantum": 1500, "limit": ["packets", 12]},
    "tight": {"quantum": 500, "limit": ["packets", 3]},
}
SFQ_CASES = {
    "ns": {"buckets": 16, "limit": 40},
    "few_bins": {"buckets": 2, "limit": 20},
    "tight": {"buckets": 5, "limit": 6},
    "moving": {"buckets": 4, "limit": 30, "perturb": 20_000_000},
    "own_limits": {"buckets": 3, "bin_limit": 9000},
}


def tree(*rows, **more):
    keys = ["parent", "share", "priority", "borrow", "flows"]
    return {"maxpkt": 1500, "queue_packets": 20, "classes": [dict(zip(keys, row)) for row in rows]} | more


FLAT = [
    (None, 0.98, 8, False),
    (0, 0.031, 1, True, [0, 3, 6]),
    (0, 0.323, 1, True, [1, 4, 7]),
    (0, 0.641, 2, True, [2, 5]),
]
# No round parts: with those a class reaches its limit at the very instant at which another packet ends.
AGENCIES = [
    (None, 0.983, 8, False),
    (0, 0.691, 8, True),
    (0, 0.293, 8, True),
    (1, 0.301, 1, True, [0, 5]),
    (1, 0.387, 2, True, [1, 6]),
    (2, 0.103, 1, True, [2, 7]),
    (2, 0.187, 2, True, [3, 4]),
]
HELD_BACK = [(parent, share / 2, priority, False, *flows) for parent, share, priority, _, *flows in FLAT]
CBQ_CASES = {
    "flat_ancestor_only": tree(*FLAT, sharing="ancestor-only"),
    "flat_top_level": tree(*FLAT, sharing="top-level"),
    "agencies_formal": tree(*AGENCIES, sharing="formal"),
    "agencies_top_level": tree(*AGENCIES, sharing="top-level"),
    "nobody_borrows": tree(*HELD_BACK, sharing="ancestor-only"),
    "another_rate": tree(*HELD_BACK, sharing="ancestor-only", rate_bps=14_000_000),
}
for held_back in CBQ_CASES["another_rate"]["classes"]:
    held_back |= {"extradelay_ns": 300_000, "maxidle_ns": 2_000_000, "minidle_ns": 1_000_000}
CSFQ = {"k": 0.1, "k_alpha": 0.1, "k_c": 0.1, "threshold_packets": 16, "limit": ["packets", 64]}
CSFQ_CASES = {
    "published": CSFQ,
    "fast": CSFQ
    | {"k": 0.02, "k_alpha": 0.02, "k_c": 0.02, "threshold_packets": 4, "limit": ["packets", 16]},
    "overflowing": CSFQ | {"threshold_packets": 2, "limit": ["packets", 5], "k_c": 0.05},
}

SFB = {
    "limit": ["packets", 20],
    "levels": 2,
    "bins": 5,
    "bin_size": 3,
    "law": "blue",
    "increment": 0.1,
    "decrement": 0.05,
    "freeze": None,
    "ceiling": 1.0,
    "nonresponsive_bps": 500_000,
    "burst_bytes": 1500,
    "rehash": None,
    "double_buffered": False,
    "hash": "keyed",
    "bins_begin": "fresh",
    "min_th": 0.9,
    "max_th": 2.7,
    "w": 0.2,
    "max_p": 0.4,
    "alpha": 3.0,
    "beta": 2.0,
}
SFB_CASES = {
    "static": SFB,
    "equal_steps": SFB | {"increment": 0.25, "decrement": 0.25, "limit": ["bytes", 9_000]},
    "frozen": SFB | {"increment": 0.2, "freeze": 5_000_000},
    "no_ceiling": SFB | {"ceiling": None},
    "high_ceiling": SFB | {"ceiling": 2.5, "increment": 0.2},
    "one_level": SFB | {"levels": 1, "bins": 3},
    "five_levels": SFB | {"levels": 5, "bins": 4},
    "moving": SFB | {"rehash": 50_000_000},
    "double_buffered": SFB | {"rehash": 50_000_000, "double_buffered": True},
    "double_buffered_quick": SFB
    | {"rehash": 7_000_000, "double_buffered": True, "increment": 0.5, "bin_size": 1},
    "even": SFB | {"hash": "even", "levels": 3},
    "even_moving": SFB | {"hash": "even", "rehash": 50_000_000, "bins_begin": "mean"},
    "beginning_at_the_mean": SFB
    | {"rehash": 50_000_000, "double_buffered": True, "bins_begin": "mean", "bin_size": 1},
    "adaptive_red": SFB | {"law": "adaptive_red"},
    "adaptive_red_moving": SFB | {"law": "adaptive_red", "rehash": 50_000_000, "double_buffered": True},
}


def packets_of(vector):
    return [Packet(n, flow, size, bool(ect)) for n, (_, flow, size, ect) in enumerate(vector)]


def case(name, vector_name, vector, config, discipline, watch=None, edge=None):
    packets, gaps = packets_of(vector), [arrival[0] for arrival in vector]
    result = {"name": name, "vector": vector_name, "config": config}
    if edge:
        now = 0
        for packet, gap in zip(packets, gaps):
            now += gap
            edge.label(packet, now)
        result["labels"] = [packet.label for packet in packets]
    result["outcomes"], watched = run(discipline, packets, gaps, NANOS_PER_BYTE, watch)
    if watch:
        result["watched"] = watched
    if edge:
        result["labels_after"] = [packet.label for packet in packets]
    return result


def build():
    red, blue, ered, fred, drr, sfq, cbq, csfq, sfb, family = [], [], [], [], [], [], [], [], [], []
    for vector_name, vector in vectors().items():
        for name, c in RED_CASES.items():
            red.append(case(name, vector_name, vector, c, Red(c, RATE_BPS, Draws()), lambda d: d.avg))
        for name, c in BLUE_CASES.items():
            blue.append(case(name, vector_name, vector, c, Blue(c, Draws()), lambda d: d.p_m))
        for name, c in FRED_CASES.items():
            fred.append(case(name, vector_name, vector, c, Fred(c, RATE_BPS, Draws()), lambda d: d.avg))
        for name, c in ERED_CASES.items():
            ered.append(case(name, vector_name, vector, c, Ered(c, RATE_BPS, Draws()), lambda d: d.avg))
        for name, c in DRR_CASES.items():
            drr.append(case(name, vector_name, vector, c, Drr(c)))
        for name, c in SFQ_CASES.items():
            sfq.append(case(name, vector_name, vector, c, Sfq(c)))
        for name, c in CBQ_CASES.items():
            cbq.append(case(name, vector_name, vector, c, Cbq(c, RATE_BPS)))
        for name, c in CSFQ_CASES.items():
            router = Csfq(c, RATE_BPS, Draws())
            csfq.append(case(name, vector_name, vector, c, router, lambda d: d.alpha * 8, Edge(c["k"])))
        for name, c in SFB_CASES.items():
            sfb.append(case(name, vector_name, vector, c, Sfb(c, Draws()), lambda d: d.p_min))
    for vector_name, vector in vectors_of_the_family().items():
        for cases, of, watch in (
            (ADAPTIVE_CASES, AdaptiveRed, lambda d: d.c["max_p"]),
            (SMOOTHED_CASES, SmoothedRed, lambda d: d.p),
            (COUNTING_CASES, CountingRed, lambda d: d.c["max_p"]),
            (PENALTY_CASES, PenaltyBox, lambda d: len(d.boxed)),
        ):
            for name, c in cases.items():
                family.append(case(name, vector_name, vector, c, of(c, RATE_BPS, Draws()), watch))
    return {
        "vectors": vectors_of_the_family(),
        "red": red,
        "red_family": family,
        "blue": blue,
        "ered": ered,
        "fred": fred,
        "sfb": sfb,
        "drr": drr,
        "sfq": sfq,
        "cbq": cbq,
        "aimd_er": reference_aimd_er.verdicts(),
        "csfq": csfq,
    }


def scripts_of(name):
    """What the verdicts of a reference depend on: its script, the modules that these import, the arrivals, the draws."""
    if name == "vectors":
        return [HERE / "vectors.py"]
    found, todo = set(), [f"reference_{name}", "vectors"]
    while todo:
        path = HERE / f"{todo.pop()}.py"
        if path not in found:
            found.add(path)
            imported = re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
            todo += [module for module in imported if (HERE / f"{module}.py").exists()]
    return [*sorted(found), OUT / "draws.json"]


def text_of(name, content):
    digest = hashes(scripts_of(name))
    frozen = {"made_by": "tests/oracle/python/freeze_verdicts.py", "scripts_sha256": digest, name: content}
    return json.dumps(frozen, separators=(",", ":")).replace('},{"name"', '},\n{"name"') + "\n"


def main():
    wrong = []
    for name, content in build().items():
        path, text = OUT / f"{name}.json", text_of(name, content)
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                wrong.append(path.name)
        else:
            path.write_text(text)
    if wrong:
        sys.exit(f"differ from what the scripts give: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
