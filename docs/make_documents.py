"""Writes `documents.md`: every figure, table and claim of the five documents, and what became of it.

Figures come from `figures.toml`; what is measured for one is found by the names of experiments (`also`
among them) and by the sources of experiments and checks. Nothing is run: what a difference amounts to is
its band, and what fitted parameters predict of figures that are left out is in `left_out.json`.

    python docs/make_documents.py           # writes
    python docs/make_documents.py --check   # exits 1 if the page is not as it would be written
"""

import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import leave_one_out

from tidegate import checks, library, quantities

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "documents.md"
# "Fig. 4.5(a)", "Figs. 3.13 and 3.14", "Table 2"; what stands behind, such as (a), is of the same figure.
MENTION = re.compile(
    r"(Figs?\.|Tables?) (\d+(?:\.\d+)?)[^\s,;]*(?:(?:, | and |, and )(\d+(?:\.\d+)?)(?=[\s,;:.()]|$))*"
)
HEAD = """# The documents, figure by figure

<!-- Written by make_documents.py from figures.toml and the expected values of the experiments. -->

What is compared with each figure, table and claim of the five documents, by what agreement is worth:

- **predicted**: a number of the document, or one that follows from it; no parameter was inferred from it;
- **in words**: a claim without a number;
- **fitted**: a parameter was inferred from the very number, so that agreement says nothing;
- **ours**: not the document's, as a rule to show a cause;
- **differs**: measured outside of what the document says, for a cause that is named and shown. A run
  outside of the band of such a check fails.

`tidegate reproduce` runs all of it, and its report has the measured values.
"""


FITTED = """Parameters that the documents do not give, inferred from numbers which checks then compare. Those
checks are counted as fitted. The others of the same experiments were not looked at for it: the same value
stands its test there. Some checks name a choice beside the parameters (`fitted` in `expected.toml`).
"""


LEFT_OUT = """Each figure that a parameter was inferred from is left out once; the parameter is fitted anew
to the others, with other seeds than before, and predicts what was left out. The value that fits has the
least loss: the squared deviation from the document over the tolerance of the check, in the mean over the
checks of a figure, summed over figures; results are means with 95 % intervals. By checks that have only
bounds several values can fit equally well (between them stands `;`). Where these do not agree about what was
left out, it is *left open*. *Within its noise*: other seeds may decide otherwise. The last column says how
many of the values tried meet the check: where all do, it is no test of the parameter. `make leave-one-out`
runs all of it again, by `docs/leave_one_out.toml`.
"""


