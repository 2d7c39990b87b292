"""`tidegate emulate` and `tidegate replay`: hand over to the command line of the compiled module.

Nothing else of Python runs meanwhile, and no other thread: signals reach the emulation.
"""

import os
import sys

import typer

from tidegate import process
from tidegate.errors import UsageError

# Names a program that is run instead of the module.
VARIABLE = "TIDEGATE_EMULATE"


def program() -> list[str]:
    """The command that emulates, in a process of its own: words before `emulate` or `replay`."""
    if named := _named():
        return [named]
    from tidegate import _core

    # A module with mechanisms of its own is known to the package that brings it.
    package = _core.__name__.rpartition(".")[0]
    if package == "tidegate":
        return [sys.executable, "-m", "tidegate"]
    return [sys.executable, "-c", f"import {package}; from tidegate.cli import main; main()"]


def _named() -> str | None:
    """The program that the variable names, if it is set; `UsageError` where it is none."""
    named = os.environ.get(VARIABLE)
    if named and not (os.path.isfile(named) and os.access(named, os.X_OK)):
        raise UsageError(
            f"{VARIABLE} names {named}, which is no program: name one that emulates, or unset it to take the "
            "emulation that is part of tidegate"
        )
    return named


def run(command: str, arguments: list[str]) -> int:
    """Run `emulate ARGUMENTS...` or `replay ARGUMENTS...`; the exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    if named := _named():
        os.execv(named, [named, command, *arguments])
    from tidegate import _core

    return _core.emulate([command, *arguments])


# These two are programs of their own, which know their options and explain them.
_PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def add_to(app: typer.Typer) -> None:
    """Declare both commands."""
    app.command(
        short_help="Run a scenario in real time with real hosts (root).",
        context_settings=_PASSED_ON,
        add_help_option=False,
    )(emulate)
    app.command(
        short_help="Check every verdict of an emulation in the simulator.",
        context_settings=_PASSED_ON,
        add_help_option=False,
    )(replay)


def emulate(context: typer.Context) -> int:
    """Run a scenario in real time with real Linux hosts (as root); see `tidegate emulate --help`."""
    return run("emulate", _arguments_after("emulate", context))


def replay(context: typer.Context) -> int:
    """Run the recording of an emulation through the simulator; compare every verdict."""
    return run("replay", _arguments_after("replay", context))


def _arguments_after(command: str, context: typer.Context) -> list[str]:
    """What was written after `command`, `--` included, which the parser of options takes away."""
    given = process.command_line()
    return given[given.index(command) + 1 :] if command in given else list(context.args)
