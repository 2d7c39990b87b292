"""`tidegate plot`, `report` and `export`: pictures, pages and tables from result folders."""

import json
from pathlib import Path

from tidegate import draw_static, figures, store, tables
from tidegate.errors import InvalidFileError, UsageError


def export(folder: Path, out: Path, what: str | None, only: list[str], as_json: bool) -> int:
    """Write the numbers of one folder as a table, or as files of flent."""
    from tidegate import home

    written = [str(path) for path in home.open_result(folder).export(out, what, only)]
    print(json.dumps({"schema_version": 1, "files": written}) if as_json else "\n".join(written))
    return 0


def plot(folder: Path, wanted: str | None, out: Path | None, as_json: bool) -> int:
    """Draw the figures of one folder, or the one that is named (by id, or all of a kind)."""
    if not store.is_result(folder):
        raise InvalidFileError(f"{folder} is no result folder")
    with store.using(folder):
        return _plot(folder, store.read_result(folder), wanted, out, as_json)


def _plot(
    folder: Path, result: store.StoredResult, wanted: str | None, out: Path | None, as_json: bool
) -> int:
    built = figures.build_all(result.info, result.points, result.references)
    chosen = [figure for figure in built if wanted in (None, figure.id, figure.kind)]
    if not chosen:
        names = ", ".join(figure.id for figure in built) or "none"
        asked = f"no figure {wanted!r}" if wanted else "no figures"
        raise UsageError(f"{asked} in {folder}; figures: {names}")
    is_drawn = any(figure.table is None for figure in chosen)
    if out is not None and is_drawn and out.suffix not in draw_static.FORMATS:
        raise UsageError(
            f"cannot write {out.suffix or 'a file without suffix'}; formats: {', '.join(draw_static.FORMATS)}"
        )
    written = []
    problems = [f"figure {figure.id}: {figure.problem}" for figure in chosen if figure.problem]
    for figure in chosen:
        if figure.problem:
            continue
        if out is None:
            path = folder / f"{figure.id}{'.svg' if figure.table is None else '.md'}"
        else:
            path = out if len(chosen) == 1 else out.with_name(f"{out.stem}-{figure.id}{out.suffix}")
        if figure.table is not None and out is not None and out.suffix != ".md":
            if len(chosen) == 1:
                raise UsageError(
                    f"figure {figure.id} is a table: give it a name in .md, or take its numbers by "
                    f"`tidegate export {folder} -o numbers.csv`"
                )
            # A table is text, whatever format its neighbours have.
            path = path.with_suffix(".md")
        if out is None:
            store.require_inside(folder, path)
        if figure.table is not None:
            tables.write(figure.table, path)
        else:
            draw_static.draw(figure, path)
        written.append(str(path))
    if written or as_json:
        print(json.dumps({"schema_version": 1, "files": written}) if as_json else "\n".join(written))
    if problems:
        raise InvalidFileError("\n".join(problems))
    return 0


def report(folders: list[Path], out: Path | None, as_json: bool) -> int:
    """Write one page about all results in `folders`."""
    from tidegate import report as page

    found = [path for folder in folders for path in store.find_results(folder)]
    results = [store.read_result(path) for path in found]
    target = out or folders[0] / "report.html"
    if out is None:
        store.require_inside(folders[0], target)
    title = results[0].info.title if len(results) == 1 else "Published and measured"
    with store.using(*found):
        store.write_atomic(target, page.render(results, title))
    print(json.dumps({"schema_version": 1, "files": [str(target)]}) if as_json else target)
    return 0
