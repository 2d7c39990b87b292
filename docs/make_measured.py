"""Writes what was measured into tables of the pages, from folders with results.

    python docs/make_measured.py results/full           # writes, and says what has changed
    python docs/make_measured.py results/full --check   # exits 1 if a table is not as it would be written

A mark stands before each such table. `<!-- measured: GROUP/EXPERIMENT/FIGURE -->` is for one with the columns
of that figure, which is a table. Where the page has its rows side by side, the mark says which:
`<!-- measured: compare/today/networks; cubic; GFC-2: useful Mb/s, waste % -->` takes the rows of `cubic`; of
each row of the page, which its first cell names, two columns of the row of `GFC-2`. Headers and rows, and
which of them there are, are written by hand. So are sentences about them: who has run this reads them again.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidegate import figures, store, tables

DOCS = Path(__file__).resolve().parent
MARK = re.compile(r"<!-- measured: ([^>]*?) *-->\n+(\|[^\n]*\n)(\|[-:| ]+\n)((?:\|[^\n]*\n)*)")


class Unknown(Exception):
    """What a mark or a row asks for is not in the results."""


def cells(line: str) -> list[str]:
    """The cells of a row of Markdown."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table_of(place: str, results: Path) -> tables.Table | None:
    """The table that `place` names, without intervals; none if the experiment is not among the results."""
    experiment, _, figure = place.rpartition("/")
    folder = results / experiment
    if not store.is_result(folder):
        return None
    result = store.read_result(folder)
    for spec in result.info.figures:
        if spec.get("id") == figure:
            table = figures.build(spec, result.info, result.points).table
            if table is not None:
                rows = [
                    [*row[: table.names], *(cell.split(" ±")[0] for cell in row[table.names :])]
                    for row in table.rows
                ]
                return tables.Table(table.columns, rows, table.names)
    raise Unknown(f"{experiment} has no table `{figure}`")


def measured(mark: str, header: str, page_row: Sequence[str], table: tables.Table) -> list[str]:
    """The row of the page anew."""
    _, *parts = [part.strip() for part in mark.replace("\n", " ").split(";")]
    groups = [part.split(":", 1) for part in parts if ":" in part]
    chosen = [part for part in parts if ":" not in part]

    def value(names: Sequence[str], column: str) -> str:
        rows = [row for row in table.rows if sorted(row[: table.names]) == sorted([*chosen, *names])]
        if len(rows) != 1:
            raise Unknown(f"{len(rows)} rows have the names {[*chosen, *names]}")
        if column not in table.columns:
            raise Unknown(f"there is no column `{column}` ({', '.join(table.columns)})")
        return rows[0][table.columns.index(column)]

    if groups:
        wanted = [(name.strip(), column.strip()) for name, columns in groups for column in columns.split(",")]
        return [page_row[0], *(value([page_row[0], name], column) for name, column in wanted)]
    count = table.names - len(chosen)
    names = list(page_row[:count])
    return [*names, *(value(names, column) for column in cells(header)[count:])]


def rewritten(text: str, results: Path) -> tuple[str, list[str]]:
    """The page with its tables anew; and what has changed in them."""
    changes: list[str] = []

    def table_anew(found: re.Match[str]) -> str:
        mark, header, rule, body = found.groups()
        table = table_of(mark.split(";")[0].strip(), results)
        if table is None:
            return found[0]
        lines = []
        for line in body.splitlines(keepends=True):
            before = cells(line)
            now = measured(mark, header, before, table)
            changes.extend(
                f"{mark.split(';')[0]}, {before[0]}: {old} is {new}"
                for old, new in zip(before, now, strict=True)
                if old != new
            )
            lines.append("| " + " | ".join(now) + " |\n")
        return found[0][: found.start(4) - found.start()] + "".join(lines)

    return MARK.sub(table_anew, text), changes


def pages() -> Iterator[Path]:
    """Pages with marks."""
    return (page for page in sorted(DOCS.rglob("*.md")) if MARK.search(page.read_text("utf-8")))


def main(arguments: Sequence[str]) -> int:
    """See the module; the exit code."""
    folders = [Path(one) for one in arguments if one != "--check"]
    if len(folders) != 1 or not folders[0].is_dir():
        print("say one folder with results: python docs/make_measured.py results/full", file=sys.stderr)
        return 2
    changed = False
    for page in pages():
        before = page.read_text("utf-8")
        try:
            text, changes = rewritten(before, folders[0])
        except Unknown as why:
            print(f"{page.name}: {why}", file=sys.stderr)
            return 1
        changed |= text != before
        for change in changes:
            print(f"{page.name}: {change}")
        if "--check" not in arguments:
            page.write_text(text, "utf-8")
    return int(changed and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
