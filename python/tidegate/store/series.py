"""Time series of a stored run, read from its Parquet file when they are first asked for."""

import io
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from tidegate.errors import InvalidFileError, MissingExtraError
from tidegate.store import files
from tidegate.store.damage import AGAIN

# Samples of all series of one run: some 400 MB of memory.
ROWS_MAX = 10_000_000


class StoredSeries:
    """Time series in a Parquet file, with the interface of a `_core.RunResult`; read when first asked.

    `data` is what the file holds where there is none; `path` then says where it came from. `is_whole` tells
    whether the file is the one that was written.
    """

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        data: bytes | None = None,
        is_whole: Callable[[BinaryIO], bool] = lambda file: True,
    ):
        self.path = path
        self._data = data
        self._is_whole = is_whole
        self.series_names = list(names)
        self._columns: dict[str, tuple[Any, Any]] | None = None

    def series(self, name: str) -> tuple[Any, Any]:
        """Times in seconds and values."""
        if self._columns is None:
            self._columns = _read_parquet(self.path, self._data, self._is_whole)
        if name not in self._columns:
            raise InvalidFileError(f"{self.path}: no series {name!r}, though its folder names it; {AGAIN}")
        return self._columns[name]

    def write_parquet(self, path: str) -> None:
        """Copy the file."""
        if self._data is None:
            shutil.copyfile(self.path, path)
        else:
            files.write_atomic(Path(path), self._data, tidies=False)


def _read_parquet(
    path: Path, data: bytes | None, is_whole: Callable[[BinaryIO], bool]
) -> dict[str, tuple[Any, Any]]:
    try:
        import polars
    except ImportError:
        raise MissingExtraError("reading time series needs polars: pip install 'tidegate[data]'") from None
    try:
        # The footer says how many rows there are: a small file may hold more than there is memory.
        # As a file that is open: its name may be no text, which polars takes for none.
        with path.open("rb") if data is None else io.BytesIO(data) as file:
            if not is_whole(file):
                raise InvalidFileError(f"{path}: changed after it was written, or of another point; {AGAIN}")
            file.seek(0)
            rows = polars.scan_parquet(file).select(polars.len()).collect().item()
            if rows > ROWS_MAX:
                raise InvalidFileError(f"{path}: {rows} samples; at most {ROWS_MAX} are read")
            table = polars.read_parquet(file, columns=["time_s", "name", "value"])
        parts = table.partition_by("name", as_dict=True, maintain_order=True)
        return {
            str(key[0]): (part["time_s"].to_numpy(), part["value"].to_numpy()) for key, part in parts.items()
        }
    except (OSError, polars.exceptions.PolarsError) as error:
        raise InvalidFileError(f"{path}: no time series can be read: {error}; {AGAIN}") from None
