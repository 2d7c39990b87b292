"""What a worker of a cluster does: says which version it has, and makes runs (`cluster` asks for both).

Both functions are found by their names, take texts and bytes and give them: a worker and who asks may have
different versions, and `about` is how they learn of it. So neither its name nor its arguments may change.
"""

import importlib
import json
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tidegate import cluster_wire as wire
from tidegate.experiment import Place, content_key, engine

# Experiments that a worker keeps ready.
_KEPT_MAX = 4
# A reply is sent when it has so many bytes, whatever else was asked for.
_REPLY_BYTES = 32 << 20


def about(core: str) -> str:
    """As JSON, which version this worker has, and of which module the engine is.

    `core` is the module that who asks has: a package with mechanisms of its own is imported, as it was there.
    """
    package = core.partition(".")[0]
    if package != "tidegate":
        importlib.import_module(package)
    from tidegate import _core

    return json.dumps({"version": _core.__version__, "core": _core.__name__, "engine": engine()})


def obstacle(told: Any) -> str:
    """Why a worker that says this of itself (`about`) cannot be used here; empty if it can."""
    from tidegate import _core

    try:
        theirs = json.loads(told)
        version, core = str(theirs["version"]), str(theirs["core"])
        simulates = str(theirs.get("engine", "an older one"))
    except (ValueError, KeyError, TypeError):
        return "does not say which tidegate it has"
    if version != _core.__version__:
        return f"has tidegate {version}, and this is {_core.__version__}"
    if core != _core.__name__:
        return f"has the engine {core}, and this is {_core.__name__}"
    if simulates != engine():
        return f"has another build of tidegate {version}: {simulates}, and this is {engine()}"
    return ""


def make(files: bytes, order: bytes) -> bytes:
    """Make runs of the experiment in `files` until the seconds of `order` are over: what came of them.

    Runs for which no time was left are not in the reply.
    """
    head, _ = wire.unpack(order)
    end = time.monotonic() + head["seconds"]
    entries: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    size = 0
    experiment = _experiment(files)
    begin = time.thread_time()
    shown: set[Place] = set()
    for variant, axes, seed, key in head["runs"]:
        # The first of each point shows that this worker makes the same scenario of the files.
        place = variant, tuple(sorted(axes.items()))
        entry, summary, series = experiment.run(place, seed, "" if place in shown else key)
        shown.add(place)
        entries.append(entry | {"key": key, "summary_bytes": len(summary), "series_bytes": len(series)})
        blobs += [summary, series]
        size += len(summary) + len(series)
        # What is behind a wrong scenario would be of it too.
        if entry.get("is_other") or time.monotonic() > end or size > _REPLY_BYTES:
            break
    took = time.thread_time() - begin
    worker = _here(lambda worker: worker.address)
    return wire.pack({"worker": worker, "seconds": took, "runs": entries}, blobs)


class _Experiment:
    """An experiment whose files were sent, and the scenario of its that was run last."""

    def __init__(self, files: bytes):
        from tidegate import _core

        scratch = _here(lambda worker: worker.local_directory)
        self._root = Path(tempfile.mkdtemp(prefix="tidegate-", dir=scratch)).resolve()
        # When nobody needs this any more, or the process ends.
        weakref.finalize(self, shutil.rmtree, self._root, ignore_errors=True)
        self._points: dict[Place, Any] = {}
        self._last: tuple[Place, Any] | None = None
        self._problem = ""
        path, overrides, is_quick = wire.unfold(files, self._root)
        try:
            self._core = _core.Experiment.from_file(path, overrides, [str(self._root)])
        except ValueError as error:
            self._problem = self._words(error)
            return
        for point in self._core.points(is_quick):
            # The first, as `Experiment.tasks` takes it: its seed is in the text of the scenario.
            self._points.setdefault((point.variant, tuple(sorted(point.axes.items()))), point)

    def run(self, place: Place, seed: int, key: str) -> tuple[dict[str, Any], bytes, bytes]:
        """About it or what went wrong, the summary, the series; `key`, if any, must be its key."""
        from tidegate import _core

        if self._problem:
            return {"error": self._problem}, b"", b""
        try:
            scenario = self._scenario(place)
            if key and content_key(scenario.to_json(), seed, engine()) != key:
                other = "this worker makes another scenario of these files: install the same build"
                return {"error": other, "is_other": True}, b"", b""
            result = _core.run(scenario, seed=seed)
            series = _parquet(result) if result.series_names else b""
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # Also a panic of the core, which is no `Exception`.
            return {"error": self._words(error)}, b"", b""
        return {"series_names": result.series_names}, result.summary_json.encode(), series

    def _scenario(self, place: Place) -> Any:
        # Seeds are innermost, so the next run is mostly of the same one. Threads of a worker share this.
        last = self._last
        if last is None or last[0] != place:
            last = self._last = (place, self._core.scenario(self._points[place]))
        return last[1]

    def _words(self, error: BaseException) -> str:
        """Files are named as the experiment names them, and not where they lie here."""
        return str(error).replace(f"{self._root}{os.sep}", "") or type(error).__name__


def _parquet(result: Any) -> bytes:
    """The series of a run. By way of a pipe: a file would be brought to the disk first, for nothing."""
    reader, writer = os.pipe()
    with ThreadPoolExecutor(1) as other, open(reader, "rb") as source:
        reading = other.submit(source.read)
        try:
            result.write_parquet(f"/dev/fd/{writer}")
        finally:
            os.close(writer)
        return reading.result()


_kept: OrderedDict[bytes, _Experiment] = OrderedDict()
_keeping = threading.Lock()


def _experiment(files: bytes) -> _Experiment:
    """The experiment of a message, made once."""
    digest = files[: wire.DIGEST_BYTES]
    with _keeping:
        if digest not in _kept:
            _kept[digest] = _Experiment(files)
        _kept.move_to_end(digest)
        while len(_kept) > _KEPT_MAX:
            _kept.popitem(last=False)
        return _kept[digest]


def _here(ask: Callable[[Any], str]) -> str | None:
    """Something of the Dask worker that runs this; None outside of one."""
    from distributed import get_worker

    try:
        return ask(get_worker())
    except ValueError:
        return None
