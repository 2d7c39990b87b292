"""Finds the experiments that come with the package, and resolves the names people give them.

They lie in `experiments/` of the package: in a checkout a link to the folder at its root, in a wheel a copy.
An experiment's id is its path there without `.toml`: `nbp/fig8a`. Files that only others include are no
experiments.
"""

import functools
import re
import tomllib
from pathlib import Path
from typing import Any

from tidegate.errors import InvalidFileError, UsageError

EXPECTED = "expected.toml"
# What makes a folder an evaluation suite: its experiments are run with mechanisms, by `tidegate suite`.
CARD = "card.toml"
# What makes a file an experiment; a plain scenario, as experiments include it, has none of them.
_EXPERIMENT_KEYS = {"also", "seeds", "quick_seeds", "quick_set", "axes", "variants", "figures"}


def experiments_dir() -> Path:
    """The folder of the shipped experiments."""
    return Path(__file__).parent / "experiments"


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Sort key that puts fig8 before fig10."""
    return [
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part
    ]


def all_experiments(directory: Path | None = None) -> dict[str, Path]:
    """Every shipped experiment by id, in natural order, without those of suites.

    Files that begin with `_` are parts of others.
    """
    root = directory or experiments_dir()
    found = {
        path.relative_to(root).with_suffix("").as_posix(): path
        for path in root.rglob("*.toml")
        if _is_listed(path)
    }
    return dict(sorted(found.items(), key=lambda item: natural_key(item[0])))


def is_shipped(name: str) -> bool:
    """Whether `name` is the id of a shipped experiment; without a look at all the others."""
    path = experiments_dir() / f"{name}.toml"
    is_id = ".." not in Path(name).parts and not Path(name).is_absolute() and Path(name).as_posix() == name
    return is_id and path.is_file() and _is_listed(path)


def _is_listed(path: Path) -> bool:
    return (
        path.name != EXPECTED
        and not path.name.startswith((".", "_"))
        and _is_experiment(path)
        and not (path.parent / CARD).exists()
    )


def _read(path: Path) -> dict[str, Any] | None:
    """The tables of a file; None where it is broken, which is reported when it is run. Not to be changed."""
    about = path.stat()
    return _parsed(path, about.st_mtime_ns, about.st_size)


@functools.lru_cache(maxsize=1024)
def _parsed(path: Path, _changed: int, _size: int) -> dict[str, Any] | None:
    """Each file is asked for several times: is it one, is it real, what else is it called."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None


def _is_experiment(path: Path) -> bool:
    tables = _read(path)
    return tables is None or not _EXPERIMENT_KEYS.isdisjoint(tables)  # a broken file is not left out


def is_real(path: Path) -> bool:
    """Whether an experiment needs real hosts: its own file lists some under `nodes.real`."""
    nodes = (_read(path) or {}).get("nodes", {})
    return isinstance(nodes, dict) and bool(nodes.get("real"))


def other_names(known: dict[str, Path]) -> dict[str, str]:
    """Ids by the further names that experiments have for what they hold (`also`): feng/3.2a for feng/3.2."""
    found = {}
    for name, path in known.items():
        also = (_read(path) or {}).get("also", ())
        group = name.rpartition("/")[0]
        found |= {f"{group}/{other}".lstrip("/"): name for other in also if isinstance(other, str)}
    return {other: name for other, name in found.items() if other not in known}


def select(ids: list[str], directory: Path | None = None) -> dict[str, Path]:
    """The experiments that `ids` name: an id, a group before a slash, a figure that one holds, or a file.

    All where `ids` is empty.
    """
    known = all_experiments(directory)
    if not known:
        raise UsageError(f"no experiments in {directory or experiments_dir()}")
    chosen: dict[str, Path] = {}
    for wanted in ids:
        if wanted.endswith(".toml") and Path(wanted).is_file():
            name, path = resolve(wanted)
            if name in chosen and chosen[name].resolve() != path.resolve():
                raise UsageError(f"{wanted} and {chosen[name]} would both be called {name!r}")
            chosen[name] = path
            continue
        name = wanted.strip().rstrip("/").removesuffix(".toml")
        matching = {key: path for key, path in known.items() if key == name or key.startswith(name + "/")}
        if not matching:
            if wanted.endswith(".toml"):
                require_file(Path(wanted))
            others = other_names(known)
            if name in others:
                chosen[others[name]] = known[others[name]]
                continue
            import difflib

            close = difflib.get_close_matches(name, [*known, *others], n=3, cutoff=0.5)
            hint = f"; did you mean {', '.join(close)}?" if close else "; see `tidegate reproduce --list`"
            raise UsageError(f"no experiment {wanted!r}{hint}")
        chosen |= matching
    return chosen if ids else known


def require_file(path: Path) -> None:
    """Refuse a file that is not there, in the same words whatever is to be done with it."""
    if path.is_dir():
        raise InvalidFileError(f"{path} is a folder: give a file in it")
    if path.is_file():
        return
    if path.exists():
        # A device or a pipe may never end, and is read more than once.
        raise InvalidFileError(f"{path} is a device, a pipe or a socket: give a file")
    name = path.as_posix().removesuffix(".toml")
    known = all_experiments()
    is_id = name in {**known, **other_names(known)} or any(each.startswith(f"{name}/") for each in known)
    told = f"; ids of experiments, as {name}, are for `tidegate sweep` and `tidegate reproduce`"
    raise InvalidFileError(f"no file {path}{told if is_id else ''}")


def expected_file(path: Path) -> Path:
    """Where the expected values of an experiment stand: beside it."""
    return path.parent / EXPECTED


def resolve(name: str) -> tuple[str, Path]:
    """Id and file of an experiment given as a file or by its id."""
    path = Path(name)
    if path.is_file():
        resolved = path.resolve()
        root = experiments_dir().resolve()
        if resolved.is_relative_to(root):
            return resolved.relative_to(root).with_suffix("").as_posix(), path
        return path.stem, path
    if path.suffix == ".toml":
        require_file(path)
    chosen = select([name])
    if len(chosen) != 1:
        raise UsageError(f"{name!r} names {len(chosen)} experiments: {', '.join(chosen)}")
    return next(iter(chosen.items()))
