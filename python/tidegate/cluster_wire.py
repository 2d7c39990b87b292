"""What goes between who asks for runs and the workers of a cluster: texts and bytes, and nothing else.

A message is the SHA-256 of what follows, and that is, compressed, one line of JSON and then the bytes it is
about. Objects of Python never cross: another version would misread them. An experiment crosses as the files
it consists of (`Files`), so that a worker reads nothing of the machine where it was asked for.
"""

import hashlib
import json
import os
import re
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tidegate import reach
from tidegate.errors import TidegateError

# Of a message, before it is compressed. The engine bounds the files of an experiment and the series of a run.
BYTES_MAX = 1 << 30
DIGEST_BYTES = 32
# Files of one experiment; the engine reads at most 256.
_FILES_MAX = 1000
# `include = "file"` and `include = ["file", "file"]`, wherever a table has that key.
_INCLUDE = re.compile(r"""\binclude["']?\s*=\s*(\[[^\]]*\]|"[^"\n]*"|'[^'\n]*')""")


class WireError(TidegateError):
    """A message is not what it should be."""


def pack(head: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """A message."""
    line = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    # The fastest level: what is sent is mostly text that repeats itself.
    body = zlib.compress(b"".join((line, b"\n", *blobs)), 1)
    return hashlib.sha256(body).digest() + body


def unpack(message: Any) -> tuple[dict[str, Any], bytes]:
    """Head and bytes of a message; `WireError` for whatever is none."""
    if not isinstance(message, bytes) or len(message) < DIGEST_BYTES:
        raise WireError("the message is cut off")
    digest, body = message[:DIGEST_BYTES], message[DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise WireError("the message was changed on its way: its digest is another")
    try:
        reader = zlib.decompressobj()
        text = reader.decompress(body, BYTES_MAX)
        if not reader.eof:
            raise WireError(f"the message is cut off, or has more than {BYTES_MAX} bytes")
        line, _, blobs = text.partition(b"\n")
        head = json.loads(line)
    except (zlib.error, ValueError, RecursionError) as error:
        raise WireError(f"the message cannot be read: {error}") from None
    if not isinstance(head, dict):
        raise WireError("the message has no head")
    return head, blobs


@dataclass
class Files:
    """The files that an experiment consists of, and what is set in it: all that its runs depend on."""

    path: Path
    overrides: Sequence[tuple[str, str]]
    is_quick: bool
    traces: set[str] = field(default_factory=set)  # as the scenarios name them

    @cached_property
    def message(self) -> bytes:
        """What a worker makes the experiment of (`opened`)."""
        texts = dict(self._texts())
        root = os.path.commonpath([os.path.dirname(name) for name in texts])
        names = {name: Path(os.path.relpath(name, root)).as_posix() for name in texts}
        main = names[_lexical(self.path)]
        files = {names[name]: text for name, text in sorted(texts.items())}
        overrides = [list(pair) for pair in self.overrides]
        return pack({"main": main, "files": files, "overrides": overrides, "quick": self.is_quick})

    def _texts(self) -> Iterator[tuple[str, str]]:
        """Every file by its path, without `..` in it."""
        main = _lexical(self.path)
        waiting = [(main, True)]
        seen: set[str] = set()
        while waiting:
            name, may_include = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            # The engine has read nothing elsewhere; what is no file is named in a comment.
            if name != main and not (reach.holds(self.path, Path(name)) and Path(name).is_file()):
                continue
            if len(seen) > _FILES_MAX:
                raise TidegateError(f"{self.path} consists of more than {_FILES_MAX} files")
            try:
                text = Path(name).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                raise TidegateError(f"{name} is no text") from None
            yield name, text
            if may_include:
                waiting += [(_beside(name, other), True) for other in includes(text)]
                # The engine looks for them beside each of these files.
                waiting += [(_beside(name, other), False) for other in sorted(self.traces)]


def includes(text: str) -> list[str]:
    """The names of the files that a TOML file may include; perhaps some more."""
    names: list[str] = []
    for match in _INCLUDE.finditer(text):
        try:
            value = tomllib.loads(f"x = {match[1]}")["x"]
        except tomllib.TOMLDecodeError:
            continue
        names += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]
    return names


def _lexical(path: Path) -> str:
    return os.path.abspath(path)


def _beside(file: str, name: str) -> str:
    return os.path.normpath(os.path.join(os.path.dirname(file), name))


def unfold(message: bytes, folder: Path) -> tuple[Path, list[tuple[str, str]], bool]:
    """Write the files of a `Files.message` below `folder`.

    The file of the experiment itself, what is set in it, and whether its quick form is asked for.
    """
    head, _ = unpack(message)
    try:
        files, main, is_quick = head["files"], head["main"], head["quick"]
        overrides = [(str(key), str(value)) for key, value in head["overrides"]]
        if main not in files or not isinstance(is_quick, bool):
            raise WireError("the experiment is not among its files")
        for name, text in files.items():
            place = folder / name
            # Lexically: nothing that is unfolded is a link.
            if not Path(os.path.normpath(place)).is_relative_to(folder) or os.path.isabs(name):
                raise WireError(f"{name} leads out of the experiment")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError(f"this is no experiment: {error}") from None
    return folder / main, overrides, is_quick
