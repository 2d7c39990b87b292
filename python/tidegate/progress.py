"""A progress bar on stderr, where that is a terminal; elsewhere nothing but the lines printed beside it."""

import sys
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any


class Progress:
    """Counts `total` pieces of work; use as a context manager."""

    def __init__(self, total: int, title: str):
        self._bar = None
        if total and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            console = Console(stderr=True)
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._bar = _with_lines(Bar)(*columns, console=console, transient=True)
            self._task = self._bar.add_task(title, total=total)

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def is_live(self) -> bool:
        """Whether there is a bar that somebody sees."""
        return self._bar is not None

    def show(self, lines: Sequence[str]) -> None:
        """Keep these lines below the bar, in place of those before."""
        if self._bar is not None:
            self._bar.lines = list(lines)

    def advance(self, *_: object) -> None:
        """One piece more is done."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def expect(self, more: int) -> None:
        """There is more work than was known."""
        if self._bar is not None:
            self._bar.update(self._task, total=(self._bar.tasks[0].total or 0) + more)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)


def _with_lines(bar: type) -> type:
    """A bar that has lines of text below it."""
    from rich.text import Text

    class WithLines(bar):  # type: ignore[misc]
        lines: Sequence[str] = ()

        def get_renderables(self) -> Iterable[Any]:
            yield from super().get_renderables()
            yield from (Text(line, no_wrap=True, overflow="ellipsis") for line in self.lines)

    return WithLines
