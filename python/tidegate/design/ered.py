"""Enhanced RED: thresholds for unmarked packets that leave room for what marked packets may need.

Source: W. Feng, thesis, sections 5.2.2 and 5.3 (the condition of admission; 20, 80 and 100 KB).
"""

from typing import Annotated

import typer

from tidegate.design.result import Design, Steps, limit_bytes, quantity
from tidegate.errors import UsageError

MAX_SHARE = 0.8  # of the buffer: the thesis's 80 of 100 KB
MIN_SHARE = 0.25  # of max: its 20 of 80 KB
MAX_P = 0.02  # section 5.3.1
FEW_PACKETS = 8  # below it best effort has hardly a queue


def ered(rate: str | float, peak: str | float, *, limit: str | int = 100, packet: str | int = 1000) -> Design:
    """Parameters of enhanced RED with which marked packets are not lost.

    Args:
        rate: of the link; bit/s or a text like `10Mbit`.
        peak: the sum of the peak rates of all that is marked; bit/s or a text.
        limit: what may wait; packets or a text like `100p`, `100kB` or `20ms`.
        packet: a typical packet; bytes or a text like `1000B`.
    """
    bits, peaks = quantity(rate, "bit/s", "rate"), quantity(peak, "bit/s", "peak")
    size = quantity(packet, "bytes", "packet")
    most = int(limit_bytes(limit, size, "limit", bits) / size)
    if most < 4:
        raise UsageError(f"limit: {limit} leaves no room for two thresholds; 4 packets or more")
    room = most * min(bits / peaks, 1.0) if peaks > 0 else float(most)
    hi = max(int(min(room, MAX_SHARE * most)), 2)
    lo = max(round(MIN_SHARE * hi), 1)
    spare, needed = most - hi, (peaks - bits) * hi / bits

    condition = "thesis of Feng, sections 5.2.2 and 5.3.2"
    steps = Steps()
    steps.add("The buffer", "B", "as given", most, "packets", "as given")
    steps.add(
        "While unmarked packets drain, marked ones at peak rates P add (P - L) max / L: at most B - max",
        "max",
        f"min(B L / P, {MAX_SHARE:g} B)",
        hi,
        "packets",
        condition,
    )
    steps.add(
        "What marked packets may then need",
        "(P - L) max / L",
        "by the condition",
        max(needed, 0.0),
        "packets",
        condition,
    )
    steps.add("and what there is for them", "B - max", "by the condition", spare, "packets", condition)
    steps.add(
        "Early drops begin at",
        "min",
        f"{MIN_SHARE:g} max",
        lo,
        "packets",
        "thesis of Feng, section 5.3.1: 20 and 80 KB",
    )
    warnings = []
    if needed > spare:
        warnings.append(
            "marked packets can be lost when all come at once: the buffer is too small for their peak rates"
        )
    if hi < FEW_PACKETS:
        warnings.append(
            f"a max of {hi} packets leaves best effort hardly a queue: more buffer, or fewer promises"
        )
    parameters = {
        "limit": f"{most}p",
        "min": f"{lo}p",
        "max": f"{hi}p",
        "max_p": MAX_P,
        "mean_packet": f"{round(size)}B",
    }
    inputs = {"rate_bps": bits, "peak_bps": peaks, "limit": most, "packet_bytes": size}
    return Design("ered", inputs, parameters, steps, warnings)


def command(
    rate: Annotated[str, typer.Option(help="Rate of the link, e.g. 10Mbit.")],
    peak: Annotated[str, typer.Option(help="Sum of the peak rates of all that is marked, e.g. 12Mbit.")],
    limit: Annotated[str, typer.Option(help="What may wait: 100p, 100kB, 20ms.")] = "100p",
    packet: Annotated[str, typer.Option(help="A typical packet.")] = "1000B",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")] = False,
) -> int:
    """Thresholds of enhanced RED that leave room for promises, with the reasoning."""
    found = ered(rate, peak, limit=limit, packet=packet)
    print(found.json() if as_json else found.text())
    return 0
