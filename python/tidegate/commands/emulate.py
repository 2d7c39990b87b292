"""`tidegate emulate` and `tidegate replay`: hand over to the command line of the compiled module.

Nothing else of Python runs meanwhile, and no other thread: signals reach the emulation.
"""

import os
import sys

# Names a program that is run instead of the module.
VARIABLE = "TIDEGATE_EMULATE"


def program() -> list[str]:
    """The command that emulates, in a process of its own: words before `emulate` or `replay`."""
    if named := os.environ.get(VARIABLE):
        return [named]
    from tidegate import _core

    # A module with mechanisms of its own is known to the package that brings it.
    package = _core.__name__.rpartition(".")[0]
    if package == "tidegate":
        return [sys.executable, "-m", "tidegate"]
    return [sys.executable, "-c", f"import {package}; from tidegate.cli import main; main()"]


def run(command: str, arguments: list[str]) -> int:
    """Run `emulate ARGUMENTS...` or `replay ARGUMENTS...`; the exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    if named := os.environ.get(VARIABLE):
        os.execv(named, [named, command, *arguments])
    from tidegate import _core

    return _core.emulate([command, *arguments])
