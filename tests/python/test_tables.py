"""Figures of kind `table`: their order, dashes for what is not there, in terminal, Markdown and page."""

import json
from pathlib import Path

import pytest

from tidegate import checks, display, experiment, figures, parallel, quantities, report, stats, tables, tidy
from tidegate.commands.reproduce import judge
from tidegate.errors import MeasureError

TABLE = """
[[figures]]
id = "rates"
title = "Rates | together"
kind = "table"
y = ["flows.tcp.throughput_bps / 1e6", "flows.udp.throughput_bps / 1e6"]
labels = ["TCP Mb/s", "UDP Mb/s"]
"""


@pytest.fixture
def result(shelf):
    path = shelf / "two" / "share.toml"
    path.write_text(path.read_text() + TABLE)
    each = experiment.Experiment("two/share", path)
    points = list(experiment.run_tasks(each.tasks(), parallel.Threads(2)))
    return judge(each, points, [], checks.Expectations(), quick=False)


def table_of(result):
    figure = figures.build_all(result.info, result.points)[-1]
    assert figure.problem == ""
    return figure.table


def test_rows_go_by_axis_then_by_variant_and_cells_are_means_over_seeds(result):
    table = table_of(result)
    assert table.columns == ["offered by UDP (Mb/s)", "variant", "TCP Mb/s", "UDP Mb/s"]
    assert [row[:2] for row in table.rows] == [
        [load, variant] for load in ("0.25", "0.5", "1") for variant in ("FIFO", "fair queueing")
    ]
    points = [point for point in result.points if point.axes["load"] == "1Mbit" and point.variant == "fifo"]
    assert len(points) == 4
    measured = stats.estimate([point.summary["flows"]["tcp"]["throughput_bps"] / 1e6 for point in points])
    mean, half = table.rows[4][2].split(" ±")
    assert float(mean) == pytest.approx(measured.mean, rel=0.005)
    assert float(half) == pytest.approx((measured.high - measured.low) / 2, rel=0.05) and float(half) > 0


def test_a_single_seed_has_no_interval(result):
    points = [point for point in result.points if point.seed == 1]
    spec = {"id": "t", "kind": "table", "y": "flows.tcp.throughput_bps / 1e6"}
    table = figures.build(spec, result.info, points).table
    assert all("±" not in cell for row in table.rows for cell in row)


def test_two_seeds_have_no_interval_that_is_shown(result, tidegate_command, shelf):
    def table(seeds):
        points = [point for point in result.points if point.seed <= seeds]
        spec = {"id": "t", "kind": "table", "y": "flows.tcp.throughput_bps / 1e6"}
        return figures.build(spec, result.info, points).table

    assert all("±" not in cell for row in table(2).rows for cell in row)
    assert all("±" in row[-1] for row in table(3).rows)
    told = {}
    for seeds in (2, 3):
        code, out, _ = tidegate_command("reproduce", "two/share", "--seeds", seeds, "--out", f"res{seeds}")
        assert code == 0
        told[seeds] = next(line for line in out.splitlines() if line.startswith("two/share"))
        page = Path(f"res{seeds}/report.html").read_text(encoding="utf-8")
        assert "of three seeds on" in page
        (check,) = json.loads(Path(f"res{seeds}/two/share/result.json").read_text())["checks"]
        assert len(check["ci95"]) == 2  # what is stored is what it was
    assert told[2].count("±") == 1 and told[3].count("±") == 2  # the other one is the tolerance


def test_what_has_no_value_is_a_dash_and_a_mistake_is_none(result):
    for point in result.points:
        if point.variant == "fifo":
            point.summary["flows"]["tcp"]["throughput_bps"] = None
    rows = table_of(result).rows
    assert [row[2] == tables.NOTHING for row in rows] == [True, False] * 3
    assert all(row[3] != tables.NOTHING for row in rows)
    spec = {"id": "t", "kind": "table", "y": "flows.nobody.throughput_bps"}
    assert "nothing matches" in figures.build(spec, result.info, result.points).problem


def test_what_a_variant_does_not_have_is_a_dash(result):
    for point in result.points:
        if point.variant == "fifo":
            del point.summary["flows"]["tcp"]["throughput_bps"]
    rows = table_of(result).rows
    assert [row[2] == tables.NOTHING for row in rows] == [True, False] * 3
    frame = tidy.measured(result.points, {"tcp": "flows.tcp.throughput_bps / 1e6"})
    by_variant = {row["variant"]: row["tcp"] for row in frame.rows()}
    assert by_variant["fifo"] is None and by_variant["fair"] > 0
    with pytest.raises(MeasureError, match="nothing matches"):
        tidy.measured(result.points, {"other": "flows.nobody.throughput_bps"})


def test_it_is_printed_written_and_shown(result, tmp_path):
    table = table_of(result)
    printed = display.tables_of([result]).splitlines()
    assert printed[0] == "two/share: Rates | together"
    assert len(printed) == 1 + 2 + len(table.rows)
    tables.write(table, tmp_path / "rates.md")
    lines = (tmp_path / "rates.md").read_text().splitlines()
    assert lines[0] == "| offered by UDP (Mb/s) | variant | TCP Mb/s | UDP Mb/s |"
    assert lines[1] == "| --- | --- | ---: | ---: |"
    assert len(lines) == 2 + len(table.rows)
    page = report.render([result], "A page")
    assert all(f'<td class="number">{row[2]}</td>' in page for row in table.rows)
    assert 'data-figure="two-share/rates"' not in page


def test_plot_writes_a_table_as_markdown(tidegate_command, shelf):
    path = shelf / "two" / "share.toml"
    path.write_text(path.read_text() + TABLE)
    assert tidegate_command("sweep", "two/share", "-o", "res")[0] == 0
    code, out, _ = tidegate_command("plot", "res", "-p", "rates")
    assert code == 0
    assert out.strip().endswith("rates.md")


def test_the_last_digits_of_arithmetic_are_no_spread():
    assert quantities.half_width(0.3 - 5e-17, 0.3 + 5e-17, 3) == " ±0"
    assert quantities.half_width(0.3, 0.3 + 4e-12, 3) == " ±2.0e-12"
    assert quantities.half_width(0.0, 0.0, 3) == " ±0"
    assert quantities.half_width(0.3, 0.5, 2) == ""
