"""Where runs are made: on threads of this process, or on a cluster. Whoever has runs need not know.

Results come back in the order of the runs, so that every file written from them is the same bytes for any
number of workers, wherever they are.
"""

import contextlib
import contextvars
import os
import re
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tidegate.errors import UsageError
from tidegate.progress import Progress

Result = TypeVar("Result")
# Told of a run by its number, on any thread, when it is made; what it raises is that run's outcome.
Finish = Callable[[int, Any], None]
LOCAL = "local"
# Processes of one machine: a slip of the finger should not fill it.
# How the address of a scheduler ends.
_PORT = re.compile(r":\d+/?$")
LOCAL_MAX = 1024


def _nothing(number: int, result: Any) -> None:
    pass


@dataclass(frozen=True)
class Job:
    """Anything to be done on a thread."""

    run: Callable[[], Any]


class Pool(Protocol):
    """Makes runs."""

    def run_ordered(
        self, runs: Sequence[Any], finish: Finish, bar: Progress | None = None
    ) -> Generator[Any | Exception]:
        """Yield the result of each run, or the exception it raised, in order; `bar` advances as each is made.

        Leaving early ends it: runs not yet begun never begin.
        """
        ...

    def alone(self) -> "Pool":
        """For runs that need this machine for themselves."""
        ...


@dataclass(frozen=True)
class Workers:
    """Who is to make runs, as it was asked for: threads of this process (None: one per core), or a cluster.

    A cluster is the address of a Dask scheduler, or `local`, `local:N` for processes of this machine.
    """

    count: int | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        if self.cluster is None:
            return
        if self.count is not None:
            raise UsageError("--workers and --cluster exclude each other: the cluster has workers of its own")
        if not self.cluster.strip():
            raise UsageError("--cluster: give the address of a Dask scheduler, or local:N")
        is_scheduler = self.cluster.endswith(".json") or _PORT.search(self.cluster)
        if self._processes() is None and not is_scheduler:
            # Dask would wait for a name without a port as for a scheduler that starts later.
            raise UsageError(
                f"--cluster {self.cluster}: give HOST:PORT of a Dask scheduler (8786 by default), "
                "the file that it wrote (.json), or local:N"
            )

    @contextlib.contextmanager
    def opened(self) -> Iterator[Pool]:
        """Those workers; a cluster is left, or ended if it was made here, when the block ends."""
        if self.cluster is None:
            yield Threads(self.count)
            return
        from tidegate import cluster

        with contextlib.closing(cluster.Cluster(self.cluster, self._processes())) as pool:
            yield pool

    def _processes(self) -> int | None:
        """How many processes of this machine are asked for; None for another cluster."""
        kind, colon, number = (self.cluster or "").partition(":")
        if kind != LOCAL:
            return None
        if not colon:
            return default_workers()
        if not (number.isascii() and number.isdigit() and 1 <= int(number) <= LOCAL_MAX):
            raise UsageError(f"--cluster {self.cluster}: write local:N with N from 1 to {LOCAL_MAX}")
        return int(number)


def default_workers() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Outcomes(Generic[Result]):
    """What became of each of `count` runs: put in on any thread, in any order, and taken out in theirs."""

    def __init__(self, count: int):
        self._count = count
        self._changed = threading.Condition()
        self._found: dict[int, Result | BaseException] = {}
        self._new = 0
        self._end: BaseException | None = None

    def put(self, number: int, outcome: Result | BaseException) -> None:
        """The result of a run, or what it raised."""
        with self._changed:
            self._found[number] = outcome
            self._new += 1
            self._changed.notify()

    def end(self, error: BaseException) -> None:
        """No more will come: `error` is raised where they are waited for."""
        with self._changed:
            self._end = error
            self._changed.notify()

    def in_order(self, bar: Progress) -> Generator[Result | Exception]:
        """Each as soon as those before it are there; `bar` advances as they are put in.

        What a run raises that is no `Exception` is raised here.
        """
        for number in range(self._count):
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._new or number in self._found or self._end)  # noqa: B023
                    new, self._new = self._new, 0
                    is_here, end = number in self._found, self._end
                for _ in range(new):
                    bar.advance()
                if is_here:
                    break
                if end is not None:
                    raise end
            result = self._found.pop(number)
            if isinstance(result, BaseException) and not isinstance(result, Exception):
                raise result
            yield result


class Threads:
    """Threads of this process: the engine releases the interpreter's lock while it runs, so they are enough.

    They are daemons: when the caller leaves early (Ctrl-C), those under way do not keep the process.
    """

    def __init__(self, count: int | None = None):
        self._count = count or default_workers()

    def run_ordered(
        self, runs: Sequence[Any], finish: Finish = _nothing, bar: Progress | None = None
    ) -> Generator[Any | Exception]:
        """As `Pool` says: each run has a method `run`."""
        outcomes: Outcomes[Any] = Outcomes(len(runs))
        upcoming = iter(range(len(runs)))
        taking = threading.Lock()
        is_stopping = threading.Event()

        def work() -> None:
            while not is_stopping.is_set():
                with taking:
                    number = next(upcoming, None)
                if number is None:
                    return
                try:
                    result = runs[number].run()
                    finish(number, result)
                except BaseException as error:
                    # Also what is no `Exception`, such as a panic of the core: whoever waits must hear of it.
                    result = error
                outcomes.put(number, result)

        for number in range(min(self._count, len(runs))):
            # What the caller allows (`reach`) is allowed there too.
            context = contextvars.copy_context()
            threading.Thread(target=context.run, args=(work,), name=f"tidegate-{number}", daemon=True).start()
        try:
            yield from outcomes.in_order(bar or Progress(0, ""))
        finally:
            is_stopping.set()

    def alone(self) -> "Threads":
        """One thread."""
        return Threads(1)
