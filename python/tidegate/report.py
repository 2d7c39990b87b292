"""Writes results as one HTML page that needs nothing else: no network, no other file.

In: `store.StoredResult`s. Out: the text of the page: per experiment what it is, expected against measured,
figures, the network as drawn and over time, the exact parameters with where each comes from.
"""

import functools
import json
from collections.abc import Sequence
from typing import Any

from tidegate import (
    checks,
    display,
    figures,
    library,
    network_facts,
    network_view,
    quantities,
    report_figures,
    side_by_side,
    tables,
    topology_svg,
)
from tidegate.store import StoredResult

_SUMMARY_ROWS_MAX = 60
# Of the template itself.
_OWN_ANCHORS = ("results", "overview", "side-by-side")


@functools.cache
def environment() -> Any:
    """What makes pages of the templates: nothing in them is markup but what a template writes."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("tidegate"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(results: Sequence[StoredResult], title: str, names: Sequence[str] = ()) -> str:
    """The page about `results`; `names`, where given, are what runs beside each other are called."""
    sections = list(map(_section, results, _anchors(results)))
    beside = _beside(results, names)
    if beside and names:
        # Runs of one scenario are all called as it is.
        for section, name in zip(sections, names, strict=True):
            section["short"] = section["id"] = name
    groups: dict[str, list[dict[str, Any]]] = {}
    for section in sections:
        groups.setdefault(section["group"], []).append(section)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            title=title,
            version=results[0].version if results else "",
            quick=any(result.quick for result in results),
            sections=sections,
            groups=list(groups.items()),
            total=_total(results),
            beside=beside,
            numbered=numbered,
        )
    )


def numbered(titles: Sequence[str]) -> list[dict[str, Any]]:
    """Columns of which the first has names and the others numbers."""
    return [column(title, number=index > 0) for index, title in enumerate(titles)]


def _anchors(results: Sequence[StoredResult]) -> list[str]:
    """What each section is called in the page: by its id, and where another is called so, by a number too."""
    taken = set(_OWN_ANCHORS)
    found = []
    for result in results:
        plain = anchor = "".join(letter if letter.isalnum() else "-" for letter in result.info.id)
        number = 1
        while taken & (own := {anchor, *(_of_figure(anchor, each["id"]) for each in result.info.figures)}):
            number += 1
            anchor = f"{plain}--{number}"
        taken |= own
        found.append(anchor)
    return found


def _of_figure(anchor: str, figure_id: str) -> str:
    return f"{anchor}-{figure_id}"


def _section(result: StoredResult, anchor: str) -> dict[str, Any]:
    info = result.info
    shown = []
    for figure in figures.build_all(info, result.points, result.references, result.scenario):
        about = report_figures.shown(figure, result, _of_figure(anchor, figure.id))
        shown.append(about | {"table": _shown_table(figure.table)})
    moving = network_view.build(result)
    seeds = display.fewest_seeds(result.points)
    shown_checks = [
        check
        | {
            "expected_text": display.expected_text(check),
            "measured_text": display.measured_text(check, seeds),
        }
        for check in result.checks
    ]
    judged = [check for check in shown_checks if check["status"] != "skipped"]
    passed = sum(check["status"] == "pass" for check in judged)
    return {
        "id": info.id,
        "anchor": anchor,
        "group": info.id.split("/")[0] if "/" in info.id else "results",
        "short": info.id.split("/")[-1],
        "title": info.title,
        "source": info.source,
        "description": info.description,
        "status": result.status,
        "problems": result.problems,
        "banner": _banner(result),
        "checks": shown_checks,
        "passed": f"{passed} of {len(judged)}" if judged else "–",
        "figures": shown,
        "topology": moving["svg"] if moving else topology_svg.svg(result.scenario),
        "moving": moving,
        "facts": network_facts.of(result),
        "tables": _tables(result),
        "footer": _footer(result),
    }


def _banner(result: StoredResult) -> dict[str, Any] | None:
    """What a reader must know first: these are not the values of the document, and how they were set."""
    # A run has no document, and nothing to be compared with.
    if not result.overridden or result.kind == "run":
        return None
    return {
        "is_shipped": library.is_shipped(result.info.id),
        "settings": [display.overridden_text(each) for each in result.overridden],
        "command": report_figures.made_by(result),
    }


def _shown_table(table: tables.Table | None) -> dict[str, Any] | None:
    if table is None:
        return None
    columns = [column(title, number=index >= table.names) for index, title in enumerate(table.columns)]
    return {"columns": columns, "rows": table.rows}


def _total(results: Sequence[StoredResult]) -> str:
    statuses = [check["status"] for result in results for check in result.checks]
    if not statuses:
        return ""
    known = ("pass", "differs", "fail", checks.NOT_COMPARABLE, "skipped")
    counts = {status: statuses.count(status) for status in known}
    words = {
        "pass": "pass",
        "differs": "differ from the document for a named cause",
        "fail": "fail",
        checks.NOT_COMPARABLE: "cannot be compared, for values were overridden",
        "skipped": "are not part of this form",
    }
    worths = checks.counts([check for result in results for check in result.checks])
    words["pass"] += f" ({', '.join(f'{worths[worth]} {worth}' for worth in checks.WORTHS if worths[worth])})"
    parts = [f"{count} {words[status]}" for status, count in counts.items() if count]
    return f"{len(results)} experiments, {len(statuses)} checks: {', '.join(parts)}."


def _beside(results: Sequence[StoredResult], names: Sequence[str]) -> list[dict[str, Any]]:
    found = side_by_side.tables(results, names or [result.info.id for result in results])
    return [
        {
            "title": table["title"],
            "columns": [
                column(title, number=place >= table["labels"], path=title == "Key")
                for place, title in enumerate(table["header"])
            ],
            "rows": table["rows"],
        }
        for table in found
    ]


def _footer(result: StoredResult) -> str:
    seeds = sorted({point.seed for point in result.points})
    runs = f"{len(result.points)} run{'s' if len(result.points) != 1 else ''}"
    span = (
        f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}" if seeds else "no seeds"
    )
    form = ", quick form" if result.quick else ""
    bands = "Bands and ± (of three seeds on) are 95 % confidence intervals over seeds."
    return f"{runs}, {span}{form}. {bands} Tidegate {result.version}."


def _tables(result: StoredResult) -> list[dict[str, Any]]:
    tables = []
    if result.kind == "run" and result.points:
        tables += _summary_tables(result.points[0].summary)
    named = _parameters(result.info.raw, result.overridden)
    if named:
        columns = [column("Parameter"), column("Value"), column("From"), column("Why", wide=True)]
        tables.append(
            {
                "title": "Parameters and where they come from",
                "columns": columns,
                "rows": named,
                "folded": False,
            }
        )
    axes = [
        [axis.label, ", ".join(axis.values), axis.unit, result.info.raw["axes"][name].get("path", "")]
        for name, axis in result.info.axes.items()
        if isinstance(result.info.raw.get("axes"), dict)
    ]
    if axes:
        columns = [column("Axis"), column("Values"), column("Unit"), column("Sets", path=True)]
        tables.append({"title": "Swept values", "columns": columns, "rows": axes, "folded": True})
    exact = [[path, text] for path, text in _flat(result.scenario)]
    if exact:
        columns = [column("Key", path=True), column("Value")]
        tables.append(
            {"title": "Every value of the scenario", "columns": columns, "rows": exact, "folded": True}
        )
    return tables


def column(title: str, number: bool = False, path: bool = False, wide: bool = False) -> dict[str, Any]:
    """Of a table, for the template. `wide`: a line of its own where the page is narrow."""
    return {"title": title, "number": number, "path": path, "wide": wide}


def _parameters(raw: dict[str, Any], overridden: Sequence[dict[str, str]]) -> list[list[str]]:
    """Name, value, provenance and reason of each parameter that the experiment names."""
    from tidegate.experiment import named

    others = {each["path"]: each for each in overridden}
    rows = []
    parameters = raw.get("parameters")
    for name, entry in named(parameters).items():
        value = entry.get("value", "") if entry else parameters[name] if isinstance(parameters, dict) else ""
        unit = entry.get("unit") or ""
        reason = entry.get("why") or entry.get("reason") or entry.get("source") or ""
        if other := others.get(f"parameters.{name}"):
            text = f"{value} {unit}".strip()
            shown = f"{text}, overridden (its file: {other['document']})"
            rows.append([entry.get("label") or name, shown, "overridden", ""])
            continue
        rows.append(
            [entry.get("label") or name, f"{value} {unit}".strip(), entry.get("provenance") or "", reason]
        )
    return rows


def _summary_tables(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """What `run` prints, and folded every number by the path that measures know it by."""
    flows, links = summary.get("flows") or {}, summary.get("links") or {}
    found = []
    for name, entries, columns in (
        ("flow", flows, display.FLOW_COLUMNS),
        *((f"flow: {key}", *rest) for key, *rest in display.applications(summary)),
        ("fluid", summary.get("fluids") or {}, display.FLUID_COLUMNS),
        ("link", display.both_directions(links), display.LINK_COLUMNS),
    ):
        header, rows = display.entries_cells(name, entries, columns, _SUMMARY_ROWS_MAX)
        if rows:
            hidden = len(entries) - len(rows)
            found.append(
                {
                    "title": f"What was measured per {name}"
                    + (f": the first {len(rows)} of {len(entries)}" if hidden else ""),
                    "columns": [column(title, number=place > 0) for place, title in enumerate(header)],
                    "rows": rows,
                    "folded": False,
                }
            )
    few = {
        key: dict(list(value.items())[:_SUMMARY_ROWS_MAX]) if key in ("flows", "links") else value
        for key, value in summary.items()
        if isinstance(value, dict)
    }
    numbers = [[path, text] for path, text in _flat(few)]
    if numbers:
        columns = [column("Path", path=True), column("Value", number=True)]
        title = "Every number of the summary"
        found.append({"title": title, "columns": columns, "rows": numbers, "folded": True})
    return found


# What sets apart entries of a list that are otherwise alike: flows that `repeat` made, as a rule.
_OWN = ("name", "from", "to")


def _flat_entries(entries: list[Any], prefix: str) -> list[tuple[str, str]]:
    """As `_flat`, with entries that are alike but for name and ends written once, and their names listed."""
    alike: dict[str, list[tuple[str, Any]]] = {}
    for index, entry in enumerate(entries):
        if isinstance(entry, dict):
            shared = {key: value for key, value in entry.items() if key not in _OWN}
            alike.setdefault(json.dumps(shared), []).append((entry.get("name", str(index)), entry))
        else:
            alike[str(index)] = [(str(index), entry)]
    pairs: list[tuple[str, str]] = []
    for members in alike.values():
        name, first = members[0]
        if len(members) == 1:
            inner = {k: v for k, v in first.items() if k != "name"} if isinstance(first, dict) else first
            pairs += _flat(inner, f"{prefix}.{name}")
            continue
        path = f"{prefix}.{name} and {len(members) - 1} more"
        pairs.append((path, ", ".join(name + _ends(entry) for name, entry in members)))
        pairs += _flat({key: value for key, value in first.items() if key not in _OWN}, path)
    return pairs


def _ends(entry: dict[str, Any]) -> str:
    """Where a flow goes from and to, in brackets."""
    if "from" not in entry:
        return ""
    to = entry.get("to") or []
    return f" ({entry['from']} to {', '.join(to) if isinstance(to, list) else to})"


def _flat(node: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Every value of nested tables with its path; named entries of lists go by their names."""
    if isinstance(node, dict):
        return [
            pair
            for key, value in node.items()
            for pair in _flat(value, f"{prefix}.{key}" if prefix else str(key))
        ]
    if isinstance(node, list) and any(isinstance(entry, dict) for entry in node):
        return _flat_entries(node, prefix)
    if isinstance(node, list):
        return [(prefix, ", ".join(str(entry) for entry in node))] if node else []
    if node is None or node == "":
        return []
    if isinstance(node, float) and not isinstance(node, bool):
        return [(prefix, quantities.number(node, 6))]
    return [(prefix, str(node))]
