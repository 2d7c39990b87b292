"""Result folders: writes them whole or not at all, and reads them back.

    result.json      what this is: schema_version, kind ("run" or "experiment"), versions, the experiment,
                     the scenario, the outcomes of its checks; hashes of itself and of points.jsonl
    points.jsonl     one line per run: variant, axes, seed, key (hash of what the results depend on), summary,
                     series, digest (hash of the line and of its series: an edited point is noticed)
    series/*.parquet time series of the runs that recorded any
    *.toml           a copy of the file that was run

A folder is written under a temporary name beside its place, brought to the disk, and exchanged with what has
the final name, so whatever carries that name is whole. Points that are finished before all are wait in
`NAME.partial/`. One process at a time writes to a place: it holds `.NAME.lock`, and sweeps what killed ones
left.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate import _core
from tidegate.errors import InvalidFileError, MissingExtraError, TidegateError
from tidegate.experiment import Info, PointResult

SCHEMA_VERSION = 1
# Samples of all series of one run: some 400 MB of memory.
ROWS_MAX = 10_000_000
_MANIFEST = "result.json"
_POINTS = "points.jsonl"
# A temporary file is locked sooner than this after it was made.
_JUST_MADE_S = 0.1
_AGAIN = "the folder is damaged: run it again"


@contextlib.contextmanager
def locked(target: Path) -> Iterator[None]:
    """Keep other processes from writing to `target` meanwhile.

    Temporaries that killed ones left are removed first.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    path = target.with_name(f".{target.name}.lock")
    with _held(path, target):
        for pattern in (f".{target.name}.*.tmp", f".{target.name}.*.old"):
            for left in target.parent.glob(_literal(pattern, target.name)):
                shutil.rmtree(left, ignore_errors=True)
        yield


def _literal(pattern: str, name: str) -> str:
    """`pattern` with the `name` in it as it is: names may hold what globs mean otherwise."""
    import glob

    return pattern.replace(name, glob.escape(name), 1)


@contextlib.contextmanager
def _held(path: Path, target: Path) -> Iterator[None]:
    """An advisory lock on the file `path`, which is there while it is held."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have removed it between the two calls: then it is another file, or none.
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                break
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(handle)
            message = f"another process is writing to {target}: wait for it, or give another --out"
            raise TidegateError(message) from None
        os.close(handle)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """A folder to fill; becomes `target` when the block ends well, vanishes when it does not.

    Hold the lock of `target`.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        temporary.chmod(0o755)
        yield temporary
        if target.exists():
            _require_replaceable(target)
        _core.replace_folder(temporary, target)
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


def write_atomic(target: Path, data: str | bytes) -> None:
    """Write a file under a temporary name and rename it; through links, straight into devices and pipes.

    Temporaries of the same file that killed processes left are removed first.
    """
    data = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    if target.exists() and not (target.is_file() or target.is_dir()):
        # Renaming would replace the device by a file.
        with open(target, "wb") as stream:
            stream.write(data)
        return
    target = Path(os.path.realpath(target))
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in target.parent.glob(_literal(f".{target.name}.*.tmp", target.name)):
            _remove_if_left(left)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            _lock(handle)
            file.write(data)
            file.flush()
            os.fsync(handle)
            os.chmod(temporary, 0o644)
            # While it is locked: who finds it unlocked takes it for one that was left.
            os.replace(temporary, target)
    except BaseException as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            # Whoever reads this knows the file that was asked for, not the temporary one.
            error.filename, error.filename2 = str(target), None
        raise


def _lock(handle: int) -> bool:
    """Lock an open file against `_remove_if_left`; whether it was free. It is until the process ends."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # no such locks on this system
        return False
    except OSError:
        return False
    return True


def _remove_if_left(path: Path) -> None:
    """Remove a temporary file that no living process is writing."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDWR)
        try:
            # One that was made a moment ago may not be locked yet.
            if time.time() - os.fstat(handle).st_mtime > _JUST_MADE_S and _lock(handle):
                path.unlink()
        finally:
            os.close(handle)


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
        # The footer says how many rows there are: a small file may hold more than there is memory.
        # As a file that is open: its name may be no text, which polars takes for none.
        with path.open("rb") as file:
            rows = polars.scan_parquet(file).select(polars.len()).collect().item()
            if rows > ROWS_MAX:
                raise InvalidFileError(f"{path}: {rows} samples; at most {ROWS_MAX} are read")
            table = polars.read_parquet(file, columns=["time_s", "name", "value"])
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
    # What was set in place of what the experiment's file says: `path`, `value`, `document`.
    overridden: list[dict[str, str]] = field(default_factory=list)


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
            "overridden": result.overridden,
            "points_digest": hashlib.sha256((folder / _POINTS).read_bytes()).hexdigest(),
        }
        manifest["digest"] = _manifest_digest(manifest)
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        # Names of files may hold what is no letter; what replaces it is what JSON writes for it.
        (folder / _MANIFEST).write_bytes(f"{text}\n".encode("utf-8", "backslashreplace"))


def _manifest_digest(manifest: dict[str, Any]) -> str:
    about = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(_json_line(about).encode("utf-8", "backslashreplace")).hexdigest()


def _write_point(folder: Path, name: str, point: PointResult) -> str:
    series = None
    if point.series_names:
        (folder / "series").mkdir(exist_ok=True)
        series = f"series/{name}.parquet"
        point.result.write_parquet(str(folder / series))
    entry: dict[str, Any] = {
        "variant": point.variant,
        "axes": point.axes,
        "seed": point.seed,
        "key": point.key,
        "series": series,
        "series_names": point.series_names,
        "summary": point.summary,
    }
    entry["digest"] = _digest(folder, entry)
    return _json_line(entry)


