#!/usr/bin/env python3
"""Runs ns-2 and writes frozen/droplist.json, frozen/marklist.json and frozen/throughput.json.

These files are the comparison data for our TCP profile `ns-1999`; README.md
beside this script says what is in them. They are committed, so the tests need
no ns-2; run this script only to make them again.

Needs: ns-2.35 as the command `ns` (Debian package `ns2`). Python 3.11, standard
library only. Takes about a minute.

    python3 make_frozen.py            writes the files
    python3 make_frozen.py --check    runs everything, writes nothing, and says
                                      whether the committed files are the same
"""

import argparse
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FROZEN = HERE / "frozen"

TRANSFER = 200
WINDOW = 20
VARIANTS = ["tahoe", "reno", "newreno", "sack1"]
SINKS = {"immediate": 0, "delack": 1}


def first(seqs):
    """Lose the first transmission of each of these packets."""
    return [(s, 1) for s in seqs]


# Name -> list of (packet, which transmission of it is lost; 1 is the first).
DROP_LISTS = {
    "no_loss": [],
    "first_packet": first([0]),
    "second_packet": first([1]),
    "single_in_slow_start": first([6]),
    "single_early": first([14]),
    "single_late": first([150]),
    "two_in_window_adjacent": first([60, 61]),
    "two_in_window_apart": first([60, 66]),
    "two_first_and_last_of_window": first([60, 79]),
    "three_in_window": first([60, 63, 66]),
    "four_in_window": first([60, 62, 64, 66]),
    "burst_of_8": first(range(60, 68)),
    "whole_window": first(range(60, 80)),
    "all_but_last_of_window": first(range(60, 79)),
    "alternating": first(range(60, 80, 2)),
    "slow_start_overshoot": first(range(20, 40, 2)),
    "retransmission_lost": [(60, 1), (60, 2)],
    "retransmission_lost_and_next": [(60, 1), (60, 2), (62, 1)],
    "six_transmissions_lost": [(60, k) for k in range(1, 7)],
    "second_retransmission_in_window_lost": [(60, 1), (64, 1), (64, 2)],
    "successive_windows": first([60, 80, 100, 120]),
    "every_tenth": first(range(40, 160, 10)),
    "loss_while_recovering": first([60, 81]),
    "last_packet": first([199]),
    "last_packet_twice": [(199, 1), (199, 2)],
    "last_three": first([197, 198, 199]),
    "fourth_from_end": first([196]),
}

# Name -> (packets that are lost, packets that are marked), as above: connections that understand ECN.
# Not packet 0: it does not say that it does.
MARK_LISTS = {
    "one_mark": ([], first([60])),
    "mark_in_slow_start": ([], first([6])),
    "mark_of_the_second": ([], first([1])),
    "marks_in_one_window": ([], first([60, 64, 70])),
    "marks_in_successive_windows": ([], first([60, 85, 100, 112])),
    "every_packet_marked": ([], first(range(40, 64))),
    "marks_at_a_window_of_one": ([], first(range(1, 9))),
    "mark_then_loss_in_its_window": (first([64]), first([60])),
    "loss_then_mark_in_its_window": (first([60]), first([64])),
    "mark_then_losses_in_its_window": (first([64, 66, 70]), first([60])),
    "losses_then_mark_in_their_window": (first([60, 62]), first([66])),
    "mark_between_losses": (first([60, 70]), first([64])),
    "mark_then_burst_of_losses": (first(range(64, 72)), first([60])),
    "burst_of_losses_then_marks": (first(range(60, 68)), first([70, 72, 74])),
    "mark_then_loss_in_the_next_window": (first([82]), first([60])),
    "mark_during_recovery": (first([60]), first([80])),
    "marks_during_recovery": (first([60, 63]), first([80, 81, 82])),
    "retransmission_marked": (first([60]), [(60, 2)]),
    "retransmission_lost_after_mark": ([(60, 1), (60, 2)], first([62])),
    "time_out_after_mark": (first(range(64, 80)), first([60])),
    "mark_after_time_out": ([*first(range(60, 80))], [(60, 2), (62, 2)]),
    "mark_and_loss_of_all_that_follows": (first(range(61, 90)), first([60])),
    "mark_then_tail_loss": (first([197, 198, 199]), first([190])),
    "small_window_mark_and_loss": (first([5]), first([3])),
    "many": (first(range(30, 200, 17)), first(range(25, 200, 11))),
    "many_more": (first(range(20, 200, 9)), first(range(23, 200, 7))),
}


def run_ns(script, args):
    """Runs one Tcl script in this folder and returns its output lines."""
    result = subprocess.run(
        ["ns", script, *map(str, args)],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if result.returncode != 0 or result.stderr.strip():
        sys.exit(f"ns {script} {args} failed:\n{result.stderr}{result.stdout[-2000:]}")
    return [line.split() for line in result.stdout.splitlines()]


def peer_name():
    if shutil.which("ns") is None:
        sys.exit("ns-2 is not installed: there is no command `ns` (Debian package ns2).")
    version = "unknown"
    if shutil.which("dpkg-query"):
        query = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", "ns2"], capture_output=True, text=True
        )
        version = query.stdout.strip() or version
    return f"ns-2.35 (Debian ns2 {version})"


