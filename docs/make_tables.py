"""Writes the tables of parameters in `scenarios.md` and `experiments.md` from the declarations of the parameters.

Behind each `<!-- schema: NAME ... -->` stands a table of keys; its rows are what `tidegate schema` says of NAME. So a key,
its type, its default, what is allowed and what it means stand in one place, beside the mechanism.

    python docs/make_tables.py           # writes
    python docs/make_tables.py --check   # exits 1 if a page is not as it would be written
"""

import json
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGES = (
    "scenarios.md",
    "experiments.md",
    *(f"mechanisms/{page.name}" for page in sorted(DOCS.glob("mechanisms/*.md"))),
)
# Tables of the file's own sections say more than their keys' descriptions do.
BY_HAND = re.compile(r"file$|.*Text$|Start$|Figure$|DocumentedParameter$")
MARK = re.compile(r"<!-- schema: ([^\s>]+)[^>]*-->\n(\| key[^\n]*\n)(\|[-|]+\n)((?:\|[^\n]*\n)*)")
UNITS = {"Time": "time", "Rate": "rate", "Size": "size", "Limit": "limit", "Window": "window"}
NAMED = {
    "integer": "whole number",
    "number": "number",
    "boolean": "boolean",
    "array": "list",
    "object": "table",
}


def properties(schema: dict, name: str) -> tuple[dict, list[str]]:
    """The keys of one table of the schema, and those that are required; `Discipline/red` is one kind of a choice."""
    name, _, kind = name.partition("/")
    table = schema["$defs"][name]
    if kind:
        choices = table.get("oneOf") or next(one["oneOf"] for one in table["anyOf"] if "oneOf" in one)
        table = next(one for one in choices if one["properties"]["kind"].get("const") == kind)
    keys = {key: about for key, about in table.get("properties", {}).items() if key != "kind"}
    return keys, table.get("required", [])


def meanings(about: dict, schema: dict) -> str:
    """What each word of a choice means."""
    definition = schema["$defs"].get(about.get("$ref", "").rpartition("/")[2], {})
    choices = [one for one in definition.get("oneOf", []) if one.get("description") and "const" in one]
    told = [f"`{one['const']}`: {one['description'].replace(chr(10), ' ').rstrip('.')}" for one in choices]
    return "; ".join(told) + "." if told else ""


def words(definition: dict) -> list[str]:
    """The words of a choice between words."""
    found = list(definition.get("enum", []))
    return found + [one["const"] for one in definition.get("oneOf", []) if "const" in one]


def type_of(about: dict, schema: dict) -> str:
    """What is written there."""
    reference = about.get("$ref", "").rpartition("/")[2]
    if reference:
        if reference in UNITS:
            return UNITS[reference]
        choices = words(schema["$defs"][reference])
        if choices:
            return ", ".join(f"`{word}`" for word in choices)
        return {"Discipline": "queue", "Manager": "queue"}.get(reference, "table")
    of = about.get("type", "value")
    first = of[0] if isinstance(of, list) else of
    return NAMED.get(first, "text" if first == "string" else first)


def sentences(text: str) -> tuple[str, str | None]:
    """What a description says without its source and default, and the default that it names."""
    text = text.replace("\n", " ").split("Source: ")[0].strip()
    before, found, after = text.partition("Default: ")
    if not found:
        return text, None
    default, _, rest = after.partition(". ")
    return f"{before.strip()} {rest.strip()}".strip(), default.rstrip(".")


def shown(value: object) -> str:
    """A default as it is written."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, dict | list):
        return "none" if value in ({}, []) else "its own defaults"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def row(key: str, about: dict, is_required: bool, schema: dict) -> str:
    """One row of a table."""
    meaning, said = sentences(about.get("description", ""))
    allowed = about.get("$comment", "")
    if allowed and allowed not in meaning:
        meaning = f"{meaning} {allowed[0].upper()}{allowed[1:]}."
    meaning = f"{meaning} {meanings(about, schema)}".strip()
    if said is not None:
        default = said
    elif "default" in about:
        default = shown(about["default"])
    else:
        default = "required" if is_required else "none"
    cells = (f"`{key}`", type_of(about, schema), default, meaning.replace("|", "\\|"))
    return "| " + " | ".join(cells) + " |\n"


def page(text: str, schema: dict) -> str:
    """A page with its tables as they should be."""

    def table(match: re.Match) -> str:
        if BY_HAND.match(match[1]):
            return match[0]
        keys, required = properties(schema, match[1])
        rows = "".join(row(key, about, key in required, schema) for key, about in keys.items())
        start = match.start(4) - match.start()
        return match[0][:start] + rows

    return MARK.sub(table, text)


def main() -> int:
    """Write the pages, or check them."""
    from tidegate import _core

    schema = json.loads(_core.schema())
    stale = []
    for name in PAGES:
        path = DOCS / name
        text = path.read_text(encoding="utf-8")
        written = page(text, schema)
        if written != text:
            stale.append(name)
            if "--check" not in sys.argv[1:]:
                path.write_text(written, encoding="utf-8")
    if "--check" in sys.argv[1:] and stale:
        print(f"not as declared: {', '.join(stale)}; run python docs/make_tables.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
