"""RED and Adaptive RED: where the thresholds are, how strongly they notify, how long they remember.

Source: W. Feng, thesis, chapters 3 and 4 (equations 3.1 and 3.2; sections 3.2.2, 3.2.5 and 4.2); Floyd &
Jacobson 1993, sections VI and VII; Mathis et al., "The macroscopic behavior of the TCP congestion avoidance
algorithm", CCR 27(3), 1997, for the constant C; Floyd, Gummadi & Shenker, "Adaptive RED", 2001, for the time
constant of the average.
"""

import math
from typing import Annotated

import typer

from tidegate.design.result import Design, Steps, limit_bytes, quantity
from tidegate.errors import UsageError

MIN_PACKETS = 5  # Floyd & Jacobson 1993, section VII
C = math.sqrt(3 / 2)  # Mathis et al. 1997: losses at random, an acknowledgment for each packet
REMEMBERED_RTTS = 10  # Floyd, Gummadi & Shenker 2001
# Mean gap of RED's law over 1/p_b: the paper spreads gaps over [1, 1/p_b], ns over [1/p_b, 2/p_b].
MEAN_GAP = {"paper": 0.5, "ns": 1.5}
SMALL_WINDOW = 4  # below it three duplicate acknowledgments cannot come: time-outs, which eq. 3.1 leaves out