def script_hashes(*names):
    return {n: hashlib.sha256((HERE / n).read_bytes()).hexdigest() for n in names}


def droplist_case(variant, sink, name, drops, index, marks=()):
    seed = 1 + 337 * index
    spec = [f"{seq}:{k}" for seq, k in drops] + [f"{seq}:{k}*" for seq, k in marks]
    case = {
        "name": name,
        "variant": variant,
        "sink": sink,
        "transfer_packets": TRANSFER,
        "window": WINDOW,
        "phase": None,
        "drop_spec": [list(d) for d in drops],
        "drops": [],
        "done": None,
        "sends": [],
    }
    lines = run_ns("droplist.tcl", [variant, SINKS[sink], TRANSFER, WINDOW, seed, *spec])
    for words in lines:
        if words[0] == "send":
            cwnd = round(float(words[3]), 4)
            case["sends"].append(
                [round(float(words[1]), 6), int(words[2]), int(cwnd) if cwnd == int(cwnd) else cwnd]
            )
        elif words[0] == "drop":
            case["drops"].append(int(words[1]))
        elif words[0] == "phase":
            case["phase"] = float(words[1])
        elif words[0] == "done" and case["done"] is None:
            case["done"] = round(float(words[1]), 6)
    if case["done"] is None:
        sys.exit(f"{variant}/{sink}/{name}: the transfer did not finish")
    if marks:
        case["mark_spec"] = [list(mark) for mark in marks]
    # A variant that never sends a packet as often as the list asks for loses
    # fewer packets than the list names; that is part of the result.
    return case


def make_droplist(peer):
    cases = []
    for variant in VARIANTS + ["reno-nobugfix"]:
        for sink in SINKS:
            for index, (name, drops) in enumerate(DROP_LISTS.items()):
                cases.append(droplist_case(variant, sink, name, drops, index))
    return {
        "peer": peer,
        "scripts_sha256": script_hashes("droplist.tcl", "profile.tcl"),
        "about": "One TCP, given losses; see README.md. sends: [seconds, packet, cwnd].",
        "cases": cases,
    }


def make_marklist(peer):
    cases = []
    for variant in VARIANTS:
        for sink in SINKS:
            for index, (name, (drops, marks)) in enumerate(MARK_LISTS.items()):
                cases.append(droplist_case(variant, sink, name, drops, index, marks))
    return {
        "peer": peer,
        "scripts_sha256": script_hashes("droplist.tcl", "profile.tcl"),
        "about": "One TCP that understands ECN, given losses and marks; see README.md. sends: [seconds, packet, cwnd].",
        "cases": cases,
    }


def throughput_case(discipline, variant, window, cbr):
    flows = []
    for words in run_ns("throughput.tcl", [discipline, variant, window, cbr]):
        _, number, kind, phase, received, goodput, sent, drops, drops_all = words
        flows.append(
            {
                "flow": int(number),
                "kind": kind,
                "phase": None if phase == "-" else float(phase),
                "received": int(received),
                "goodput": int(goodput),
                "kbps": round(int(received) * 8 / 90, 3),
                "sent": int(sent),
                "drops": int(drops),
                "drops_all": int(drops_all),
            }
        )
    return {
        "discipline": discipline,
        "variant": variant,
        "window": window,
        "cbr_mbps": 1.0 if cbr else 0.0,
        "measured_s": [10, 100],
        "flows": flows,
    }


def make_throughput(peer):
    cases = []
    for discipline in ["DropTail", "DRR", "FQ"]:
        for window in [20, 100]:
            for variant in VARIANTS:
                cases.append(throughput_case(discipline, variant, window, 0))
            cases.append(throughput_case(discipline, "reno", window, 1))
    return {
        "peer": peer,
        "scripts_sha256": script_hashes("throughput.tcl", "profile.tcl"),
        "about": "Four TCPs, and four Reno plus one CBR, on one bottleneck; see README.md.",
        "cases": cases,
    }


def dump(data):
    """Compact JSON with one case per line, so that a diff can be read."""
    head = {k: v for k, v in data.items() if k != "cases"}
    lines = [json.dumps(c, separators=(",", ":")) for c in data["cases"]]
    text = json.dumps(head, indent=1)
    return text.rstrip("}").rstrip() + ',\n "cases": [\n' + ",\n".join(lines) + "\n]}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    peer = peer_name()
    same = True
    files = {
        "droplist.json": make_droplist,
        "marklist.json": make_marklist,
        "throughput.json": make_throughput,
    }
    for name, make in files.items():
        text = dump(make(peer))
        path = FROZEN / name
        if options.check:
            equal = path.exists() and path.read_text() == text
            same = same and equal
            print(f"{name}: {'the same' if equal else 'DIFFERENT'}")
        else:
            FROZEN.mkdir(exist_ok=True)
            path.write_text(text)
            print(f"{name}: {len(text)} bytes")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
