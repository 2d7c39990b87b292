"""Where the files that a scenario names (includes, traces) may lie, beside its own folder.

A scenario may come from a stranger, so what lies elsewhere is read only where the user allows it. Experiments
that ship with Tidegate include one another.
"""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from os import PathLike, fspath
from pathlib import Path

from tidegate import library

# Of this thread, and of those that it gives work to (`parallel`): calls at the same time have their own.
_allowed: ContextVar[tuple[str, ...]] = ContextVar("allowed", default=())


def allow(folders: Sequence[Path] | None) -> None:
    """Let files lie in these folders as well, from now on; in place of those allowed before."""
    _allowed.set(tuple(str(folder) for folder in folders or ()))


@contextlib.contextmanager
def allowing(folders: Sequence[str | PathLike[str]]) -> Iterator[None]:
    """Let files lie in these folders as well while the block runs; in place of those allowed before."""
    before = _allowed.set(tuple(map(fspath, folders)))
    try:
        yield
    finally:
        _allowed.reset(before)


def allowed() -> list[str]:
    """The folders that the user allows."""
    return list(_allowed.get())


def of(path: Path) -> list[str]:
    """The folders in which files that `path` names may lie, beside its own."""
    shipped = library.experiments_dir().resolve()
    is_shipped = path.resolve().is_relative_to(shipped)
    return allowed() + ([str(shipped)] if is_shipped else [])


def holds(main: Path, path: Path) -> bool:
    """Whether `path`, which the file `main` names, is one that may be read for it; links are followed."""
    real = path.resolve()
    return any(real.is_relative_to(Path(folder).resolve()) for folder in (main.parent, *of(main)))
