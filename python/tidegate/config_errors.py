"""All that is wrong with a configuration, one by one.

An exception of the core has attributes for the first error alone; its `rendered` text holds them all, in the
form of `ConfigError::render` (crates/document): `error: PATH: MESSAGE`, `--> FILE:LINE:COLUMN`, line, help.
"""

import re
from typing import Any

_FIRST = "error: "
_PLACE = re.compile(r"\s*--> (?P<file>.*?)(?::(?P<line>\d+):(?P<column>\d+))?")
_TOLD = re.compile(r"  = (?P<what>help|in): (?P<text>.*)")
_HEAD = re.compile(r"(?:(?P<path>[^\s:`]+): )?(?P<message>.*)", re.DOTALL)


def listed(error: BaseException) -> list[dict[str, Any]]:
    """`message` (one line), `file`, `line`, `column` and `path` of each error that an exception holds.

    What is not known is None. An exception that no core has rendered is one error.
    """
    blocks = _blocks(getattr(error, "rendered", None) or "")
    if len(blocks) < 2:
        place = {key: getattr(error, key, None) for key in ("file", "line", "column", "path")}
        return [{"message": str(error), **place}]
    return [_error(block) for block in blocks]


def _blocks(rendered: str) -> list[list[str]]:
    blocks: list[list[str]] = []
    for line in rendered.split("\n"):
        if line.startswith(_FIRST):
            blocks.append([line.removeprefix(_FIRST)])
        elif blocks:
            blocks[-1].append(line)
    return blocks


def _error(block: list[str]) -> dict[str, Any]:
    at = next((number for number, line in enumerate(block) if _PLACE.fullmatch(line)), len(block))
    head = _HEAD.fullmatch("\n".join(block[:at]).rstrip())
    place = _PLACE.fullmatch(block[at]) if at < len(block) else None
    told = {found["what"]: found["text"] for line in block if (found := _TOLD.fullmatch(line))}
    path, message = (head["path"] or "", head["message"]) if head else ("", block[0])
    file, line, column = (place["file"], place["line"], place["column"]) if place else ("", None, None)
    where = f"{file}:{line}:{column}" if line else file
    text = ": ".join(filter(None, (where, path, message)))
    text += f" ({told['help']})" if "help" in told else ""
    text += f" [{told['in']}]" if "in" in told else ""
    return {
        "message": text,
        "file": file or None,
        "line": int(line) if line else None,
        "column": int(column) if column else None,
        "path": path,
    }
