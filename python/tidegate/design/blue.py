"""BLUE: how long a change of the probability takes to be felt, how large it is, how much must wait.

Source: W. Feng, thesis, sections 4.3.1 (freeze time and delta), 4.3.2 (the values of the experiments) and
4.3.3 (sources at a window of one packet); Mathis et al., CCR 27(3), 1997, for the constant C. That delta
should let p_m cross its range in 5 to 15 s is of the later publications of BLUE (from memory, not
checked); that p_m should rise faster than it falls, also of Feng's code for ns.
"""

import math
from typing import Annotated

import typer

from tidegate import quantities
from tidegate.design.result import Design, Step, Steps, quantity
from tidegate.errors import UsageError

C = math.sqrt(3 / 2)  # Mathis et al. 1997: losses at random, an acknowledgment for each packet
ADAPTATION = "10s"  # in the middle of 5 to 15 s
UP_OVER_DOWN = 10  # Feng's code for ns: 0.0025 and 0.00025
FREEZE_MIN = 0.001  # s: below it changes follow single packets
LIMIT_MIN = 10  # packets: room for a burst
WINDOWS_MARKED = 2  # packets: with every packet marked a window of one still grows to two between marks


def blue(
    rate: str | float,
    rtt: str | float,
    flows: int,
    *,
    adaptation: str | float = ADAPTATION,
    packet: str | int = 1000,
    ecn: bool = True,
) -> Design:
    """Parameters of BLUE for `flows` bulk TCP flows.

    Args:
        rate: of the link; bit/s or a text like `10Mbit`.
        rtt: round-trip time without queueing; seconds or a text like `60ms`.
        flows: how many TCP flows have something to send.
        adaptation: how long the probability may take from 0 to 1; seconds or a text like `10s`.
        packet: a typical packet; bytes or a text like `1000B`.
        ecn: whether packets can be marked instead of dropped.
    """
    bits, seconds = quantity(rate, "bit/s", "rate"), quantity(rtt, "s", "rtt")
    size, crossing = quantity(packet, "bytes", "packet"), quantity(adaptation, "s", "adaptation")
    if flows < 1:
        raise UsageError(f"flows: {flows} flows need no design; give 1 or more")
    warnings: list[str] = []
    steps = Steps()
    step = steps.add

    mu = step("The link sends", "mu", "L / (8 s)", bits / (8 * size), "packets/s", "definition")
    bdp = step("One round-trip time holds", "L RTT", "mu RTT", mu * seconds, "packets", "definition")
    limit = step(
        "One round trip of queue keeps the link busy after common reductions; sources marked with every "
        "packet keep a window of one to two packets, for which there must be room",
        "limit",
        f"max(L RTT, {WINDOWS_MARKED} N - L RTT, {LIMIT_MIN})",
        max(math.ceil(bdp), math.ceil(WINDOWS_MARKED * flows - bdp), LIMIT_MIN),
        "packets",
        "Feng, section 4.3.2: no loss even below one bandwidth-delay product; 4.3.3 for the windows",
    )
    freeze = step(
        "A change takes a round-trip time to take effect: hold the probability so long",
        "freeze_time",
        f"RTT, at least {quantities.duration(FREEZE_MIN)}",
        max(seconds, FREEZE_MIN),
        "s",
        "Feng, section 4.3.1: allows the changes to take effect; 10 ms in its experiments",
    )
    up = step(
        f"Under sustained loss the probability goes from 0 to 1 in {quantities.duration(crossing)}",
        "delta_up",
        "freeze_time / adaptation, at most 1",
        min(freeze / crossing, 1.0),
        "",
        "later publications of BLUE: 5 to 15 s; 1 s in the thesis (0.01 per 10 ms)",
    )
    down = step(
        "Losses are dear and idleness tells little: fall more slowly than rise",
        "delta_down",
        f"delta_up / {UP_OVER_DOWN}",
        up / UP_OVER_DOWN,
        "",
        "Feng's code for ns (0.0025 and 0.00025); equal in the thesis",
    )
    window = step(
        "With half of the queue full each flow has a window of",
        "W",
        "(L RTT + limit / 2) / N",
        (bdp + limit / 2) / flows,
        "packets",
        "derived",
    )
    p = step(
        "To hold the flows there the probability settles near (C^2 = 3/2)",
        "p_m",
        "(C / W)^2, at most 1",
        min((C / window) ** 2, 1.0),
        "",
        "Feng, eq. 3.1; C of Mathis et al. 1997",
    )
    step(
        "From nothing it gets there, while the queue overflows, after",
        "t",
        "freeze_time p_m / delta_up",
        freeze * p / up,
        "s",
        "derived",
    )
    if p >= 1:
        warnings.append(
            "every packet will be marked and that may not suffice: sources without time-outs for marks at a "
            "window of one packet still overflow the queue (Feng, section 4.3.3); use a faster link, or "
            "transports with smaller windows"
        )
    if not ecn:
        warnings.append(f"without ECN each notification is a loss: expect about {p:.2g} of the packets")
    if up > 0.1:
        warnings.append(
            f"steps of {up:.2g} are coarse for this round-trip time: the probability swings; adapt slowly"
        )
    parameters = {
        "limit": f"{round(limit)}p",
        "delta_up": float(f"{up:.3g}"),
        "delta_down": float(f"{down:.3g}"),
        "freeze_time": f"{float(f'{freeze * 1e3:.4g}'):.12g}ms",
        "freeze_spread": 0.5,
        "ecn": ecn,
    }
    steps.append(
        Step(
            "Queues that freeze for the same time fall into step: spread the freeze time at random",
            "freeze_spread",
            "half to both sides",
            0.5,
            "0.5",
            "Feng, section 4.3.1: should be randomized; the amount is assumed",
        )
    )
    inputs = {
        "rate_bps": bits,
        "rtt_s": seconds,
        "flows": flows,
        "adaptation_s": crossing,
        "packet_bytes": size,
        "ecn": ecn,
    }
    return Design("blue", inputs, parameters, steps, warnings)


def command(
    rate: Annotated[str, typer.Option(help="Rate of the link, e.g. 10Mbit.")],
    rtt: Annotated[str, typer.Option(help="Round-trip time without queueing, e.g. 60ms.")],
    flows: Annotated[int, typer.Option(help="Number of TCP flows that have something to send.")],
    adaptation: Annotated[str, typer.Option(help="Time for the probability to go from 0 to 1.")] = ADAPTATION,
    packet: Annotated[str, typer.Option(help="A typical packet.")] = "1000B",
    ecn: Annotated[bool, typer.Option(help="Mark packets instead of dropping them.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")] = False,
) -> int:
    """Parameters of BLUE, with the reasoning."""
    found = blue(rate, rtt, flows, adaptation=adaptation, packet=packet, ecn=ecn)
    print(found.json() if as_json else found.text())
    return 0
