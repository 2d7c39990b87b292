"""Files and folders that are written whole or not at all, whoever else writes there and whoever is killed.

What is written has a temporary name beside its place, is brought to the disk, and is renamed or exchanged, so
whatever carries the final name is whole. One process at a time writes to the place of a folder: it holds
`.NAME.lock`, and sweeps what killed ones left.
"""

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidegate import _core
from tidegate.errors import InvalidFileError, TidegateError

# A temporary file is locked sooner than this after it was made.
_JUST_MADE_S = 0.1


def require_room(target: Path, option: str) -> None:
    """Refuse, before any work is done, a place where nothing can be made: tried, as the system alone knows.

    Folders above `target` may be missing; they are made when it is written. `option` is what named it.
    """
    target = Path(os.path.abspath(target))
    above = next(above for above in target.parents if os.path.lexists(above))
    if not above.is_dir():
        raise InvalidFileError(f"{option} {target}: {above} is no folder, nothing can be made in it")
    try:
        # A name as long as that of what will be written; the folder below `above` that leads there.
        name = target.relative_to(above).parts[0]
        os.rmdir(tempfile.mkdtemp(prefix=f".{name}.", suffix=".tmp", dir=above))
    except OSError as error:
        raise TidegateError(
            f"{option} {target}: nothing can be made in {above} ({error.strerror}); "
            "give a place that may be written to"
        ) from None


def require_file(target: Path, option: str) -> None:
    """Refuse a place where no file could be written (`require_room`); devices and pipes are taken."""
    if target.is_dir():
        raise InvalidFileError(f"{option} {target} is a folder: give the name of a file")
    if not target.exists() or target.is_file():
        require_room(Path(os.path.realpath(target)), option)


def require_output(target: Path, option: str) -> None:
    """The same, and refuse what is read elsewhere: scenarios, what they include, and files of results."""
    real = Path(os.path.realpath(target))
    if any(name.suffix == ".toml" or name.name in ("result.json", "points.jsonl") for name in (target, real)):
        raise InvalidFileError(f"{option} {target} is for scenarios and results: give another name")
    require_file(target, option)


@contextlib.contextmanager
def locked(target: Path) -> Iterator[None]:
    """Keep other processes from writing to `target`, or where it leads as a link, meanwhile.

    Temporaries that killed ones left are removed first.
    """
    target = Path(os.path.realpath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    path = target.with_name(f".{target.name}.lock")
    with _held(path, target):
        for left in _temporaries(target):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _temporaries(target: Path) -> list[Path]:
    """What was made beside `target` for it, and for nothing else: `.run.v2.a1b2c3d4.tmp` is not of `run`."""
    # What `tempfile` puts in the middle; `.old` is what the core moves aside.
    mine = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.(tmp|old)")
    return [path for path in target.parent.iterdir() if mine.fullmatch(path.name)]


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
def atomic_folder(target: Path, require_replaceable: Callable[[Path], None]) -> Iterator[Path]:
    """A folder to fill; becomes `target` when the block ends well, vanishes when it does not.

    A link stays, and the folder becomes what it leads to. Hold the lock of `target`. `require_replaceable`
    refuses what stands there and must not be replaced.
    """
    target = Path(os.path.realpath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        temporary.chmod(0o755)
        yield temporary
        if target.exists():
            require_replaceable(target)
        _core.replace_folder(temporary, target)
    except OSError as error:
        _name_file(error, target)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_atomic(target: Path, data: str | bytes, tidies: bool = True) -> None:
    """Write a file under a temporary name and rename it; through links, straight into devices and pipes.

    Temporaries of the same file that killed processes left are removed first, if it `tidies`: for that all of
    the folder is looked at, which in one of thousands that is removed in the end is for nothing.
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
        if tidies:
            for left in _temporaries(target):
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
            # Whoever reads this knows the file that was asked for, not the temporary one. (A second name of
            # an error is shown too, even where it is set to none.)
            raise type(error)(error.errno, error.strerror, str(target)) from None
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


def is_file_name(name: Any) -> bool:
    """Whether a file may be called so, in any folder: what is asked of ids of figures when they are read."""
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) is not None


def require_inside(folder: Path, path: Path) -> None:
    """Refuse to write to `path` on behalf of `folder` if a link leads out of it."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InvalidFileError(f"{path} leads out of {folder}: nothing is written there")
