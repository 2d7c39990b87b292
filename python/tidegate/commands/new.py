"""`tidegate new`: a commented scenario, from options or from a few questions."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate import display, starter, store
from tidegate.errors import TidegateError, UsageError

# What each answer decides, in the order of the questions: the option's name, the question.
_QUESTIONS = {
    "rate": "Rate of the shared links",
    "delay": "Delay of these links, one way",
    "flows": "TCP flows",
    "queue": "Queue ({queues})",
    "control": "Congestion control ({controls})",
    "duration": "Duration of a run",
}


def new(network: str | None, out: Path | None, given: dict[str, Any], defaults: dict[str, Any]) -> int:
    """Write a scenario of `network` to the file `out`, or to stdout.

    `given` are the options that were given, `defaults` all of them. Without a network it asks for what was
    not given, if somebody is there to answer.
    """
    if out is not None:
        if out.exists():
            raise UsageError(f"{out} exists, and is not overwritten: give another file")
        store.require_file(out, "--out")
    options = defaults | given
    if network is None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(f"say which network: {', '.join(starter.Network)}")
        network = _ask(f"Network ({', '.join(starter.Network)})", "dumbbell", _checked("network", options))
        kinds = {"queues": ", ".join(starter.queues()), "controls": ", ".join(starter.controls())}
        for name, words in _QUESTIONS.items():
            if name not in given:
                question = words.format(**kinds)
                options[name] = _ask(question, options[name], _checked(name, options))
        if out is None:
            out = Path(_ask("File to write", f"{network}.toml", _free))
    text = starter.text(network, **options)
    if out is None:
        sys.stdout.write(text)
        return 0
    _write(out, text)
    display.progress_line(f"{out}: tidegate run {out}")
    return 0


def _ask(question: str, default: Any, check: Callable[[str], Any]) -> Any:
    """An answer that passes `check`; the questions go to stderr, as results go to stdout."""
    import typer

    while True:
        answer = typer.prompt(question, default=str(default), err=True)
        try:
            return check(answer)
        except UsageError as error:
            typer.echo(f"  {error}", err=True)


def _checked(name: str, options: dict[str, Any]) -> Callable[[str], Any]:
    """What checks one answer, by what checks them all."""

    def check(answer: str) -> Any:
        value: Any = answer
        if name == "flows":
            if not answer.isdecimal():
                raise UsageError(f"flows: {answer!r} is no whole number")
            value = int(answer)
        starter.checked(**({"network": "dumbbell"} | options | {name: value}))
        return value

    return check


def _free(answer: str) -> str:
    if Path(answer).exists():
        raise UsageError(f"{answer} exists, and is not overwritten")
    try:
        store.require_file(Path(answer), "the file")
    except TidegateError as error:
        raise UsageError(str(error)) from None
    return answer


def _write(out: Path, text: str) -> None:
    """A new file, whole; what somebody else makes at that place meanwhile stays."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with open(out, "x"):
            pass
    except FileExistsError:
        raise UsageError(f"{out} exists, and is not overwritten: give another file") from None
    try:
        store.write_atomic(out, text)
    except BaseException:
        out.unlink(missing_ok=True)
        raise
