"""Measures that name what no run has are refused before anything runs, with what was probably meant."""

import json
import re
from pathlib import Path

import pytest
from conftest import EXPERIMENT, check_text

from tidegate import experiment, paths, reachable, summary_keys, toml_text
from tidegate.errors import MeasureError

SCENARIO = """{
    "flows": [
        {"name": "tcp", "to": ["b"], "transport": {"kind": "tcp"}, "application": {"kind": "transfer"}},
        {"name": "udp", "to": ["b"], "transport": {"kind": "udp"}, "application": {"kind": "cbr"}},
        {"name": "film", "to": ["b"], "transport": {"kind": "tcp"}, "application": {"kind": "video"}},
        {"name": "web", "to": ["b"], "transport": {"kind": "tcp"}, "application": {"kind": "transfers"}}
    ],
    "fluids": [{"name": "crowd"}],
    "links": [{"name": "R1-R2"}],
    "markers": [], "domains": [{"name": "net"}],
    "record": {
        "series": ["flows.tcp.cwnd_segments", "links.R1-R2.reverse.queue_packets"],
        "delays": ["flows.tcp", "links.R1-R2.reverse"], "waste": true, "max_min": false, "state": false
    }
}"""
RESULTS = Path(__file__).parents[2] / "docs/results.md"


def require(source, *scenarios, series=()):
    axes = {"rate": ("1Mbit", "2Mbit"), "queue": ("red", "pie"), "load": ("1", "all")}
    names = reachable.Names([("here", source)], [("there", name) for name in series], axes)
    for scenario in scenarios or (SCENARIO,):
        names.see(scenario)
    names.require()


@pytest.mark.parametrize(
    "source",
    [
        "flows.tcp.throughput_bps / 1e6",
        'sum("flows.*.throughput_bps")',
        'value("links.R1-R2.reverse.delay_ms.mean")',
        'value("domains.net.flows.tcp.shaper_bytes")',
        'series_mean("flows.tcp.cwnd_segments", "1s", "2s") > 3',
        'series_mean("flows.*.cwnd_segments")',
        'quantile("flows.*.throughput_bps", 0.5) * axis("load")',
        "-fairness.jain + waste.ratio and not control.packets",
        'count("f*.tcp.throughput_bps")',
        "flows.tcp.delay_ms.p95 + delay_ms.p99 + flows.udp.delay_ms.mean",
        'mean("flows.*.delay_ms.p50") + value("links.R1-R2.reverse.delay_ms.p99")',
        'mos("flows.tcp") + r_factor("flows.udp", "G.711", 1)',
        "flows.tcp.completion_s + flows.tcp.retransmissions + fluids.crowd.rtt_ms",
        'value("links.R1-R2.wasted_bps") + value("links.R1-R2.drops_by_reason.early")',
        'value("flows.*.delay_ms.m*n")',
        "log(flows.film.video.stalls) + flows.web.transfers.by_size.to_10kB.slowdown.p95",
        'axis("rate") / 1e6 + value("links.R1-R2.queue_packets.max")',
        'sum("links.R1-R2.drops_by_reason.*") + fluids.crowd.timed_out',
    ],
)
def test_what_is_there_is_taken(source):
    require(source)


