"""A fluid model of NBQ on the network of Fig. 14, UDP alone: the discard ratio of Node3 over time, interval by interval.

Written from the document (equations 1 to 3, Figs. 12 and 13) and from the settled decay rule: the ratio falls only when
Node4 is silent. Rates are real numbers; L3 and L4 are shared in proportion to what is offered. A queue of 32 packets in
front of L4 fills before anything is lost. A report is used two intervals after what it tells of: Node4 estimates at the
end of an interval, its manager tells it in its next round, and Node3 uses it at its next estimate. Run it to write fluid.csv; with --check it compares.
"""

import sys
from pathlib import Path

OUT = Path(__file__).with_suffix(".csv")
MAX_DISCARD, DECR_DISCARD, BETA, INTERVAL = 0.9, 0.6, 0.8, 0.1
SOURCES, SHARED, QUEUE_MBIT = (10.0, 10.0), 10.0, 32 * 8e-3


def discard_ratios(narrow, until):
    """(time, ratio) at the end of each interval. Both flows have equal rates, so one ratio stands for both."""
    ratio, queue, congested, reports, out = 0.0, 0.0, False, [None, None], []
    for step in range(1, round(until / INTERVAL) + 1):
        offered = min(SHARED, sum(SOURCES) * (1 - ratio))
        queue += (offered - narrow) * INTERVAL
        lost = max(0.0, queue - QUEUE_MBIT)
        queue = min(max(queue, 0.0), QUEUE_MBIT)
        heard = reports.pop(0)
        if heard is None:
            ratio *= DECR_DISCARD
        else:
            required = 1 - (1 - heard) * (1 - ratio)
            ratio = min(MAX_DISCARD, BETA * ratio + (1 - BETA) * required)
        carried = min(narrow, offered)
        congested = lost > 0 or (congested and carried >= 0.9 * narrow)
        reports.append((1 - carried / offered if lost > 0 else 0.0) if congested else None)
        out.append((step * INTERVAL, ratio))
    return out


def text():
    lines = ["# L4 in Mb/s, seconds, discard ratio at Node3; written by fluid.py"]
    for narrow in (1.0, 2.0, 4.0, 6.0):
        for at, ratio in discard_ratios(narrow, 8.0):
            if round(at * 10) in (3, 5, 10, 15, 20, 30, 50, 70):
                lines.append(f"{narrow:g},{at:.1f},{ratio:.4f}")
    return "\n".join(lines) + "\n"


def main():
    if "--check" in sys.argv:
        if OUT.read_text() != text():
            sys.exit("fluid.csv differs from what fluid.py gives")
    else:
        OUT.write_text(text())


if __name__ == "__main__":
    main()
