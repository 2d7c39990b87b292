"""Runs on a cluster: a Dask scheduler somewhere, or processes of this machine, in the place of threads.

Runs go out in chunks that last some seconds, each to workers that have this version, and come back
compressed. Dask decides which worker makes which chunk, and sends it to another one if that is lost. What
comes back is checked, since it comes from elsewhere, and kept at once. Whatever happens to workers, scheduler
and network, a run is made again or ends in an error; it is never left out.
"""

import contextlib
import contextvars
import json
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tidegate import cluster_wire as wire
from tidegate import parallel
from tidegate.cluster_crew import WORKER, Crew
from tidegate.cluster_wire import WireError
from tidegate.errors import ClusterError, MissingExtraError, TidegateError, UsageError
from tidegate.experiment import PointResult, Task
from tidegate.progress import Progress
from tidegate.store import StoredSeries

# How much time of a processor a chunk should take: what Dask asks for one, 17 ms (benches/cluster.py), is
# then below 1 %. A worker ends one at `_CHUNK_END_S`, however slow its machine is: so much is lost with it at
# most, and the run that it is at.
CHUNK_S = 5.0
CHUNK_MAX = 1000
_CHUNK_END_S = 10.0
# Chunks that each thread of a worker has: one that is made, and one to begin when it is.
_IN_HAND = 2
# How often it is looked which workers there are.
_TICK_S = 1.0
_CONNECT_S = 15.0
_CLOSE_S = 10.0
# Threads that check and write what came. Writing waits for the disk.
_WRITERS = 4
# How often a run is tried where its worker or its reply failed. Dask itself tries as often before.
_TRIES_MAX = 3
_SHOWN_MAX = 12
# What a worker calls (`cluster_crew.WORKER` says how).
_MAKE = f"{WORKER}.make(files, order)"


def order_of(tasks: Sequence[Task], seconds: float = _CHUNK_END_S) -> bytes:
    """What is asked of a worker: runs of one experiment, begun until the time is over."""
    runs = [[task.variant, task.axes, task.seed, task.key] for task in tasks]
    return wire.pack({"seconds": seconds, "runs": runs})


def read_reply(reply: Any, tasks: Sequence[Task]) -> tuple[str, float, list[PointResult | TidegateError]]:
    """Which worker sent it, the time of a processor that it took, and what became of the first of `tasks`.

    At least of one. `WireError` if it is no answer to them.
    """
    head, blobs = wire.unpack(reply)
    try:
        entries, seconds = head["runs"], float(head["seconds"])
        if not (isinstance(entries, list) and 0 < len(entries) <= len(tasks) and seconds >= 0):
            raise WireError("it answers other runs than those that were sent")
        found: list[PointResult | TidegateError] = []
        begin = 0
        for task, entry in zip(tasks, entries, strict=False):
            middle = begin + entry["summary_bytes"]
            end = middle + entry["series_bytes"]
            if entry["key"] != task.key or not begin <= middle <= end <= len(blobs):
                raise WireError("it answers other runs than those that were sent")
            found.append(_outcome(task, entry, blobs[begin:middle], blobs[middle:end]))
            begin = end
        if begin != len(blobs):
            raise WireError("it has bytes that belong to no run")
        return str(head["worker"]), seconds, found
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise WireError(f"it is no answer: {type(error).__name__} {error}") from None


def _outcome(task: Task, entry: Mapping[str, Any], text: bytes, series: bytes) -> PointResult | TidegateError:
    if "error" in entry:
        return TidegateError(str(entry["error"]))
    summary, names = json.loads(text), entry["series_names"]
    if not isinstance(summary, dict) or summary.get("seed") != task.seed:
        raise WireError("a summary is of another run")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WireError("series have no names")
    is_parquet = series[:4] == series[-4:] == b"PAR1"
    if is_parquet != bool(names) or bool(series) != bool(names):
        raise WireError("series are no Parquet file")
    kept = StoredSeries(Path("what a worker sent"), names, series) if names else None
    return PointResult(task.variant, task.axes, task.seed, summary, task.key, kept)


