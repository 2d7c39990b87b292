"""How many runs may be asked for, and what is said of a sweep."""

import json
import os
import subprocess
import sys
import weakref

import pytest
from conftest import EXPERIMENT, check_text

import tidegate
from tidegate import display, experiment
from tidegate.errors import UsageError

NETWORK = """
duration = "1s"
nodes = { hosts = ["A", "B"] }
links.bottleneck = { between = ["A", "B"], rate = "1Mbit", delay = "1ms" }
flows.tcp = { from = "A", to = "B", transport = "tcp" }
axes.rate = { path = "links.bottleneck.rate", values = ["1Mbit", "2Mbit"] }
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(EXPERIMENT)
    return path


def no_scenario(*_):
    raise AssertionError("nothing is built of runs that are too many")


def test_seeds_that_are_too_many_are_refused_before_anything_is_built(
    tidegate_command, mine, core, monkeypatch
):
    monkeypatch.setattr(core.Experiment, "scenario", no_scenario)
    for form in ([], ["--quick"]):
        code, _, said = tidegate_command("sweep", mine, "--seeds", 10**9, *form)
        assert code == 2
        assert "000000000 runs" in said and "at most 1000000" in said and "fewer seeds" in said
    with pytest.raises(UsageError, match="at most 1000000"):
        tidegate.sweep(mine, seeds=10**9)


def test_the_limit_is_exact(mine, core, monkeypatch):
    monkeypatch.setattr(experiment, "RUNS_MAX", 24)
    each = experiment.Experiment("mine", mine)
    assert len(each.tasks(seeds=4)) == 24
    monkeypatch.setattr(core.Experiment, "scenario", no_scenario)
    with pytest.raises(UsageError, match="30 runs, of 6 points with 5 seeds each"):
        each.tasks(seeds=5)


@pytest.mark.real_core
def test_what_is_overridden_counts(tidegate_command, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(NETWORK)
    axis = 'axes.rate.values=["1Mbit", "2Mbit", "3Mbit"]'
    code, _, said = tidegate_command("sweep", path, "--seeds", 400_000, "--set", axis)
    assert code == 2 and "1200000 runs, of 3 points with 400000 seeds each; at most 1000000" in said


@pytest.mark.parametrize("seeds", [0, -1, 1.5, "2", True])
def test_seeds_are_a_whole_number(mine, seeds):
    with pytest.raises(UsageError, match=r"seeds is .*: a whole number from 1 to 1000000"):
        tidegate.sweep(mine, seeds=seeds)


def test_a_sweep_without_checks_says_nothing_of_them(tidegate_command, mine):
    code, out, said = tidegate_command("sweep", mine, "--seeds", 1, "--json")
    assert code == 0 and json.loads(out)["points"] == 6
    assert "nothing to check" not in said and "expected.toml" not in said


def test_a_reproduction_without_checks_is_not_counted(tidegate_command, mine):
    code, out, said = tidegate_command("reproduce", mine, "--quick", "--out", "res")
    assert code == 0 and "nothing to check, there is no" in said
    assert "there was nothing to check\n" in out and "0 of 0" not in out and "fail" not in out


def test_checks_that_are_all_skipped_are_not_counted(tidegate_command, mine):
    text = check_text("value = 0.75\ntolerance = '3%'", more="quick = false").replace("share", "mine", 1)
    mine.with_name("expected.toml").write_text(text)
    code, out, _ = tidegate_command("reproduce", mine, "--quick", "--out", "res")
    assert code == 0 and "no check was made, 1 experiment skipped\n" in out and "0 of 0" not in out


def test_films_pages_and_transfers_are_told_beside_their_flows():
    film = {
        "segments": 60, "mean_bitrate_bps": 2.3e6, "switches": 3, "startup_s": 0.4, "stalls": 2,
        "stalled_s": 1.5, "stalled_ratio": 0.05,
    }  # fmt: skip
    pages = {"begun": 9, "loaded": 8, "load_s": {"mean": 1.25, "p95": 3.5}, "objects": 99}
    transfers = {"arrived": 70, "completed": 65, "refused": 0, "completion_s": {"mean": 0.5, "p95": 2}}
    flows = {"tcp": {}, "film": {"video": film}, "web": {"pages": pages}, "mice": {"transfers": transfers}}
    lines = display.run_summary("t", {"flows": flows}, 1.0, 0.0, 1).splitlines()

    def below(name):
        (at,) = (number for number, line in enumerate(lines) if line.split()[:1] == [name])
        return lines[at], lines[at + 2].split()

    header, row = below("video")
    assert "stalls" in header and "stalled s" in header
    assert row == ["film", "60", "2.3", "3", "0.4", "2", "1.5", "5.0"]
    assert below("pages")[1] == ["web", "9", "8", "1.25", "3.5", "99"]
    header, row = below("transfers")
    assert "refused" not in header and row == ["mice", "70", "65", "0.5", "2"]
    plain = display.run_summary("t", {"flows": {"tcp": {"sent_packets": 3}}}, 1.0, 0.0, 1)
    assert not any(name in plain for name in ("video", "pages", "transfers"))


@pytest.mark.real_core
def test_a_run_with_a_film_tells_of_its_stalls(tidegate_command, tmp_path):
    path = tmp_path / "film.toml"
    film = 'flows.film = { from = "A", to = "B", transport = "tcp", application = { kind = "video" } }'
    path.write_text(NETWORK.replace("1s", "20s", 1).partition("axes.")[0] + film)
    code, out, _ = tidegate_command("run", path, "-o", "kept")
    assert code == 0 and "\nvideo  segments  bitrate Mb/s" in out and "stalls" in out
    assert tidegate_command("report", "kept", "-o", "page.html")[0] == 0
    assert "What was measured per flow: video" in (tmp_path / "page.html").read_text(encoding="utf-8")


class Counted:
    """A core experiment that counts how many of its scenarios are there at once."""

    def __init__(self, core):
        self.core, self.there, self.most, self.built = core, weakref.WeakSet(), 0, 0

    def points(self, quick):
        return self.core.points(quick)

    def scenario(self, point):
        made = Made(self.core.scenario(point))
        self.there.add(made)
        self.built += 1
        self.most = max(self.most, len(self.there))
        return made


class Made:
    def __init__(self, scenario):
        self.to_json, self.is_real = scenario.to_json, scenario.is_real


@pytest.mark.real_core
def test_points_are_checked_one_at_a_time_and_each_once(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'seeds = 3\naxes.delay = { path = "links.bottleneck.delay", values = ["1ms", "2ms"] }' + NETWORK
    )
    each = experiment.Experiment("mine", path)
    each.core = counted = Counted(each.core)
    each.check([("checks", "flows.tcp.throughput_bps")])
    assert (counted.built, counted.most) == (4, 1)
    with pytest.raises(tidegate.MeasureError, match="checks: no flow 'udp'; there are: tcp"):
        each.check([("checks", "flows.udp.throughput_bps")])


VERSIONS = NETWORK.replace(
    "axes.rate", 'variants.slow = { set = { "links.bottleneck.rate" = "100kbit" } }\naxes.rate'
)


@pytest.mark.real_core
def test_run_takes_a_variant_and_what_is_set_wins_over_it(tidegate_command, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(VERSIONS)

    def rate(*more):
        return json.loads(tidegate_command("run", path, "--json", *more)[1])["links"]["bottleneck"][
            "rate_bps"
        ]

    assert rate() == 1e6
    assert rate("--variant", "slow") == 1e5
    assert rate("--variant", "slow", "--set", "links.bottleneck.rate=3Mbit") == 3e6
    code, _, said = tidegate_command("run", path, "--variant", "slwo")
    assert code == 2 and "--variant slwo" in said and "there are: slow" in said
    path.write_text(NETWORK)
    assert "has no variants" in tidegate_command("run", path, "--variant", "slow")[2]


@pytest.mark.real_core
def test_a_sweep_does_not_replace_the_result_of_a_run_unasked(tidegate_command, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(NETWORK)
    assert tidegate_command("run", path, "-o", "kept")[0] == 0
    code, _, said = tidegate_command("sweep", path, "-o", "kept")
    assert code == 2 and "kept holds the result of `tidegate run`" in said and "--fresh" in said
    assert json.loads((tmp_path / "kept/result.json").read_text())["kind"] == "run"
    assert tidegate_command("sweep", path, "-o", "kept", "--fresh")[0] == 0
    assert tidegate_command("sweep", path, "-o", "kept")[0] == 0


@pytest.mark.real_core
@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_a_sweep_does_not_replace_what_another_one_made_unasked(tidegate_command, tmp_path, more):
    for name in ("mine", "other"):
        (tmp_path / f"{name}.toml").write_text(NETWORK)
    assert tidegate_command("sweep", "mine.toml", "-o", "kept")[0] == 0
    before = (tmp_path / "kept/result.json").read_bytes()
    code, _, said = tidegate_command("sweep", "other.toml", "-o", "kept", *more)
    assert code == 2 and "kept holds the result of another experiment, mine" in said and "--fresh" in said
    set_delay = ("--set", "links.bottleneck.delay=3ms")
    code, _, said = tidegate_command("sweep", "mine.toml", "-o", "kept", *set_delay, *more)
    assert code == 2 and "kept holds a result with other values: no --set" in said
    assert (tmp_path / "kept/result.json").read_bytes() == before
    assert tidegate_command("sweep", "mine.toml", "-o", "kept", *set_delay, "--fresh")[0] == 0
    code, _, said = tidegate_command("sweep", "mine.toml", "-o", "kept", *more)
    assert code == 2 and "--set links.bottleneck.delay=3ms" in said


@pytest.mark.real_core
def test_a_report_says_how_to_make_what_stands_in_its_folder_again(tidegate_command, tmp_path):
    path = tmp_path / "mine.toml"
    figure = '[[figures]]\nid = "rate"\ntitle = "Rate"\nx = "t"\ny = "flows.*.throughput_bps"\n'
    path.write_text(NETWORK + '[record]\nevery = "100ms"\nseries = ["flows.*.throughput_bps"]\n' + figure)
    assert tidegate_command("run", path, "-o", "kept/elsewhere")[0] == 0
    assert tidegate_command("report", "kept/elsewhere")[0] == 0
    page = (tmp_path / "kept/elsewhere/report.html").read_text()
    assert "-o kept/elsewhere" in page and "plot kept/elsewhere" in page


@pytest.mark.real_core
def test_a_mistake_of_the_whole_file_is_not_laid_to_a_variant(tidegate_command, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(VERSIONS.replace('"A", "B"], rate', '"A", "BB"], rate'))
    said = tidegate_command("sweep", path)[2]
    assert "no node `BB`" in said and "in: variant" not in said
    path.write_text(VERSIONS.replace('rate" = "100kbit', 'delay" = "100'))
    assert "in: variant slow" in tidegate_command("sweep", path)[2]


@pytest.mark.real_core
def test_what_hides_behind_figures_is_told_with_them(tidegate_command, tmp_path):
    path = tmp_path / "mine.toml"
    figure = '[[figures]]\nid = "{}"\nx = "rate"\ny = "flows.tcp.goodput_bps"\n'
    path.write_text(NETWORK.replace("axes.rate", "axis.rate") + figure.format("a"))
    said = tidegate_command("validate", path)[2]
    assert "unknown key `axis`" in said and "did you mean `axes`?" in said and "no axis `rate`" in said
    path.write_text(NETWORK + (figure.format("a") + figure.format("b")).replace("[[figures]]", "[figures]"))
    assert "write [[figures]] each time" in tidegate_command("validate", path)[2]


@pytest.mark.real_core
def test_an_interrupted_reproduction_names_the_folder_that_is_there(
    tidegate_command, tmp_path, core, monkeypatch
):
    path = tmp_path / "mine.toml"
    path.write_text(NETWORK)
    (tmp_path / "expected.toml").write_text("")
    kept = experiment.run_tasks

    def interrupted(*arguments):
        for count, point in enumerate(kept(*arguments)):
            if count:
                raise KeyboardInterrupt
            yield point

    monkeypatch.setattr(experiment, "run_tasks", interrupted)
    code, _, said = tidegate_command("reproduce", path, "-o", "kept")
    assert code == 130 and "kept in kept/mine.partial; --resume goes on" in said
    assert (tmp_path / "kept/mine.partial").is_dir()


@pytest.mark.real_core
@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_reader_who_goes_away_takes_no_result_along(tmp_path, command):
    lines = NETWORK.splitlines(keepends=True)
    (tmp_path / "s.toml").write_text("".join(lines if command == "sweep" else lines[:-1]))
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "tidegate.cli", command, "s.toml", "-o", "out"]
    process = subprocess.run(words, cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert process.returncode == 1, process.stderr
    assert (tmp_path / "out/result.json").exists() and not (tmp_path / "out.partial").exists()


@pytest.mark.real_core
def test_a_sweep_whose_runs_are_the_same_says_so(tidegate_command, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(NETWORK)
    more = ("--set", "links.bottleneck.rate=3Mbit")
    for command in (("sweep", path, "-o", "kept"), ("validate", path)):
        code, _, said = tidegate_command(*command, *more)
        assert code == 0 and "axis `rate` varies this, and all its runs are the same" in said
        assert "warning" in said and "axes.rate.values=[...]" in said
    assert "the same" not in tidegate_command("sweep", path, "-o", "other")[2]


@pytest.mark.real_core
def test_what_is_no_option_of_one_run_is_refused(tidegate_command, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(NETWORK)
    for more, complaint in (
        (("--set", "seeds=3"), "`seeds` is of an experiment"),
        (("--set", "include=['x.toml']"), "files are included before"),
        (("--seed", 2**64), "--seed"),
        (("--trace-at", "links"), "give --trace FILE as well"),
        (("-o", "kept", "--trace", "kept/trace.pcapng"), "lies in kept"),
    ):
        code, _, said = tidegate_command("run", path, *more)
        assert code in (2, 3) and complaint in said, said
    assert not (tmp_path / "kept").exists()


def test_devices_are_no_scenarios(tidegate_command):
    for command in ("run", "validate"):
        code, _, said = tidegate_command(command, "/dev/zero")
        assert code in (2, 3) and "/dev/zero is a device" in said, said


def test_a_cluster_has_a_port(tidegate_command, mine):
    for address in ("somewhere", "tcp://somewhere"):
        code, _, said = tidegate_command("sweep", mine, "--cluster", address)
        assert code == 2 and "HOST:PORT" in said


@pytest.mark.real_core
def test_a_report_of_many_goes_on_without_what_is_damaged(tidegate_command, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(NETWORK)
    for name in ("one", "two", "three"):
        assert tidegate_command("sweep", path, "-o", f"all/{name}")[0] == 0
    (tmp_path / "all/two/points.jsonl").write_text("{")
    code, _, said = tidegate_command("report", "all", "-o", "page.html")
    assert code == 4 and "left out: all/two" in said and "points.jsonl: it is no JSON" in said
    assert "Experiments side by side" in (tmp_path / "page.html").read_text()
    for name in ("one", "three"):
        (tmp_path / f"all/{name}/points.jsonl").write_text("{")
    (tmp_path / "page.html").unlink()
    assert tidegate_command("report", "all", "-o", "page.html")[0] == 3
    assert not (tmp_path / "page.html").exists()
