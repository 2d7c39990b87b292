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


_ABOUT = {
    "emulate": "Run a scenario in real time: hosts become network namespaces, in which real programs talk "
    "through the simulated network (as root).",
    "replay": "Run the recording of an emulation through the simulator and compare every verdict.",
}


def run(command: str, arguments: list[str]) -> int:
    """Become `tidegate-emulate COMMAND ARGUMENTS...`."""
    try:
        program = find()
    except errors.TidegateError as missing:
        if not {"-h", "--help"}.isdisjoint(arguments):
            print(f"Usage: tidegate {command} ...\n\n{_ABOUT[command]}\n")
            print(f"The program itself tells its options: {missing}")
            return errors.EXIT_DONE
        raise
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [str(program), command, *arguments])
