"""`tidegate emulate` and `tidegate replay`: hand over to the program `tidegate-emulate`.

It takes the place of this process: signals reach it, and no Python remains beside a real-time loop.
"""

import os
import shutil
import sys
from pathlib import Path

from tidegate import errors

PROGRAM = "tidegate-emulate"
# Names it, before all other places where it may be.
VARIABLE = "TIDEGATE_EMULATE"


def find() -> Path:
    """The program, or a complaint that says how to get it."""
    package = Path(__file__).resolve().parent.parent
    checkout = package.parent.parent
    places = [
        *filter(None, [os.environ.get(VARIABLE)]),
        package / "bin" / PROGRAM,
        Path(sys.executable).parent / PROGRAM,
        checkout / "target" / "release" / PROGRAM,
        shutil.which(PROGRAM) or "",
    ]
    for place in places:
        if os.access(place, os.X_OK) and Path(place).is_file():
            return Path(place)
    raise errors.TidegateError(
        f"the program {PROGRAM} is missing; in a checkout make it with "
        "`cargo build --release -p tidegate-emulator`, or name it in TIDEGATE_EMULATE"
    )


def run(command: str, arguments: list[str]) -> int:
    """Become `tidegate-emulate COMMAND ARGUMENTS...`."""
    program = find()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [str(program), command, *arguments])
