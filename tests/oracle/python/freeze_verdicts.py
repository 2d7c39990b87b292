"""Writes the verdicts of the references (../verdicts); with --check compares them with what is there."""

import hashlib
import json
import random
import sys
from pathlib import Path

from reference_csfq import Csfq, Edge
from reference_drr import Drr
from reference_red import Red
from reference_sfb import Sfb
from reference_world import Draws, Packet, run

HERE = Path(__file__).parent
OUT = HERE.parent / "verdicts"
NANOS_PER_BYTE = 800  # 10 Mbit/s
RATE_BPS = 10_000_000
PACKETS = 800


def bursts(r):
    """Three flows that send bursts of mixed sizes, with pauses in which the link is idle."""
    arrivals = []
    while len(arrivals) < PACKETS:
        pause = int(r.expovariate(1 / 20e6))
        for k in range(r.randint(1, 40)):
            gap = pause if k == 0 else r.choice([0, 0, 50_000, 400_000])
            arrivals.append([gap, r.randrange(3), r.choice([40, 576, 1000, 1500]), r.randrange(2)])
    return arrivals[:PACKETS]


def overload(r):
    """Five flows of rates 1 to 5 that together offer one and a half times the link."""
    due = [r.random() * 1e6 for _ in range(5)]
    arrivals, last = [], 0
    for _ in range(PACKETS):
        flow = min(range(5), key=lambda f: due[f])
        at = int(due[flow])
        arrivals.append([at - last, flow, 1000, flow % 2])
        last = at
        due[flow] += 800_000 * 10 / (flow + 1) * r.uniform(0.8, 1.2)
    return arrivals


def poisson(r):
    """Eight flows that together offer 95 % of the link."""
    return [[int(r.expovariate(1 / 842e3)), r.randrange(8), r.choice([500, 1000, 1500]), 1] for _ in range(PACKETS)]


def vectors():
    return {make.__name__: make(random.Random(seed)) for seed, make in enumerate([bursts, overload, poisson], 1)}


RED = {
    "min_th": 2.0, "max_th": 8.0, "w": 0.05, "max_p": 0.1, "limit": ["packets", 20], "packet_bytes": 1000,
    "unit": "packets", "gap_law": "paper", "flavor": "floyd_1993", "gentle": False, "victim": "arriving",
    "ecn": True, "ecn_when_forced": True,
}
RED_NS = RED | {"gap_law": "wait", "flavor": "ns", "ecn": False, "ecn_when_forced": False, "packet_bytes": 500}
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
    "ns_bytes_no_wait": RED_NS | {"unit": "bytes", "gap_law": "paper", "limit": ["bytes", 30_000], "max_p": 0.3},
    "paper_bytes_wait": RED | {"unit": "bytes", "gap_law": "wait", "max_p": 0.5},
    "ns_quick": RED_NS | {"w": 0.9, "limit": ["packets", 7], "max_p": 0.9},
    "ns_gentle_ecn": RED_NS | {"gentle": True, "ecn": True, "max_th": 5.0},
}
DRR_CASES = {
    "nbq": {"quantum": 1000, "limit": ["bytes", 32_000]},
    "small_quantum": {"quantum": 250, "limit": ["bytes", 10_000]},
    "in_packets": {"quantum": 1500, "limit": ["packets", 12]},
    "tight": {"quantum": 500, "limit": ["packets", 3]},
}
CSFQ = {"k": 0.1, "k_alpha": 0.1, "k_c": 0.1, "threshold_packets": 16, "limit": ["packets", 64]}
CSFQ_CASES = {
    "published": CSFQ,
    "fast": CSFQ | {"k": 0.02, "k_alpha": 0.02, "k_c": 0.02, "threshold_packets": 4, "limit": ["packets", 16]},
    "overflowing": CSFQ | {"threshold_packets": 2, "limit": ["packets", 5], "k_c": 0.05},
}

SFB = {
    "limit": ["packets", 20], "levels": 2, "bins": 5, "bin_size": 3, "law": "blue", "increment": 0.1, "decrement": 0.05,
    "freeze": None, "ceiling": 1.0, "nonresponsive_bps": 500_000, "burst_bytes": 1500, "rehash": None, "double_buffered": False,
    "min_th": 0.9, "max_th": 2.7, "w": 0.2, "max_p": 0.4, "alpha": 3.0, "beta": 2.0,
}
SFB_CASES = {
    "static": SFB,
    "equal_steps": SFB | {"increment": 0.25, "decrement": 0.25, "limit": ["bytes", 9_000]},
    "frozen": SFB | {"increment": 0.2, "freeze": 5_000_000},
    "high_ceiling": SFB | {"ceiling": 2.5, "increment": 0.2},
    "one_level": SFB | {"levels": 1, "bins": 3},
    "five_levels": SFB | {"levels": 5, "bins": 4},
    "moving": SFB | {"rehash": 50_000_000},
    "double_buffered": SFB | {"rehash": 50_000_000, "double_buffered": True},
    "double_buffered_quick": SFB | {"rehash": 7_000_000, "double_buffered": True, "increment": 0.5, "bin_size": 1},
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
    red, drr, csfq, sfb = [], [], [], []
    for vector_name, vector in vectors().items():
        for name, c in RED_CASES.items():
            red.append(case(name, vector_name, vector, c, Red(c, RATE_BPS, Draws()), lambda d: d.avg))
        for name, c in DRR_CASES.items():
            drr.append(case(name, vector_name, vector, c, Drr(c)))
        for name, c in CSFQ_CASES.items():
            router = Csfq(c, RATE_BPS, Draws())
            csfq.append(case(name, vector_name, vector, c, router, lambda d: d.alpha * 8, Edge(c["k"])))
        for name, c in SFB_CASES.items():
            sfb.append(case(name, vector_name, vector, c, Sfb(c, Draws()), lambda d: d.p_min))
    return {"vectors": vectors(), "red": red, "drr": drr, "csfq": csfq, "sfb": sfb}


def text_of(name, content):
    scripts = sorted(HERE.glob("*.py")) + [OUT / "draws.json"]
    digest = hashlib.sha256(b"".join(script.read_bytes() for script in scripts)).hexdigest()
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
