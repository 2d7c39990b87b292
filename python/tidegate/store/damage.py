"""How it is told that a result folder is not as it was written."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from tidegate.errors import TidegateError

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
        return "it is no text"
    if isinstance(error, json.JSONDecodeError):
        return f"it is no JSON, line {error.lineno}: {error.msg}"
    if isinstance(error, KeyError):
        return f"{error} is missing"
    if isinstance(error, TypeError | AttributeError):
        return "it is not of the form that was written"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


@contextlib.contextmanager
def within(name: str) -> Iterator[None]:
    """What is wrong here is wrong with the file `name`."""
    try:
        yield
    except (OSError, TidegateError):
        raise
    except Exception as error:
        raise ValueError(f"{name}: {described(error)}") from None
