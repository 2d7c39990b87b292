"""The score card: what each row measures of each mechanism, its 95 % interval over seeds, and who is best.

A rank is one more than the number of mechanisms that are better beyond doubt: whose whole interval is on the
better side, by more than the row calls the same. So several may be first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, inf, log, log10
from typing import Any

from tidegate import display, quantities, stats
from tidegate.checks.measured import estimates
from tidegate.errors import LackingError, MeasureError
from tidegate.experiment import PointResult
from tidegate.suite.declared import Group, Row, Suite
from tidegate.suite.mechanisms import Mechanism

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Cell:
    """What a row measures of one mechanism; or why it has nothing."""

    value: stats.Estimate | None
    rank: int | None = None
    problem: str = ""


@dataclass
class Line:
    """A row of the card with a cell for each mechanism."""

    group: Group
    row: Row
    cells: dict[str, Cell]


@dataclass
class Card:
    """A score card, and how it was made."""

    suite: Suite
    mechanisms: Sequence[Mechanism]
    lines: list[Line]
    runs: int
    seeds: list[int]
    simulated_s: float
    quick: bool
    version: str
    command: str
    overridden: list[str] = field(default_factory=list)

    def firsts(self, mechanism: str) -> tuple[int, int]:
        """In how many rows a mechanism is among the best, and how many rows have a value of it."""
        ranks = [line.cells[mechanism].rank for line in self.lines]
        return sum(rank == 1 for rank in ranks), sum(rank is not None for rank in ranks)

    @property
    def problems(self) -> dict[str, list[str]]:
        """Of each mechanism what could not be measured, and why, each reason once with its situations."""
        found: dict[str, list[str]] = {}
        for mechanism in self.mechanisms:
            reasons: dict[str, dict[str, None]] = {}
            for line in self.lines:
                if problem := line.cells[mechanism.name].problem:
                    reasons.setdefault(problem, {})[line.group.title] = None
            groups = {line.group.title for line in self.lines}
            if reasons:
                found[mechanism.name] = [
                    reason if groups <= where.keys() else f"{', '.join(where)}: {reason}"
                    for reason, where in reasons.items()
                ]
        return found


def lines_of(
    suite: Suite,
    mechanisms: Sequence[Mechanism],
    points: Sequence[PointResult],
    obstacles: Mapping[tuple[str, str], str],
    asked: Mapping[tuple[str, str], int],
) -> list[Line]:
    """Every row of the card, ranked. Of a pair so many points are `asked`; without all it has no value."""
    by_pair: dict[tuple[str, str], list[PointResult]] = {}
    for point in points:
        by_pair.setdefault((point.axes["mechanism"], point.axes["scenario"]), []).append(point)
    lines = []
    for group in suite.groups:
        for row in group.rows:
            cells = {}
            for mechanism in mechanisms:
                pair = mechanism.name, group.experiment
                made = by_pair.get(pair, ())
                lacking = asked.get(pair, 0) - len(made)
                obstacle = obstacles.get(pair, "")
                if made and lacking > 0:
                    failed = "1 of its runs" if lacking == 1 else f"{lacking} of its runs"
                    cells[mechanism.name] = Cell(None, problem=obstacle or f"{failed} failed")
                else:
                    cells[mechanism.name] = _cell(row, made, obstacle)
            lines.append(Line(group, row, _ranked(row, cells)))
    return lines


def _cell(row: Row, points: Sequence[PointResult], obstacle: str) -> Cell:
    if not points:
        return Cell(None, problem=obstacle or "its runs failed")
    try:
        ((value, _),) = estimates(row.check, points)
    except LackingError:
        # Nothing arrived that it could be measured of: whoever is starved has no delay.
        return Cell(None, problem=obstacle or f"{row.name} has no value in its runs")
    except MeasureError as error:
        return Cell(None, problem=obstacle or f"{row.name}: {error}")
    return Cell(value)


def _ranked(row: Row, cells: Mapping[str, Cell]) -> dict[str, Cell]:
    shortfalls = {name: shortfall(row, cell.value) for name, cell in cells.items() if cell.value is not None}
    found = {}
    for name, cell in cells.items():
        if name not in shortfalls:
            found[name] = cell
            continue
        least = shortfalls[name][0]
        better = sum(most + row.same < least for other, (_, most) in shortfalls.items() if other != name)
        found[name] = Cell(cell.value, 1 + better)
    return found


def shortfall(row: Row, value: stats.Estimate) -> tuple[float, float]:
    """How far from best a value is, at least and at most, by its interval: the less the better."""
    low = value.mean if value.low is None else value.low
    high = value.mean if value.high is None else value.high
    if row.better == "less":
        return low, high
    if row.better == "more":
        return -high, -low
    # As far as a factor goes: half of the target is as far off as twice.
    ends = [abs(log(end / row.target)) if end > 0 else inf for end in (low, high)]
    return (0.0 if low <= row.target <= high else min(ends)), max(ends)


def shown(value: stats.Estimate) -> tuple[str, str]:
    """A value and its interval for people: three digits; far below the last of them it is none."""
    number = quantities.number(float(f"{value.mean:.3g}"), 3)
    if value.low is None or value.high is None:
        return number, ""
    last = 10.0 ** (floor(log10(abs(value.mean))) - 2) if value.mean else 0.0
    if value.high - value.low < last / 10:
        return number, quantities.half_width(0.0, 0.0, value.count)
    return number, quantities.half_width(value.low, value.high, value.count)


def direction(row: Row) -> str:
    """Which way a row is better, in words."""
    if row.better == "near":
        return f"near {quantities.number(row.target)} is better"
    return f"{row.better} is better"


def text(card: Card) -> str:
    """The card as plain tables, one for each situation: mechanisms are rows, `*` is among the best."""
    parts = [display.coloured(card.suite.title, "title"), display.wrapped(card.suite.description), ""]
    by_group: dict[str, list[Line]] = {}
    for line in card.lines:
        by_group.setdefault(line.group.title, []).append(line)
    for title, lines in by_group.items():
        group = lines[0].group
        parts.append(display.coloured(f"{title} ({group.source})", "title"))
        parts.append(display.wrapped(group.about, "  "))
        header = ["", *(f"{line.row.name} {line.row.unit}".strip() for line in lines)]
        rows = []
        for mechanism in card.mechanisms:
            cells = [line.cells[mechanism.name] for line in lines]
            rows.append([mechanism.title, *(_plain(cell) for cell in cells)])
        parts += [display.table(header, rows, [False, *(True for _ in lines)]), ""]
    rows = [[each.title, "{} of {}".format(*card.firsts(each.name))] for each in card.mechanisms]
    parts += [display.table(["among the best", "rows"], rows, [False, True]), ""]
    for name, reasons in card.problems.items():
        parts += [display.wrapped(f"{name}: {reason}") for reason in reasons]
    return "\n".join(parts)


def _plain(cell: Cell) -> str:
    if cell.value is None:
        return "-  "
    number, half = shown(cell.value)
    return f"{number}{half}{' *' if cell.rank == 1 else '  '}"


def to_json(card: Card) -> dict[str, Any]:
    """The card with stable keys."""
    return {
        "schema_version": SCHEMA_VERSION,
        "suite": card.suite.name,
        "title": card.suite.title,
        "source": card.suite.source,
        "tidegate_version": card.version,
        "command": card.command,
        "quick": card.quick,
        "seeds": card.seeds,
        "runs": card.runs,
        "simulated_s": card.simulated_s,
        "mechanisms": [
            {
                "name": each.name,
                "title": each.title,
                "description": each.description,
                "first_rows": card.firsts(each.name)[0],
                "measured_rows": card.firsts(each.name)[1],
                "problems": card.problems.get(each.name, []),
            }
            for each in card.mechanisms
        ],
        "rows": [
            {
                "group": line.group.title,
                "experiment": line.group.experiment,
                "where": dict(line.row.check.where),
                "reduce": line.row.check.reduce,
                "name": line.row.name,
                "measure": line.row.check.measure,
                "unit": line.row.unit,
                "better": line.row.better,
                "target": line.row.target if line.row.better == "near" else None,
                "means": line.row.means,
                "source": line.group.source,
                "values": {name: _value(cell) for name, cell in line.cells.items()},
            }
            for line in card.lines
        ],
    }


def _value(cell: Cell) -> dict[str, Any]:
    if cell.value is None:
        return {"mean": None, "low": None, "high": None, "seeds": 0, "rank": None, "problem": cell.problem}
    about = {"low": cell.value.low, "high": cell.value.high, "seeds": cell.value.count, "rank": cell.rank}
    return {"mean": cell.value.mean} | about
