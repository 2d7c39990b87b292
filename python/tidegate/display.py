"""Text for the terminal: tables, the summary of a run, expected against measured.

Plain text on stdout; colours only where stdout is a terminal. Takes the dicts that summaries and checks are.
"""

import itertools
import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate import quantities, tables
from tidegate.experiment import place_of

_COLOURS = {
    "pass": "32",
    "differs": "33",
    "fail": "31",
    "skipped": "2",
    "unchecked": "2",
    "title": "1",
    "dim": "2",
}


def coloured(text: str, colour: str) -> str:
    """`text` in the colour of a status, where stdout is a terminal that wants it."""
    if colour in _COLOURS and sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        return f"\033[{_COLOURS[colour]}m{text}\033[0m"
    return text


_CHECK_MAX = 58  # letters of a check's name on a terminal; what is piped stays whole
_WHERE_MAX = 28  # and of the point that decided it
_COLUMN_MIN = 12  # letters: what is left of a column that is made narrow
_PIPED_MAX = 140  # letters of a line that no terminal limits


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], fit: bool = False
) -> str:
    """Aligned columns under a header. `right` says which columns are aligned right.

    With `fit`, texts that are not in the first column go on below where a line of the terminal ends; in a
    pipe after as many letters as are still read, and there no word is cut.
    """
    # A name may hold what ends a line.
    cells = [[" ".join(text.splitlines()) for text in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    if fit:
        widths = _fitting(widths, right)
        cells = [cells[0], *(line for row in cells[1:] for line in _below(row, widths))]

    def line(row: Sequence[str]) -> str:
        parts = [
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(row, widths, right, strict=True)
        ]
        return "  ".join(parts).rstrip()

    lines = [coloured(line(cells[0]), "title"), coloured("  ".join("-" * width for width in widths), "dim")]
    return "\n".join(lines + [line(row) for row in cells[1:]])


def _fitting(widths: Sequence[int], right: Sequence[bool]) -> list[int]:
    """Widths with which a line fits, as far as it can: the widest of the texts gives way first."""
    limit = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPED_MAX
    found = list(widths)
    texts = [place for place in range(1, len(found)) if not right[place]]
    while sum(found) + 2 * (len(found) - 1) > limit:
        widest = max(texts, key=lambda place: found[place], default=0)
        if not texts or found[widest] <= _COLUMN_MIN:
            break
        found[widest] -= 1
    return found


def _below(row: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """A row as lines whose texts are no wider than their columns."""
    parts = [
        textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
        if len(text) > width
        else [text]
        for text, width in zip(row, widths, strict=True)
    ]
    if sys.stdout.isatty():
        parts = [[_clip(part, width) for part in own] for own, width in zip(parts, widths, strict=True)]
    return [list(line) for line in itertools.zip_longest(*parts, fillvalue="")]


def wrapped(text: str, indent: str = "") -> str:
    """A paragraph in lines of the terminal's width, at most 100 letters."""
    width = min(100, shutil.get_terminal_size().columns)
    return textwrap.fill(text, max(width, 40), initial_indent=indent, subsequent_indent=indent)


def progress_line(text: str) -> None:
    """A line about progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def _get(entry: dict[str, Any], *path: str) -> float | None:
    node: Any = entry
    for part in path:
        node = node.get(part) if isinstance(node, dict) else None
    return node if isinstance(node, int | float) else None


def _text(value: float | None, scale: float = 1.0, digits: int = 4) -> str:
    if value is None:
        return "-"
    value *= scale
    # Next to nothing: its digits say less than that it is that.
    return f"<{_LEAST}" if 0 < value < _LEAST else quantities.number(value, digits)


def _percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f}"


_PROBLEMS_MAX = 5
_LEAST = 0.0001
_ROWS_MAX = 200  # of flows and of links: what somebody still reads
FLOW_COLUMNS = (
    ("throughput Mb/s", lambda flow: _text(_get(flow, "throughput_bps"), 1e-6)),
    ("goodput Mb/s", lambda flow: _text(_get(flow, "goodput_bps"), 1e-6)),
    ("marked Mb/s", lambda flow: _text(_get(flow, "marked_bps") or None, 1e-6)),
    ("sent pkts", lambda flow: _text(_get(flow, "sent_packets"))),
    ("lost %", lambda flow: _percent(_get(flow, "loss_ratio"), 2)),
    ("retx", lambda flow: _text(_get(flow, "retransmissions"))),
    ("timeouts", lambda flow: _text(_get(flow, "timeouts"))),
    ("delay ms mean", lambda flow: _text(_get(flow, "delay_ms", "mean"))),
    ("p99", lambda flow: _text(_get(flow, "delay_ms", "p99"))),
    ("done after s", lambda flow: _text(_get(flow, "completion_s"))),
)
LINK_COLUMNS = (
    ("used %", lambda link: _percent(_get(link, "utilization"))),
    ("fluid Mb/s", lambda link: _text(_get(link, "fluid", "throughput_bps"), 1e-6)),
    ("arrived pkts", lambda link: _text(_get(link, "arrived_packets"))),
    ("dropped", lambda link: _text(_get(link, "dropped_packets"))),
    ("marked", lambda link: _text(_get(link, "marked_packets"))),
    ("queue pkts mean", lambda link: _text(_get(link, "queue_packets", "mean"))),
    ("max", lambda link: _text(_get(link, "queue_packets", "max"))),
    ("delay ms mean", lambda link: _text(_get(link, "delay_ms", "mean"))),
)
FLUID_COLUMNS = (
    ("throughput Mb/s", lambda fluid: _text(_get(fluid, "throughput_bps"), 1e-6)),
    ("sent Mb/s", lambda fluid: _text(_get(fluid, "sent_bps"), 1e-6)),
    ("lost %", lambda fluid: _percent(_get(fluid, "loss_ratio"), 2)),
    ("marked %", lambda fluid: _percent(_get(fluid, "marked_ratio") or None, 2)),
    ("cwnd pkts mean", lambda fluid: _text(_get(fluid, "cwnd_segments"))),
    ("timed out %", lambda fluid: _percent(_get(fluid, "timed_out"), 2)),
    ("rtt ms mean", lambda fluid: _text(_get(fluid, "rtt_ms"))),
)
# What applications of flows have of their own, by the key of a summary.
APPLICATION_COLUMNS: dict[str, tuple[tuple[str, Any], ...]] = {
    "transfers": (
        ("came", lambda own: _text(_get(own, "arrived"))),
        ("done", lambda own: _text(_get(own, "completed"))),
        ("refused", lambda own: _text(_get(own, "refused") or None)),
        ("done after s mean", lambda own: _text(_get(own, "completion_s", "mean"))),
        ("p95", lambda own: _text(_get(own, "completion_s", "p95"))),
        ("slow-down mean", lambda own: _text(_get(own, "slowdown", "mean"))),
    ),
    "pages": (
        ("begun", lambda own: _text(_get(own, "begun"))),
        ("loaded", lambda own: _text(_get(own, "loaded"))),
        ("loaded after s mean", lambda own: _text(_get(own, "load_s", "mean"))),
        ("p95", lambda own: _text(_get(own, "load_s", "p95"))),
        ("objects", lambda own: _text(_get(own, "objects"))),
    ),
    "video": (
        ("segments", lambda own: _text(_get(own, "segments"))),
        ("bitrate Mb/s", lambda own: _text(_get(own, "mean_bitrate_bps"), 1e-6)),
        ("switches", lambda own: _text(_get(own, "switches"))),
        ("began after s", lambda own: _text(_get(own, "startup_s"))),
        ("stalls", lambda own: _text(_get(own, "stalls"))),
        ("stalled s", lambda own: _text(_get(own, "stalled_s"))),
        ("of its time %", lambda own: _percent(_get(own, "stalled_ratio"))),
    ),
}
MARKER_COLUMNS = (
    ("green Mb/s", lambda marker: _text(_get(marker, "green_bps"), 1e-6)),
    ("yellow Mb/s", lambda marker: _text(_get(marker, "yellow_bps") or None, 1e-6)),
    ("red Mb/s", lambda marker: _text(_get(marker, "red_bps"), 1e-6)),
    ("dropped", lambda marker: _text(_get(marker, "dropped_packets"))),
)


def entries_cells(
    name: str, entries: dict[str, Any], columns: Sequence[tuple[str, Any]], rows_max: int
) -> tuple[list[str], list[list[str]]]:
    """Header and a row per entry; a column appears only where some entry has a value for it."""
    entries = dict(itertools.islice(entries.items(), rows_max))
    texts = {title: [make(entry) for entry in entries.values()] for title, make in columns}
    shown = [title for title, values in texts.items() if any(value != "-" for value in values)]
    rows = [[label, *(texts[title][row] for title in shown)] for row, label in enumerate(entries)]
    return [name, *shown], rows


def _entries_table(name: str, entries: dict[str, Any], columns: Sequence[tuple[str, Any]]) -> str:
    header, rows = entries_cells(name, entries, columns, _ROWS_MAX)
    text = table(header, rows, [False, *[True] * (len(header) - 1)])
    hidden = len(entries) - _ROWS_MAX
    return text if hidden <= 0 else f"{text}\n... and {hidden:,} more; --json has all of them"


def both_directions(links: dict[str, Any]) -> dict[str, Any]:
    """Links with their reverse direction as a line of its own, if anything went that way."""
    lines: dict[str, Any] = {}
    for name, link in links.items():
        lines[name] = link
        reverse = link.get("reverse")
        if isinstance(reverse, dict) and (reverse.get("arrived_packets") or reverse.get("fluid")):
            lines[f"{name} (reverse)"] = reverse
    return lines


def applications(summary: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], Sequence[Any]]]:
    """What transfers, pages and films have of their own: name of a table, entries by flow, columns."""
    for key, columns in APPLICATION_COLUMNS.items():
        flows = summary.get("flows") or {}
        own = {name: flow[key] for name, flow in flows.items() if isinstance(flow.get(key), Mapping)}
        if own:
            yield key, own, columns


def run_summary(title: str, summary: dict[str, Any], duration_s: float, warmup_s: float, seed: int) -> str:
    """The readable summary of one run."""
    window = (
        f"{quantities.duration(duration_s)}, statistics from {quantities.duration(warmup_s)}, seed {seed}"
    )
    parts = [coloured(title, "title") + f"  ({window})"]
    if summary.get("flows"):
        parts.append(_entries_table("flow", summary["flows"], FLOW_COLUMNS))
    parts += [_entries_table(*each) for each in applications(summary)]
    if summary.get("fluids"):
        parts.append(_entries_table("fluid", summary["fluids"], FLUID_COLUMNS))
    if summary.get("links"):
        parts.append(_entries_table("link", both_directions(summary["links"]), LINK_COLUMNS))
    if summary.get("markers"):
        parts.append(_entries_table("marker", summary["markers"], MARKER_COLUMNS))
    notes = []
    fairness = summary.get("fairness") or {}
    if isinstance(fairness.get("jain"), int | float):
        cov = fairness.get("cov")
        spread = f", coefficient of variation {cov:.3f}" if isinstance(cov, int | float) else ""
        notes.append(f"fairness: Jain {fairness['jain']:.4f}{spread}")
    control = summary.get("control") or {}
    if control.get("packets"):
        share = control.get("overhead_ratio")
        ratio = f", {100 * share:.3f} % of all bytes" if isinstance(share, int | float) else ""
        notes.append(f"control: {quantities.number(control['packets'])} packets{ratio}")
    if control.get("shaper_dropped_packets"):
        notes.append(
            f"dropped in front of shapers: {quantities.number(control['shaper_dropped_packets'])} packets"
        )
    if notes:
        parts.append("\n".join(notes))
    return "\n\n".join(parts)


def expected_text(check: dict[str, Any]) -> str:
    """What a check demands: `0.75 ±3%`, `at least 1.3`, `7 to 9`."""
    expected, tolerance, unit = check["expected"], check["tolerance"], check.get("unit") or ""
    if isinstance(expected, list):
        text = f"{quantities.number(expected[0])} to {quantities.number(expected[1])}"
    elif tolerance in ("at least", "at most"):
        text = f"{tolerance} {quantities.number(expected)}"
    else:
        text = quantities.number(expected) + ("" if tolerance in ("0", "0%") else f" ±{tolerance}")
    return f"{text} {unit}".strip()


def fewest_seeds(points: Sequence[Any]) -> int:
    """With how many seeds each of an experiment's points was run at least; 0 without points."""
    counts = Counter(place_of(point) for point in points)
    return min(counts.values(), default=0)


def measured_text(check: Mapping[str, Any], seeds: int) -> str:
    """What was measured with so many `seeds`, with the half width of its confidence interval."""
    if check["measured"] is None:
        return "-"
    low, high = check.get("ci95") or (None, None)
    return quantities.number(check["measured"]) + quantities.half_width(low, high, seeds)


def expected_table(results: Sequence[Any]) -> str:
    """Expected against measured, of `store.StoredResult`s; of several points the one that decided."""
    rows = []
    for result in results:
        seeds = fewest_seeds(result.points)
        has_points = len({place_of(point) for point in result.points}) > 1
        for number, check in enumerate(result.checks):
            name = result.info.id if number == 0 else ""
            rows.append(
                [
                    name,
                    _clipped(check["name"], _CHECK_MAX),
                    expected_text(check),
                    measured_text(check, seeds),
                    _clipped(check.get("where") or "", _WHERE_MAX) if has_points else "",
                    check["provenance"],
                    check["status"],
                ]
            )
        if not result.checks:
            rows.append([result.info.id, "(nothing to check)", "-", "-", "", "-", result.status])
    heads = ["experiment", "check", "expected", "measured", "at", "from", "status"]
    if not any(row[4] for row in rows):
        heads, rows = heads[:4] + heads[5:], [row[:4] + row[5:] for row in rows]
    text = table(heads, rows, [name in ("expected", "measured") for name in heads])
    lines = text.splitlines()
    coloured_lines = [
        line[: line.rindex(row[-1])] + coloured(row[-1], row[-1])
        for line, row in zip(lines[2:], rows, strict=True)
    ]
    return "\n".join(lines[:2] + coloured_lines)


def tables_of(results: Sequence[Any]) -> str:
    """The tables that experiments describe, of `store.StoredResult`s, and one of those that describe nothing
    and check nothing; empty where there are none."""
    from tidegate import figures

    parts = []
    for result in results:
        specs = [spec for spec in result.info.figures if spec.get("kind") == "table"]
        if not (result.info.figures or result.checks) and (spec := figures.suggested_table(result.points)):
            specs = [spec]
        for figure in (figures.build(spec, result.info, result.points) for spec in specs):
            if figure.table is not None:
                title = coloured(f"{result.info.id}: {figure.title}", "title")
                parts.append(f"{title}\n{_text_table(figure.table)}")
    return "\n\n".join(parts)


def figure_problems(result: Any) -> list[str]:
    """Figures of a `store.StoredResult` that cannot be made of its points, each with the reason."""
    from tidegate import figures

    built = (figures.build(spec, result.info, result.points) for spec in result.info.figures)
    return [f"figure {figure.id}: {figure.problem}" for figure in built if figure.problem]


def _text_table(content: tables.Table) -> str:
    right = [index >= content.names for index in range(len(content.columns))]
    return table(content.columns, content.rows, right)


def explanations(results: Sequence[Any]) -> str:
    """Why checks failed or differ, one line each; empty where all passed."""
    lines = []
    for result in results:
        lines += [f"overridden  {result.info.id}: {overridden_text(each)}" for each in result.overridden]
        lines += [f"{result.info.id}: {problem}" for problem in result.problems[:_PROBLEMS_MAX]]
        if len(result.problems) > _PROBLEMS_MAX:
            lines.append(f"{result.info.id}: and {len(result.problems) - _PROBLEMS_MAX} more problems")
        for check in result.checks:
            is_outside = check["status"] == "pass" and (check.get("margin_sigma") or 0) < 0
            if check["status"] in ("fail", "differs") or is_outside:
                place = f" at {check['where']}" if check.get("where") else ""
                reason = f": {check['note']}" if check.get("note") else ""
                status = coloured(check["status"], check["status"])
                lines.append(f"{status}  {result.info.id}, {check['name']}{place}{reason}")
    return "\n".join(lines)


def overridden_text(each: dict[str, str]) -> str:
    """One overridden value: `parameters.shared = 6Mbit (its file: 1.5Mbit)`."""
    document = f"its file: {each['document']}" if each["document"] else "its file does not set it"
    return f"{each['path']} = {each['value']} ({document})"


def _clipped(text: str, width: int) -> str:
    """For a terminal; what is piped stays whole."""
    return _clip(text, width) if sys.stdout.isatty() else text


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
