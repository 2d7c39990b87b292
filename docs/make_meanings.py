"""Writes `python/tidegate/meanings.json`, what `tidegate explain` says of keys of results, from their tables.

`docs/results.md` says what each key of a summary means, and `docs/experiments.md` what functions of
measures give and keys of checks mean; here their rows become entries. `--check` writes nothing and
fails where they differ.
"""

import json
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
TARGET = DOCS.parent / "python/tidegate/meanings.json"
# The table of a summary that a heading is about, beside those that name it.
_PLACES = {
    "The summary": "",
    "Transfers": "flows.NAME.transfers",
    "Pages": "flows.NAME.pages",
    "Films": "flows.NAME.video",
    "Time series": "flows.NAME",
}
_FUNCTIONS = re.compile(r"\| `([a-z_]+)\((.*)\)` \| (.+) \|")


def plain(text: str) -> str:
    """A cell as text: no links, no marks of code, no escapes."""
    return re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", text).replace("`", "").replace("\\|", "|").strip()


def of_results() -> list[dict[str, str]]:
    """The rows of every table of keys in `results.md`, in their order."""
    found = []
    place, columns = None, []
    for line in (DOCS / "results.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if line.startswith("#"):
            title = line.lstrip("# ")
            place = _PLACES.get(title, title.strip("`") if title.startswith("`") else None)
            columns = []
        elif cells and not columns:
            columns = cells
            # The second table there is of links that fluids cross.
            is_of_link = place == "fluids.NAME" and found[-1]["path"].startswith("fluids")
            prefix = "links.NAME.fluid" if is_of_link else place
        elif not cells:
            columns = []
        elif place is not None and columns[0] == "key" and not cells[0].startswith("-"):
            if cells[-1].lower().endswith("see below.") and cells[-1].count(".") < 3:
                continue  # a table, whose keys follow
            row = dict(zip(columns, cells, strict=True))
            for name in re.findall(r"`([^`]+)`", row["key"]):
                path = f"{prefix}.{name}" if prefix else name
                unit = plain(row.get("unit", ""))
                found.append({"path": path, "unit": unit, "about": plain(row["definition"])})
    return found


def of_measures() -> list[dict[str, str]]:
    """The functions of measures in `experiments.md`."""
    text = (DOCS / "experiments.md").read_text(encoding="utf-8")
    return [
        {"path": name, "call": f"{name}({arguments})", "about": plain(about)}
        for name, arguments, about in _FUNCTIONS.findall(text)
    ]


def of_checks() -> list[dict[str, str]]:
    """The keys of a check in `experiments.md`, and what a check is."""
    text = (DOCS / "experiments.md").read_text(encoding="utf-8")
    table = text.partition("# What a document reports")[2].partition("|---|---|\n")[2].partition("\n\n")[0]
    keys = {}
    for line in table.splitlines():
        key, about = line.strip("| ").split(" | ", 1)
        keys |= dict.fromkeys(re.findall(r"`(\w+)`", key), plain(about))
    told = 'What must come out of an experiment: [["NAME".checks]] in the expected.toml beside it. Its keys:'
    whole = {"path": "checks", "file": "expected.toml", "about": f"{told} {', '.join(keys)}."}
    return [whole] + [
        {"path": f"checks.{name}", "file": "expected.toml", "about": about} for name, about in keys.items()
    ]


def main() -> None:
    """Write the file, or with `--check` compare it."""
    entries = {"keys": of_results(), "functions": of_measures(), "checks": of_checks()}
    text = json.dumps(entries, indent=1, ensure_ascii=False) + "\n"
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != text:
        sys.exit(f"{TARGET.name} is not what the pages say: run {Path(__file__).name}")


if __name__ == "__main__":
    main()
