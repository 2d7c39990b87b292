"""The score card as one page of HTML that needs nothing else: rows are criteria, columns are mechanisms.

Where the page is narrow, or printed, a row is its name with a tile for each mechanism.
"""

from typing import Any

from tidegate import report
from tidegate.suite import card as cards
from tidegate.suite.card import Card, Cell, Line

# Shades from best to worst.
SHADES = 5

# What a table needs beside its columns, and what a column needs for a number like 0.0803, in pixels.
_BESIDE_PX, _COLUMN_PX = 365, 46
_NARROW_PX = 1080


def render(card: Card) -> str:
    """The page."""
    count = len(card.mechanisms)
    groups: dict[str, dict[str, Any]] = {}
    for line in card.lines:
        group = groups.setdefault(line.group.title, {"group": line.group, "rows": []})
        group["rows"].append(_row(line, count))
    firsts = {each.name: card.firsts(each.name) for each in card.mechanisms}
    return (
        report.environment()
        .get_template("scorecard.html.j2")
        .render(
            title=card.suite.title,
            card=card,
            groups=list(groups.values()),
            firsts=firsts,
            footer=_footer(card),
            wide=count > 8,
            crowded=count > 16,
            narrow=max(_NARROW_PX, _BESIDE_PX + _COLUMN_PX * count),
        )
    )


def _row(line: Line, count: int) -> dict[str, Any]:
    return {
        "name": line.row.name,
        "unit": line.row.unit,
        "direction": cards.direction(line.row),
        "means": line.row.means,
        "cells": {name: _cell(line, cell, count) for name, cell in line.cells.items()},
    }


def _cell(line: Line, cell: Cell, count: int) -> dict[str, Any]:
    if cell.value is None or cell.rank is None:
        return {"number": "–", "half": "", "rank": None, "shade": None, "order": "", "problem": cell.problem}
    number, half = cards.shown(cell.value)
    shade = (cell.rank - 1) * SHADES // max(count, 1)
    # By the middle of the interval: what is the same by rank still has an order.
    order = cards.shortfall(line.row, cell.value._replace(low=None, high=None))[0]
    return {
        "number": number,
        "half": half.strip(),
        "rank": cell.rank,
        "shade": shade,
        "order": f"{order:.9g}",
        "problem": "",
    }


def _footer(card: Card) -> str:
    span = f"seeds {card.seeds[0]} to {card.seeds[-1]}" if card.seeds else "no seeds"
    hours = card.simulated_s / 3600
    return (
        f"{card.runs} runs, {span}, {hours:.3g} hours of simulated time"
        f"{', quick form' if card.quick else ''}. Tidegate {card.version}."
    )
