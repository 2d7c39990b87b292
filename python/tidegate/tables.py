"""Tables of an experiment: measures as columns, a row for each value of the axes and each variant.

In: the measures and the points. Out: a `Table` of finished texts, for the terminal, a page and as Markdown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate import measure, quantities, stats
from tidegate.errors import LackingError
from tidegate.experiment import Axis, Info, PointResult

DIGITS = 3
NOTHING = "–"


@dataclass
class Table:
    """Columns with what stands in them; the first `names` columns are names, the others numbers."""

    columns: list[str]
    rows: list[list[str]]
    names: int


def build(measures: Sequence[str], labels: Sequence[str], info: Info, points: Sequence[PointResult]) -> Table:
    """The table of `measures`: means over seeds, with the half width of their 95 % confidence intervals.

    Axes come first, in the order of the file, then variants.
    """
    groups: dict[tuple[tuple[str, ...], str | None], list[PointResult]] = {}
    for point in points:
        groups.setdefault((tuple(point.axes.values()), point.variant), []).append(point)
    has_variants = any(variant is not None for _, variant in groups)
    places = {key: order for order, key in enumerate(groups)}
    values = [axis.values for axis in info.axes.values()]

    def order(key: tuple[tuple[str, ...], str | None]) -> tuple[list[int], int]:
        on_axes = [own.index(text) if text in own else 0 for own, text in zip(values, key[0], strict=False)]
        return on_axes, places[key]

    rows = []
    for key in sorted(groups, key=order):
        variant = [info.variants.get(key[1] or "", key[1] or "")] if has_variants else []
        on_axes = [_axis_cell(*each) for each in zip(info.axes.values(), key[0], strict=False)]
        rows.append([*on_axes, *variant, *(_cell(term, groups[key]) for term in measures)])
    names = [axis.title for axis in info.axes.values()] + (["variant"] if has_variants else [])
    return Table([*names, *labels], rows, len(names))


def _axis_cell(axis: Axis, text: str) -> str:
    """The number in the unit of the column's title, where there is one; a name as it is."""
    value = axis.position(text) if axis.title.endswith(")") else None
    return text if value is None else quantities.number(value)


def _cell(term: str, points: Sequence[PointResult]) -> str:
    """The mean over seeds with its interval as text, or a dash where a run has no such value or key."""
    try:
        mean, low, high, count = stats.estimate([measure.evaluate(term, point) for point in points])
    except LackingError:
        return NOTHING
    return quantities.number(float(f"{mean:.{DIGITS}g}"), DIGITS) + quantities.half_width(low, high, count)


def markdown(table: Table) -> str:
    """The table as Markdown."""
    rules = ["---"] * table.names + ["---:"] * (len(table.columns) - table.names)
    lines = [table.columns, rules, *table.rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def write(table: Table, path: Path) -> None:
    """Write it to `path` as Markdown; folders above it are made."""
    from tidegate.store import write_atomic

    write_atomic(path, markdown(table))