@pytest.mark.parametrize(
    "source, says",
    [
        ("flows.tpc.throughput_bps", "no flow 'tpc'; did you mean tcp?"),
        ('1 + sum("flows.tcq*.throughput_bps")', "no flow 'tcq*'"),
        ('sqrt(value("links.R1-R3.utilization"))', "did you mean R1-R2?"),
        ("1 + links.R1-R2.utilization", 'part of a name, write value("links.R1-R2.utilization")'),
        ("flow.tcp.throughput_bps", "a summary has no 'flow'; did you mean flows?"),
        ('series_last("flows.udp.cwnd_segments")', "no series 'flows.udp.cwnd_segments' is recorded"),
        ('series_last("flows.tcp.cwnd_segment")', "did you mean flows.tcp.cwnd_segments?"),
        ('value("markers.m.green_bps")', "no marker 'm'; there are: none"),
        ("flows.udp.delay_ms.p95", 'records the distribution: record.delays = ["flows.udp"]'),
        ('value("links.R1-R2.delay_ms.p99")', 'record.delays = ["links.R1-R2"]'),
        ('mos("flows.udp")', 'record.delays = ["flows.udp"]'),
        ('r_factor("flows.udp", "G.711", 0.95)', 'record.delays = ["flows.udp"]'),
        ("flows.tcp.troughput_bps", "a flow has no 'troughput_bps'; did you mean throughput_bps"),
        ("flows.tcp.delay_ms.p90", "`delay_ms` of a flow has no 'p90'"),
        (
            'value("links.R1-R2.reverse.utilisation")',
            "a link has no 'utilisation'; did you mean utilization?",
        ),
        ('value("links.R1-R2.forward.loss_ratio")', "at the link itself: links.R1-R2.loss_ratio"),
        ("flows.udp.timeouts", "`timeouts` is of TCP, and flow 'udp' is of another transport"),
        ("flows.udp.completion_s", "is of the application 'transfer'"),
        ("flows.tcp.receivers.b.throughput_bps", "is of flows to several hosts"),
        ("flows.tcp.max_min_bps", "record.max_min = true"),
        ("fairness.max_min_deviation", "record.max_min = true"),
        ("state.entries_max", "record.state = true"),
        ("totals.hops", "`totals` has no 'hops'"),
        ("flows.crowd.throughput_bps", "no flow 'crowd'; it is a fluid: fluids.crowd"),
        ("fluids.crowd.goodput_bps", "a fluid has no 'goodput_bps'"),
        ('axis("rat")', "no axis 'rat'; did you mean rate?"),
        ('1 + sum(axis("x"), 2)', "no axis 'x'; there are: rate, queue, load"),
        ('axis("queue")', "the values of axis 'queue' are names, and no quantities: red, pie"),
        ("flows.tcp.delay_ms", "a flow is a table, not a number; a number is one of its keys: mean"),
        ("flows.film.video", "`video` of a flow is a table, not a number"),
        ("flows.film.video.stals", "`video` of a flow has no 'stals'; did you mean stalls"),
        ("flows.film.video.stalls.mean", "`stalls` of `video` of a flow is a number, with nothing below it"),
        ("flows.web.transfers.completion_s", "is a table, not a number; a number is one of its keys: mean"),
        ('sum("flows.*.delay*")', "`delay_ms` of a flow is a table"),
        ("flows.tcp", "`flows.tcp` is a table, not a number"),
        ("flows.tcp.film", "a flow has no 'film'; there are: throughput_bps, "),
        ("flows.tcp.film", ", retransmissions, sent_payload_bytes, "),
        ("flows.tcp.film", ", video, receivers"),
        ('value("links.R1-R2.queue_bytes")', "`queue_bytes` of a link is a table"),
        ('value("links.R1-R2.utilization.max")', "`utilization` of a link is a number, with nothing"),
        ('value("links.R1-R2.reverse")', "`reverse` of a link is a table"),
        ("fairness", "`fairness` is a table, not a number; a number is one of its keys: jain, cov"),
        ("title", "`title` is a text, not a number"),
    ],
)
def test_what_is_not_there_is_refused_with_its_place(source, says):
    with pytest.raises(MeasureError) as refused:
        require(source)
    assert str(refused.value).startswith("here: ") and says in str(refused.value)


def test_a_series_of_a_figure_is_looked_for_too():
    require("1", series=["flows.*.cwnd_segments"])
    with pytest.raises(MeasureError, match=r"^there: no series"):
        require("1", series=["flows.udp.*"])


def test_flows_of_real_hosts_have_what_their_commands_write():
    names = reachable.Names([("here", "flows.udp.frames_late")])
    names.see(SCENARIO, is_real=True)
    names.require()


