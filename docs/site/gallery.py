"""A page for every experiment: what it is, its figures, what its document reports beside what was measured.

In: the experiments' own files, and the results that `tidegate reproduce --quick` left. Out: Markdown pages
and pictures below `gallery/`.
"""

import re
import subprocess
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from pages import DOCS, put, write

from tidegate import checks, display, draw_static, experiment, figures, library, store, tables, topology_svg
from tidegate.figure import Figure, in_words
from tidegate.store import StoredResult

GROUPS_BESIDE = {
    "compare": "Side by side, and what follows by arithmetic",
    "real": "Real hosts beside the simulator",
}
# A picture with more is drawn in dots: time series have a point for every sample.
SVG_BYTES_MAX = 150_000
WORTHS = {"predicted": "predicted", "qualitative": "in words", "fitted": "fitted", "own": "ours"}


def places() -> dict[str, str]:
    """The page of each experiment in the site, also by its other names."""
    known = library.all_experiments()
    found = {name: f"gallery/{name}.md" for name in known}
    return found | {other: found[name] for other, name in library.other_names(known).items()}


def require_results(results: Path) -> None:
    """Run, in quick form, what has no results yet; experiments with real hosts have none."""
    missing = [
        name
        for name, path in library.all_experiments().items()
        if not library.is_real(path) and not store.is_result(results / name)
    ]
    if missing:
        command = [sys.executable, "-m", "tidegate", "reproduce", "--quick", "--fresh"]
        done = subprocess.run([*command, "--out", str(results), *missing], check=False)
        # 1: a check failed, which its page says.
        if done.returncode not in (0, 1):
            raise SystemExit(done.returncode)


def make(target: Path, results: Path) -> list[str]:
    """Write all pages; back come those of the sidebar."""
    known = library.all_experiments()
    # Not forked: threads of the libraries that read results do not live on in a fork.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        jobs = [(target, results, name, path) for name, path in known.items() if not library.is_real(path)]
        cards = dict(zip((job[2] for job in jobs), pool.map(_page_of, jobs, chunksize=4), strict=True))
    for name, path in known.items():
        if library.is_real(path):
            cards[name] = _page_without_results(target, name, path)
    groups: dict[str, list[str]] = {}
    for name in known:
        groups.setdefault(name.partition("/")[0], []).append(name)
    titles = _group_titles()
    for group, names in groups.items():
        shown = "\n\n".join(cards[name] for name in names)
        inner = "\n".join(f"{name}" for name in (each.partition("/")[2] for each in names))
        tree = f"```{{toctree}}\n:hidden:\n\n{inner}\n```\n"
        text = f"# {titles[group]}\n\n{_of(len(names))} `tidegate reproduce {group}` runs all of these.\n\n"
        write(target / f"gallery/{group}/index.md", f"{text}{tree}\n:::{{container}} gallery\n{shown}\n:::\n")
    rows = "".join(
        f"| [{titles[group]}](gallery/{group}/index.md) | {len(names)} |\n" for group, names in groups.items()
    )
    tree = "".join(f"gallery/{group}/index\n" for group in groups)
    text = (DOCS / "site" / "gallery.md.in").read_text(encoding="utf-8")
    write(target / "gallery.md", text.replace("@ROWS@\n", rows).replace("@TREE@\n", tree))
    return ["gallery.md"]


def _of(count: int) -> str:
    return f"{count} experiment{'s' if count != 1 else ''}."


def _group_titles() -> dict[str, str]:
    """What a group of experiments is called: by its document, or what it is for."""
    documents = tomllib.loads((DOCS / "figures.toml").read_text(encoding="utf-8"))
    titles = {group: entry["title"] for entry in documents.values() for group in entry["groups"]}
    return titles | GROUPS_BESIDE


def _page_of(job: tuple[Path, Path, str, Path]) -> str:
    """Write the page of an experiment; back comes its card."""
    target, results, name, path = job
    with store.using(results / name):
        result = store.read_result(results / name)
        drawn = figures.build_all(result.info, result.points, result.references)
        newest = (results / name / "result.json").stat().st_mtime
    folder = target / "gallery" / name.partition("/")[0]
    shown = [_shown(figure, folder, name.partition("/")[2], newest) for figure in drawn]
    parts = [
        *_head(name, result.info.title, result.info.source, result.info.description),
        *(part for part, _ in shown),
        *_checks(result),
        *_network(result),
        *_parameters(result),
        f"```sh\ntidegate reproduce {name}\n```\n",
        _footer(result),
    ]
    write(target / f"gallery/{name}.md", "\n\n".join(parts) + "\n")
    put(path, target / f"gallery/{name}.toml")
    picture = next((picture for _, picture in shown if picture), None)
    return _card(name, result.info.title, picture, _verdict(result))


def _page_without_results(target: Path, name: str, path: Path) -> str:
    """The page of an experiment that needs real hosts."""
    tables_of = tomllib.loads(path.read_text(encoding="utf-8"))
    texts = [tables_of.get(key, "") for key in ("title", "source", "description")]
    expected = checks.load(library.expected_file(path)).get(path.stem, checks.Expectations())
    rows = [f"| {_text(check.name)} | {_text(check.source)} |" for check in expected.checks]
    parts = [
        *_head(name, *texts),
        "It runs with real hosts, as root, and in real time; so its figures are not drawn here. "
        "[Real hosts](../../experiments.md#real-hosts) says what it needs.",
        "## What is checked",
        "\n".join(["| check | source |", "|---|---|", *rows]),
        f"```sh\nsudo tidegate reproduce {name}\n```\n",
    ]
    write(target / f"gallery/{name}.md", "\n\n".join(parts) + "\n")
    put(path, target / f"gallery/{name}.toml")
    return _card(name, tables_of.get("title", name), None, "real hosts")


