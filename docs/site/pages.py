"""Lays out the pages of the site: what is written for reading in the repository, with links that fit here.

`docs/index.md` says which pages there are, under which headings and in which order; a page that it does not
name is an error. Links keep working because each page is found by its path in the repository.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
# Pages beside docs/, by their names in the site.
PROJECT = {
    "CONTRIBUTING.md": "project/contributing.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "STYLE.md": "project/style.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
}
LICENCES = ("LICENSE-MIT", "LICENSE-APACHE")
FENCE = re.compile(r"^```(\w+) ?([^\n]*)$")
LINK = re.compile(r"\[([^][]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
NAMED = re.compile(r"(?<!\[)`([\w-]+/[\w.-]+)`")
ROW = re.compile(r"^\| \[[^]]+\]\(([^)]+\.md)\)", re.MULTILINE)


class LayoutError(Exception):
    """Pages that cannot become a site, and why."""


def site_paths() -> dict[str, str]:
    """Where each page of the repository is in the site, by its path in the repository."""
    paths = {"README.md": "index.md", "docs/index.md": "contents.md", **PROJECT}
    for page in sorted(DOCS.rglob("*.md")):
        paths.setdefault(page.relative_to(ROOT).as_posix(), page.relative_to(DOCS).as_posix())
    return paths


def chapters() -> dict[str, list[str]]:
    """Headings of `docs/index.md` with the pages below them, as paths in the site."""
    parts = re.split(r"^## (.+)$", INDEX.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {title: ROW.findall(body) for title, body in zip(parts[1::2], parts[2::2], strict=True)}
    listed = [page for pages in found.values() for page in pages]
    there = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if page != INDEX]
    if missing := sorted(set(there) - set(listed)):
        raise LayoutError(f"docs/index.md does not name {', '.join(missing)}: give each a row of a table")
    paths = site_paths()
    return {
        title: [paths[os.path.normpath(f"docs/{page}")] for page in pages]
        for title, pages in found.items()
        if pages
    }


def copy_all(target: Path, experiments: Mapping[str, str]) -> None:
    """Write every page to `target`; names of experiments, as `experiments` has them, lead to their pages."""
    paths = site_paths()
    for own, place in paths.items():
        text = (ROOT / own).read_text(encoding="utf-8")
        write(target / place, rewritten(text, own, place, paths, experiments))
    # What pages show or link to besides: copied under the same paths.
    for picture in sorted((DOCS / "images").iterdir()):
        put(picture, target / "images" / picture.name)
    for licence in LICENCES:
        put(ROOT / licence, target / licence)


def rewritten(
    text: str, own: str, place: str, paths: Mapping[str, str], experiments: Mapping[str, str]
) -> str:
    """A page of the repository as a page of the site."""

    def link(match: re.Match) -> str:
        aim = os.path.normpath(os.path.join(os.path.dirname(own), match[2]))
        there = paths.get(aim, aim.removeprefix("docs/"))
        if aim not in paths and not aim.startswith("docs/images/") and aim not in LICENCES:
            if not (ROOT / aim).exists():
                raise LayoutError(f"{own}: the link to {match[2]} leads nowhere")
            # Of the repository, and no page: its place is told.
            return f"`{aim}`" if match[1] == f"`{aim}`" else f"{match[1]} (`{aim}`)"
        return f"[{match[1]}]({os.path.relpath(there, os.path.dirname(place) or '.')}{match[3] or ''})"

    def experiment(match: re.Match) -> str:
        page = experiments.get(match[1])
        return f"[{match[0]}](/{page})" if page else match[0]

    parts = []
    # Links may go over the end of a line, and code is left as it is.
    for prose, code in blocks(text):
        parts += [NAMED.sub(experiment, LINK.sub(link, prose)), code]
    return "".join(parts)


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Prose and the block of code behind it, in turns."""
    prose: list[str] = []
    code: list[str] = []
    for line in text.splitlines():
        if code:
            code.append(line)
            if line.startswith("```"):
                yield _lines(prose), _lines(code)
                prose, code = [], []
        elif fence := FENCE.match(line):
            code = opening(fence[1], fence[2])
        else:
            prose.append(line)
    yield _lines(prose), _lines(code)


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def opening(language: str, options: str) -> list[str]:
    """The first lines of a block of code: a file is told by its name."""
    named = re.search(r"\b(?:file|append)=(\S+)", options)
    if named is None:
        return [f"```{language}"]
    added = " (added)" if "append=" in options else ""
    return [f"```{{code-block}} {language}", f":caption: {named[1]}{added}", ""]


def toctrees(generated: Mapping[str, list[str]]) -> str:
    """What the sidebar has: the chapters, and `generated` ones behind them."""
    blocks = []
    for title, pages in {**chapters(), **generated}.items():
        names = "\n".join(page.removesuffix(".md") for page in pages)
        blocks.append(f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{names}\n```\n")
    return "\n".join(blocks)


def write(path: Path, text: str) -> None:
    """Write a page, in a folder that need not be there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def put(file: Path, target: Path) -> None:
    """Copy a file, to a folder that need not be there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)