class Cluster:
    """A `parallel.Pool` of the workers of a Dask scheduler; it is first asked when there are runs."""

    def __init__(self, address: str, processes: int | None):
        """`processes` of this machine, or the scheduler at `address`, which may also be the file it wrote."""
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise MissingExtraError(
                "--cluster needs dask.distributed: pip install 'tidegate[cluster]'"
            ) from None
        self._address, self._processes = address, processes
        self._local: Any = None
        self._crew: Crew | None = None

    def run_ordered(
        self, runs: Sequence[Task], finish: parallel.Finish, bar: Progress | None = None
    ) -> Generator[PointResult | Exception]:
        """As `Pool` says; each run is a `Task` of an experiment."""
        bar = bar or Progress(0, "")
        if not runs:
            return
        work = _Work(self.connected(bar), runs, finish, bar)
        thread = threading.Thread(
            target=contextvars.copy_context().run, args=(work.go,), name="tidegate-cluster", daemon=True
        )
        thread.start()
        try:
            yield from work.outcomes.in_order(bar)
        finally:
            work.stop()
            thread.join(_CLOSE_S)

    def alone(self) -> parallel.Pool:
        """Refused: real hosts are on this machine."""
        raise UsageError("real hosts need this machine for themselves: run them without --cluster")

    def connected(self, bar: Progress) -> Crew:
        """Its workers; the scheduler is looked for, or started, when they are first asked for."""
        import dask
        from distributed import Client, LocalCluster

        if self._crew is not None:
            return self._crew
        options: dict[str, Any] = {"timeout": _CONNECT_S, "set_as_default": False, "name": "tidegate"}
        try:
            if self._processes is not None:
                # Dask would look a hundred times a second at what each worker is doing: it runs the engine.
                dask.config.set({"distributed.worker.profile.enabled": False})
                self._local = LocalCluster(
                    n_workers=self._processes,
                    threads_per_worker=1,
                    processes=True,
                    # Threads of this process would have no limit either.
                    memory_limit=0,
                    # A port that is free, and for this machine only.
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                    # Ctrl-C reaches them as well; this process is the one that ends them.
                    preload=["import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"],
                )
                client = Client(self._local, **options)
            elif self._address.endswith(".json"):
                # Dask would wait for it without end.
                Path(self._address).stat()
                client = Client(scheduler_file=self._address, **options)
            else:
                client = Client(self._address, **options)
        except (OSError, ValueError, TypeError, RuntimeError, ImportError) as error:
            raise ClusterError(f"no Dask scheduler answers at {self._address}: {error}") from error
        bar.say(f"cluster {client.scheduler.address}, dashboard {client.dashboard_link}")
        self._crew = Crew(client)
        return self._crew

    def close(self) -> None:
        """Leave the scheduler; end what was started here."""
        crew, self._crew = self._crew, None
        for each in (crew.client if crew else None, self._local):
            # Who does not answer any more needs no farewell; processes of ours end with this one.
            with contextlib.suppress(Exception):
                if each is not None:
                    each.close(timeout=_CLOSE_S)


@dataclass(eq=False)
class _Chunk:
    """Runs that went out together."""

    numbers: list[int]
    files: wire.Files
    future: Any = None
    workers: set[str] = field(default_factory=set)  # that may make it
    is_here: bool = False  # its reply, whatever becomes of the worker now