@dataclass
class Row:
    """A figure, a table or a claim."""

    name: str
    shows: str
    why: str = ""
    experiments: list[str] = field(default_factory=list)
    judged: list[checks.Check] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How many checks there are by what they would be worth; those that differ apart."""
        found = dict.fromkeys((*checks.WORTHS, "differs"), 0)
        for check in self.judged:
            worth = checks.worth({"provenance": _provenance(check), "kind": check.kind})
            found["differs" if check.cause else worth] += 1
        return found


def _provenance(check: checks.Check) -> str:
    return "fitted" if check.fitted else check.provenance


@dataclass
class Shipped:
    """An experiment: its names, its source, its checks."""

    id: str
    title: str
    source: str
    names: list[str]
    judged: tuple[checks.Check, ...]
    fitted: dict[str, dict]  # parameters that were inferred, by name, each with its group in `place`


def experiments() -> list[Shipped]:
    """All of them, with real hosts or without."""
    expected: dict[Path, dict[str, checks.Expectations]] = {}
    found = []
    for name, path in library.all_experiments().items():
        file = library.expected_file(path)
        if file not in expected:
            expected[file] = checks.load(file)
        tables = _with_includes(path)
        judged = expected[file].get(path.stem, checks.Expectations()).checks
        names = [path.stem, *tables.get("also", ())]
        fitted = {
            key: value
            for key, value in tables.get("parameters", {}).items()
            if isinstance(value, dict) and value.get("provenance") == "fitted"
        }
        found.append(
            Shipped(name, tables.get("title", name), tables.get("source", ""), names, judged, fitted)
        )
    return found


def _with_includes(path: Path) -> dict:
    own = tomllib.loads(path.read_text(encoding="utf-8"))
    tables: dict = {}
    included = own.get("include", [])
    for other in [included] if isinstance(included, str) else included:
        tables |= _with_includes(path.parent / other)
    return tables | own | {"parameters": tables.get("parameters", {}) | own.get("parameters", {})}


def mentioned(text: str) -> set[str]:
    """The figures and tables that a source names, as `figures.toml` does."""
    found = set()
    for match in MENTION.finditer(text):
        kind = "Table" if match[1].startswith("Table") else "Fig."
        found |= {f"{kind} {number}" for number in re.findall(r"\d+(?:\.\d+)?", match[0])}
    return found


def named(name: str) -> str:
    """The figure after which an experiment is called, if it is: `fig8a` and `3.26a`, `table2`."""
    match = re.fullmatch(r"(fig|table|)(\d+(?:\.\d+)?)[a-z]?", name)
    if match is None:
        return ""
    return f"{'Table' if match[1] == 'table' else 'Fig.'} {match[2]}"


def rows(document: dict, shipped: list[Shipped]) -> tuple[list[Row], list[Row]]:
    """Figures and tables; then experiments that belong to none."""
    figures = {
        entry["id"]: Row(entry["id"], entry["shows"], entry.get("why", "")) for entry in document["figures"]
    }
    others = []
    for one in shipped:
        group = one.id.partition("/")[0]
        if group not in document["groups"]:
            continue
        own = {named(name) for name in one.names} | mentioned(one.source)
        homes = {figure for figure in own if figure in figures and not figures[figure].why}
        left = []
        for check in one.judged:
            places = {
                place for place in mentioned(check.source) if place in figures and not figures[place].why
            }
            # A check that names no figure belongs to that of its experiment, if that has only one.
            places = places or (homes if len(homes) == 1 else set())
            for place in places:
                figures[place].judged.append(check)
                if one.id not in figures[place].experiments:
                    figures[place].experiments.append(one.id)
            if not places:
                left.append(check)
        for place in homes:
            if one.id not in figures[place].experiments:
                figures[place].experiments.append(one.id)
        if left or not homes:
            others.append(Row(one.source or one.id, one.title, "", [one.id], left))
    return list(figures.values()), [row for row in others if row.judged]


def table(of: list[Row], first: str) -> Iterator[str]:
    """The lines of a table."""
    yield f"| {first} | shows | experiments | predicted | in words | fitted | ours | differs |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in of:
        counts = row.counts()
        numbers = " | ".join(str(count or "") for count in counts.values())
        if row.experiments:
            where = ", ".join(f"`{name}`" for name in row.experiments)
            yield f"| {row.name} | {row.shows} | {where} | {numbers} |"
        else:
            yield f"| {row.name} | {row.shows} | *{row.why or 'not repeated'}* | | | | | |"


def differences(of: list[Row]) -> Iterator[str]:
    """What differs, with what was asked for, the band, the cause and what shows it; each check once."""
    told = set()
    for row in of:
        for check in row.judged:
            if not check.cause or (check.experiment, check.name) in told:
                continue
            told.add((check.experiment, check.name))
            band = " to ".join(map(quantities.number, check.band)) if check.band else "not said"
            what = f"- {row.name}, *{check.name}* (`{check.experiment}`): asked {_asked(check)};"
            cause = check.cause[0].upper() + check.cause[1:]
            yield f"{what} measured {band}. {cause}. Shown by `{check.sensitivity}`."


def _asked(check: checks.Check) -> str:
    """What must come out, with its unit and its tolerance."""
    unit = f" {check.unit}" if check.unit else ""
    asked = check.bounds.expected
    text = " to ".join(map(quantities.number, asked if isinstance(asked, list) else [asked]))
    how = "" if check.bounds.tolerance == "between" else f", {check.bounds.tolerance}"
    return f"{text}{unit}{how}"


def inferences(shipped: list[Shipped]) -> Iterator[str]:
    """The table of parameters that were inferred, and of what the same values predict."""
    uses: dict[tuple[str, str, str], list[Shipped]] = {}
    for one in shipped:
        for name, value in one.fitted.items():
            uses.setdefault((name, str(value["value"]), value.get("why", "")), []).append(one)
    yield "| parameter | value | why | fitted | not fitted, held with the same value |"
    yield "|---|---|---|---|---|"
    for (name, value, why), of in uses.items():
        fitted = _tally(of, lambda check: bool(check.fitted))
        predicted = _tally(
            of, lambda check: not (check.fitted or check.cause or check.provenance == "assumed")
        )
        yield f"| `{name}` | {value} | {why} | {fitted} | {predicted} |"


def _tally(of: list[Shipped], counts: Callable[[checks.Check], bool]) -> str:
    """How many checks of each experiment count."""
    found = {one.id: sum(map(counts, one.judged)) for one in of}
    return ", ".join(f"`{name}` {count}" for name, count in found.items() if count) or "none"


def left_out() -> Iterator[str]:
    """What is predicted of figures that are left out: the sum, then the table."""
    measured = leave_one_out.read()
    rows, notes = [], []
    found: list[leave_one_out.Prediction] = []
    for study in leave_one_out.studies():
        names = ", ".join(f"`{name}`" for name in study.names)
        notes += [f"- {names}: {study.note}."] if study.note else []
        if study.why:
            why = f"*cannot be left out: {study.why}*"
            rows.append(f"| {names} | {', '.join(study.figures)} | | ({study.used}) | | | | {why} | |")
            continue
        predictions = leave_one_out.predictions(study, measured.get(study.id, {}))
        found += predictions
        before = None
        for each in predictions:
            first = ["", "", "", ""]
            if each.number.figure != before:
                before = each.number.figure
                others = "; ".join(figure for figure in study.figures if figure != before)
                first = [names, before, others, f"{_values(each.found)} ({study.used})"]
            rows.append(f"| {' | '.join([*first, *_outcome(each)])} |")
    verdicts = [each.verdict for each in found]
    tests = sum(each.verdict == "predicted" and each.is_test for each in found)
    told = [f"Of {len(found)} numbers {tests} are predicted where another of the values tried fails"]
    told += [f"{verdicts.count('predicted') - tests} come out by every value"]
    told += [f"{verdicts.count('not predicted')} are not predicted, {verdicts.count('left open')} left open"]
    yield f"{', '.join(told)}; {sum(each.is_within_noise for each in found)} verdicts are within their noise."
    yield ""
    yield "| parameter | left out | fitted to | found (used) | check | document | result | verdict | met by |"
    yield "|---|---|---|---|---|---|---|---|---|"
    yield from rows
    yield from ["", *notes] if notes else []


def _outcome(each: leave_one_out.Prediction) -> list[str]:
    """The cells of one number that was left out."""
    document = _asked(each.number.check)
    if each.number.document is not None:
        document = f"{quantities.number(each.number.document)} ({document})"
    means = [estimate.mean for estimate in each.estimates]
    if len(means) > 1:
        predicted = f"{quantities.number(min(means))} to {quantities.number(max(means))}, by value"
    else:
        only = each.estimates[0]
        ends = [quantities.number(end) for end in (only.low, only.high) if end is not None]
        predicted = f"{quantities.number(only.mean)} ({' to '.join(ends) or 'one seed'})"
    verdict = each.verdict
    if verdict == "left open":
        verdict += f": met by {_values([value for value in each.found if value in each.met_by])}"
    if each.is_within_noise:
        verdict += ", within its noise"
    met = f"{len(each.met_by)} of {len(each.study.candidates)}"
    return [f"*{each.number.check.name}*", document, predicted, verdict, met]


def _values(candidates: Sequence[str]) -> str:
    return "; ".join(candidates)


def page() -> str:
    """The whole page."""
    shipped = experiments()
    lines = [HEAD.rstrip(), ""]
    documents = tomllib.loads((DOCS / "figures.toml").read_text(encoding="utf-8"))
    for document in documents.values():
        figures, others = rows(document, shipped)
        missing = sum(not row.experiments and not row.why for row in figures)
        repeated = sum(bool(row.experiments) for row in figures)
        lines += [f"## {document['title']}", ""]
        results = sum(not row.why for row in figures)
        told = f"{repeated} of {results} figures and tables that show results are repeated"
        lines += [f"{told}{f'; {missing} are not' if missing else ''}.", ""]
        lines += [*table(figures, "figure"), ""]
        if others:
            lines += ["Claims beside the figures:", "", *table(others, "source"), ""]
        if found := list(differences(figures + others)):
            lines += ["What differs:", "", *found, ""]
    lines += ["## What is fitted", "", *FITTED.splitlines(), "", *inferences(shipped), ""]
    lines += ["### Left out and predicted", "", *LEFT_OUT.splitlines(), "", *left_out(), ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Write the page, or say whether it is as it would be written."""
    text = page()
    if "--check" in sys.argv:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
