"""Measures that name what no run has are refused before anything runs, with what was probably meant."""

from pathlib import Path

import pytest
from conftest import EXPERIMENT, check_text

from tidegate import experiment, reachable
from tidegate.errors import MeasureError

SCENARIO = """{
    "flows": [{"name": "tcp"}, {"name": "udp"}],
    "links": [{"name": "R1-R2"}],
    "markers": [], "domains": [{"name": "net"}],
    "record": {"series": ["flows.tcp.cwnd_segments", "links.R1-R2.reverse.queue_packets"]}
}"""


def require(source, *scenarios, series=()):
    names = reachable.Names([("here", source)], [("there", name) for name in series])
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
        ("flow.tcp.throughput_bps", "a summary has no 'flow'; did you mean flows?"),
        ('series_last("flows.udp.cwnd_segments")', "no series 'flows.udp.cwnd_segments' is recorded"),
        ('series_last("flows.tcp.cwnd_segment")', "did you mean flows.tcp.cwnd_segments?"),
        ('value("markers.m.green_bps")', "no marker 'm'; there are: none"),
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


def test_one_scenario_that_has_it_is_enough():
    other = SCENARIO.replace("udp", "late")
    require("flows.late.throughput_bps", SCENARIO, other)
    require("flows.late.throughput_bps", other, SCENARIO)


@pytest.mark.parametrize("command", [["validate"], ["sweep", "--out", "out"], ["reproduce", "--out", "out"]])
def test_a_figure_that_names_no_flow_costs_no_run(tidegate_command, tmp_path, monkeypatch, command):
    monkeypatch.setattr(experiment, "run_tasks", lambda *_: pytest.fail("it ran"))
    file = tmp_path / "typo.toml"
    file.write_text(EXPERIMENT.replace("flows.tcp.throughput_bps / 1e6", "flows.tpc.throughput_bps / 1e6"))
    assert file.read_text() != EXPERIMENT
    code, _, err = tidegate_command(*command, file)
    assert code == 3
    assert "typo.toml: figure 'throughput', y: no flow 'tpc'; did you mean tcp?" in err
    assert not list(Path("out").glob("**/result.json"))


def test_a_check_that_names_no_flow_costs_no_run(tidegate_command, shelf, monkeypatch):
    monkeypatch.setattr(experiment, "run_tasks", lambda *_: pytest.fail("it ran"))
    expected = shelf / "two" / "expected.toml"
    expected.write_text(check_text("value = 0.75\ntolerance = '3%'").replace("flows.tcp", "flows.tpc"))
    code, _, err = tidegate_command("reproduce", "two/share", "--out", "res")
    assert code == 3
    assert "expected.toml" in err and "no flow 'tpc'; did you mean tcp?" in err
