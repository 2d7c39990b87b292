"""One simulation on several cores: the same bytes as on one, or a reason why it is one."""

import subprocess
import sys

import numpy as np
import pytest

import tidegate

pytestmark = pytest.mark.real_core

# Four million events: shorter runs are not divided.
SITES = """
duration = "20s"
warmup = "2s"
event_order = "numbered"
nodes = { hosts = ["a{1..10}", "b{1..10}"], routers = ["r", "s"] }
defaults.link = { rate = "10Gbit", delay = "10us" }
defaults.tcp = { packet = "1500B", header = "40B", window = "10000p" }
links."a{i}-r" = { repeat = "i = 1..10", between = ["a{i}", "r"] }
links."s-b{i}" = { repeat = "i = 1..10", between = ["s", "b{i}"] }
[links.path]
between = ["r", "s"]
rate = "1Gbit"
delay = "10ms"
queue = { kind = "droptail", limit = "1000p" }
[flows]
"f{i}" = { repeat = "i = 1..10", from = "a{i}", to = "b{i}", transport = "tcp" }
[record]
every = "500ms"
series = ["flows.*.cwnd_segments", "flows.f1.throughput_bps", "links.path.*"]
delays = ["flows.f2", "links.path"]
"""


@pytest.fixture
def sites(tmp_path):
    file = tmp_path / "sites.toml"
    file.write_text(SITES)
    return file


def test_two_cores_give_the_same_bytes_as_one(sites):
    scenario = tidegate.load(sites)
    one, two = scenario.run(seed=3), scenario.run(seed=3, cores=2)
    assert (one.timing["cores"], two.timing["cores"], two.undivided) == (1, 2, None)
    assert one.core.summary_json == two.core.summary_json
    assert one.series_names == two.series_names
    for name in one.series_names:
        for ours, theirs in zip(one.series(name), two.series(name), strict=True):
            assert np.array_equal(ours, theirs, equal_nan=True), name


def test_whoever_watches_is_told_how_far_it_is_and_may_end_it(sites):
    scenario = tidegate.load(sites)
    for cores in (1, 2):
        told = []
        tidegate._core.run(scenario.core, cores=cores, watch=told.append)
        assert len(told) > 3
        assert told == sorted(told)
        assert 0 < told[0] < told[-1] < 1

    def enough(share):
        raise RuntimeError(f"enough at {share:.1f}")

    with pytest.raises(RuntimeError, match="enough at 0"):
        tidegate._core.run(scenario.core, watch=enough)


def test_what_cannot_be_divided_runs_on_one_core_and_says_why(sites):
    def why(*lines, **options):
        sites.write_text("\n".join(lines))
        result = tidegate.load(sites).run(cores=2, **options)
        assert result.timing["cores"] == 1
        return result.undivided

    text = SITES.replace('duration = "20s"', 'duration = "3s"')
    assert "order in which they were scheduled" in why(text.replace('event_order = "numbered"\n', ""))
    assert "too short" in why(text)
    assert "`record.waste`" in why(text.replace("[record]", "[record]\nwaste = true"))
    assert "packet trace" in why(text, trace=sites.with_suffix(".pcapng"))
    assert tidegate.load(sites).run().undivided is None


def test_the_command_line_says_why_it_is_one_core(sites):
    sites.write_text(SITES.replace('event_order = "numbered"\n', "").replace('"20s"', '"3s"'))
    command = [sys.executable, "-m", "tidegate", "run", sites, "--json", "--cores"]
    ran = subprocess.run([*command, "2"], capture_output=True, text=True, check=True)
    assert ran.stderr.startswith("one core: ")
    assert '`event_order = "numbered"`' in ran.stderr
    alone = subprocess.run([*command, "1"], capture_output=True, text=True, check=True)
    assert (alone.stdout, alone.stderr) == (ran.stdout, "")


@pytest.mark.parametrize("cores", [0, 65])
def test_cores_are_counted_from_one(sites, cores):
    with pytest.raises(ValueError, match="from 1 to 64"):
        tidegate.load(sites).run(cores=cores)


def test_no_more_cores_are_taken_than_there_are(sites, monkeypatch, capsys):
    from tidegate import cli
    from tidegate.commands import run

    sites.write_text(SITES.replace('duration = "20s"', 'duration = "3s"'))
    monkeypatch.setattr(run, "_cores_there", lambda: 1)
    assert cli.invoke(["run", str(sites), "--cores", "16"]) == 0
    told = capsys.readouterr().err
    # With one core nothing is divided, and nobody says why not.
    assert "--cores 16: this machine has 1" in told and "one core:" not in told
