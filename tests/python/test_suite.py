"""Evaluation suites: mechanisms under experiments, and the score card of what came of it."""

import json
import math
import re
import shutil
from pathlib import Path

import pytest

from tidegate import cli, errors, measure, stats, store, toml_text
from tidegate.suite import card as cards
from tidegate.suite import declared, mechanisms

pytestmark = pytest.mark.real_core

EXPERIMENT = """
title = "Two connections"
duration = "4s"
warmup = "1s"
seeds = 3
quick_seeds = 2

[parameters]
buffer = 20

[nodes]
hosts = ["A", "B"]
routers = ["left", "right"]

[links]
A-left = { between = ["A", "left"], rate = "1Gbit", delay = "1ms", queue = "droptail" }
bottleneck = { between = ["left", "right"], rate = "2Mbit", delay = "8ms" }
right-B = { between = ["right", "B"], rate = "1Gbit", delay = "1ms", queue = "droptail" }

[domains.net]
edges = ["left", "right"]

[flows."tcp{i}"]
repeat = "i = 1..2"
from = "A"
to = "B"
transport = "tcp"
start = { uniform = ["0s", "500ms"] }

[record]
delays = ["flows.*"]

[axes.rate]
path = "links.bottleneck.rate"
values = ["2Mbit", "4Mbit"]
"""

CARD = """
title = "A tiny suite"
description = "Two connections share a link."
source = "a test"
compares = "queues"
takes = ["defaults.link.queue", "domains.net.mechanism"]
mechanisms = ["droptail", "codel"]

[rows.delay]
name = "waiting, p95"
measure = "delay_ms.p95 - 10"
unit = "ms"
better = "less"
same = 0.5
means = "How long packets wait."

[rows.share]
name = "share of the first"
measure = "flows.tcp1.goodput_bps / flows.tcp2.goodput_bps"
better = "near"
means = "1 is fair."

[[groups]]
title = "Slow"
experiment = "two"
where = { rate = "2Mbit" }
about = "A slow link."
source = "a test"
rows = ["delay", "share"]

[[groups]]
title = "Both"
experiment = "two"
reduce = "max"
about = "The worse of two links."
source = "a test"
rows = ["delay"]
"""

