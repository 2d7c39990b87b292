"""A finished point on the disk: one line, with a digest, and a file of the series that it recorded.

The points of a result that is not complete yet wait in `NAME.partial/`, one file each.
"""

import contextlib
import functools
import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tidegate.experiment import PointResult
from tidegate.store.damage import require
from tidegate.store.files import write_atomic
from tidegate.store.series import StoredSeries


def series_file(name: str) -> str:
    """Where the series of the point `name` lie in its folder."""
    return f"series/{name}.parquet"


def write_point(folder: Path, name: str, point: PointResult) -> str:
    """Write the series of a point into `folder`, if it has any, as `name`; its line comes back."""
    series = None
    if point.series_names:
        (folder / "series").mkdir(exist_ok=True)
        series = series_file(name)
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
    return json_line(entry)


def json_line(entry: dict[str, Any]) -> str:
    """As it is hashed and written: on one line, the same text for the same values."""
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


def _digest(folder: Path, entry: dict[str, Any]) -> str:
    """The hash of a point: of its line without the digest, and of its series.

    Where these are read from changes nothing.
    """
    if not entry["series"]:
        return _digest_with(entry, None)
    with (folder / entry["series"]).open("rb") as file:
        return _digest_with(entry, file)


def _digest_with(entry: dict[str, Any], series: BinaryIO | None) -> str:
    about = {name: value for name, value in entry.items() if name not in ("digest", "series")}
    found = hashlib.sha256(json_line(about).encode())
    if series is not None:
        found.update(hashlib.file_digest(series, "sha256").digest())
    return found.hexdigest()


def _is_of(line: str, series: BinaryIO) -> bool:
    """Whether these are the series that the point of a line was written with, as far as the line says."""
    entry = json.loads(line)
    return "digest" not in entry or entry["digest"] == _digest_with(entry, series)


def read_point(folder: Path, line: str, is_checked: bool = False) -> PointResult:
    """The point of a line in `folder`; with `is_checked`, only if neither it nor its series changed since.

    Else series are looked at when they are read, which in most of them is never.

    Raises what `damage.described` has words for.
    """
    entry = json.loads(line)
    require(isinstance(entry["summary"], dict), "a summary is no table")
    require(entry["series"] is None or _is_series_name(entry["series"]), "a series lies elsewhere")
    if is_checked:
        require(entry.get("digest") == _digest(folder, entry), "it was changed after it was written")
    stored = None
    if entry["series"]:
        is_whole = functools.partial(_is_of, line)
        stored = StoredSeries(folder / entry["series"], entry["series_names"], is_whole=is_whole)
    return PointResult(
        entry["variant"], entry["axes"], entry["seed"], entry["summary"], entry.get("key", ""), stored
    )


def _is_series_name(name: Any) -> bool:
    """Whether this names a file of series inside a result folder: nothing else is read on behalf of one."""
    return isinstance(name, str) and re.fullmatch(r"(series/)?[\w-]+\.parquet", name) is not None


def lines_of(written: bytes) -> list[str]:
    """The lines of a file of points. JSON keeps U+2028 and its like in texts: they end no line here."""
    lines = written.decode("utf-8").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def whole_points(folder: Path, lines: Sequence[str]) -> tuple[list[PointResult], int]:
    """Those of `lines` that are as they were written, and the number of the others."""
    found: list[PointResult] = []
    damaged = 0
    for line in lines:
        try:
            found.append(read_point(folder, line, is_checked=True))
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
            line = write_point(self.folder, point.key, point)
            write_atomic(self.folder / f"{point.key}.json", line, tidies=False)
        except BaseException:
            # A folder without a point is nothing to go on with.
            for empty in (self.folder / "series", self.folder):
                with contextlib.suppress(OSError):
                    empty.rmdir()
            raise

    def count(self) -> int:
        """How many points are kept."""
        return sum(1 for _ in self.folder.glob("*.json"))

    def point(self, key: str) -> PointResult | None:
        """The point kept under `key`; None if there is none, or one that is damaged or was edited."""
        try:
            line = (self.folder / f"{key}.json").read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None
        found, _ = whole_points(self.folder, [line])
        return found[0] if found and found[0].key == key else None

    def points(self) -> tuple[list[PointResult], int]:
        """The points kept, and how many are damaged or were edited.

        These are as good as not there.
        """
        lines = []
        unreadable = 0
        for path in sorted(self.folder.glob("*.json")):
            try:
                lines.append(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                unreadable += 1
        found, damaged = whole_points(self.folder, lines)
        return found, damaged + unreadable

    def remove(self) -> None:
        """Forget the points."""
        shutil.rmtree(self.folder, ignore_errors=True)
