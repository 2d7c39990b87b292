"""Tables of pages that are written from results: `docs/make_measured.py`."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

from tidegate import tables

ROOT = Path(__file__).parents[2]
TABLE = tables.Table(
    ["hosts", "network", "variant", "used %", "lost"],
    [
        ["reno", "near", "FIFO", "90", "1"],
        ["reno", "far", "FIFO", "80", "2"],
        ["cubic", "near", "FIFO", "95", "3"],
        ["cubic", "far", "FIFO", "99", "4"],
        ["cubic", "far", "RED", "70", "5"],
    ],
    3,
)


@pytest.fixture
def made(monkeypatch):
    specification = importlib.util.spec_from_file_location("make_measured", ROOT / "docs/make_measured.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    monkeypatch.setattr(module, "table_of", lambda place, results: TABLE if place == "g/e/f" else None)
    return module


def test_rows_that_stand_side_by_side(made):
    page = (
        "# Page\n\n<!-- measured: g/e/f; cubic;\nnear: used %;\nfar: lost, used % -->\n"
        "| | near: used % | far: lost | used |\n|---|---|---|---|\n| FIFO | 1 | 4 | 2 |\n"
        "\nText | of | a | page\n"
    )
    text, changes = made.rewritten(page, Path())
    assert text == page.replace("| FIFO | 1 | 4 | 2 |", "| FIFO | 95 | 4 | 99 |")
    assert changes == ["g/e/f, FIFO: 1 is 95", "g/e/f, FIFO: 2 is 99"]
    assert made.rewritten(text, Path()) == (text, [])


def test_columns_of_the_table_itself(made):
    page = (
        "<!-- measured: g/e/f; cubic -->\n| network | variant | lost |\n|---|---|---:|\n| far | RED | 7 |\n"
    )
    assert made.rewritten(page, Path())[0].endswith("| far | RED | 5 |\n")


def test_what_was_not_run_stays(made):
    page = "<!-- measured: g/other/f -->\n| network | lost |\n|---|---|\n| far | 7 |\n"
    assert made.rewritten(page, Path()) == (page, [])


@pytest.mark.parametrize(
    ("mark", "row", "why"),
    [
        (
            "g/e/f; cubic",
            "| network | variant | gained |\n|-|-|-|\n| far | RED | 7 |\n",
            "no column `gained`",
        ),
        ("g/e/f; cubic", "| network | variant | lost |\n|-|-|-|\n| far | BLUE | 7 |\n", "0 rows"),
    ],
)
def test_what_is_not_there_is_named(made, mark, row, why):
    with pytest.raises(made.Unknown, match=why):
        made.rewritten(f"<!-- measured: {mark} -->\n{row}", Path())


def test_each_mark_is_for_a_table_of_an_experiment(made):
    marks = [
        mark[1].split(";")[0] for page in made.pages() for mark in made.MARK.finditer(page.read_text("utf-8"))
    ]
    assert len(marks) >= 3
    for mark in marks:
        experiment, _, name = mark.strip().rpartition("/")
        file = tomllib.loads((ROOT / f"experiments/{experiment}.toml").read_text("utf-8"))
        assert [one["kind"] for one in file["figures"] if one["id"] == name] == ["table"], mark
