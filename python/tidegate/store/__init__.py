"""Result folders, written whole or not at all and read back; and the way in which any file is written.

In: what experiments and single runs gave (`PointResult`s, outcomes of checks). Out: folders on the disk
(`results`) of points and their series (`points`, `series`), and `StoredResult`s that reports, figures and
`tidegate.api` read from them. Locks and atomic writing (`files`) know nothing of results.
"""

from tidegate.store.files import (
    is_file_name,
    locked,
    require_file,
    require_inside,
    require_output,
    write_atomic,
)
from tidegate.store.points import PartialResult
from tidegate.store.results import (
    StoredResult,
    find_results,
    is_result,
    kept_points,
    read_result,
    require_place,
    require_result,
    require_same,
    using,
    write_result,
)
from tidegate.store.series import StoredSeries

__all__ = [
    "PartialResult",
    "StoredResult",
    "StoredSeries",
    "find_results",
    "is_file_name",
    "is_result",
    "kept_points",
    "locked",
    "read_result",
    "require_file",
    "require_output",
    "require_inside",
    "require_same",
    "require_place",
    "require_result",
    "using",
    "write_atomic",
    "write_result",
]