MINE = """
title = "Mine"
description = "A very short queue."

[defaults.link]
queue = { kind = "droptail", limit = "5p" }
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> Path:
    """A suite of one experiment; the working directory is beside it."""
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "card.toml").write_text(CARD)
    (tmp_path / "tiny" / "two.toml").write_text(EXPERIMENT)
    (tmp_path / "mine.toml").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments) -> int:
    return cli.invoke(["suite", *arguments])


def numbers(folder) -> dict:
    return json.loads((Path(folder) / "scorecard.json").read_text(encoding="utf-8"))


def test_the_numbers_of_a_card_are_the_measures_of_its_runs(tiny, capsys):
    assert run("tiny", "codel", "mine.toml", "-o", "out") == 0
    card = numbers("out")
    points = store.read_result(Path("out/points")).points
    assert card["runs"] == len(points) == 2 * 2 * 3
    for name in ("codel", "mine"):
        own = [point for point in points if point.axes["mechanism"] == name]
        slow = [measure.evaluate("delay_ms.p95 - 10", p) for p in own if p.axes["rate"] == "2Mbit"]
        worse = [
            max(measure.evaluate("delay_ms.p95 - 10", p) for p in own if p.seed == seed) for seed in (1, 2, 3)
        ]
        for line, values in ((card["rows"][0], slow), (card["rows"][2], worse)):
            expected = stats.estimate(values)
            given = line["values"][name]
            assert (given["mean"], given["low"], given["high"], given["seeds"]) == pytest.approx(expected)
    assert card["rows"][0]["values"]["mine"]["rank"] == 1
    shown = capsys.readouterr().out
    assert "Mine" in shown and "waiting, p95 ms" in shown and "score card: out/scorecard.html" in shown


def test_a_card_is_the_same_for_any_number_of_workers_and_after_an_interruption(tiny):
    assert run("tiny", "--quick", "--workers", "1", "-o", "one") == 0
    assert run("tiny", "--quick", "--workers", "3", "-o", "three") == 0
    for name in ("scorecard.html", "scorecard.json", "points/points.jsonl"):
        assert (tiny / "one" / name).read_bytes() == (tiny / "three" / name).read_bytes()
    before = (tiny / "one" / "scorecard.html").read_bytes()
    assert run("tiny", "--quick", "--resume", "-o", "one") == 0
    assert (tiny / "one" / "scorecard.html").read_bytes() == before


def test_what_a_suite_does_not_compare_is_said_and_the_others_go_on(tiny, capsys):
    # A mechanism of another suite that ships.
    Path("control.toml").write_text('title = "C"\ndescription = "D."\n[domains.net]\nlabels = "csfq"\n')
    assert run("tiny", "control.toml", "codel", "--quick", "-o", "out") == 0
    card = numbers("out")
    assert card["rows"][0]["values"]["codel"]["mean"] > 0
    assert card["rows"][0]["values"]["control"]["mean"] is None
    (problem,) = card["mechanisms"][0]["problems"]
    assert problem == (
        "it sets domains.net.labels, and this suite compares queues "
        "(defaults.link.queue, domains.net.mechanism)"
    )
    assert problem in (tiny / "out" / "scorecard.html").read_text(encoding="utf-8")
    assert problem in " ".join(capsys.readouterr().out.split())


def test_where_an_experiment_does_not_suit_a_mechanism_the_others_go_on(tiny):
    # Nothing crosses this domain, so that its edges would have nothing to do.
    text = EXPERIMENT.replace('edges = ["left", "right"]', 'edges = ["left", "beside"]')
    text = text.replace('routers = ["left", "right"]', 'routers = ["left", "right", "beside"]')
    text += '[links.aside]\nbetween = ["right", "beside"]\nrate = "1Mbit"\ndelay = "1ms"\n'
    (tiny / "tiny" / "two.toml").write_text(text)
    assert run("tiny", "nbp", "codel", "--quick", "-o", "out") == 0
    card = numbers("out")
    values = card["rows"][0]["values"]
    assert values["nbp"]["mean"] is None and values["codel"]["rank"] == 1
    assert card["mechanisms"][0]["problems"][0].startswith("two.toml:20:10: domains.net: no flow crosses")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MINE.replace("limit", "limt"), r"limt: unknown key `limt`.*\n --> mine.toml:6:\d+"),
        (MINE.replace('"5p"', '"5pp"'), r"queue.limit: .*\n --> mine.toml:6:\d+"),
        (MINE.replace('limit = "5p"', 'limit = "2000000000p"'), r"\n --> mine.toml:6:\d+"),
        (MINE + '[flows.more]\nfrom = "A"\n', r"mine.toml:8: flows.more.from: a mechanism"),
        (MINE + "[links.bottleneck]\nrate = '1Gbit'\n", r"mine.toml:8: links.bottleneck.rate: a mechanism"),
        (MINE + "[parameters]\nbuffer = 1\n", r"mine.toml:8: parameters.buffer: a mechanism"),
        ('include = "x.toml"\n' + MINE, r"mine.toml:1: include: a mechanism"),
        (MINE.replace("Mine", "M" * 17), r"mine.toml:2: title: a text of one line, 1 to 16 letters"),
        (MINE.replace('"A very short queue."', "3"), r"mine.toml:3: description: a text of one line"),
        (MINE.replace("title", "# title"), r"mine.toml:1: title: a text of one line"),
        (MINE + "[", r"mine.toml: Invalid .*end of document"),
        ("title = '\0'", r"mine.toml: "),
    ],
)
def test_a_mechanism_that_is_wrong_is_refused_with_file_line_and_key(tiny, capsys, text, expected):
    Path("mine.toml").write_text(text)
    assert run("tiny", "codel", "mine.toml", "--quick", "-o", "out") == errors.EXIT_INVALID
    assert re.search(expected, capsys.readouterr().err), expected
    assert not Path("out/scorecard.html").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["none"], "no suite 'none': there are aqm"),
        (["tiny", "cod"], "no mechanism 'cod': there are "),
        (["tiny", "mine.toml", "mine.toml"], "would both be called 'mine'"),
        (["tiny", "mine.toml", "again.toml"], "is that of mine.toml too"),
        (["tiny", *(f"m{number}.toml" for number in range(25))], "25 mechanisms, at most 24"),
        (["tiny", "--resume", "--fresh"], "exclude each other"),
    ],
)
def test_what_cannot_be_compared_is_refused(tiny, capsys, arguments, expected):
    shutil.copy("mine.toml", "again.toml")
    for number in range(25):
        Path(f"m{number}.toml").write_text(MINE.replace("Mine", f"Mine {number}"))
    assert run(*arguments) == errors.EXIT_USAGE
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('better = "less"', 'better = "high"', "rows.delay: better: 'high' is none of less, more, near"),
        ('rows = ["delay"]', 'rows = ["dely"]', "group 2: rows: dely; there are delay, share"),
        ('experiment = "two"', 'experiment = "three"', "group 1: there is no experiment three.toml"),
        ('reduce = "max"', 'reduce = "sum"', "group 2: reduce: 'sum' is none of mean, min, max"),
        ('measure = "delay_ms', 'measure = "import(delay_ms', "rows.delay: cannot read measure"),
        ("same = 0.5", "same = -1", "rows.delay: `same` is a number, 0 or more"),
        ("same = 0.5", "target = 2.0", "rows.delay: `target` is a number above zero, and goes with"),
        ('rate = "2Mbit"', 'rate = "3Mbit"', "where.rate: '3Mbit' is none of 2Mbit, 4Mbit"),
        ("tcp1.goodput_bps /", "tcp3.goodput_bps /", "tcp3"),
    ],
)
def test_a_card_that_is_wrong_is_refused_before_anything_runs(tiny, capsys, old, new, expected):
    assert old in CARD
    (tiny / "tiny" / "card.toml").write_text(CARD.replace(old, new))
    assert run("tiny", "--quick", "-o", "out") == errors.EXIT_INVALID
    complaint = capsys.readouterr().err
    assert expected in complaint and "card.toml" in complaint


def estimate(mean, half):
    return stats.Estimate(mean, mean - half, mean + half, 5)


def ranks(better, *values, same=0.0, target=1.0):
    row = declared.Row("r", "", better, target, same, "", None)
    cells = {str(number): cards.Cell(value) for number, value in enumerate(values)}
    return [cell.rank for cell in cards._ranked(row, cells).values()]


def test_a_rank_counts_those_that_are_better_beyond_doubt():
    assert ranks("less", estimate(1, 0.1), estimate(1.15, 0.1), estimate(3, 0.1)) == [1, 1, 3]
    assert ranks("more", estimate(1, 0.1), estimate(1.15, 0.1), estimate(3, 0.1)) == [2, 2, 1]
    assert ranks("less", estimate(1, 0), estimate(1.5, 0), same=0.6) == [1, 1]
    assert ranks("less", estimate(1, 0), None) == [1, None]


def test_half_of_a_target_is_as_far_off_as_twice():
    assert ranks("near", estimate(2, 0), estimate(0.5, 0), estimate(1.5, 0)) == [2, 2, 1]
    assert ranks("near", estimate(0, 0), estimate(100, 0), target=10.0) == [2, 1]
    row = declared.Row("r", "", "near", 1.0, 0, "", None)
    assert cards.shortfall(row, estimate(0, 0)) == (math.inf, math.inf)


def test_an_interval_far_below_the_last_digit_is_told_as_none():
    shown = [(97.3, 0.001), (97.3, 0.03), (0.99999, 1.5e-5), (0.0, 0.001), (1430, 40)]
    told = [cards.shown(estimate(mean, half)) for mean, half in shown]
    assert told == [("97.3", " ±0"), ("97.3", " ±0.03"), ("1", " ±0"), ("0", " ±0.001"), ("1 430", " ±40")]
    assert cards.shown(stats.Estimate(2.0, None, None, 1)) == ("2", "")


def test_lines_are_found_by_key():
    text = 'a = 1\n[b."c.d"]\ne = 2\n[f]\ng.h = { i = 1 }\n[[k]]\nl = 1\n'
    for key, line in ((["a"], 1), (["b", "c.d", "e"], 3), (["f", "g", "h", "i"], 5), (["k"], 6), (["z"], 1)):
        assert toml_text.line_of(text, key) == line, key


@pytest.mark.parametrize("name", declared.names())
def test_every_suite_that_ships_runs_in_quick_form(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite = declared.find(name)
    assert run(name, *suite.mechanisms[:2], "--quick", "-o", "out") == 0
    card = numbers("out")
    missing = [
        (row["group"], row["name"], mechanism, value.get("problem"))
        for row in card["rows"]
        for mechanism, value in row["values"].items()
        if value["mean"] is None
    ]
    assert missing == []


@pytest.mark.parametrize("name", declared.names())
def test_every_mechanism_of_a_suite_that_ships_fits_each_of_its_experiments(name, tmp_path):
    from tidegate.suite import pairs

    suite = declared.find(name)
    compared = mechanisms.chosen(suite, suite.mechanisms)
    laid = pairs.lay(suite, compared, tmp_path / "pairs", False, 1, [])
    assert laid.obstacles == {}
    assert {task.axes["mechanism"] for task in laid.tasks} == set(suite.mechanisms)


def test_what_routers_do_fits_each_suite_that_compares_it(tmp_path):
    from tidegate.suite import pairs

    for name in declared.names():
        suite = declared.find(name)
        if "domains.net.mechanism" not in suite.takes:
            continue
        read = [mechanisms.read(path, suite) for path in mechanisms.shipped().values()]
        compared = [each for each in read if not each.unfit]
        assert {"fred", "csfq", "iec-fq-codel", "nbq", "backpressure"} <= {each.name for each in compared}
        assert pairs.lay(suite, compared, tmp_path / name, True, 1, []).obstacles == {}, name


def test_the_card_for_queues_has_each_mechanism_of_the_comparison_of_today():
    raw = toml_text.tables_of(declared.suites_dir().parent / "compare" / "_today.toml")[0]
    suite = declared.find("aqm")
    titles = {each.title.lower() for each in mechanisms.chosen(suite, [])}
    assert len(raw["variants"]) == 16
    assert {entry["label"].lower() for entry in raw["variants"].values()} <= titles


def test_every_mechanism_that_ships_is_one_of_some_suite():
    taken = set()
    for name in declared.names():
        suite = declared.find(name)
        read = [mechanisms.read(path, suite) for path in mechanisms.shipped().values()]
        taken |= {each.name for each in read if not each.unfit}
    assert taken == set(mechanisms.shipped())


def test_suites_are_listed(capsys):
    assert run() == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in declared.names())
    assert run("--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in listed["suites"]] == declared.names()


def test_files_that_an_experiment_names_lie_beside_it(tiny):
    """The files of pairs, which lay a mechanism under it, are elsewhere."""
    from tidegate.suite import pairs

    text = EXPERIMENT.replace('rate = "2Mbit", delay', 'rate = { trace = "cell.trace" }, delay')
    text = text.partition("[axes.rate]")[0]
    table = 'sizes = { kind = "table", file = "data/sizes.csv" }, '
    for name, sizes, arrivals in (
        ("table", table, '{ kind = "poisson", every = "100ms" }'),
        ("list", "", '{ kind = "list", file = "data/list.csv" }'),
    ):
        text += f'[flows.{name}]\nfrom = "A"\nto = "B"\ntransport = "tcp"\n'
        text += f'application = {{ kind = "transfers", {sizes}arrivals = {arrivals} }}\n'
    (tiny / "tiny" / "data").mkdir()
    for name, lines in (
        ("two.toml", text),
        ("cell.trace", "3\n7\n10\n"),
        ("data/sizes.csv", "1000,0.5\n3000,1\n"),
        ("data/list.csv", "1.5,2000\n2,4000\n"),
        ("card.toml", CARD.replace('where = { rate = "2Mbit" }\n', "")),
    ):
        (tiny / "tiny" / name).write_text(lines)
    assert run("tiny", "codel", "mine.toml", "--quick", "-o", "out") == 0
    assert numbers("out")["rows"][0]["values"]["mine"]["mean"] > 0
    counts = [
        point.summary["flows"]["list"]["transfers"]["completed"]
        for point in store.read_result(Path("out/points")).points
    ]
    assert counts == [2] * 4
    # On a cluster, too.
    suite = declared.read(Path("tiny"))
    laid = pairs.lay(suite, mechanisms.chosen(suite, ["codel"]), tiny / "elsewhere", True, None, [])
    from tidegate import cluster_wire

    main, _, _ = cluster_wire.unfold(laid.tasks[0].files.message, tiny / "worker")
    found = {path.name for path in (tiny / "worker").rglob("*") if path.is_file()}
    assert {"cell.trace", "sizes.csv", "list.csv", "two.toml"} <= found and main.is_file()


def test_the_page_of_suites_has_every_key_of_a_card():
    page = (Path(__file__).parents[2] / "docs" / "suites.md").read_text(encoding="utf-8")
    tables = re.findall(r"<!-- card: (\w+) -->\n((?:\|[^\n]*\n)*)", page)
    told = {name: set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) for name, table in tables}
    assert told == {"file": declared.CARD_KEYS, "row": declared.ROW_KEYS, "group": declared.GROUP_KEYS}
    assert all(f"`{word}`" in page for word in declared.BETTER)
