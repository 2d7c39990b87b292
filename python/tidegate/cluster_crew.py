"""The workers of a cluster as Dask knows them: which there are, which may have work, and how they get it.

`cluster` decides what is to be made; nothing here knows of runs.
"""

import contextlib
import logging
import queue
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegate import _core, cluster_worker
from tidegate import cluster_wire as wire
from tidegate.errors import ClusterError
from tidegate.progress import Progress

# How long others are waited for where all workers are refused.
_HOPE_S = 30.0
# Among so many workers Dask may choose for one chunk: a list of thousands would cost more than the chunk.
_CHOICE_MAX = 32
# What a worker calls. By name, so that the scheduler, which looks at what it passes on, needs no Tidegate,
# and so that whatever a worker has instead of it answers with an error of its own.
WORKER = "__import__('tidegate.cluster_worker').cluster_worker"
ABOUT = f"{WORKER}.about(core)"


@dataclass
class Worker:
    """A worker that Dask knows."""

    threads: int
    question: Any  # the future of what it says about itself
    is_good: bool = False
    refused: str = ""
    runs: int = 0


class Crew:
    """The workers: those of this version get work, the others are told of. Used on one thread."""

    def __init__(self, client: Any):
        self.client = client
        # What is to be done on the thread that uses this.
        self.events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.workers: dict[str, Worker] = {}
        # Seconds of a processor that a run takes, by experiment.
        self.seconds: dict[bytes, float] = {}
        self._files: dict[bytes, Any] = {}
        self._next = 0
        self._hopeless_since: float | None = None

    def require_scheduler(self) -> None:
        """`ClusterError` if it is gone."""
        if self.client.status != "running":
            # It goes on to look for it, and would tell of it in many lines.
            logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
            raise ClusterError("the scheduler of the cluster is gone, and with it whatever it had to do")

    def look(self, bar: Progress) -> None:
        """See who came and who went, and ask those who came for their version."""
        self.require_scheduler()
        try:
            threads = self.client.nthreads()
        except OSError:
            raise ClusterError("the scheduler of the cluster does not answer any more") from None
        for address in self.workers.keys() - threads.keys():
            worker = self.workers.pop(address)
            self.forget([worker.question])
            if worker.is_good:
                bar.say(f"worker {address} is gone; what it had goes to others")
        for address in threads.keys() - self.workers.keys():
            question = self.submit(ABOUT, {"core": _core.__name__}, "about", [address])
            worker = self.workers[address] = Worker(threads[address], question)
            self.hear(question, partial(self._settle, address, worker, bar))

    def _settle(
        self, address: str, worker: Worker, bar: Progress, told: Any, error: Exception | None
    ) -> None:
        """Take what a worker says about itself."""
        if self.workers.get(address) is not worker:
            return  # gone meanwhile
        worker.refused = _obstacle(told, error)
        worker.is_good = not worker.refused
        if worker.refused:
            bar.say(f"worker {address} gets no work: {worker.refused}")

    def require_hope(self) -> None:
        """`ClusterError` if there are workers and none may have work, for `_HOPE_S`."""
        refused = [(address, worker.refused) for address, worker in self.workers.items() if worker.refused]
        if not refused or len(refused) < len(self.workers):
            self._hopeless_since = None
            return
        # The others may be on their way.
        self._hopeless_since = self._hopeless_since or time.monotonic()
        if time.monotonic() - self._hopeless_since > _HOPE_S:
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            raise ClusterError(f"no worker of the cluster can be used: {' '.join(refused[0])}{more}")

    def good(self) -> dict[str, int]:
        """How many threads each has that may have work."""
        return {address: worker.threads for address, worker in self.workers.items() if worker.is_good}

    def choice(self) -> list[str]:
        """Workers for a chunk, in turn where there are many."""
        good = list(self.good())
        if len(good) <= _CHOICE_MAX:
            return good
        self._next += _CHOICE_MAX
        return [good[(self._next + step) % len(good)] for step in range(_CHOICE_MAX)]

    def submit(self, call: str, given: dict[str, Any], name: str, workers: list[str]) -> Any:
        """Have one of `workers` evaluate `call` with what is `given`."""
        key = f"tidegate-{name}-{uuid.uuid4().hex}"
        return self.client.submit(eval, call, given, key=key, pure=False, workers=workers)

    def hear(self, future: Any, then: Callable[[Any, Exception | None], None]) -> None:
        """Have `then` be an event when there is what `future` gives, or the error that it ends in.

        Nobody waits for it on a thread: what has been made may be lost with its worker before it is here, and
        is then made again or, if no other may make it, never comes.
        """

        async def wait() -> None:
            try:
                event = partial(then, await future, None)
            except Exception as error:
                event = partial(then, None, error)
            self.events.put(event)

        self.client.loop.add_callback(wait)

    def forget(self, futures: list[Any]) -> None:
        """Nobody needs these any more."""
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self.client.cancel(futures)

    def files(self, files: wire.Files) -> Any:
        """The future of an experiment's files: workers get them once, and of one another."""
        digest = files.message[: wire.DIGEST_BYTES]
        future = self._files.get(digest)
        if future is None or future.status not in ("pending", "finished"):
            key = f"tidegate-files-{uuid.uuid4().hex}"
            future = self._files[digest] = self.client.submit(bytes, files.message, key=key, pure=False)
        return future


def _obstacle(told: Any, error: Exception | None) -> str:
    """Why a worker cannot be used that said this of itself, or could not; empty if it can."""
    if error is not None:
        return f"cannot import tidegate {_core.__version__}: {type(error).__name__}: {error}"
    return cluster_worker.obstacle(told)