def red(
    rate: str | float,
    rtt: str | float,
    flows: int,
    *,
    limit: str | int | None = None,
    packet: str | int = 1000,
    ecn: bool = True,
    adaptive: bool = True,
    gap: str = "paper",
) -> Design:
    """Parameters of RED, or of Adaptive RED, for `flows` bulk TCP flows.

    Args:
        rate: of the link; bit/s or a text like `10Mbit`.
        rtt: round-trip time without queueing; seconds or a text like `60ms`.
        flows: how many TCP flows have something to send.
        limit: what may wait, if that is given; packets or a text like `100p`, `100kB` or `20ms`.
        packet: a typical packet; bytes or a text like `1000B`.
        ecn: whether packets can be marked instead of dropped.
        adaptive: whether `max_p` adapts; then it starts at the value found here.
        gap: the law of the gaps between notifications: `paper` or `ns`.
    """
    bits, seconds = quantity(rate, "bit/s", "rate"), quantity(rtt, "s", "rtt")
    size = quantity(packet, "bytes", "packet")
    if flows < 1:
        raise UsageError(f"flows: {flows} flows need no design; give 1 or more")
    if gap not in MEAN_GAP:
        raise UsageError(f"gap: {gap!r} is neither paper nor ns")
    warnings: list[str] = []
    steps = Steps()
    step = steps.add

    mu = step("The link sends", "mu", "L / (8 s)", bits / (8 * size), "packets/s", "definition")
    bdp = step("One round-trip time holds", "L RTT", "mu RTT", mu * seconds, "packets", "definition")

    if limit is None:
        most = max(math.ceil(2 * bdp), 6 * MIN_PACKETS)
        formula = f"max(2 L RTT, {6 * MIN_PACKETS})"
        why = "The buffer takes what comes in before an answer to the first notification is felt"
    else:
        most = int(limit_bytes(limit, size, "limit", bits) / size)
        if most < 3:
            raise UsageError(f"limit: {limit} leaves no room for two thresholds; 3 packets or more")
        formula, why = "as given", "The buffer"
    source = "Feng, section 4.2: twice the bandwidth-delay product" if limit is None else "given"
    step(why, "limit", formula, most, "packets", source)

    hi = max(most // 3, 2)
    step(
        "The queue can more than double after the average has reached max: keep max so far below the limit",
        "max",
        "limit / 3",
        hi,
        "packets",
        "Feng, section 3.2.2 and Fig. 3.5b: 80 KB of 240 KB",
    )
    lo = max(min(max(round(hi / 4), MIN_PACKETS), hi // 2), 1)
    step(
        "Below min nobody is notified: enough for bursts, at most half of max",
        "min",
        f"max / 4, at least {MIN_PACKETS} packets, at most max / 2",
        lo,
        "packets",
        "Feng, section 3.2.5: 10 KB and 40 KB; Floyd & Jacobson, sections VI and VII",
    )
    if lo < MIN_PACKETS:
        warnings.append(
            f"the limit of {most} packets leaves a min of {lo}: bursts are notified, the link will idle"
        )
    if limit is not None and most < bdp:
        warnings.append(
            f"the limit is below one round trip ({bdp:.0f} packets): the link idles after common reductions"
        )

    middle = (lo + hi) / 2
    loaded = step(
        "With the average halfway between the thresholds a round trip takes",
        "RTT'",
        "RTT + (min + max) / (2 mu)",
        seconds + middle / mu,
        "s",
        "derived",
    )
    window = step(
        "Each flow then has a window of",
        "W",
        "mu RTT' / N",
        mu * loaded / flows,
        "packets",
        "Feng, section 3.2.6",
    )
    p = step(
        f"To hold {flows} flows there, this share of the packets must be notified (C^2 = 3/2)",
        "p",
        "(N MSS C / (L RTT'))^2 = (C / W)^2",
        (C / window) ** 2,
        "",
        "Feng, eq. 3.2; C of Mathis et al. 1997",
    )
    share = MEAN_GAP[gap] * p * 2
    max_p = max(min(share, 1.0), 1e-4)
    factor = "" if gap == "paper" else f"{2 * MEAN_GAP[gap]:g} times "
    gap_text = f"a mean gap of {MEAN_GAP[gap]:g}/p_b packets and p_b = max_p / 2 halfway"
    step(
        f"The probability that gives it, with {gap_text}",
        "max_p",
        f"{factor}the p above, at most 1",
        max_p,
        "",
        "Floyd & Jacobson, section IV" if gap == "paper" else "ns-2 red.cc (wait)",
    )
    if share > 1:
        warnings.append(
            f"RED cannot notify often enough (max_p would have to be {share:.2g}): the queue fills to max; "
            "use the non-linear extension, transports with windows below a packet, or a faster link"
        )
    if window < SMALL_WINDOW:
        warnings.append(
            f"windows of {window:.2g} packets end in time-outs, which eq. 3.2 leaves out: p is too large"
        )
    if not ecn:
        warnings.append(
            f"without ECN each notification is a loss: expect about {min(p, 1):.2g} of the packets"
        )
    remembered = REMEMBERED_RTTS * seconds * mu
    weight = step(
        f"The average forgets over {REMEMBERED_RTTS} round-trip times, so that it shows load, not sawteeth",
        "weight",
        f"1 - exp(-1 / ({REMEMBERED_RTTS} RTT mu))",
        -math.expm1(-1 / remembered),
        "",
        "Floyd, Gummadi & Shenker 2001; Feng and Floyd & Jacobson use 0.002",
    )
    step(
        "A burst into an empty queue that the average lets pass below min",
        "burst",
        "largest b with b + 1 + ((1 - w)^(b + 1) - 1) / w < min, at most the limit",
        min(_burst(weight, lo), most),
        "packets",
        "Floyd & Jacobson, section VI, eq. 3",
    )

    parameters = {
        "limit": f"{most}p",
        "min": f"{lo}p",
        "max": f"{hi}p",
        "max_p": float(f"{max_p:.3g}"),
        "weight": float(f"{weight:.3g}"),
        "mean_packet": f"{round(size)}B",
        "gap": gap,
        "ecn": ecn,
    }
    inputs = {
        "rate_bps": bits,
        "rtt_s": seconds,
        "flows": flows,
        "limit": None if limit is None else most,
        "packet_bytes": size,
        "ecn": ecn,
        "adaptive": adaptive,
        "gap": gap,
    }
    return Design("adaptive-red" if adaptive else "red", inputs, parameters, steps, warnings)


def command(
    rate: Annotated[str, typer.Option(help="Rate of the link, e.g. 10Mbit.")],
    rtt: Annotated[str, typer.Option(help="Round-trip time without queueing, e.g. 60ms.")],
    flows: Annotated[int, typer.Option(help="Number of TCP flows that have something to send.")],
    limit: Annotated[
        str | None, typer.Option(help="What may wait: 100p, 100kB, 20ms. Default: found.")
    ] = None,
    packet: Annotated[str, typer.Option(help="A typical packet.")] = "1000B",
    ecn: Annotated[bool, typer.Option(help="Mark packets instead of dropping them.")] = True,
    adaptive: Annotated[bool, typer.Option(help="Adaptive RED, or RED with a fixed max_p.")] = True,
    gap: Annotated[str, typer.Option(help="Law of the gaps of notifications: paper, ns.")] = "paper",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")] = False,
) -> int:
    """Parameters of RED or Adaptive RED, with the reasoning."""
    found = red(rate, rtt, flows, limit=limit, packet=packet, ecn=ecn, adaptive=adaptive, gap=gap)
    print(found.json() if as_json else found.text())
    return 0


def _burst(weight: float, threshold: float) -> int:
    """The largest burst into an empty queue that the average lets pass (Floyd & Jacobson, eq. 3)."""

    def average(burst: int) -> float:
        return burst + 1 + ((1 - weight) ** (burst + 1) - 1) / weight

    low, high = 0, 1
    while average(high) < threshold:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if average(middle) < threshold else (low, middle)
    return low
