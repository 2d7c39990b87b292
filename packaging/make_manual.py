"""Writes the manual pages into a folder (default: where the wheel takes them from).

python packaging/make_manual.py [FOLDER]
"""

import argparse
import subprocess
import sys
from pathlib import Path

from tidegate import manual

FOLDER = Path(__file__).parent / "wheel.data" / "data" / "share" / "man" / "man1"
# Programs of their own, which know their options and explain them.
OWN_HELP = ("emulate", "replay")


def help_of(command: str) -> str:
    """What `tidegate COMMAND --help` prints."""
    words = [sys.executable, "-m", "tidegate", command, "--help"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Write all pages; none of another version stays."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("tidegate*.1"):
        left.unlink()
    for name, text in manual.pages({command: help_of(command) for command in OWN_HELP}).items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
