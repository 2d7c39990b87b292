"""Result folders: writes them whole or not at all, and reads them back.

    result.json      what this is: schema_version, kind ("run" or "experiment"), versions, the experiment, the
    scenario,
                     the outcomes of its checks
    points.jsonl     one line per run: variant, axes, seed, key (hash of what the results depend on), summary,
    series series/*.parquet time series of the runs that recorded any *.toml           a copy of the file that
    was run

A folder is written under a temporary name beside its place and renamed when complete, so whatever carries the
final name is whole. A sweep collects finished points in `NAME.partial/` until all are there.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.errors import InvalidFileError, MissingExtraError, TidegateError
from tidegate.experiment import Info, PointResult

SCHEMA_VERSION = 1
_MANIFEST = "result.json"
_POINTS = "points.jsonl"
_AGAIN = "the folder is damaged: run it again"


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """A folder to fill; becomes `target` when the block ends well, vanishes when it does not."""
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        temporary.chmod(0o755)
        yield temporary
        _replace_folder(temporary, target)
    except OSError as error:
        _name_file(error, target)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def require_place(target: Path) -> None:
    """Refuse, before anything runs, a place where no result folder could be written."""
    target = target.absolute()
    if target.is_symlink() and not target.exists():
        raise InvalidFileError(f"{target} is a link to nowhere")
    if target.exists():
        _require_replaceable(target)
    parent = next(above for above in target.parents if above.exists())
    if not parent.is_dir():
        raise InvalidFileError(f"{parent} is no folder: {target} cannot be made in it")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise TidegateError(f"{parent} may not be written to: {target} cannot be made in it")


def _require_replaceable(target: Path) -> None:
    if not target.is_dir():
        raise InvalidFileError(f"{target} is no folder; not replaced")
    if not (target / _MANIFEST).exists() and any(target.iterdir()):
        raise InvalidFileError(f"{target} exists and is no result folder; not replaced")


def _replace_folder(new: Path, target: Path) -> None:
    if target.exists():
        _require_replaceable(target)
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
        os.replace(target, old)
        try:
            os.replace(new, target)
        except OSError:
            os.replace(old, target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(new, target)


def write_atomic(target: Path, data: str | bytes) -> None:
    """Write a file under a temporary name and rename it; through links, straight into devices and pipes."""
    data = data.encode() if isinstance(data, str) else data
    if target.exists() and not (target.is_file() or target.is_dir()):
        # Renaming would replace the device by a file.
        with open(target, "wb") as stream:
            stream.write(data)
        return
    target = Path(os.path.realpath(target))
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            # Whoever reads this knows the file that was asked for, not the temporary one.
            error.filename, error.filename2 = str(target), None
        raise


def _name_file(error: OSError, target: Path) -> None:
    """A full disk is told where something is written, not where the name is: add what was to be written."""
    if error.filename is None:
        error.filename = str(target)


class StoredSeries:
    """Time series in a Parquet file, with the interface of a `_core.RunResult`; read when first asked."""

    def __init__(self, path: Path, names: Sequence[str]):
        self.path = path
        self.series_names = list(names)
        self._columns: dict[str, tuple[Any, Any]] | None = None

    def series(self, name: str) -> tuple[Any, Any]:
        """Times in seconds and values."""
        if self._columns is None:
            self._columns = _read_parquet(self.path)
        if name not in self._columns:
            raise InvalidFileError(f"{self.path}: no series {name!r}, though its folder names it; {_AGAIN}")
        return self._columns[name]

    def write_parquet(self, path: str) -> None:
        """Copy the file."""
        shutil.copyfile(self.path, path)


def _read_parquet(path: Path) -> dict[str, tuple[Any, Any]]:
    try:
        import polars
    except ImportError:
        raise MissingExtraError("reading time series needs polars: pip install 'tidegate[data]'") from None
    try:
        table = polars.read_parquet(path)
        parts = table.partition_by("name", as_dict=True, maintain_order=True)
        return {
            str(key[0]): (part["time_s"].to_numpy(), part["value"].to_numpy()) for key, part in parts.items()
        }
    except (OSError, polars.exceptions.PolarsError) as error:
        raise InvalidFileError(f"{path}: no time series can be read: {error}; {_AGAIN}") from None


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


def write_result(target: Path, result: StoredResult, source_file: Path | None) -> None:
    """Write a complete result folder in the place of an older one."""
    with atomic_folder(target) as folder:
        lines = []
        for number, point in enumerate(result.points, 1):
            lines.append(_write_point(folder, f"{number:05d}", point))
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
        }
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        (folder / _MANIFEST).write_text(text + "\n", encoding="utf-8")


def _write_point(folder: Path, name: str, point: PointResult) -> str:
    series = None
    if point.series_names:
        (folder / "series").mkdir(exist_ok=True)
        series = f"series/{name}.parquet"
        point.result.write_parquet(str(folder / series))
    entry = {
        "variant": point.variant,
        "axes": point.axes,
        "seed": point.seed,
        "key": point.key,
        "series": series,
        "series_names": point.series_names,
        "summary": point.summary,
    }
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


def _read_point(folder: Path, line: str) -> PointResult:
    entry = json.loads(line)
    _require(isinstance(entry["summary"], dict), "a summary is no table")
    stored = StoredSeries(folder / entry["series"], entry["series_names"]) if entry["series"] else None
    return PointResult(
        entry["variant"], entry["axes"], entry["seed"], entry["summary"], entry.get("key", ""), stored
    )


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


# What everything that reads checks takes for granted.
_CHECK_KEYS = {"name", "expected", "tolerance", "measured", "provenance", "source", "status"}


def _require_shape(manifest: dict[str, Any], points: list[PointResult]) -> None:
    """Refuse a folder that was written by something else, or changed since."""
    scenario = manifest["scenario"]
    _require(isinstance(scenario, dict), "`scenario` is no table")
    _require(isinstance(manifest["problems"], list), "`problems` is no list")
    for name in ("checks", "references"):
        _require(isinstance(manifest[name], list), f"`{name}` is no list")
        _require(all(isinstance(each, dict) for each in manifest[name]), f"`{name}` holds no tables")
    for check in manifest["checks"]:
        _require(
            check.keys() >= _CHECK_KEYS, f"a check lacks {', '.join(sorted(_CHECK_KEYS - check.keys()))}"
        )
    _require(bool(points) or manifest["kind"] != "run", f"{_POINTS} is empty")


def is_result(folder: Path) -> bool:
    """Whether this is a complete result folder."""
    return (folder / _MANIFEST).is_file() and not folder.name.startswith(".")


def find_results(path: Path) -> list[Path]:
    """`path` itself if it is a result folder, else all result folders below it, in natural order."""
    from tidegate.library import natural_key

    if not path.is_dir():
        raise InvalidFileError(f"{path} is no folder")
    if is_result(path):
        return [path]
    found = [
        manifest.parent
        for manifest in path.rglob(_MANIFEST)
        if not any(
            part.startswith(".") or part.endswith(".partial") for part in manifest.relative_to(path).parts
        )
    ]
    if not found:
        raise InvalidFileError(f"no results in {path}")
    return sorted(found, key=lambda folder: natural_key(folder.as_posix()))


def read_result(folder: Path) -> StoredResult:
    """Read a result folder back."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        if manifest["schema_version"] != SCHEMA_VERSION:
            raise InvalidFileError(
                f"{folder}: results of schema {manifest['schema_version']}, not {SCHEMA_VERSION}"
            )
        with (folder / _POINTS).open(encoding="utf-8") as lines:
            points = [_read_point(folder, line) for line in lines]
        _require_shape(manifest, points)
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
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InvalidFileError):
            raise
        raise InvalidFileError(f"{folder} is no complete result folder: {_damage(error)}; {_AGAIN}") from None


