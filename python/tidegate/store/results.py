"""Result folders: what is in them, written and read back.

    result.json      what this is: schema_version, kind ("run" or "experiment"), versions, the experiment,
                     the scenario, the outcomes of its checks; hashes of itself and of points.jsonl
    points.jsonl     one line per run: variant, axes, seed, key (hash of what the results depend on), summary,
                     series, digest (hash of the line and of its series: an edited point is noticed)
    series/*.parquet time series of the runs that recorded any
    *.toml           a copy of the file that was run

Whatever carries the final name is whole (`files`); points that are finished before all are wait beside it
(`points`).
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.errors import InvalidFileError, TidegateError, UsageError
from tidegate.experiment import Info, PointResult
from tidegate.store.damage import AGAIN, described, require, within
from tidegate.store.files import atomic_folder, is_file_name, require_room
from tidegate.store.points import json_line, lines_of, read_point, series_file, whole_points, write_point
from tidegate.store.series import StoredSeries

SCHEMA_VERSION = 1
_MANIFEST = "result.json"
_POINTS = "points.jsonl"


def require_place(target: Path) -> None:
    """Refuse, before anything runs, a place where no result folder could be written."""
    target = target.absolute()
    if target.is_symlink() and not target.exists():
        raise InvalidFileError(f"{target} is a link to nowhere")
    if target.exists():
        _require_replaceable(target)
    require_room(Path(os.path.realpath(target)), "--out")


def _require_replaceable(target: Path) -> None:
    if not target.is_dir():
        raise InvalidFileError(f"{target} is no folder; not replaced")
    if not (target / _MANIFEST).exists() and any(target.iterdir()):
        raise InvalidFileError(f"{target} exists and is no result folder; not replaced")


@dataclass
class StoredResult:
    """A result folder in memory."""

    kind: str
    info: Info
    scenario: dict[str, Any]
    points: list[PointResult]
    checks: list[dict[str, Any]] = field(default_factory=list)
    references: list[dict[str, Any]] = field(default_factory=list)
    status: str = ""
    problems: list[str] = field(default_factory=list)
    quick: bool = False
    version: str = ""
    # What was set in place of what the experiment's file says: `path`, `value`, `document`.
    overridden: list[dict[str, str]] = field(default_factory=list)
    # Where it was read.
    folder: Path | None = None


def write_result(target: Path, result: StoredResult, source_file: Path | None) -> None:
    """Write a complete result folder in the place of an older one; what others put into that stays there."""
    with atomic_folder(target, _require_replaceable) as folder:
        lines = []
        for number, point in enumerate(result.points, 1):
            lines.append(write_point(folder, f"{number:05d}", point))
        (folder / _POINTS).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        if source_file is not None:
            shutil.copyfile(source_file, folder / source_file.name)
        manifest = {
            "schema_version": SCHEMA_VERSION,
            "kind": result.kind,
            "id": result.info.id,
            "version": result.version,
            "quick": result.quick,
            "status": result.status,
            "problems": result.problems,
            "checks": result.checks,
            "references": result.references,
            "experiment": result.info.raw,
            "scenario": result.scenario,
            "overridden": result.overridden,
            "points_digest": hashlib.sha256((folder / _POINTS).read_bytes()).hexdigest(),
        }
        manifest["digest"] = _manifest_digest(manifest)
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        # Names of files may hold what is no letter; what replaces it is what JSON writes for it.
        (folder / _MANIFEST).write_bytes(f"{text}\n".encode("utf-8", "backslashreplace"))
        _carry_over(target, folder)
    for number, point in enumerate(result.points, 1):
        # Series that were kept elsewhere, while not all points were there, are read from here from now on.
        if isinstance(point.result, StoredSeries):
            point.result.path = target / series_file(f"{number:05d}")


def _carry_over(old: Path, new: Path) -> None:
    """Copy into a result what lies in the one before it and is no part of that: pictures, notes."""
    parts = {_MANIFEST, _POINTS, Path(series_file("")).parts[0]}
    for entry in sorted(old.iterdir()) if old.is_dir() else ():
        if entry.name in parts or (new / entry.name).exists():
            continue
        if entry.is_symlink() or entry.is_file():
            shutil.copy2(entry, new / entry.name, follow_symlinks=False)
        elif entry.is_dir():
            shutil.copytree(entry, new / entry.name, symlinks=True)


def _manifest_digest(manifest: dict[str, Any]) -> str:
    about = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(json_line(about).encode("utf-8", "backslashreplace")).hexdigest()


# What everything that reads checks takes for granted.
_CHECK_KEYS = {"name", "expected", "tolerance", "measured", "provenance", "source", "status"}


def _require_shape(manifest: dict[str, Any], points: list[PointResult]) -> None:
    """Refuse a folder that was written by something else, or changed since."""
    scenario = manifest["scenario"]
    require(isinstance(scenario, dict), "`scenario` is no table")
    require(isinstance(manifest["problems"], list), "`problems` is no list")
    for each in manifest.get("overridden", []):
        require({"path", "value", "document"} <= each.keys(), "an overridden value has no path")
    for name in ("checks", "references"):
        require(isinstance(manifest[name], list), f"`{name}` is no list")
        require(all(isinstance(each, dict) for each in manifest[name]), f"`{name}` holds no tables")
    for check in manifest["checks"]:
        require(check.keys() >= _CHECK_KEYS, f"a check lacks {', '.join(sorted(_CHECK_KEYS - check.keys()))}")
    require(bool(points) or manifest["kind"] != "run", f"{_POINTS} is empty")
    for figure in manifest["experiment"].get("figures") or ():
        require(is_file_name(figure["id"]), "the id of a figure is no name")


def is_result(folder: Path) -> bool:
    """Whether this is a complete result folder."""
    return (folder / _MANIFEST).is_file() and not folder.name.startswith(".")


def require_result(folder: Path) -> None:
    """Refuse what is no result folder at all: that one is damaged is another matter."""
    if not os.path.lexists(folder):
        raise InvalidFileError(f"no folder {folder}")
    if not (folder / _MANIFEST).is_file():
        waits = folder.with_name(f"{folder.name}.partial")
        if folder.name.endswith(".partial"):
            told = ": it holds points of a run that is not complete; --resume goes on from them"
        elif waits.is_dir():
            told = f": {waits} holds points of a run that is not complete; --resume goes on from them"
        else:
            told = f": it has no {_MANIFEST}"
        raise InvalidFileError(f"{folder} is no result folder{told}")


def find_results(path: Path) -> list[Path]:
    """`path` itself if it is a result folder, else all result folders below it, in natural order."""
    from tidegate.library import natural_key

    if not os.path.lexists(path):
        raise InvalidFileError(f"no folder {path}")
    if not path.is_dir():
        raise InvalidFileError(f"{path} is no folder")
    if is_result(path):
        return [path]
    found = []
    for folder, below, files in os.walk(path):
        # Where nothing is found, nothing is looked for: hidden folders are large.
        below[:] = [name for name in below if not name.startswith(".") and not name.endswith(".partial")]
        if _MANIFEST in files:
            found.append(Path(folder))
    if not found:
        raise InvalidFileError(f"no results in {path}")
    return sorted(found, key=lambda folder: natural_key(folder.as_posix()))


def read_result(folder: Path) -> StoredResult:
    """Read a result folder back."""
    require_result(folder)
    try:
        with within(_MANIFEST):
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            if manifest["schema_version"] != SCHEMA_VERSION:
                raise InvalidFileError(
                    f"{folder}: results of schema {manifest['schema_version']}, not {SCHEMA_VERSION}"
                )
        written = (folder / _POINTS).read_bytes()
        with within(_POINTS):
            points = [read_point(folder, line) for line in lines_of(written)]
        with within(_MANIFEST):
            _require_shape(manifest, points)
        # Folders of earlier versions have none.
        expected = manifest.get("points_digest")
        require(
            expected is None or hashlib.sha256(written).hexdigest() == expected,
            f"{_POINTS} is not the one that was written with {_MANIFEST}",
        )
        require(
            manifest.get("digest") in (None, _manifest_digest(manifest)),
            f"{_MANIFEST} was changed after it was written",
        )
        return StoredResult(
            kind=manifest["kind"],
            info=Info.from_raw(manifest["id"], manifest["experiment"]),
            scenario=manifest["scenario"],
            points=points,
            checks=manifest["checks"],
            references=manifest["references"],
            status=manifest["status"],
            problems=manifest["problems"],
            quick=manifest["quick"],
            version=manifest["version"],
            overridden=manifest.get("overridden", []),
            folder=folder,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InvalidFileError):
            raise
        raise InvalidFileError(
            f"{folder} is no complete result folder: {described(error)}; {AGAIN}"
        ) from None


@contextlib.contextmanager
def using(*folders: Path) -> Iterator[None]:
    """What is made of the results in `folders` here may fail because one was changed since it was written.

    Then that is told. On whole ones a failure is our own, and stays what it is.
    """
    try:
        yield
    except (TidegateError, OSError):
        raise
    except Exception as error:
        changed = [folder for folder in folders if not _is_as_written(folder)]
        if not changed:
            raise
        raise InvalidFileError(
            f"{changed[0]}: {_MANIFEST} was changed after it was written, and cannot be made sense of: "
            f"{described(error)}; {AGAIN}"
        ) from None


def _is_as_written(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return bool(manifest["digest"] == _manifest_digest(manifest))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def require_same(target: Path, experiment_id: str, overrides: list[dict[str, str]]) -> None:
    """Refuse to replace what this experiment with these overrides did not make: its points are of no use."""
    try:
        manifest = json.loads((target / _MANIFEST).read_text(encoding="utf-8"))
        kind, own, values = manifest["kind"], manifest["id"], manifest.get("overridden", [])
        told = [f"{each['path']}={each['value']}" for each in values]
    except (OSError, ValueError, KeyError, TypeError):
        return  # for others to say
    if kind == "run":
        what = "the result of `tidegate run`"
    elif own != experiment_id:
        what = f"the result of another experiment, {own}"
    elif values != overrides:
        what = f"a result with other values: {' '.join(f'--set {text}' for text in told) or 'no --set'}"
    else:
        return
    raise UsageError(f"{target} holds {what}: give another --out, or add --fresh to replace it")


def kept_points(folder: Path) -> tuple[list[PointResult], int]:
    """The points of a result folder, of whatever version, and how many are damaged or were edited.

    The version is part of their keys. `UsageError` where another schema keeps them from being read.
    """
    if not is_result(folder):
        return [], 0
    try:
        with within(_MANIFEST):
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            schema = manifest["schema_version"]
        with within(_POINTS):
            lines = lines_of((folder / _POINTS).read_bytes())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidFileError(
            f"{folder} is no complete result folder: {described(error)}; {AGAIN}"
        ) from None
    if schema != SCHEMA_VERSION:
        raise UsageError(
            f"{folder} has results of schema {schema}, which cannot be read here (this is {SCHEMA_VERSION}): "
            "give another --out, or add --fresh to replace them"
        )
    return whole_points(folder, lines)
