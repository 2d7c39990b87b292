"""What the scripts that freeze verdicts have in common."""

import hashlib
import json
import sys
from pathlib import Path

ORACLE = Path(__file__).parents[1]


def hashes(scripts):
    """Of each of these files what it is now, by its path in the oracles' folder.

    `tests/python/test_oracles.py` says if one has changed since.
    """
    return {
        str(path.relative_to(ORACLE)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(scripts)
    }


def keep(out, made):
    """Writes `made` to the file `out`, each trace in a line; with --check compares it with what is there."""
    text = json.dumps(made, separators=(",", ":")).replace('},{"seed', '},\n{"seed') + "\n"
    if "--check" not in sys.argv:
        out.write_text(text)
    elif not out.exists() or out.read_text() != text:
        sys.exit(f"{out.name} differs from what the scripts give")
