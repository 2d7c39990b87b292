"""Checks the finished site: each link, picture and anchor in it leads somewhere, and nothing is loaded from
elsewhere.

What rustdoc made is looked at where pages link to it; its own pages are rustdoc's.
"""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

# Pages whose links are not ours to answer for.
APART = ("rust", "_static")


class Page(HTMLParser):
    """The anchors of a page, and what it refers to."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.doubled: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.nameless: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Of `HTMLParser`."""
        about = dict(attrs)
        if name := about.get("id"):
            (self.doubled if name in self.anchors else self.anchors).add(name)
        if tag == "a" and about.get("href"):
            self.links.append(about["href"] or "")
        if tag in ("img", "script", "iframe") and about.get("src"):
            self.loaded.append(about["src"] or "")
        if tag == "link" and about.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(about.get("href") or "")
        if tag == "img" and "alt" not in about:
            self.nameless.append(about.get("src") or "")


def site(root: Path) -> list[str]:
    """What is wrong with the site at `root`, a line for each; nothing where all is well."""
    root = root.resolve()
    files = [file for file in root.rglob("*.html") if file.relative_to(root).parts[0] not in APART]
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in files}
    wrong = []
    for file, page in pages.items():
        place = file.relative_to(root)
        wrong += [f"{place}: two things have the anchor #{name}" for name in sorted(page.doubled)]
        wrong += [f"{place}: the picture {source} has no alternative text" for source in page.nameless]
        for target in page.loaded:
            if urlsplit(target).scheme not in ("", "data") or target.startswith("//"):
                wrong.append(f"{place}: {target} is loaded from elsewhere")
        for target in {*page.links, *page.loaded}:
            if problem := _problem(target, file, root, pages):
                wrong.append(f"{place}: {target} {problem}")
    return wrong


def _problem(target: str, file: Path, root: Path, pages: dict[Path, Page]) -> str:
    """Why a link leads nowhere; empty where it does, or leads out of the site."""
    if urlsplit(target).scheme or target.startswith("//"):
        return ""
    path, fragment = urldefrag(target)
    aim = (file.parent / unquote(urlsplit(path).path)).resolve() if path else file
    if not aim.is_relative_to(root):
        return "leads out of the site"
    aim = aim / "index.html" if aim.is_dir() else aim
    if not aim.is_file():
        return "is not there"
    if fragment and aim in pages and unquote(fragment) not in pages[aim].anchors:
        return "names an anchor that is not there"
    return ""
