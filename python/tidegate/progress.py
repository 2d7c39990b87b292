"""A progress bar: on stderr where that is a terminal, and in notebooks. Elsewhere nothing but lines."""

import html
import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol

# A notebook draws each state that it is told, and every message costs the kernel time.
_REDRAWN_S = 0.1


class _Bar(Protocol):
    """What shows `done` of `total`."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def show(self, done: int, total: int) -> None: ...
    def below(self, lines: Sequence[str]) -> None: ...
    def say(self, text: str) -> None: ...


class _Terminal:
    """By rich, on a line that vanishes in the end."""

    def __init__(self, total: int, title: str):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = _with_lines(Progress)(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(title, total=total)

    def start(self) -> None:
        self._bar.start()

    def stop(self) -> None:
        self._bar.stop()

    def show(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def below(self, lines: Sequence[str]) -> None:
        self._bar.lines = list(lines)

    def say(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)


class _Notebook:
    """One output of a cell that is updated, and empty in the end. Needs no widgets."""

    def __init__(self, total: int, title: str):
        self._title, self._total = title, total
        self._lines: Sequence[str] = ()
        self._handle: Any = None
        self._drawn_s = 0.0

    def start(self) -> None:
        from IPython.display import display

        self._handle = display(self._content(0, self._total), raw=True, display_id=True)

    def stop(self) -> None:
        self._handle.update({"text/plain": "", "text/html": ""}, raw=True)

    def show(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._drawn_s >= _REDRAWN_S:
            self._drawn_s = now
            self._handle.update(self._content(done, total), raw=True)

    def below(self, lines: Sequence[str]) -> None:
        self._lines = lines  # drawn with the next state

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def _content(self, done: int, total: int) -> dict[str, str]:
        plain = "\n".join((f"{self._title}: {done} of {total}", *self._lines))
        bar = f'<progress value="{done}" max="{total}"></progress>'
        return {"text/plain": plain, "text/html": f"{bar} {html.escape(plain)}".replace("\n", "<br>")}


def _is_in_notebook() -> bool:
    """Whether a kernel runs this; without importing what is not there."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class Progress:
    """Counts `total` pieces of work; use as a context manager."""

    def __init__(self, total: int, title: str):
        self._bar: _Bar | None = None
        self._done, self._total = 0, total
        if total and _is_in_notebook():
            self._bar = _Notebook(total, title)
        elif total and sys.stderr.isatty():
            self._bar = _Terminal(total, title)

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
            self._bar.below(lines)

    def advance(self, *_: object) -> None:
        """One piece more is done."""
        self._done += 1
        self._show()

    def reach(self, done: int) -> None:
        """So many pieces are done."""
        if done != self._done:
            self._done = done
            self._show()

    def expect(self, more: int) -> None:
        """There is more work than was known."""
        self._total += more
        self._show()

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.show(self._done, self._total)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if self._bar is not None:
            self._bar.say(text)
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
