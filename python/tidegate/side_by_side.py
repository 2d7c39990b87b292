"""Sets single runs beside each other: what their scenarios differ in and what came out, a column for each.

In: results of `tidegate run`, and what to call each. Out: tables for the page of `report`. A run is one
sample of chance; whether a difference is more than that, an experiment with several seeds tells.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate import display, quantities
from tidegate.store import StoredResult

# More runs than these are no table that can be read, but an experiment.
RUNS_MAX = 8
_ROWS_MAX = 60
# Of links those with the longest delay in a queue, in some run; of flows the first of the file.
_LINKS_MAX = 3
_FLOWS_MAX = 20
# What a scenario is called is no difference of what it is.
_NAMES = ("name", "title", "description", "source", "schema_version")
_MISSING = "–"
_FORWARD = ".forward."
# A table: title, labels of its first columns, rows, how many are left out, and of what.
_Part = tuple[str, list[str], list[list[str]], int, str]


def tables(results: Sequence[StoredResult], names: Sequence[str]) -> list[dict[str, Any]]:
    """What differs, then links and flows, where these are two to `RUNS_MAX` runs; else nothing.

    Each with `title`, which tells what is left out, `header` (the first columns are names, then `names`),
    `labels` (how many columns are) and `rows`.
    """
    if not 2 <= len(results) <= RUNS_MAX or any(
        result.kind != "run" or not result.points for result in results
    ):
        return []
    summaries = [result.points[0].summary for result in results]
    differences = _differences(results)
    links = [display.both_directions(summary.get("links") or {}) for summary in summaries]
    flows = [summary.get("flows") or {} for summary in summaries]
    fluids = [summary.get("fluids") or {} for summary in summaries]
    waiting, all_flows, all_fluids = _by_delay(links), _names(flows), _names(fluids)
    together = [["all together", *row] for row in _together(summaries, flows)] if len(all_flows) > 1 else []
    found = (
        ("What they differ in", ["Key"], differences[:_ROWS_MAX], len(differences) - _ROWS_MAX, "keys"),
        (
            "Links with the most delay",
            ["Link", "Measure"],
            _measured(links, waiting[:_LINKS_MAX], display.LINK_COLUMNS),
            len(waiting) - _LINKS_MAX,
            "with less",
        ),
        (
            "Flows",
            ["Flow", "Measure"],
            together + _measured(flows, all_flows[:_FLOWS_MAX], display.FLOW_COLUMNS),
            len(all_flows) - _FLOWS_MAX,
            "flows",
        ),
        *_applications(summaries),
        (
            "Fluids",
            ["Fluid", "Measure"],
            _measured(fluids, all_fluids[:_FLOWS_MAX], display.FLUID_COLUMNS),
            len(all_fluids) - _FLOWS_MAX,
            "fluids",
        ),
    )
    return [
        {
            "title": title + (f" (and {hidden:,} more {what})" if hidden > 0 else ""),
            "header": [*labels, *names],
            "labels": len(labels),
            "rows": rows,
        }
        for title, labels, rows, hidden, what in found
        if rows
    ]


def _applications(summaries: Sequence[Mapping[str, Any]]) -> Iterator[_Part]:
    """What pages, transfers and films have of their own."""
    found = [{key: own for key, own, _ in display.applications(summary)} for summary in summaries]
    for key, columns in display.APPLICATION_COLUMNS.items():
        entries = [each.get(key, {}) for each in found]
        flows = _names(entries)
        rows = _measured(entries, flows[:_FLOWS_MAX], columns)
        yield key.capitalize(), ["Flow", "Measure"], rows, len(flows) - _FLOWS_MAX, "flows"


def _names(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for each in entries for name in each))


def _by_delay(links: Sequence[Mapping[str, Any]]) -> list[str]:
    """Links by the longest mean delay that they have in some run."""

    def delay_ms(name: str) -> float:
        delays = [(each.get(name) or {}).get("delay_ms") or {} for each in links]
        return max(each.get("mean") or 0.0 for each in delays)

    return sorted(_names(links), key=delay_ms, reverse=True)


def _together(
    summaries: Sequence[Mapping[str, Any]], flows: Sequence[Mapping[str, Any]]
) -> Iterator[list[str]]:
    """What all flows of a run have, by measure."""
    totals = [sum(flow.get("throughput_bps") or 0.0 for flow in each.values()) for each in flows]
    yield ["throughput Mb/s", *(quantities.number(total / 1e6) for total in totals)]
    evenness = [(summary.get("fairness") or {}).get("jain") for summary in summaries]
    if any(isinstance(jain, int | float) for jain in evenness):
        shown = (f"{jain:.4f}" if isinstance(jain, int | float) else _MISSING for jain in evenness)
        yield ["Jain's index of fairness", *shown]


def _differences(results: Sequence[StoredResult]) -> list[list[str]]:
    """Keys that have another value in some run, or are missing there."""
    flat = [dict(_values(result.scenario)) for result in results]
    for values, result in zip(flat, results, strict=True):
        values["seed"] = str(result.points[0].seed)
    rows = [[key, *(values.get(key, _MISSING) for values in flat)] for key in _keys(flat)]
    return [row for row in rows if len(set(row[1:])) > 1]


def _keys(flat: Sequence[dict[str, str]]) -> list[str]:
    """All keys. What both directions of each link have alike in all runs is one key, as files write it."""
    for key in [key for key in _names(flat) if key.startswith("links.") and _FORWARD in key]:
        back, both = (key.replace(_FORWARD, other, 1) for other in (".reverse.", "."))
        if all(values.get(key) == values.get(back) for values in flat):
            for values in flat:
                if key in values:
                    values[both] = values.pop(key)
                    del values[back]
    return _names(flat)


def _values(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every value by its path; entries of lists by their names."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if path or key not in _NAMES:
                yield from _values(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list) and any(isinstance(entry, Mapping) for entry in node):
        for place, entry in enumerate(node):
            name = entry.get("name", place) if isinstance(entry, Mapping) else place
            yield from _values(entry, f"{path}.{name}")
    elif isinstance(node, list):
        yield path, ", ".join(map(str, node))
    elif isinstance(node, bool):
        yield path, str(node).lower()
    elif isinstance(node, float):
        yield path, quantities.number(node, 6)
    elif node is not None and node != "":
        yield path, str(node)


def _measured(
    entries: Sequence[Mapping[str, Any]], shown: Sequence[str], columns: Sequence[tuple[str, Any]]
) -> list[list[str]]:
    """A row for each entry that is shown and each measure of which some run has more than nothing."""
    rows = []
    for name in shown:
        for title, make in _whole(columns):
            values = [make(each[name]) if name in each else _MISSING for each in entries]
            if any(value not in ("-", "0", "0.0", "0.00", _MISSING) for value in values):
                rows.append([name, title, *values])
    return rows


def _whole(columns: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Titles that can stand alone: of `delay ms mean` and `p99` beside it, the latter is `delay ms p99`."""
    stem = ""
    for title, make in columns:
        if title in ("p95", "p99", "max"):
            yield f"{stem} {title}", make
            continue
        stem = title.removesuffix(" mean")
        yield title, make
