"""`tidegate demo`: what Tidegate does with real packets on this machine, before and after."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="demo",
    help="Show what Tidegate does with real packets on this machine.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

# Names a program that is taken instead of the one that is installed.
VARIABLE = "TIDEGATE_GATEWAY"
PROBE_EVERY_S = 0.02
# Flows are under way, and their beginning is over.
SETTLE_S = 3.0
# Of the processors' time, by others as well: beyond it programs wait for them.
BUSY = 0.9


@app.callback()
def _demo() -> None:
    """More than one command, also while there is one."""


@app.command(short_help="Two sites and a slow FIFO: with and without the gateway (root).")
def gateway(
    rate: Annotated[float, typer.Option(min=1, max=1000, help="Of the slow link, in Mbit/s.")] = 20.0,
    queue: Annotated[float, typer.Option(min=10, max=2000, help="Its longest queue, in ms.")] = 100.0,
    seconds: Annotated[int, typer.Option(min=2, max=600, help="Measured, each way.")] = 10,
    flows: Annotated[int, typer.Option(min=1, max=64, help="TCP connections that load it.")] = 4,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="For picture and numbers.")] = Path(
        "demo-gateway"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> int:
    """Load a slow link with a long queue between two sites, and probe it, without and with the gateway.

    It makes three network namespaces and removes them again; nothing else of this machine changes.
    """
    from tidegate import store

    for name in ("gateway.json", "gateway.svg"):
        store.require_file(out / name, "--out")
    result, answers = compare(program(), rate, queue, seconds, flows)
    out.mkdir(parents=True, exist_ok=True)
    (out / "gateway.json").write_text(json.dumps(result, indent=2) + "\n")
    picture(result, answers, out / "gateway.svg")
    if as_json:
        print(json.dumps(result, indent=2))
        return 0
    for name in ("without", "with"):
        one = result[name]
        print(
            f"{name:8} gateway: {one['goodput_bps'] / 1e6:6.2f} Mbit/s, round trips {one['p50_ms']:.1f} ms "
            f"(half of them), {one['p95_ms']:.1f} ms (95 %), {one['max_ms']:.1f} ms (longest)"
        )
        if one["busy"] > BUSY:
            print(
                f"The machine's processors were busy for {one['busy']:.0%} of that time: what these numbers "
                "show is in part how long programs waited for them. Try again when it has less to do.",
                file=sys.stderr,
            )
    print(f"In {out}: gateway.svg, gateway.json", file=sys.stderr)
    return 0


def program() -> Path:
    """The daemon; `UsageError` where there is none."""
    from tidegate.errors import UsageError

    named = os.environ.get(VARIABLE)
    found = named or shutil.which("tidegate-gateway")
    if named and not (Path(named).is_file() and os.access(named, os.X_OK)):
        raise UsageError(
            f"{VARIABLE} names {named}, which is no program: let it name the daemon, as cargo build "
            "--release -p tidegate-gateway --features daemon makes it: target/release/tidegate-gateway"
        )
    if found is None:
        raise UsageError(
            "tidegate-gateway is not installed. From a checkout: cargo build --release -p tidegate-gateway "
            f"--features daemon, then {VARIABLE}=target/release/tidegate-gateway"
        )
    return Path(found).resolve()


Answers = list[tuple[float, float | None]]


def compare(
    daemon: Path, rate_mbit: float, queue_ms: float, seconds: int, flows: int
) -> tuple[dict[str, Any], dict[str, Answers]]:
    """Numbers without and with the gateway, and what each probe took."""
    from tidegate import two_sites
    from tidegate.errors import UsageError

    why = two_sites.obstacle() or (None if shutil.which("iperf3") else "iperf3 is not installed")
    if why:
        raise UsageError(why)
    queue_bytes = int(rate_mbit * 1e6 / 8 * queue_ms / 1e3)
    result: dict[str, Any] = {
        "rate_bps": rate_mbit * 1e6,
        "queue_ms": queue_ms,
        "seconds": seconds,
        "flows": flows,
    }
    answers: dict[str, Answers] = {}
    with two_sites.TwoSites(daemon, f"{rate_mbit:g}mbit", queue_bytes) as sites:
        sites.configure(f'{{ floor = "1Mbit", max = "1Gbit", fallback = "{rate_mbit / 4:g}Mbit" }}')
        for site in ("a", "b"):
            sites.start(site)
        sites.wait_for("controlled")
        sites.echo()
        for name, address in (("without", two_sites.OUTER["b"]), ("with", two_sites.INNER["b"])):
            load = sites.load(address, SETTLE_S + seconds, flows)
            time.sleep(SETTLE_S)
            before = processors()
            probe = sites.probe(address, int(seconds / PROBE_EVERY_S), PROBE_EVERY_S)
            answers[name] = two_sites.told(probe)
            worked, in_all = (after - at for after, at in zip(processors(), before, strict=True))
            result[name] = numbers(answers[name], load.finish(), two_sites.quantile)
            result[name]["busy"] = worked / max(in_all, 1)
    return result, answers


def processors() -> tuple[int, int]:
    """How long the processors have worked, and how long they have been there, in ticks of the kernel."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def numbers(
    answers: Answers, iperf3: dict[str, Any], quantile: Callable[[list[float], float], float]
) -> dict[str, float]:
    """What is said of one way."""
    took = [took * 1e3 for _, took in answers if took is not None]
    # The beginning of connections is no part of it.
    intervals = [one["sum"] for one in iperf3["intervals"] if one["sum"]["start"] >= SETTLE_S - 0.5]
    sent = sum(one["bytes"] for one in intervals) * 8 / sum(one["seconds"] for one in intervals)
    return {
        "goodput_bps": iperf3["end"]["sum_received"]["bits_per_second"],
        "sent_bps": sent,
        "retransmitted": iperf3["end"]["sum_sent"].get("retransmits", 0),
        "p50_ms": quantile(took, 0.5),
        "p95_ms": quantile(took, 0.95),
        "max_ms": max(took),
        "probes": len(answers),
        "lost_probes": len(answers) - len(took),
    }


def picture(result: dict[str, Any], answers: dict[str, Answers], path: Path) -> None:
    """Draws what probes took."""
    from tidegate import draw_static
    from tidegate.figure import PALETTE, Figure, Trace

    traces = []
    for name, colour in (("without", PALETTE[1]), ("with", PALETTE[0])):
        begin = answers[name][0][0]
        traces.append(
            Trace(
                label=f"{name} the gateway: {result[name]['goodput_bps'] / 1e6:.1f} Mbit/s",
                x=[sent - begin for sent, _ in answers[name]],
                y=[None if took is None else took * 1e3 for _, took in answers[name]],
                colour=colour,
            )
        )
    title = f"Round trips beside {result['flows']} TCP flows, {result['rate_bps'] / 1e6:g} Mbit/s"
    figure = Figure(
        id="gateway", title=title, kind="series", x_label="time (s)", y_label="round trip (ms)", traces=traces
    )
    draw_static.draw(figure, path)
