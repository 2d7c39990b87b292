"""How the process of a command begins, complains and ends: streams, signals, errors, exit codes.

What can be asked is in `tidegate.cli`.
"""

import contextlib
import functools
import io
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.main import get_command

from tidegate import config_errors, errors, shells

# The command line that `invoke` runs, if it is not the process's own.
_given: list[str] | None = None


def _complain(error: BaseException) -> int:
    """Say on stderr what went wrong, with `--json` also on stdout; the exit code for it."""
    place: dict[str, str | int | None] = {}
    if hasattr(error, "show") and hasattr(error, "format_message"):  # the command line itself was wrong
        error.show()
        text, code = error.format_message(), int(error.exit_code)
    else:
        text, shown, code = str(error), f"tidegate: {error}", errors.EXIT_FAILED
        if isinstance(error, errors.TidegateError):
            code = error.exit_code
        elif hasattr(error, "rendered"):  # _core.ConfigError, without importing the core for the name
            shown, code = error.rendered or shown, errors.EXIT_INVALID
            place = {key: getattr(error, key, None) for key in ("file", "line", "column", "path")}
        elif not isinstance(error, OSError):
            raise error
        elif error.filename is None and error.errno is not None:
            # What the system refuses and has no file's name is what is printed: a full disk behind `>`.
            print(f"tidegate: the output cannot be written: {error.strerror}", file=sys.stderr)
            return code
        print(shown, file=sys.stderr)
    if _wants_json() and not isinstance(error, errors.NotStoredError):
        report: dict[str, Any] = {"schema_version": 1, "error": {"message": text, **place}, "exit_code": code}
        if place:
            report["errors"] = config_errors.listed(error)
        with contextlib.suppress(OSError):  # has been said on stderr
            print(json.dumps(report, ensure_ascii=False), flush=True)
    return code


def _wants_json() -> bool:
    """Whether `--json` was asked for; what comes after `--` belongs to other programs."""
    return "--json" in itertools.takewhile(lambda word: word != "--", command_line())


def command_line() -> list[str]:
    """What is asked for: the words after the name of the program."""
    return sys.argv[1:] if _given is None else _given


@functools.cache
def _command(app: typer.Typer) -> Callable[..., int | None]:
    """What `app` describes. Making it takes longer than many a command: several in one process share it."""
    return get_command(app)


def invoke(app: typer.Typer, arguments: list[str] | None = None) -> int:
    """Run the command line given (default: the process's own) by `app` and return the exit code."""
    global _given
    _given = arguments
    shells.answer_if_asked()
    try:
        code = _command(app)(args=arguments, standalone_mode=False)
        sys.stdout.flush()
        if code == errors.EXIT_INTERRUPTED:  # typer turns Ctrl-C into this code
            raise KeyboardInterrupt
    except BrokenPipeError:
        # The reader has gone. Python would complain once more when it closes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.EXIT_FAILED
    except (KeyboardInterrupt, typer.Abort):
        print("tidegate: interrupted", file=sys.stderr)
        return errors.EXIT_INTERRUPTED
    except Exception as error:
        return _complain(error)
    return int(code or 0)


def make_streams_safe() -> None:
    """No letter and no missing stream may end a command after its work is done."""
    if sys.stdout is None:  # closed by whoever started this: `>&-`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # `±` where there is only ASCII


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def run(app: typer.Typer) -> None:
    """The process from its start to its exit code."""
    make_streams_safe()
    # Who asks a job to end (`kill`, a batch system) gets what Ctrl-C gives: nothing half written stays.
    signal.signal(signal.SIGTERM, _interrupt)
    code = invoke(app)
    if code == errors.EXIT_INTERRUPTED:
        # Worker threads may still be inside the engine, which looks for Ctrl-C on the main thread only.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