class _Work:
    """Runs under way. All happens on the thread that is in `go`, but for reading and keeping replies."""

    def __init__(self, crew: Crew, tasks: Sequence[Task], finish: parallel.Finish, bar: Progress):
        self.outcomes: parallel.Outcomes[PointResult] = parallel.Outcomes(len(tasks))
        self._crew, self._tasks, self._finish, self._bar = crew, tasks, finish, bar
        self._waiting = deque(range(len(tasks)))
        self._left = len(tasks)
        self._flying: set[_Chunk] = set()
        self._tries: dict[int, int] = {}
        self._is_stopping = threading.Event()
        self._has_said_waiting = False
        self._next_look = 0.0

    def stop(self) -> None:
        """Begin nothing more, and forget what is under way."""
        self._is_stopping.set()
        self._crew.events.put(lambda: None)

    def go(self) -> None:
        """Until all is made, or `stop`."""
        try:
            with ThreadPoolExecutor(_WRITERS, "tidegate-keep") as self._writers:
                try:
                    while self._left and not self._is_stopping.is_set():
                        self._step()
                finally:
                    self._crew.forget([chunk.future for chunk in self._flying])
                    self._flying.clear()
        except BaseException as error:
            self.outcomes.end(error)

    def _step(self) -> None:
        if time.monotonic() >= self._next_look:
            self._crew.look(self._bar)
            self._call_back()
            self._show()
            self._next_look = time.monotonic() + _TICK_S
        self._send()
        with contextlib.suppress(queue.Empty):
            self._crew.events.get(timeout=_TICK_S)()
            while not self._is_stopping.is_set():
                self._crew.events.get_nowait()()

    def _call_back(self) -> None:
        """Take back the chunks that are left to workers that are gone."""
        for chunk in list(self._flying):
            # One that has ended in an error is heard of, and counts as a try.
            is_lost = not chunk.is_here and chunk.future.status != "error"
            if is_lost and chunk.workers.isdisjoint(self._crew.workers):
                self._flying.discard(chunk)
                self._crew.forget([chunk.future])
                self._waiting.extendleft(reversed(chunk.numbers))

    def _send(self) -> None:
        threads = sum(self._crew.good().values())
        if not threads and not self._flying:
            self._crew.require_hope()
            if not self._has_said_waiting and not self._crew.workers:
                self._has_said_waiting = True
                self._bar.say("the cluster has no worker yet: waiting for one")
        while self._waiting and len(self._flying) < _IN_HAND * threads:
            chunk = self._next_chunk(threads)
            order = order_of([self._tasks[number] for number in chunk.numbers])
            given = {"files": self._crew.files(chunk.files), "order": order}
            choice = self._crew.choice()
            chunk.workers = set(choice)
            chunk.future = self._crew.submit(_MAKE, given, chunk.files.path.stem, choice)
            self._flying.add(chunk)
            self._crew.hear(chunk.future, partial(self._landed, chunk))

    def _next_chunk(self, threads: int) -> _Chunk:
        """Runs of one experiment for `CHUNK_S`, fewer towards the end so that all workers end together."""
        first = self._waiting.popleft()
        files = self._files_of(first)
        seconds = self._crew.seconds.get(files.message[: wire.DIGEST_BYTES])
        size = 1
        # Before one has been made nobody knows how long they take; one that failed is tried alone.
        if seconds is not None and first not in self._tries:
            share = len(self._waiting) // (_IN_HAND * threads)
            size = max(1, min(CHUNK_MAX, share, int(CHUNK_S / max(seconds, 1e-6))))
        numbers = [first]
        while len(numbers) < size and self._waiting:
            if self._files_of(self._waiting[0]) is not files or self._waiting[0] in self._tries:
                break
            numbers.append(self._waiting.popleft())
        return _Chunk(numbers, files)

    def _files_of(self, number: int) -> wire.Files:
        files = self._tasks[number].files
        assert files is not None, "runs of an experiment have its files"
        return files

    def _landed(self, chunk: _Chunk, reply: Any, error: Exception | None) -> None:
        """A chunk's future has ended in some way."""
        if chunk not in self._flying:
            return  # taken back
        if isinstance(error, CancelledError):
            self._failed(chunk, TidegateError("the cluster forgot it"))
        elif error is not None:
            self._failed(chunk, error)
        else:
            chunk.is_here = True
            self._writers.submit(self._take, chunk, reply)

    def _take(self, chunk: _Chunk, reply: Any) -> None:
        """Read a reply, and have what is in it kept; on a thread of its own."""
        try:
            tasks = [self._tasks[number] for number in chunk.numbers]
            worker, seconds, found = read_reply(reply, tasks)
        except Exception as error:
            self._crew.events.put(partial(self._failed, chunk, error))
            return
        for number, outcome in zip(chunk.numbers, found, strict=False):
            if isinstance(outcome, PointResult):
                try:
                    self._finish(number, outcome)
                except Exception as error:
                    self.outcomes.put(number, error)
                    continue
            self.outcomes.put(number, outcome)
        self._crew.events.put(partial(self._taken, chunk, worker, seconds, len(found)))

    def _taken(self, chunk: _Chunk, worker: str, seconds: float, count: int) -> None:
        if chunk not in self._flying:
            return
        self._flying.discard(chunk)
        self._left -= count
        # For which no time was left.
        self._waiting.extendleft(reversed(chunk.numbers[count:]))
        digest = chunk.files.message[: wire.DIGEST_BYTES]
        known = self._crew.seconds.get(digest, seconds / count)
        self._crew.seconds[digest] = (known + seconds / count) / 2
        if worker in self._crew.workers:
            self._crew.workers[worker].runs += count

    def _failed(self, chunk: _Chunk, error: Exception) -> None:
        """Its runs are made again, each alone, so that only the one fails that brings workers down."""
        from distributed import KilledWorker

        if chunk not in self._flying:
            return
        self._crew.require_scheduler()
        self._flying.discard(chunk)
        is_killed = isinstance(error, KilledWorker)
        if not is_killed:
            self._bar.say(f"{len(chunk.numbers)} runs of {chunk.files.path.stem} are made again: {error}")
        for number in reversed(chunk.numbers):
            self._tries[number] = self._tries.get(number, 0) + 1
            if self._tries[number] > _TRIES_MAX or (is_killed and len(chunk.numbers) == 1):
                why = "each worker that began it was lost" if is_killed else str(error)
                self.outcomes.put(number, ClusterError(f"given up: {why}"))
                self._left -= 1
            else:
                self._waiting.appendleft(number)

    def _show(self) -> None:
        """What each worker does, where somebody sees it."""
        if not self._bar.is_live:
            return
        chunks = {chunk.future.key: chunk for chunk in self._flying}
        try:
            processing = self._crew.client.processing()
        except OSError:
            return
        lines = []
        for address, worker in list(self._crew.workers.items())[:_SHOWN_MAX]:
            at = [chunks[key] for key in processing.get(address, ()) if key in chunks]
            does = ", ".join(f"{len(chunk.numbers)} of {chunk.files.path.stem}" for chunk in at) or "nothing"
            if not worker.is_good:
                does = worker.refused or "was asked for its version"
            lines.append(f"  {address}: {worker.runs} runs made; {does}")
        if len(self._crew.workers) > _SHOWN_MAX:
            lines.append(f"  and {len(self._crew.workers) - _SHOWN_MAX} more")
        self._bar.show(lines)