def _documented(heading):
    """The keys of the tables below a heading of the page about results, up to the next heading."""
    page = RESULTS.read_text(encoding="utf-8")
    section = re.split(r"\n#{2,3} ", page.split(f"\n### {heading}\n")[1])[0]
    tables = re.findall(r"^\| key \|.*\n\|[-| ]+\n((?:\|.*\n)+)", section, re.MULTILINE)
    return [
        {key for row in table.splitlines() for key in re.findall(r"`([\w.]+)`", row.split(" | ")[0])}
        for table in tables
    ]


def test_the_reasons_are_those_of_the_page_about_results():
    page = RESULTS.read_text(encoding="utf-8")
    drops = page.split("| reason of a drop | meaning |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", drops, re.MULTILINE)) == set(paths.DROP_REASONS)
    marks = page.split("\nReasons of marks: ")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`[ ;,]", marks)) - {"step"} <= set(paths.MARK_REASONS)
    require('value("links.R1-R2.drops_by_reason.medium") + value("links.R1-R2.marks_by_reason.step")')
    with pytest.raises(MeasureError, match="no 'mediun'; did you mean medium"):
        require('value("links.R1-R2.drops_by_reason.mediun")')


def test_the_keys_are_those_of_the_page_about_results():
    flow, multicast, tcp, *_ = _documented("`flows.NAME`")
    assert flow == set(summary_keys.FLOW)
    assert multicast == set(summary_keys.MULTICAST)
    assert tcp == {*summary_keys.TCP, "completion_s"}
    assert _documented("`links.NAME`")[0] == {*summary_keys.LINK, "reverse"} - {"fluid"}
    for name, keys in summary_keys.ENTRIES.items():
        assert _documented(f"`{name}.NAME`")[0] == set(keys)
    for name in ("fairness", "waste", "control"):
        assert _documented(f"`{name}`")[0] == set(summary_keys.PLAIN[name])


@pytest.mark.real_core
def test_a_run_has_the_keys_that_are_known():
    from tidegate import _core

    text = (Path(__file__).parents[2] / "examples/background.toml").read_text(encoding="utf-8")
    everything = "waste = true\nmax_min = true\nstate = true\ndelays = ['flows.*', 'links.core']\n"
    scenario = _core.Scenario.from_text(text.replace("[record]\n", f"[record]\n{everything}"), "all")
    summary = json.loads(_core.run(scenario, seed=1).summary_json)
    known = json.loads(scenario.to_json())

    def leaves(node, path):
        if not isinstance(node, dict):
            yield path
        for key, value in node.items() if isinstance(node, dict) else ():
            yield from leaves(value, f"{path}.{key}" if path else key)

    there = [*leaves(summary, "")]
    assert len(there) > 100
    for path in there:
        # No numbers: texts, and what stands in the place of a table where nothing arrived.
        if path in ("title", "tidegate_version") or path.endswith(".delay_ms"):
            continue
        summary_keys.require(path, known, is_real=False)


def test_a_key_of_a_list_is_found_by_its_line():
    text = """a = 1
[[figures]]
id = "one"
y = "first"

[[figures]]
y = [
    "x",
]
id = 'two'   # the other
[links.l]
y = 3
[[figures]]
id = "three"
"""
    lines = [toml_text.line_in_list(text, "figures", name, "y") for name in ("one", "two", "three", "four")]
    assert lines == [4, 7, 13, None]


def test_one_scenario_that_has_it_is_enough():
    other = SCENARIO.replace('"name": "udp"', '"name": "late"')
    require("flows.late.throughput_bps", SCENARIO, other)
    require("flows.late.throughput_bps", other, SCENARIO)


@pytest.mark.parametrize("command", [["validate"], ["sweep", "--out", "out"], ["reproduce", "--out", "out"]])
@pytest.mark.parametrize(
    "term, says",
    [
        ("axis('lode')", "no axis 'lode'; did you mean load?"),
        ("flows.tcp.delay_ms", "is a table, not a number"),
        ("1/0", "1 / 0: a division by zero"),
        ("9**9**9**9", "larger than any number"),
    ],
)
def test_a_measure_that_no_run_can_have_costs_none(
    tidegate_command, tmp_path, monkeypatch, command, term, says
):
    monkeypatch.setattr(experiment, "run_tasks", lambda *_: pytest.fail("it ran"))
    file = tmp_path / "mine.toml"
    file.write_text(EXPERIMENT.replace("flows.tcp.throughput_bps / 1e6", term))
    code, _, err = tidegate_command(*command, file)
    assert code == 3 and says in err
    line = file.read_text().split(f'y = ["{term}')[0].count("\n") + 1
    assert f"mine.toml:{line}: figure 'throughput', y: " in err
    # The same of a check beside it.
    file.write_text(EXPERIMENT)
    text = check_text("value = 0.75\ntolerance = '3%'").replace('["share"', '["mine"')
    (tmp_path / "expected.toml").write_text(text.replace("flows.tcp.throughput_bps / 1e6", term))
    code, _, err = tidegate_command(*command, file)
    assert code == 3 and says in err and "expected.toml:2: " in err and "measure" in err


def test_what_a_run_cannot_reckon_is_said_in_words_with_the_figure(tidegate_command, tmp_path):
    file = tmp_path / "mine.toml"
    term = "1 / (flows.tcp.throughput_bps - flows.tcp.throughput_bps)"
    file.write_text(EXPERIMENT.replace("flows.tcp.throughput_bps / 1e6", term))
    code, _, err = tidegate_command("sweep", file, "--quick", "-o", "out")
    assert code == 0 and "figure throughput: in measure" in err and "1 / 0: a division by zero" in err
    code, _, err = tidegate_command("plot", "out", "-p", "throughput")
    assert code == 3 and "figure throughput: in measure" in err and "1 / 0: a division by zero" in err


@pytest.mark.parametrize("command", [["validate"], ["sweep", "--out", "out"], ["reproduce", "--out", "out"]])
def test_a_figure_that_names_no_flow_costs_no_run(tidegate_command, tmp_path, monkeypatch, command):
    monkeypatch.setattr(experiment, "run_tasks", lambda *_: pytest.fail("it ran"))
    file = tmp_path / "typo.toml"
    file.write_text(EXPERIMENT.replace("flows.tcp.throughput_bps / 1e6", "flows.tpc.throughput_bps / 1e6"))
    assert file.read_text() != EXPERIMENT
    code, _, err = tidegate_command(*command, file)
    assert code == 3
    line = file.read_text().split('y = ["flows.tpc')[0].count("\n") + 1
    assert f"typo.toml:{line}: figure 'throughput', y: no flow 'tpc'; did you mean tcp?" in err
    assert not list(Path("out").glob("**/result.json"))


def test_a_check_of_quantiles_that_nobody_records_costs_no_run(tidegate_command, shelf, monkeypatch):
    monkeypatch.setattr(experiment, "run_tasks", lambda *_: pytest.fail("it ran"))
    expected = shelf / "two" / "expected.toml"
    text = check_text("value = 0.75\ntolerance = '3%'")
    expected.write_text(text.replace("flows.tcp.throughput_bps / 1e6", "flows.tcp.delay_ms.p95"))
    code, _, err = tidegate_command("reproduce", "two/share", "--out", "res")
    assert code == 3
    assert "expected.toml:" in err and 'record.delays = ["flows.tcp"]' in err
    assert not list(Path("res").glob("**/result.json"))


def test_a_check_that_names_no_flow_costs_no_run(tidegate_command, shelf, monkeypatch):
    monkeypatch.setattr(experiment, "run_tasks", lambda *_: pytest.fail("it ran"))
    expected = shelf / "two" / "expected.toml"
    expected.write_text(check_text("value = 0.75\ntolerance = '3%'").replace("flows.tcp", "flows.tpc"))
    code, _, err = tidegate_command("reproduce", "two/share", "--out", "res")
    assert code == 3
    assert "expected.toml" in err and "no flow 'tpc'; did you mean tcp?" in err
