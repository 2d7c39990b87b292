"""A figure as the page shows it: the drawing, its legend, its numbers as a table, commands that repeat it.

In: a `figure.Figure` and the result that it is of. Out: the dict that the template reads.
"""

import shlex
from typing import Any

from tidegate import draw_page, library, page_marks, quantities
from tidegate.figure import Figure, Trace
from tidegate.store import StoredResult

_NUMBERS_MAX = 400  # of a table below a figure; more are for `tidegate export`


def shown(figure: Figure, result: StoredResult, key: str) -> dict[str, Any]:
    """What the template needs; `key` is unique in the page."""
    return drawn(figure, key) | {"commands": commands(result, figure.id)}


def drawn(figure: Figure, key: str) -> dict[str, Any]:
    """The same without commands: a figure that no result folder has."""
    is_drawn = not figure.problem and figure.table is None
    return {
        "key": key,
        "id": figure.id,
        "title": figure.title,
        "problem": figure.problem,
        "note": figure.note if figure.heat is not None else "",
        "svg": draw_page.draw(figure, key) if is_drawn else "",
        "legend": _legend(figure, key) if is_drawn and figure.has_legend else [],
        "events": [
            {
                "letter": draw_page.event_letter(index),
                "text": f"{quantities.number(event.at_s)} s: {event.label}",
            }
            for index, event in enumerate(figure.events)
        ],
        "numbers": _numbers(figure) if is_drawn else None,
        "commands": [],
        "table": None,
    }


def commands(result: StoredResult, figure_id: str) -> list[str]:
    """What makes the result again, and draws this figure of it as a file."""
    make, folder = _made(result)
    kind = next((spec.get("kind") for spec in result.info.figures if spec.get("id") == figure_id), None)
    suffix = "md" if kind == "table" else "pdf"
    return [
        shlex.join(make),
        shlex.join(["tidegate", "plot", folder, "-p", figure_id, "-o", f"{figure_id}.{suffix}"]),
    ]


def made_by(result: StoredResult) -> str:
    """What makes the result again."""
    return shlex.join(_made(result)[0])


def _made(result: StoredResult) -> tuple[list[str], str]:
    """The command that makes the result again, and the folder into which it writes."""
    # What is not shipped is called by its file, wherever that was.
    name = result.info.id.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".toml")
    # Where it stands, as far as that says something elsewhere.
    read = None if result.folder is None or result.folder.is_absolute() else result.folder.as_posix()
    if result.kind == "run":
        folder = read or f"results/{name}"
        seed = next((point.seed for point in result.points), 1)
        make = ["tidegate", "run", f"{name}.toml", "--seed", str(seed), "-o", folder]
    else:
        make, folder = _swept(result, name, read)
    return make + [f"--set={each['path']}={each['value']}" for each in result.overridden], folder


def _swept(result: StoredResult, name: str, read: str | None) -> tuple[list[str], str]:
    """The same for an experiment, without what was set."""
    quick = ["--quick"] if result.quick else []
    identity = result.info.id
    if library.is_shipped(identity) and (read is None or f"/{read}".endswith(f"/{identity}")):
        folder = read or f"results/{identity}"
        base = folder.removesuffix(identity).rstrip("/")
        into = [] if base == "results" else ["--out", base or "."]
        return ["tidegate", "reproduce", identity, *quick, *_seeds(result, True), *into], folder
    # `reproduce` runs no more seeds of it than its checks need, and `sweep` all.
    what = identity if library.is_shipped(identity) else f"{name}.toml"
    folder = read or f"results/{name}"
    return ["tidegate", "sweep", what, *quick, *_seeds(result, False), "-o", folder], folder


def _seeds(result: StoredResult, may_be_fewer: bool) -> list[str]:
    """How many seeds there are, where the file says otherwise."""
    own = result.info.raw.get("quick_seeds" if result.quick else "seeds") or 1
    count = len({point.seed for point in result.points})
    # Of what is shipped fewer may have decided its checks.
    is_told = count > own or (count < own and not may_be_fewer)
    return ["--seeds", str(count)] if is_told and count else []


def _legend(figure: Figure, key: str) -> list[dict[str, Any]]:
    """An entry for each label: references that share one are named once."""
    entries: dict[tuple[str, bool], dict[str, Any]] = {}
    for order, trace in enumerate(figure.traces):
        place = (trace.label, trace.is_reference) if trace.is_reference else (f"{order}", False)
        entry = entries.setdefault(
            place,
            {"label": trace.label, "swatch": page_marks.swatch(figure, trace, order, key), "traces": []},
        )
        entry["traces"].append(order)
    return list(entries.values())


def _numbers(figure: Figure) -> dict[str, Any] | None:
    """The drawn numbers, a row for each place on the axis and a column for each trace; None if too many."""
    traces = [trace for trace in figure.traces if not trace.is_reference]
    count = sum(len(trace.x) for trace in traces)
    if figure.kind in ("series", "cdf", "heatmap", "scatter") or not 0 < count <= _NUMBERS_MAX:
        return None
    names = {round(place, 6): name for place, name in figure.ticks or ()} if figure.kind != "lines" else {}
    rows: dict[float, dict[int, str]] = {}
    for order, trace in enumerate(traces):
        for index, x in enumerate(trace.x):
            # Bars stand beside the place that they belong to.
            place = float(round(x)) if figure.kind != "lines" else x
            rows.setdefault(place, {})[order] = _number(trace, index)
    named_ticks = dict(figure.ticks or ())
    return {
        "columns": [figure.x_label or "measure", *(trace.label for trace in traces)],
        "rows": [
            [
                names.get(place) or named_ticks.get(place) or quantities.number(place),
                *(rows[place].get(order, "") for order in range(len(traces))),
            ]
            for place in sorted(rows)
        ],
    }


def _number(trace: Trace, index: int) -> str:
    """A value, with its quartiles or its confidence interval."""
    if trace.samples is not None:
        return page_marks.spread_in_words(trace.samples[index]) if trace.samples[index] else "–"
    value = trace.y[index]
    if value is None:
        return "–"
    below, above = trace.low and trace.low[index], trace.high and trace.high[index]
    text = quantities.number(value)
    if below is None or above is None or below == above:
        return text
    return f"{text} ({quantities.number(below)} to {quantities.number(above)})"
