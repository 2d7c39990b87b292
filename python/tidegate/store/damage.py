"""How it is told that a result folder is not as it was written."""

import json
from pathlib import Path

AGAIN = "the folder is damaged: run it again"


def require(holds: bool, otherwise: str) -> None:
    """Refuse what a file says, in words that `described` keeps."""
    if not holds:
        raise ValueError(otherwise)


def described(error: Exception) -> str:
    """What is wrong with a file, in words and without the bytes in it."""
    if isinstance(error, OSError):
        return f"{Path(error.filename or '').name}: {error.strerror}"
    if isinstance(error, UnicodeDecodeError):
        return "a file in it is no text"
    if isinstance(error, json.JSONDecodeError):
        return f"a file in it is no JSON, line {error.lineno}: {error.msg}"
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
