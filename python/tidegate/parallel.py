"""Runs independent jobs on threads and hands their results back in the order of the jobs.

The engine releases the interpreter's lock while it runs, so threads are enough. The order of results, and so
every file written from them, does not depend on the number of workers.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Result = TypeVar("Result")


def default_workers() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_ordered(
    jobs: Sequence[Callable[[], Result]],
    workers: int | None = None,
    on_done: Callable[[int], None] = lambda index: None,
) -> Iterator[Result | Exception]:
    """Yield each job's result, or the exception it raised, in order; `on_done` is told as each finishes.

    What a job raises that is no `Exception` is raised here.

    The threads are daemons: when the caller leaves early (Ctrl-C), jobs not yet begun never begin, and those
    under way do not keep the process.
    """
    finished = threading.Condition()
    results: dict[int, Result | BaseException] = {}
    done: list[int] = []
    upcoming = iter(range(len(jobs)))
    stopping = False

    def work() -> None:
        while True:
            with finished:
                index = None if stopping else next(upcoming, None)
            if index is None:
                return
            try:
                result: Result | BaseException = jobs[index]()
            except BaseException as error:
                # Also what is no `Exception`, such as a panic of the core: whoever waits must hear of it.
                result = error
            with finished:
                results[index] = result
                done.append(index)
                finished.notify()

    count = min(workers or default_workers(), len(jobs))
    for number in range(count):
        threading.Thread(target=work, name=f"tidegate-{number}", daemon=True).start()
    try:
        for index in range(len(jobs)):
            while True:
                with finished:
                    while not done and index not in results:
                        finished.wait()
                    newly_done, done[:] = done[:], []
                for done_index in newly_done:
                    on_done(done_index)
                if index in results:
                    break
            result = results.pop(index)
            if isinstance(result, BaseException) and not isinstance(result, Exception):
                raise result
            yield result
        for done_index in done:
            on_done(done_index)
    finally:
        stopping = True
