"""`tidegate plot`, `report` and `export`: pictures, pages and tables from result folders."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate import draw_static, figures, store, tables
from tidegate.display import progress_line
from tidegate.errors import EXIT_DONE, EXIT_PARTIAL, InvalidFileError, UsageError
from tidegate.figures import SCALES

# More files than these are told by the first and the last.
_FILES_TOLD_MAX = 8


def export(folder: Path, out: Path, what: str | None, only: list[str], as_json: bool) -> int:
    """Write the numbers of one folder as a table, or as files of flent."""
    from tidegate import home

    store.require_file(out, "--out")
    written = [str(path) for path in home.open_result(folder).export(out, what, only)]
    if as_json:
        print(json.dumps({"schema_version": 1, "files": written}))
    elif len(written) > _FILES_TOLD_MAX:
        print(f"{len(written)} files: {written[0]} to {Path(written[-1]).name}")
    else:
        print("\n".join(written))
    return 0


@dataclass(frozen=True)
class Wish:
    """How figures are drawn, where not as their file says."""

    look: draw_static.Look = draw_static.Look()
    kind: str | None = None
    # Keys of `[[figures]]` that are set: `scale`, `x_range`, `y_range`.
    keys: dict[str, Any] = field(default_factory=dict)


# Kinds that show the same measures in another way.
_ALIKE = ("bars", "box", "violin")


# No end of an axis is further from zero.
_END_MAX = 1e100


def wish(
    style: str,
    size: str | None,
    x_range: str | None,
    y_range: str | None,
    scale: str | None,
    kind: str | None,
) -> Wish:
    """What the options of `plot` ask for."""
    form = "WIDTHxHEIGHT in millimetres, such as 88x60"
    look = draw_static.look(style, None if size is None else _pair(size, "x", "--size", form))
    keys: dict[str, Any] = {"scale": scale} if scale else {}
    if scale is not None and scale not in SCALES:
        raise UsageError(f"no scale {scale!r}; scales: {', '.join(SCALES)}")
    for key, text in (("x_range", x_range), ("y_range", y_range)):
        if text is not None:
            option = f"--{key.replace('_', '-')}"
            keys[key] = _pair(text, ":", option, "LOW:HIGH, such as 0:1.5")
            if not keys[key][0] < keys[key][1]:
                raise UsageError(f"{option} {text}: the lower end comes first")
    if kind is not None and kind not in _ALIKE:
        raise UsageError(
            f"cannot draw as {kind!r}; lines, bars, boxes and violins become {', '.join(_ALIKE)}"
        )
    return Wish(look, kind, keys)


def _pair(text: str, between: str, option: str, form: str) -> tuple[float, float]:
    try:
        first, second = (float(part) for part in text.split(between))
    except ValueError:
        raise UsageError(f"{option} {text}: {form}") from None
    # What lies between them has to be a number as well.
    if not (abs(first) <= _END_MAX and abs(second) <= _END_MAX):
        raise UsageError(f"{option} {text}: {form}")
    return first, second


def _changed(spec: dict[str, Any], wish: Wish) -> dict[str, Any]:
    """The description of a figure with what is wished; of a table nothing changes."""
    kind = spec.get("kind") or "lines"
    if kind == "table":
        return spec
    changed = spec | wish.keys
    scale = changed.get("scale")
    for key, logarithmic in (("x_range", ("log-x", "log-log")), ("y_range", ("log", "log-y", "log-log"))):
        low = (changed.get(key) or [1])[0]
        if scale in logarithmic and low <= 0:
            option = f"--{key.replace('_', '-')}"
            raise UsageError(
                f"figure {spec['id']}: a logarithmic axis has no {low:g}: give {option} above zero, "
                "or --scale linear"
            )
    return changed | {"kind": wish.kind} if wish.kind and kind in ("lines", *_ALIKE) else changed


def plot(folder: Path, wanted: str | None, out: Path | None, as_json: bool, wish: Wish = Wish()) -> int:
    """Draw the figures of one folder, or the one that is named (by id, or all of a kind)."""
    store.require_result(folder)
    if out is not None:
        store.require_file(out, "--out")
    with store.using(folder):
        return _plot(folder, store.read_result(folder), wanted, out, as_json, wish)


def _plot(
    folder: Path,
    result: store.StoredResult,
    wanted: str | None,
    out: Path | None,
    as_json: bool,
    wish: Wish,
) -> int:
    built = figures.build_all(
        result.info, result.points, result.references, result.scenario, lambda spec: _changed(spec, wish)
    )
    chosen = [figure for figure in built if wanted in (None, figure.id, figure.kind)]
    if not chosen:
        names = ", ".join(figure.id for figure in built) or "none"
        asked = f"no figure {wanted!r}" if wanted else "no figures"
        raise UsageError(f"{asked} in {folder}; figures: {names}{_what_to_record(result)}")
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
            draw_static.draw(figure, path, wish.look)
        written.append(str(path))
    if written or as_json:
        print(json.dumps({"schema_version": 1, "files": written}) if as_json else "\n".join(written))
    if problems:
        raise InvalidFileError("\n".join(problems))
    return 0


def _what_to_record(result: store.StoredResult) -> str:
    """How a run gets figures over time, where it has none: the keys for its file."""
    if any(point.series_names for point in result.points):
        return ""
    return (
        ". Nothing was recorded over time: with `[record]` and `series = "
        '["links.*.queue_packets", "flows.*.throughput_bps"]` in the file, or other quantities of '
        "docs/scenarios.md#record, there are figures of it"
    )


def report(folders: list[Path], out: Path | None, as_json: bool) -> int:
    """Write one page about all results in `folders`."""
    from tidegate import report as page

    found = [path for folder in folders for path in store.find_results(folder)]
    if out is not None:
        store.require_output(out, "--out")
    results, damaged = _read(found)
    found = [path for path in found if path not in damaged]
    target = out or folders[0] / "report.html"
    if out is None:
        store.require_inside(folders[0], target)
    title = results[0].info.title if len(results) == 1 else _title_of(results)
    with store.using(*found):
        store.write_atomic(target, page.render(results, title, [str(path) for path in found]))
    print(json.dumps({"schema_version": 1, "files": [str(target)]}) if as_json else target)
    return EXIT_PARTIAL if damaged else EXIT_DONE


def _read(found: list[Path]) -> tuple[list[store.StoredResult], dict[Path, InvalidFileError]]:
    """The results in these folders, and those that cannot be read: they are told, and the others go on."""
    results: list[store.StoredResult] = []
    damaged: dict[Path, InvalidFileError] = {}
    for path in found:
        try:
            results.append(store.read_result(path))
        except InvalidFileError as error:
            damaged[path] = error
    for error in damaged.values():
        if not results:
            raise error
        progress_line(f"left out: {error}")
    return results, damaged


def _title_of(results: list[store.StoredResult]) -> str:
    if all(result.kind == "run" for result in results):
        return "Runs side by side"
    has_published = any(result.checks or result.references for result in results)
    return "Published and measured" if has_published else "Experiments side by side"