def _head(name: str, title: str, source: str, description: str) -> list[str]:
    parts = [f"# {_text(title or name)}"]
    facts = [f"`{name}`", f"[its file](<{name.rpartition('/')[2]}.toml>)"]
    if source:
        facts.insert(1, _text(source))
    parts.append(" · ".join(facts))
    if description:
        parts.append(_text(" ".join(description.split())))
    return parts


def _shown(figure: Figure, folder: Path, short: str, newest: float) -> tuple[str, str]:
    """A figure in a page, and the file of its picture; drawn where the results are newer."""
    if figure.problem:
        return f"*Figure {figure.id} cannot be drawn from the quick form: {_text(figure.problem)}.*", ""
    if figure.table is not None:
        return f"**{_text(figure.title)}**\n\n{tables.markdown(figure.table)}", ""
    stem = f"{short}--{figure.id}"
    there = next(
        (folder / f"{stem}{end}" for end in (".svg", ".png") if (folder / f"{stem}{end}").exists()), None
    )
    if there is None or there.stat().st_mtime < newest:
        drawn, end = draw_static.drawn(figure, "svg"), ".svg"
        if len(drawn) > SVG_BYTES_MAX:
            drawn, end = draw_static.drawn(figure, "png"), ".png"
        for stale in (folder / f"{stem}.svg", folder / f"{stem}.png"):
            stale.unlink(missing_ok=True)
        there = folder / f"{stem}{end}"
        folder.mkdir(parents=True, exist_ok=True)
        there.write_bytes(drawn)
    words = re.sub(r"\s+", " ", in_words(figure).replace("]", ")").replace("[", "("))
    return f"![{_text(words)}](<{there.name}>)", there.name


def _checks(result: StoredResult) -> list[str]:
    """What the document reports beside what was measured."""
    if not result.checks:
        return ["It has no checks: it is there for its figures."]
    rows = ["| check | expected | measured | source | worth | status |", "|---|---|---|---|---|---|"]
    notes = []
    for check in result.checks:
        cells = [
            check["name"],
            display.expected_text(check),
            display.measured_text(check),
            check.get("source") or "",
            WORTHS[checks.worth(check)],
            check["status"],
        ]
        rows.append("| " + " | ".join(map(_text, cells)) + " |")
        if check.get("cause") and check["status"] == "differs":
            notes.append(f"- *{_text(check['name'])}* differs: {_text(check['cause'])}.")
    return ["## Expected and measured", f"{_verdict(result)}.", "\n".join(rows), *notes]


def _verdict(result: StoredResult) -> str:
    """How many checks pass, by what they are worth."""
    if not result.checks:
        return "no checks"
    counts = checks.counts(result.checks)
    passed = [f"{counts[worth]} {word}" for worth, word in WORTHS.items() if counts[worth]]
    others = [f"{counts[status]} {word}" for status, word in _OTHERS.items() if counts[status]]
    total = sum(counts[worth] for worth in WORTHS)
    told = [f"{total} of {len(result.checks)} checks pass ({', '.join(passed)})"] if passed else []
    return "; ".join([*told, *others])


_OTHERS = {
    "differs": "differ for a named cause",
    "fail": "fail",
    checks.NOT_COMPARABLE: "not comparable",
    "skipped": "not in the quick form",
}


def _network(result: StoredResult) -> list[str]:
    """Its network, drawn."""
    drawing = topology_svg.svg(result.scenario)
    if not drawing:
        return []
    # Blank lines would end the HTML.
    return ["## Network", '<figure class="network">' + re.sub(r"\n\s*", "\n", drawing) + "</figure>"]


def _parameters(result: StoredResult) -> list[str]:
    """Parameters that the experiment names, with where they come from."""
    given = result.info.raw.get("parameters") or {}
    rows = []
    for name, about in experiment.named(given).items():
        value = about.get("value", "") if about else given[name]
        rows.append([name, value, about.get("provenance", ""), about.get("why", "")])
    if not rows:
        return []
    lines = ["| parameter | value | from | why |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(map(_text, row)) + " |" for row in rows]
    return ["## Parameters", "\n".join(lines)]


def _footer(result: StoredResult) -> str:
    runs = f"{len(result.points)} run{'s' if len(result.points) != 1 else ''}"
    return f"*Drawn from the quick form: {runs}. The full form has more seeds and values.*"


def _card(name: str, title: str, picture: str | None, verdict: str) -> str:
    """A card of the gallery: one link, with the picture inside."""
    short = name.partition("/")[2]
    shown = f"![](<{picture}>)" if picture else ""
    return f"[{shown}**{_text(name)}** {_text(title)} *{_text(verdict)}*](<{short}.md>)"


def _text(text: str) -> str:
    """Text as Markdown shows it, in one line; code stays code."""
    parts = re.split(r"(`[^`]*`)", " ".join(str(text).split()))
    return "".join(
        part.replace("|", "\\|") if part.startswith("`") else re.sub(r"([\\*_\[\]<>#$|])", r"\\\1", part)
        for part in parts
    )
