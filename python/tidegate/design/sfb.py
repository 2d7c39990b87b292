"""SFB: how many levels of how many bins, so that few well-behaved flows are taken for non-responsive ones.

Source: W. Feng, thesis, section 4.4.3: equation 4.1, minimised with `L N` fixed by the memory, and
Fig. 4.18; section 4.4.2 for the size of a bin.
"""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.design.result import Design, Steps, limit_bytes, quantity
from tidegate.errors import UsageError

LEVELS_MAX = 8  # of `kind = "sfb"`
BIN_BYTES = 32  # of the Rust implementation: probability, average, freeze time, occupancy, status
# With room for fewer packets of each flow, bins of flows that respond stay full (feng/crowded).
WINDOW_PACKETS = 1.5
OVERBOOKING = 1.5  # section 4.4.2: bins of half more than their part of the buffer


def misclassification(levels: int, bins: int, nonresponsive: float) -> float:
    """`p = [1 - (1 - 1/N)^M]^L` (equation 4.1)."""
    return (1 - (1 - 1 / bins) ** nonresponsive) ** levels


def sfb(
    flows: int,
    nonresponsive: int,
    memory: str | int,
    *,
    limit: str | int = "200kB",
    packet: str | int = 1000,
    double_buffered: bool = False,
    bin_bytes: int = BIN_BYTES,
) -> Design:
    """Levels and bins of SFB that misclassify the fewest flows.

    Args:
        flows: how many flows respond to congestion.
        nonresponsive: how many do not.
        memory: for all bins; bytes or a text like `3kB`.
        limit: what may wait; bytes or a text like `200kB` or `200p`.
        packet: a typical packet; bytes or a text like `1000B`.
        double_buffered: whether a second set of bins is warmed up, which takes half of the memory.
        bin_bytes: what one bin takes.
    """
    size, store = quantity(packet, "bytes", "packet"), quantity(memory, "bytes", "memory")
    is_text = isinstance(limit, str)
    buffer = limit_bytes(limit, size, "limit") if is_text else quantity(limit, "bytes", "limit")
    if flows < 1:
        raise UsageError(f"flows: {flows} flows need no design; give 1 or more")
    if nonresponsive < 1:
        raise UsageError(f"nonresponsive: {nonresponsive} flows pollute nothing; give 1 or more")
    if bin_bytes < 1:
        raise UsageError(f"bin_bytes: {bin_bytes} bytes hold nothing")
    sets = 2 if double_buffered else 1
    total = int(store // (bin_bytes * sets))
    if total < 1:
        raise UsageError(f"memory: {memory} does not hold one bin of {bin_bytes} B in each of {sets} set(s)")
    warnings: list[str] = []
    steps = Steps()
    step = steps.add

    step(
        f"The memory holds, at {bin_bytes} B each{' in two sets' if double_buffered else ''}",
        "C",
        f"memory / ({bin_bytes} B{' x 2' if double_buffered else ''})",
        total,
        "bins",
        "section 4.4.3: L N = C",
    )
    choices = [
        (misclassification(levels, total // levels, nonresponsive), levels)
        for levels in range(1, LEVELS_MAX + 1)
        if total // levels >= 1
    ]
    best, levels = min(choices)
    bins = total // levels
    for p, at in choices:
        chosen = ", the least" if at == levels else ""
        step(
            f"{at} level{'s' if at > 1 else ''} of {total // at} bins would take for non-responsive{chosen}",
            f"p({at})",
            f"[1 - (1 - 1/{total // at})^{nonresponsive}]^{at}",
            p,
            "of the flows",
            "Feng, eq. 4.1",
        )
    step("So the levels are", "levels", "argmin p(L)", levels, "", "Feng, section 4.4.3")
    step("and in each of them", "bins", "C / L", bins, "bins", "Feng, section 4.4.3")
    step("Flows that suffer though they respond", "flows p", f"{flows} p", flows * best, "flows", "eq. 4.1")
    polluted = bins * (1 - (1 - 1 / bins) ** nonresponsive)
    step("Polluted bins of each level", "k", "N [1 - (1 - 1/N)^M]", polluted, "bins", "derived from eq. 4.1")
    share = OVERBOOKING * buffer / size / bins
    bin_size = max(round(share), 1)
    step(
        "A bin may hold half more than its part of the buffer",
        "bin_size",
        f"{OVERBOOKING:g} limit / (N packet)",
        bin_size,
        "packets",
        "Feng, section 4.4.2: 13 of 200 packets over 23 bins",
    )
    if bin_size < 4:
        warnings.append(
            f"bins of {bin_size} packets refuse single bursts: fewer bins per level or a larger limit"
        )
    if share < WINDOW_PACKETS * flows / bins:
        room = round(WINDOW_PACKETS / OVERBOOKING * flows)
        about = f"{flows / bins:.3g} flows share a bin with room for {bin_size} packets"
        warnings.append(f"{about}: crowded bins shut some out; a limit of {room} packets has room")
    if flows * best >= 1:
        about = f"{flows * best:.3g} of {flows} flows are misclassified until the hash functions change"
        warnings.append(f"{about}: set rehash, like 2s")
    if nonresponsive > bins / 2:
        warnings.append(
            f"{nonresponsive} flows pollute {polluted / bins:.0%} of each level: more memory is what helps"
        )
    if levels == 1:
        warnings.append("one level identifies no better than a fair queue of as many queues")
    parameters: dict[str, Any] = {
        "limit": f"{round(buffer)}B",
        "levels": levels,
        "bins": bins,
        "bin_size": f"{bin_size}p",
    }
    if flows * best >= 1 or double_buffered:
        parameters |= {"rehash": "2s", "double_buffered": double_buffered}
    inputs: dict[str, float | int | bool | str | None] = {
        "flows": flows,
        "nonresponsive": nonresponsive,
        "memory_bytes": store,
        "limit_bytes": buffer,
        "packet_bytes": size,
        "double_buffered": double_buffered,
        "bin_bytes": bin_bytes,
    }
    return Design("sfb", inputs, parameters, steps, warnings)


def figure(design: Design, path: Path) -> None:
    """Fig. 4.18 for the memory of `design`: misclassification over the levels and over M, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import MaxNLocator

    sets = 2 if design.inputs["double_buffered"] else 1
    total = int(float(design.inputs["memory_bytes"] or 0) // (int(design.inputs["bin_bytes"] or 1) * sets))
    asked = int(design.inputs["nonresponsive"] or 1)
    levels = [level for level in range(1, LEVELS_MAX + 1) if total // level >= 1]
    over_levels, over_m = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")[1]
    for m in sorted({1, 2, 4, 8, 16, asked, max(total // 4, 1)}):
        style: dict[str, Any] = {"linewidth": 1, "marker": "."}
        if m == asked:
            style = {"linewidth": 2.5, "marker": "o"}
        over_levels.plot(
            levels, [misclassification(at, total // at, m) for at in levels], label=f"M = {m}", **style
        )
    most = max(total, 2 * asked)
    flows = sorted({round(math.exp(k / 60 * math.log(most))) for k in range(61)})
    for at in levels:
        chosen = at == design.parameters["levels"]
        over_m.plot(
            flows,
            [misclassification(at, total // at, m) for m in flows],
            label=f"L = {at}",
            linewidth=2.5 if chosen else 1,
        )
    over_m.axvline(asked, color="grey", linestyle=":")
    over_m.set(xscale="log", xlabel="non-responsive flows M", title=f"{total} bins in all")
    over_levels.set(
        yscale="log",
        ylim=(1e-9, 1.5),
        xlabel="levels L",
        ylabel="probability of misclassification",
        title=f"{total} bins in all",
    )
    over_levels.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in (over_levels, over_m):
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    plt.gcf().savefig(path, dpi=150)
    plt.close()


def command(
    flows: Annotated[int, typer.Option(help="Number of flows that respond to congestion.")],
    nonresponsive: Annotated[int, typer.Option(help="Number of flows that do not.")],
    memory: Annotated[str, typer.Option(help="Memory for the bins, e.g. 3kB.")],
    limit: Annotated[str, typer.Option(help="What may wait: 200kB, 200p.")] = "200kB",
    packet: Annotated[str, typer.Option(help="A typical packet.")] = "1000B",
    double_buffered: Annotated[bool, typer.Option(help="A second set of bins is warmed up.")] = False,
    bin_bytes: Annotated[int, typer.Option(help="What one bin takes.")] = BIN_BYTES,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw Fig. 4.18 for it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")] = False,
) -> int:
    """Levels and bins of Stochastic Fair BLUE, with the reasoning."""
    found = sfb(
        flows,
        nonresponsive,
        memory,
        limit=limit,
        packet=packet,
        double_buffered=double_buffered,
        bin_bytes=bin_bytes,
    )
    if plot is not None:
        figure(found, plot)
    print(found.json() if as_json else found.text())
    return 0