def _json_line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


def _digest(folder: Path, entry: dict[str, Any]) -> str:
    """The hash of a point: of its line without the digest, and of its series.

    Where these are read from changes nothing.
    """
    about = {name: value for name, value in entry.items() if name not in ("digest", "series")}
    found = hashlib.sha256(_json_line(about).encode())
    if entry["series"]:
        with (folder / entry["series"]).open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def _read_point(folder: Path, line: str, is_checked: bool = False) -> PointResult:
    """The point of a line; `is_checked`.

    Only if neither it nor its series changed since they were written.
    """
    entry = json.loads(line)
    _require(isinstance(entry["summary"], dict), "a summary is no table")
    _require(entry["series"] is None or _is_series_name(entry["series"]), "a series lies elsewhere")
    if is_checked:
        _require(entry.get("digest") == _digest(folder, entry), "it was changed after it was written")
    stored = StoredSeries(folder / entry["series"], entry["series_names"]) if entry["series"] else None
    return PointResult(
        entry["variant"], entry["axes"], entry["seed"], entry["summary"], entry.get("key", ""), stored
    )


def _is_series_name(name: Any) -> bool:
    """Whether this names a file of series inside a result folder: nothing else is read on behalf of one."""
    return isinstance(name, str) and re.fullmatch(r"(series/)?[\w-]+\.parquet", name) is not None


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
    for each in manifest.get("overridden", []):
        _require({"path", "value", "document"} <= each.keys(), "an overridden value has no path")
    for name in ("checks", "references"):
        _require(isinstance(manifest[name], list), f"`{name}` is no list")
        _require(all(isinstance(each, dict) for each in manifest[name]), f"`{name}` holds no tables")
    for check in manifest["checks"]:
        _require(
            check.keys() >= _CHECK_KEYS, f"a check lacks {', '.join(sorted(_CHECK_KEYS - check.keys()))}"
        )
    _require(bool(points) or manifest["kind"] != "run", f"{_POINTS} is empty")
    for figure in manifest["experiment"].get("figures") or ():
        _require(is_file_name(figure["id"]), "the id of a figure is no name")


def is_file_name(name: Any) -> bool:
    """Whether a file may be called so, in any folder: what is asked of ids of figures when they are read."""
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) is not None


def require_inside(folder: Path, path: Path) -> None:
    """Refuse to write to `path` on behalf of `folder` if a link leads out of it."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InvalidFileError(f"{path} leads out of {folder}: nothing is written there")


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
        written = (folder / _POINTS).read_bytes()
        points = [_read_point(folder, line) for line in written.decode("utf-8").splitlines()]
        _require_shape(manifest, points)
        # Folders of earlier versions have none.
        expected = manifest.get("points_digest")
        _require(
            expected is None or hashlib.sha256(written).hexdigest() == expected,
            f"{_POINTS} is not the one that was written with {_MANIFEST}",
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
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InvalidFileError):
            raise
        raise InvalidFileError(f"{folder} is no complete result folder: {_damage(error)}; {_AGAIN}") from None


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
            f"{_damage(error)}; {_AGAIN}"
        ) from None


def _is_as_written(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return bool(manifest["digest"] == _manifest_digest(manifest))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


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


def kept_points(folder: Path, version: str) -> tuple[dict[str, PointResult], int]:
    """The points of a result folder of this `version`, by key, and how many are damaged or were edited."""
    if not is_result(folder):
        return {}, 0
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        if manifest["version"] != version or manifest["schema_version"] != SCHEMA_VERSION:
            return {}, 0
        lines = (folder / _POINTS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidFileError(f"{folder} is no complete result folder: {_damage(error)}; {_AGAIN}") from None
    return _whole_points(folder, lines)


def _whole_points(folder: Path, lines: Sequence[str]) -> tuple[dict[str, PointResult], int]:
    """Those of `lines` that are as they were written, by key, and the number of the others."""
    found: dict[str, PointResult] = {}
    damaged = 0
    for line in lines:
        try:
            point = _read_point(folder, line, is_checked=True)
            found[point.key] = point
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            damaged += 1
    return found, damaged


class PartialResult:
    """The finished points of a result that is not complete yet, one file each, in `NAME.partial/`."""

    def __init__(self, target: Path):
        self.folder = target.with_name(target.name + ".partial")

    def exists(self) -> bool:
        """Whether an earlier process left points."""
        return self.folder.is_dir() and any(self.folder.glob("*.json"))

    def add(self, point: PointResult) -> None:
        """Keep a finished point: it is on the disk when this returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            line = _write_point(self.folder, point.key, point)
            write_atomic(self.folder / f"{point.key}.json", line)
        except BaseException:
            # A folder without a point is nothing to go on with.
            for empty in (self.folder / "series", self.folder):
                with contextlib.suppress(OSError):
                    empty.rmdir()
            raise

    def points(self) -> tuple[dict[str, PointResult], int]:
        """The points kept, by key, and how many are damaged or were edited.

        These are as good as not there.
        """
        lines = []
        unreadable = 0
        for path in sorted(self.folder.glob("*.json")):
            try:
                lines.append(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                unreadable += 1
        found, damaged = _whole_points(self.folder, lines)
        return found, damaged + unreadable

    def remove(self) -> None:
        """Forget the points."""
        shutil.rmtree(self.folder, ignore_errors=True)