def _damage(error: Exception) -> str:
    """What is wrong with a file, in words and without the bytes in it."""
    if isinstance(error, OSError):
        return f"{Path(error.filename or '').name}: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):
        return "a file in it is no text"
    if isinstance(error, json.JSONDecodeError):
        return f"a file in it is no JSON, line {error.lineno}: {error.msg}"
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


class PartialSweep:
    """The finished points of a sweep that is under way, one file each, in `NAME.partial/`."""

    def __init__(self, target: Path):
        self.folder = target.with_name(target.name + ".partial")

    def exists(self) -> bool:
        """Whether an earlier sweep left points."""
        return self.folder.is_dir() and any(self.folder.glob("*.json"))

    def add(self, point: PointResult) -> None:
        """Keep a finished point."""
        self.folder.mkdir(parents=True, exist_ok=True)
        line = _write_point(self.folder, point.key, point)
        write_atomic(self.folder / f"{point.key}.json", line)

    def points(self) -> dict[str, PointResult]:
        """The points kept, by key. A file that cannot be read counts as not there."""
        found = {}
        for path in sorted(self.folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                point = _read_point(self.folder, path.read_text(encoding="utf-8"))
                found[point.key] = point
        return found

    def remove(self) -> None:
        """Forget the points."""
        shutil.rmtree(self.folder, ignore_errors=True)
