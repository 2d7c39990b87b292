"""The command line: exit codes, what goes where, whole results or none."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import EXPERIMENT, SCENARIO, check_text

from tidegate import display, experiment, progress, quantities, seeding, store, toml_text
from tidegate.commands import emulate, run


def test_run_prints_a_summary_per_flow_and_link(tidegate_command, scenario_file):
    code, out, err = tidegate_command("run", scenario_file)
    assert code == 0
    assert "throughput Mb/s" in out
    assert "bottleneck" in out
    assert err == ""


def test_a_long_run_shows_how_far_it_is(monkeypatch, tidegate_command, scenario_file):
    shown = []
    monkeypatch.setattr(progress, "_Terminal", lambda total, title: _Bar(total, title, shown))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(run, "_SOON_S", 0)
    assert tidegate_command("run", scenario_file)[0] == 0
    assert shown == ["percent simulated", (25, 100), (75, 100), "over"]
    shown.clear()
    monkeypatch.setattr(run, "_SOON_S", 1000)
    assert tidegate_command("run", scenario_file)[0] == 0
    assert shown == []


class _Bar:
    """Notes in `shown` what a terminal would show."""

    def __init__(self, total, title, shown):
        self.shown, self.title = shown, title

    def start(self):
        self.shown.append(self.title)

    def stop(self):
        self.shown.append("over")

    def show(self, done, total):
        self.shown.append((done, total))


def test_run_json_is_the_summary(tidegate_command, scenario_file):
    code, out, _ = tidegate_command("run", scenario_file, "--json", "--seed", "7")
    summary = json.loads(out)
    assert code == 0
    assert next(iter(summary)) == "schema_version"
    assert summary["seed"] == 7


def test_timing_goes_to_stderr(tidegate_command, scenario_file):
    _, out, err = tidegate_command("run", scenario_file, "--timing")
    assert "packet-hops" in err
    assert "packet-hops" not in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", "missing.toml"], 3),
        (["run"], 2),
        (["fly"], 2),
        (["run", "{scenario}", "--seed", "many"], 2),
        (["run", "{scenario}", "--set", "nonsense"], 2),
        (["run", "{scenario}", "--set", "duration=10"], 3),
        (["run", "{scenario}", "--set", "colour=red"], 3),
        (["validate", "{scenario}"], 0),
        (["validate", "{scenario}", "missing.toml"], 3),
        (["reproduce", "nothing"], 2),
        (["reproduce", "two", "--seeds", "0"], 2),
        (["sweep", "missing.toml"], 3),
        (["reproduce", "missing.toml"], 3),
        (["tune", "missing.toml"], 3),
        (["sweep", "two/share", "--resume", "--fresh"], 2),
        (["plot", "nowhere"], 3),
        (["report", "nowhere"], 3),
        (["list", "mechanisms"], 0),
        (["list", "plots"], 0),
        (["list", "experiments"], 0),
        (["list", "wishes"], 2),
        (["explain", "red"], 0),
        (["explain", "rde"], 2),
        (["schema"], 0),
        (["--version"], 0),
        (["--help"], 0),
    ],
)
def test_exit_codes(tidegate_command, shelf, scenario_file, arguments, code):
    result, out, err = tidegate_command(*[part.format(scenario=scenario_file) for part in arguments])
    assert result == code, err
    assert (out if code == 0 else err).strip()


@pytest.mark.parametrize("arguments", [["list", "mechanisms"], ["list", "plots"], ["list", "experiments"]])
def test_lists_are_json_on_request(tidegate_command, shelf, arguments):
    _, out, _ = tidegate_command(*arguments, "--json")
    assert json.loads(out)["schema_version"] == 1


def test_validate_json_says_what_is_wrong(tidegate_command, scenario_file, tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_bytes(b"\xff\x00 = ")
    code, out, _ = tidegate_command("validate", scenario_file, broken, "--json")
    report = json.loads(out)["files"]
    assert code == 3
    assert [entry["valid"] for entry in report] == [True, False]
    assert report[1]["error"]["message"]


@pytest.mark.parametrize(
    "arguments, code, says",
    [
        (["run", "broken.toml"], 3, ""),
        (["run", "missing.toml"], 3, "missing.toml"),
        (["run", "broken.toml", "--speed"], 2, "--speed"),
        (["sweep", "no-such-experiment"], 2, "no-such-experiment"),
    ],
)
def test_what_goes_wrong_is_json_on_request(tidegate_command, tmp_path, monkeypatch, arguments, code, says):
    monkeypatch.chdir(tmp_path)
    Path("broken.toml").write_bytes(b"\xff\x00 = ")
    ended, out, err = tidegate_command(*arguments, "--json")
    report = json.loads(out)
    assert (ended, report["schema_version"], report["exit_code"]) == (code, 1, code)
    assert report["error"]["message"] and says in report["error"]["message"]
    assert report["error"]["message"].splitlines()[0] in err
    assert tidegate_command(*arguments)[1] == ""


def test_a_summary_that_cannot_be_stored_is_printed_once(
    tidegate_command, scenario_file, monkeypatch, tmp_path
):
    def full(*_):
        raise OSError(28, "No space left on device", "folder")

    monkeypatch.setattr(store, "write_result", full)
    code, out, err = tidegate_command("run", scenario_file, "--json", "-o", tmp_path / "folder")
    assert (code, json.loads(out)["seed"]) == (1, 1)
    assert "No space left on device: 'folder'" in err


def test_a_figure_whose_measure_cannot_be_read_is_refused_before_anything_runs(tidegate_command, tmp_path):
    file = tmp_path / "drawn.toml"
    file.write_text(EXPERIMENT.replace("flows.tcp.throughput_bps / 1e6", "flows.tcp.throughput_bps /"))
    assert file.read_text() != EXPERIMENT
    for command in (
        ["validate"],
        ["sweep", "--out", tmp_path / "out"],
        ["reproduce", "--out", tmp_path / "out"],
    ):
        code, _, err = tidegate_command(*command, file)
        assert code == 3
        assert re.search(r"drawn\.toml:\d+: figure", err) and "cannot read measure" in err
    assert not (tmp_path / "out").exists()


UNCROSSED = """
duration = "1s"
[nodes]
hosts = ["A", "B"]
routers = ["R"]
[defaults.link]
rate = "1Mbit"
delay = "1ms"
[links]
A-R.between = ["A", "R"]
R-B.between = ["R", "B"]
[flows.x]
from = "A"
to = "B"
transport = "udp"
application = { kind = "cbr", rate = "1Mbit" }
[domains.net]
edges = ["R"]
mechanism = { kind = "nbp" }
"""


@pytest.mark.real_core
@pytest.mark.parametrize("command", [["validate"], ["run", "--out", "res"]])
def test_what_only_the_network_shows_names_its_line_too(tidegate_command, tmp_path, command):
    scenario = tmp_path / "uncrossed.toml"
    scenario.write_text(UNCROSSED)
    code, _, err = tidegate_command(*command, scenario)
    assert code == 3
    line = UNCROSSED.splitlines().index("[domains.net]") + 1
    assert f"uncrossed.toml:{line}:" in err and "domains.net: no flow crosses" in err


def test_reproduce_passes_and_writes_everything(tidegate_command, shelf):
    code, out, err = tidegate_command("reproduce", "--out", "res")
    assert code == 0, out + err
    assert "1 of 1 checks pass" in out
    assert Path("res/report.html").is_file()
    result = store.read_result(Path("res/two/share"))
    # Of its six points a check looks at one.
    assert len(result.points) == seeding.FIRST + 5 * seeding.DRAWN
    assert result.status == "pass"
    assert (Path("res/two/share") / "share.toml").is_file()


def test_reproduce_json_has_exactly_the_published_structure(tidegate_command, shelf):
    _, out, _ = tidegate_command("reproduce", "--quick", "--json")
    report = json.loads(out)
    assert list(report) == ["schema_version", "counts", "experiments"]
    assert report["counts"]["predicted"] == 1
    (entry,) = report["experiments"]
    assert list(entry) == ["id", "title", "source", "status", "checks"]
    (check,) = entry["checks"]
    assert list(check) == [
        "name", "expected", "measured", "where", "ci95", "tolerance", "kind", "provenance", "status",
        "margin_sigma", "band",
    ]  # fmt: skip
    assert (entry["status"], check["status"], check["expected"]) == ("pass", "pass", 0.75)


@pytest.mark.real_core
def test_a_reproduction_with_other_values_does_not_claim_the_document(tidegate_command):
    command = ["reproduce", "nbp/fig8", "--quick", "--set", "parameters.shared=6Mbit", "--out", "res"]
    code, out, err = tidegate_command(*command)
    assert code == 0, err
    assert " pass" not in out.replace("0 of 1 checks pass", "") and "not comparable" in out
    assert "overridden  nbp/fig8: parameters.shared = 6Mbit (its file: 1.5Mbit)" in out
    page = Path("res/report.html").read_text(encoding="utf-8")
    assert "6Mbit, overridden (its file: 1.5Mbit)" in page
    assert "tidegate reproduce nbp/fig8 --quick --set=parameters.shared=6Mbit" in page
    result = store.read_result(Path("res/nbp/fig8"))
    assert (result.status, result.references) == ("not comparable", [])
    assert result.overridden == [{"path": "parameters.shared", "value": "6Mbit", "document": "1.5Mbit"}]
    code, out, _ = tidegate_command(*command, "--fresh", "--json")
    (entry,) = json.loads(out)["experiments"]
    assert entry["overridden"] == result.overridden
    assert {check["status"] for check in entry["checks"]} == {"not comparable"}


def test_reproduce_fails_when_a_check_fails(tidegate_command, shelf):
    (shelf / "two" / "expected.toml").write_text(check_text("at_least = 1.3"))
    code, out, _ = tidegate_command("reproduce", "two/share", "--quick")
    assert code == 1
    assert "fail" in out
    assert "variant" not in out.splitlines()[0]


def test_reproduce_reports_an_explained_difference(tidegate_command, shelf):
    text = check_text(
        "at_least = 1.3", more='differs = { cause = "another queue", sensitivity = "fifo", band = [0, 10] }'
    )
    (shelf / "two" / "expected.toml").write_text(text)
    code, out, _ = tidegate_command("reproduce", "--quick")
    assert code == 0
    assert "another queue" in out
    assert "1 differ for a named cause" in out


def test_reproduce_fails_when_a_run_fails(tidegate_command, shelf):
    code, out, _ = tidegate_command("reproduce", "--quick", "--set", "model.fail=2")
    assert code == 1
    assert "seed 2" in out


def test_results_do_not_depend_on_workers(tidegate_command, shelf):
    for workers in (1, 4):
        tidegate_command("reproduce", "--workers", workers, "--out", f"w{workers}")
    one, four = (Path(f"w{workers}/two/share/points.jsonl").read_bytes() for workers in (1, 4))
    assert one == four
    assert Path("w1/report.html").read_bytes() == Path("w4/report.html").read_bytes()


def test_seeds_option_counts_from_one(tidegate_command, shelf):
    tidegate_command("reproduce", "--quick", "--seeds", "6", "--out", "res")
    seeds = {point.seed for point in store.read_result(Path("res/two/share")).points}
    assert seeds == {1, 2, 3, 4, 5, 6}


def test_sweep_resumes_with_what_is_missing(tidegate_command, shelf, core):
    path = shelf / "two" / "share.toml"
    text = path.read_text()
    path.write_text(text.replace("[model]", "[model]\nfail = 2"))
    code, out, err = tidegate_command("sweep", "two/share", "--quick", "--json")
    assert code == 4
    assert len(json.loads(out)["failed"]) == 4
    assert not Path("results/two/share").exists()
    assert Path("results/two/share.partial").is_dir()
    assert tidegate_command("sweep", "two/share", "--quick")[0] == 2, (
        "it must ask before throwing points away"
    )
    code, out, _ = tidegate_command("sweep", "two/share", "--quick", "--resume", "--json", "--workers", "2")
    assert code == 4, "the same runs fail again"
    assert json.loads(out)["run"] == 4
    path.write_text(text)
    code, out, _ = tidegate_command("sweep", "two/share", "--quick", "--fresh", "--json")
    assert (code, json.loads(out)["run"]) == (0, 8)
    code, out, _ = tidegate_command("sweep", "two/share", "--resume", "--json")
    assert (code, json.loads(out)["points"], json.loads(out)["run"]) == (0, 24, 16)
    assert not Path("results/two/share.partial").exists()
    labels = [
        (point.variant, point.axes["load"], point.seed)
        for point in store.read_result(Path("results/two/share")).points
    ]
    assert len(set(labels)) == 24
    code, _, err = tidegate_command("sweep", "two/share", "--seeds", "1", "--resume")
    assert code == 2, "points that nobody asks for now would go"
    assert "finished points that this run does not ask for" in err
    assert len(store.read_result(Path("results/two/share")).points) == 24


def test_a_sweep_that_is_interrupted_says_how_to_go_on(tidegate_command, shelf, monkeypatch):
    whole = experiment.run_tasks

    def stop_after_three(tasks, pool, *told):
        for number, outcome in enumerate(whole(tasks[:3], pool, *told)):
            yield outcome
            if number == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run_tasks", stop_after_three)
    code, _, err = tidegate_command("sweep", "two/share", "--quick")
    assert code == 130
    assert "3 of 8 points are finished" in err and "--resume" in err


def test_files_are_written_where_links_lead_and_devices_stay(tmp_path):
    named, link, pipe = (tmp_path / name for name in ("named", "link", "pipe"))
    named.write_text("before")
    link.symlink_to(named)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    store.write_atomic(link, "after")
    store.write_atomic(pipe, "through")
    assert (named.read_text(), link.is_symlink()) == ("after", True)
    assert (os.read(reader, 100), pipe.is_fifo()) == (b"through", True)
    os.close(reader)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "named", "pipe"]


def test_a_place_that_refuses_is_named_as_it_was_given(tmp_path):
    with pytest.raises(OSError) as refused:
        store.write_atomic(Path("/proc/version/report.html"), "text")
    assert refused.value.filename == "/proc/version/report.html"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('{ variant = "fofi" }', "where.variant: 'fofi' is none of fifo"),
        ('{ lode = "1Mbit" }', "where.lode: the experiment has no such axis"),
        ('{ load = "3Mbit" }', "where.load: '3Mbit' is none of 250kbit"),
        ('{ load = { at_most = "50" } }', "where.load: at_most = '50' cannot be compared with 250kbit"),
    ],
)
def test_a_check_of_a_place_that_is_not_there_is_refused_before_anything_runs(
    tidegate_command, shelf, change, words
):
    text = re.sub(r"where = \{[^}]*\}", f"where = {change}", check_text("at_least = 1"))
    (shelf / "two" / "expected.toml").write_text(text)
    for command in (["reproduce", "two"], ["sweep", "two/share"]):
        code, _, err = tidegate_command(*command, "--quick")
        assert code == 3
        assert words in err
        assert not Path("results/two").exists()


def test_a_check_outside_the_quick_form_is_skipped_there(tidegate_command, shelf):
    text = check_text("at_least = 1e9")
    other = re.sub(r"where = \{[^}]*\}", 'where = { load = "250kbit" }', text)
    (shelf / "two" / "expected.toml").write_text(other)
    code, out, _ = tidegate_command("reproduce", "two", "--quick")
    assert (code, "1 experiment skipped" in out) == (0, True), out


@pytest.mark.real_core
def test_emulation_is_part_of_the_module_and_another_program_may_be_named(monkeypatch):
    command = [sys.executable, "-m", "tidegate", "replay", "no-such-file"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "no-such-file cannot be read" in done.stderr) == (1, True), done.stderr
    assert emulate.program() == [sys.executable, "-m", "tidegate"]
    other = shutil.which("true")
    monkeypatch.setenv("TIDEGATE_EMULATE", other)
    assert emulate.program() == [other]


def test_plot_and_report_from_a_folder(tidegate_command, shelf):
    tidegate_command("reproduce", "--quick", "--out", "res")
    code, out, _ = tidegate_command("plot", "res/two/share", "-p", "throughput", "-o", "x.svg")
    assert (code, out.strip()) == (0, "x.svg")
    assert Path("x.svg").read_text().startswith("<?xml")
    assert tidegate_command("plot", "res/two/share")[0] == 0
    assert tidegate_command("plot", "res/two/share", "-p", "nothing")[0] == 2
    assert tidegate_command("plot", "res/two/share", "-o", "x.xyz")[0] == 2
    code, out, _ = tidegate_command("report", "res", "-o", "page.html")
    assert code == 0
    assert Path("page.html").is_file()


def test_a_run_folder_can_be_plotted_and_reported(tidegate_command, scenario_file, tmp_path):
    folder = tmp_path / "one"
    assert tidegate_command("run", scenario_file, "--out", folder)[0] == 0
    assert tidegate_command("plot", folder)[0] == 0
    assert sorted(path.name for path in folder.glob("*.svg")) == [
        "flows-throughput_bps.svg",
        "throughput.svg",
    ]
    assert tidegate_command("report", folder)[0] == 0
    assert "What was measured per flow" in (folder / "report.html").read_text()


def test_an_interrupted_reproduction_leaves_nothing_that_looks_whole(tidegate_command, shelf, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tidegate.store.points.write_point", interrupt)
    code, _, err = tidegate_command("reproduce", "--quick", "--out", "res")
    assert code == 130
    assert "interrupted" in err
    # What other workers just began may be there for a moment, without a point.
    assert not list(Path("res").rglob("*.json"))


@pytest.mark.parametrize("name", ["../../../README", "/etc/x", "a/b", ".hidden", "", "x" * 101, 7, None])
def test_a_figure_of_a_stranger_is_written_nowhere_else(tidegate_command, shelf, name):
    tidegate_command("reproduce", "--quick", "--out", "res")
    manifest = Path("res/two/share/result.json")
    about = json.loads(manifest.read_text())
    about["experiment"]["figures"][0]["id"] = name
    manifest.write_text(json.dumps(about))
    before = sorted(path for path in Path().rglob("*"))
    code, _, err = tidegate_command("plot", "res/two/share")
    assert (code, "the id of a figure is no name" in err) == (3, True), err
    assert sorted(path for path in Path().rglob("*")) == before


def test_a_link_in_a_result_folder_leads_no_picture_out_of_it(tidegate_command, shelf):
    tidegate_command("reproduce", "--quick", "--out", "res")
    Path("mine.svg").write_text("precious")
    folder = Path("res/two/share")
    for figure in json.loads((folder / "result.json").read_text())["experiment"]["figures"]:
        (folder / f"{figure['id']}.svg").symlink_to(Path("mine.svg").resolve())
    (folder / "report.html").symlink_to(Path("mine.svg").resolve())
    for command in ("plot", "report"):
        code, _, err = tidegate_command(command, folder)
        assert (code, "leads out of" in err) == (3, True), err
    assert Path("mine.svg").read_text() == "precious"


def test_an_edited_point_is_noticed_and_run_again(tidegate_command, shelf):
    tidegate_command("sweep", "two/share", "--quick")
    points = Path("results/two/share/points.jsonl")
    whole = points.read_text()
    lines = whole.splitlines(keepends=True)
    lines[2] = lines[2].replace('"seed":', '"seed": ')
    points.write_text("".join(lines))
    assert json.loads(tidegate_command("sweep", "two/share", "--quick", "--resume", "--json")[1])["run"] == 0
    lines[2] = re.sub(r'"throughput_bps":\d', '"throughput_bps":9', lines[2], count=1)
    points.write_text("".join(lines))
    code, out, err = tidegate_command("sweep", "two/share", "--quick", "--resume", "--json")
    assert (code, json.loads(out)["run"]) == (0, 1), err
    assert "1 point was changed after being written" in err
    assert points.read_text() == whole


@pytest.mark.parametrize("letter", ["\\u2028", "\\u2029", "\\u0085", "\\r"])
def test_what_ends_lines_elsewhere_ends_none_in_a_folder(tidegate_command, tmp_path, letter):
    text = EXPERIMENT.replace("[variants.fair]", f'[variants."fa{letter}ir"]')
    (tmp_path / "one.toml").write_text(text.replace('"fair"', f'"fa{letter}ir"'))
    check = check_text("at_least = 0", name=f"a{letter}name").replace('variant = "fair", ', "")
    (tmp_path / "expected.toml").write_text(check.replace('"share"', '"one"'))
    sweep = ("sweep", tmp_path / "one.toml", "--out", "kept", "--quick")
    code, out, err = tidegate_command(*sweep)
    assert code == 0 and "a name" in out, err
    variants = {point.variant for point in store.read_result(Path("kept")).points}
    assert variants == {"fifo", json.loads(f'"fa{letter}ir"')}
    code, out, err = tidegate_command(*sweep, "--resume", "--json")
    assert code == 0 and json.loads(out)["run"] == 0, err
    assert toml_text.line_of(json.loads(f'"a = 1{letter}\\nb = 2"'), ["b"]) == 2


def test_two_processes_do_not_write_to_one_place(tidegate_command, shelf, scenario_file):
    with store.locked(Path("results/two/share")):
        code, _, err = tidegate_command("sweep", "two/share", "--quick")
        assert (code, "another process is writing" in err) == (1, True), err
        code, _, err = tidegate_command("reproduce", "--quick")
        assert (code, "another process is writing" in err) == (1, True), err
    assert tidegate_command("sweep", "two/share", "--quick")[0] == 0
    assert [path.name for path in Path("results/two").iterdir()] == ["share"]


def test_a_place_that_is_a_link_stays_one(tidegate_command, shelf, scenario_file):
    Path("disk/real").mkdir(parents=True)
    Path("link").symlink_to("disk/real")
    for command in (("sweep", "two/share", "--quick"), ("run", scenario_file)):
        for more in ((), ("--resume",) if command[0] == "sweep" else ("--force",)):
            code, _, err = tidegate_command(*command, *more, "--out", "link")
            assert code == 0, err
            assert Path("link").is_symlink() and store.is_result(Path("disk/real"))
            assert [path.name for path in Path("disk").iterdir()] == ["real"]
        shutil.rmtree("disk/real")
        Path("disk/real").mkdir()
    with store.locked(Path("disk/real")):
        code, _, err = tidegate_command("sweep", "two/share", "--quick", "--out", "link")
        assert (code, "another process is writing" in err) == (1, True), err


def test_a_run_replaces_a_result_only_if_it_is_told(tidegate_command, scenario_file, tmp_path):
    command = ("run", scenario_file, "-o", tmp_path / "one")
    assert tidegate_command(*command)[0] == 0
    code, _, err = tidegate_command(*command)
    assert (code, "--force" in err) == (2, True), err
    assert tidegate_command(*command, "--force")[0] == 0


def test_reproduction_goes_on_where_it_was_interrupted(tidegate_command, shelf, monkeypatch):
    whole = experiment.Task.run
    count = []

    def stop_after_three(task):
        count.append(task)
        if len(count) > 3:
            raise KeyboardInterrupt
        return whole(task)

    monkeypatch.setattr(experiment.Task, "run", stop_after_three)
    assert tidegate_command("reproduce", "--quick", "--out", "res", "--workers", "1")[0] == 130
    monkeypatch.setattr(experiment.Task, "run", whole)
    code, _, err = tidegate_command("reproduce", "--quick", "--out", "res")
    assert (code, "--resume" in err) == (2, True), err
    code, _, err = tidegate_command("reproduce", "--quick", "--out", "res", "--resume")
    assert code == 0 and "3 of " in err, err
    assert not list(Path("res").rglob("*.partial"))


def test_other_values_do_not_replace_a_reproduction_unasked(tidegate_command, shelf):
    values = ("--set", "duration=2s")
    assert tidegate_command("reproduce", "two/share", "--quick", "--out", "res")[0] == 0
    before = Path("res/two/share/points.jsonl").read_bytes()
    code, _, err = tidegate_command("reproduce", "two/share", "--quick", "--out", "res", *values)
    assert code == 2 and "no --set" in err and "--fresh" in err
    assert Path("res/two/share/points.jsonl").read_bytes() == before
    tidegate_command("reproduce", "two/share", "--quick", "--out", "res", "--fresh", *values)
    assert Path("res/two/share/points.jsonl").read_bytes() != before


def test_a_full_disk_leaves_the_old_result(tidegate_command, shelf, monkeypatch):
    tidegate_command("reproduce", "--quick", "--out", "res")
    before = Path("res/two/share/points.jsonl").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tidegate.store.points.write_point", full)
    code, _, err = tidegate_command("reproduce", "--out", "res")
    assert code == 1
    assert "No space left" in err and "--resume goes on" in err
    assert Path("res/two/share/points.jsonl").read_bytes() == before
    # What other workers just began may be there for a moment, without a point.
    assert [path.name for path in Path("res/two").iterdir() if list(path.glob("*.json"))] == ["share"]


def test_a_foreign_folder_is_never_replaced(tidegate_command, shelf, scenario_file):
    Path("mine").mkdir()
    Path("mine/thesis.tex").write_text("years of work")
    code, _, err = tidegate_command("run", scenario_file, "--out", "mine")
    assert code == 3
    assert "not replaced" in err
    assert Path("mine/thesis.tex").exists()


PROGRAM = (
    "import sys, fake_core; sys.modules['tidegate._core'] = fake_core; from tidegate import cli; cli.main()"
)
PATHS = [str(Path(__file__).parent), str(Path(experiment.__file__).parent.parent)]


def process(*arguments, **options):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(PATHS)}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        **options,
    )


def test_a_reader_that_leaves_is_no_drama(tmp_path):
    path = tmp_path / "big.toml"
    flows = "".join(f'f{i} = {{ from = "a", to = "c", transport = "tcp" }}\n' for i in range(3000))
    path.write_text(SCENARIO.replace("[flows]\n", "[flows]\n" + flows))
    with process("run", str(path), "--json") as running:
        running.stdout.read(10)
        running.stdout.close()
        err = running.stderr.read()
    assert b"Traceback" not in err
    assert b"BrokenPipe" not in err


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], ["numpy", "rich", "jinja2", "matplotlib", "polars", "tidegate._core"]),
        (["run", "{scenario}"], ["rich", "jinja2", "matplotlib", "polars", "tidegate.figures"]),
    ],
)
def test_what_a_command_does_not_need_is_not_imported(scenario_file, arguments, heavy):
    program = "import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    if arguments[0] == "run":
        program += "import fake_core; sys.modules['tidegate._core'] = fake_core; "
    program += "from tidegate import cli; cli.main()"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(PATHS)}
    command = [sys.executable, "-c", program, *[part.format(scenario=scenario_file) for part in arguments]]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert not set(heavy) & set(finished.stderr.split())


def test_an_experiment_of_ones_own_is_judged_by_the_file_beside_it(tidegate_command, shelf, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.toml").write_text(EXPERIMENT)
    (own / "expected.toml").write_text(check_text("at_least = 1e9").replace("share", "mine", 1))
    code, out, _ = tidegate_command("reproduce", own / "mine.toml", "--quick")
    assert code == 1
    assert "fail" in out
    assert Path("results/mine/result.json").exists()
    (own / "expected.toml").write_text(check_text("at_least = 1e9"))
    code, _, err = tidegate_command("reproduce", own / "other.toml")
    assert code == 3, err


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("goodput_bps", ["flows.NAME.goodput_bps  in results, bit/s", "Payload bits delivered."]),
        ("loss_ratio", ["flows.NAME.loss_ratio  in results, 0 to 1", "links.NAME.loss_ratio"]),
        ("lost_ratio", ["Of a series alone", "In the summary", "loss_ratio"]),
        ("flows.call.delay_ms.p95", ["flows.NAME.delay_ms  in results, ms"]),
        ("links.up.reverse.utilization", ["links.NAME.utilization  in results, 0 to 1"]),
        ("links.up.drops_by_reason.early", ["links.NAME.drops_by_reason  in results, packets"]),
        ("MOS", ['mos("FLOW", "CODEC", PLAY_OUT, "PACKET")  function of measures', "E-model"]),
        ("seed", ["seed  integer", "seed  in results"]),
        ("p99", ["flows.NAME.delay_ms.p99  in results, ms", "links.NAME.delay_ms.p99"]),
        ("checks", ["checks  in expected.toml", "tolerance, at_least"]),
        ("at_least", ["checks.at_least  in expected.toml\n    Not below."]),
        ("tolerance", ["checks.tolerance  in expected.toml", "a share"]),
    ],
)
@pytest.mark.real_core
def test_explain_knows_keys_of_results_and_functions_of_measures(tidegate_command, asked, told):
    code, out, _ = tidegate_command("explain", asked)
    assert code == 0
    for text in told:
        assert text in out
    _, out, _ = tidegate_command("explain", asked, "--json")
    assert json.loads(out)["results"]


def test_explain_names_what_is_close(tidegate_command):
    code, _, err = tidegate_command("explain", "rde")
    assert code == 2
    assert "did you mean red" in err
    for asked, meant in [
        ("links.core.dealy", "links.core.delay"),
        ("links.core.queue.limti", "links.core.queue.limit"),
        ("links.dealy", "links.delay"),
        ("lniks.NAME.delay", "links.NAME.delay"),
        ("dealy", "delay"),
    ]:
        assert f"did you mean {meant}" in tidegate_command("explain", asked)[2], asked


@pytest.mark.parametrize(
    ("asked", "paths"),
    [
        ("ties", ["ties"]),
        ("links.core.delay", ["links.NAME.delay"]),
        ("links.NAME.delay", ["links.NAME.delay"]),
        ("links.delay", ["links.NAME.delay"]),
        ("delay", ["links.NAME.delay", "links.NAME.forward.delay"]),
        ("forward.delay", ["links.NAME.forward.delay"]),
    ],
)
def test_explain_finds_keys_by_their_end_or_with_any_name_in_them(tidegate_command, asked, paths):
    code, out, _ = tidegate_command("explain", asked)
    assert code == 0
    assert [line.split("  ")[0] for line in out.splitlines() if ".delay" in line or "ties" in line] == paths
    assert "short: Not long." in out
    code, out, _ = tidegate_command("explain", asked, "--json")
    assert [key["path"] for key in json.loads(out)["keys"]] == paths


def test_a_sweep_says_which_figures_cannot_be_made_of_it(tidegate_command, tmp_path):
    text = (
        EXPERIMENT
        + """
[[figures]]
id = "wrong"
kind = "table"
y = ["flows.tcp.delay_ms.min"]
"""
    )
    (tmp_path / "one.toml").write_text(text)
    code, out, err = tidegate_command("sweep", tmp_path / "one.toml", "--quick", "--out", "told")
    assert code == 0
    assert "figure wrong: " in err and "flows.tcp.delay_ms.min" in err
    assert err.count("figure ") == 1


@pytest.mark.parametrize("asked", ["limit", "links.core.queue.limit", "links.queue.limit"])
def test_explain_tells_a_parameter_by_kind(tidegate_command, asked):
    code, out, _ = tidegate_command("explain", asked)
    assert code == 0
    assert "100p" in out and "red" in out
    code, out, _ = tidegate_command("explain", asked, "--json")
    assert json.loads(out)["of"] == [{"kind": "red", "family": "queue", "type": "limit", "default": "100p"}]
    assert tidegate_command("explain", "links.core.delay.limit")[0] == 2


def test_explain_lists_what_may_stand_at_a_key(tidegate_command):
    assert "One of: red;" in tidegate_command("explain", "links.NAME.queue")[1]
    assert "One of" not in tidegate_command("explain", "links.NAME.delay")[1]


def test_a_result_is_not_replaced_by_less_and_what_others_put_there_stays(tidegate_command, tmp_path):
    (tmp_path / "one.toml").write_text(EXPERIMENT)
    sweep = ("sweep", tmp_path / "one.toml", "--out", "kept")
    assert tidegate_command(*sweep, "--seeds", "3")[0] == 0
    folder = Path("kept")
    (folder / "notes.md").write_text("mine")
    (folder / "pictures").mkdir()
    (folder / "pictures" / "delay.svg").write_text("<svg/>")
    before = store.read_result(folder)
    code, _, err = tidegate_command(*sweep, "--seeds", "1")
    assert (code, "would throw away" in err, "--fresh" in err) == (2, True, True)
    assert [point.key for point in store.read_result(folder).points] == [point.key for point in before.points]
    # As much as before, or more, is no loss; and what is wanted is done.
    for more in (("--seeds", "3"), ("--seeds", "4"), ("--seeds", "1", "--fresh")):
        assert tidegate_command(*sweep, *more)[0] == 0
        assert (folder / "notes.md").read_text() == "mine"
        assert (folder / "pictures" / "delay.svg").exists()
    assert len(store.read_result(folder).points) < len(before.points)


def test_a_reproduction_throws_no_seeds_away(tidegate_command, shelf):
    command = ("reproduce", "--out", "res")
    points = Path("res/two/share/points.jsonl")
    assert tidegate_command(*command, "--all-seeds")[0] == 0
    whole = points.read_text()
    assert whole.count("\n") == 24
    # It asks for 19 of them.
    for more, said in (([], "two/share: pass, 24 runs,"), (["--resume"], "24 of 24 points are there")):
        code, _, err = tidegate_command(*command, *more)
        assert code == 0 and said in err, err
        assert points.read_text() == whole
    assert tidegate_command(*command, "--fresh")[0] == 0
    assert points.read_text().count("\n") == 19
    code, _, err = tidegate_command(*command, "--quick")
    assert (code, "would throw away" in err) == (2, True), err
    assert points.read_text().count("\n") == 19


def test_seeds_that_are_there_stay_where_an_axis_grows(tidegate_command, shelf):
    assert tidegate_command("reproduce", "--out", "res", "--all-seeds")[0] == 0
    file = shelf / "two" / "share.toml"
    file.write_text(EXPERIMENT.replace('values = ["250kbit", ', 'values = ["125kbit", "250kbit", '))
    assert tidegate_command("reproduce", "--out", "res")[0] == 0
    points = store.read_result(Path("res/two/share")).points
    assert len(points) == 24 + 2 * seeding.DRAWN
    assert not list(Path("res").rglob("*.partial"))


@pytest.mark.parametrize("command", [("sweep", "two/share", "-o"), ("reproduce", "--all-seeds", "-o")])
def test_points_of_another_version_are_points(tidegate_command, shelf, core, monkeypatch, command):
    place = "res/two/share" if command[0] == "sweep" else "res"
    assert tidegate_command(*command, place)[0] == 0
    monkeypatch.setattr(core, "__version__", "another")
    code, _, err = tidegate_command(*command, place, "--seeds", "1")
    assert (code, "would throw away" in err) == (2, True), err
    code, _, err = tidegate_command(*command, place)
    assert (code, "24 points are of another version or other values; run again" in err) == (0, True), err
    folder = Path("res/two/share")
    manifest = json.loads((folder / "result.json").read_text())
    assert manifest["version"] == "another"
    (folder / "result.json").write_text(json.dumps(manifest | {"schema_version": 2}))
    code, _, err = tidegate_command(*command, place)
    assert (code, "results of schema 2, which cannot be read here" in err) == (2, True), err


def test_shared_runs_are_not_kept_where_they_are_not_asked_for(tidegate_command, shelf):
    # Nothing is expected of the first, so that it asks for fewer seeds and is written before the others end.
    (shelf / "two" / "another.toml").write_text(EXPERIMENT)
    for more in ([], ["--resume"]):
        code, _, err = tidegate_command("reproduce", "--out", "res", "--workers", "1", *more)
        assert code == 0, err
        counts = {path.parent.name: path.read_text().count("\n") for path in Path("res").rglob("*.jsonl")}
        assert counts == {"another": 18, "share": 19}
        assert not list(Path("res").rglob("*.partial"))


def test_shared_runs_go_on_under_their_own_labels(tidegate_command, shelf, monkeypatch):
    (shelf / "two" / "another.toml").write_text(
        EXPERIMENT.replace("[variants.fair]", "[variants.just]").replace('"fair"', '"just"')
    )
    whole = experiment.Task.run
    count = []

    def stop(task):
        count.append(task)
        if len(count) > 15:
            raise KeyboardInterrupt
        return whole(task)

    monkeypatch.setattr(experiment.Task, "run", stop)
    assert tidegate_command("reproduce", "--out", "res", "--workers", "1")[0] == 130
    monkeypatch.setattr(experiment.Task, "run", whole)
    code, _, err = tidegate_command("reproduce", "--out", "res", "--resume")
    assert code == 0, err


def test_a_figure_that_cannot_be_drawn_does_not_keep_the_others(tidegate_command, shelf, tmp_path):
    (tmp_path / "one.toml").write_text(EXPERIMENT)
    tidegate_command("sweep", tmp_path / "one.toml", "--quick", "--out", "drawn")
    kept = store.read_result(tmp_path / "drawn")
    text = json.dumps(kept.info.raw).replace('"flows.*.throughput_bps"', '"flows.*.nothing"')
    kept.info.raw = json.loads(text)
    store.write_result(tmp_path / "drawn", kept, None)
    code, out, err = tidegate_command("plot", "drawn")
    assert code == 3
    assert "throughput.svg" in out
    assert "time" in err


@pytest.mark.parametrize("kind", ["file", "folder of something else", "below a file", "link to nowhere"])
def test_a_place_that_cannot_hold_results_is_refused_before_anything_runs(
    tidegate_command, scenario_file, tmp_path, monkeypatch, kind
):
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("mine")
    elif kind == "folder of something else":
        place.mkdir()
        (place / "mine.txt").write_text("mine")
    elif kind == "below a file":
        place.write_text("mine")
        place = place / "deeper"
    else:
        place.symlink_to(tmp_path / "nowhere")
    monkeypatch.setattr("tidegate._core.run", None)
    code, _, err = tidegate_command("run", scenario_file, "--out", place)
    assert code == 3
    assert str(place) in err


def test_a_summary_of_many_flows_stays_readable():
    flows = {f"f{number}": {"throughput_bps": 1e6} for number in range(100_000)}
    text = display.run_summary("Many", {"flows": flows}, 1.0, 0.0, 1)
    assert len(text.splitlines()) < 210
    assert "and 99,800 more; --json has all of them" in text


def _spoilt_manifest(**changes):
    def spoil(folder):
        manifest = json.loads((folder / "result.json").read_text())
        (folder / "result.json").write_text(json.dumps(manifest | changes))

    return spoil


def _spoilt(name, content):
    def spoil(folder):
        (folder / name).write_bytes(content)

    return spoil


def _spoilt_summary(folder):
    point = json.loads((folder / "points.jsonl").read_text())
    (folder / "points.jsonl").write_text(json.dumps(point | {"summary": 3}) + "\n")


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_spoilt("series/00001.parquet", b"PAR1"), "00001.parquet"),
        (_spoilt("series/00001.parquet", bytes(range(256)) * 9), "00001.parquet"),
        (lambda folder: (folder / "series/00001.parquet").unlink(), "00001.parquet"),
        (_spoilt("points.jsonl", b""), "points.jsonl is empty"),
        (_spoilt("points.jsonl", b'{"variant":'), "no JSON, line 1"),
        (lambda folder: (folder / "points.jsonl").unlink(), "points.jsonl: No such file"),
        (_spoilt_summary, "a summary is no table"),
        (_spoilt("result.json", b"{}"), "'schema_version' is missing"),
        (_spoilt("result.json", b"[]"), "run it again"),
        (_spoilt("result.json", b"\xff\xfe\x00"), "is no text"),
        (_spoilt("result.json", b"[" * 100_000), "nested too deeply"),
        (_spoilt_manifest(scenario=[1]), "`scenario` is no table"),
        (_spoilt_manifest(checks=[{}]), "a check lacks expected"),
        (_spoilt_manifest(experiment={"figures": [3], "axes": 7}), "run it again"),
    ],
)
def test_a_damaged_folder_is_named_and_nothing_is_written(
    tidegate_command, scenario_file, tmp_path, spoil, complaint
):
    folder = tmp_path / "one"
    assert tidegate_command("run", scenario_file, "--out", folder)[0] == 0
    spoil(folder)
    for command in ("report", "plot"):
        code, _, err = tidegate_command(command, folder)
        assert (code, str(folder) in err, complaint in err) == (3, True, True), err
        assert len(err) < 500
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize(
    ("redirect", "environment"),
    [
        (">&-", {}),
        ("> out", {"PYTHONIOENCODING": "ascii"}),
        ("> out", {"TERM": "dumb", "LC_ALL": "C", "COLUMNS": "40"}),
    ],
)
def test_a_stream_that_is_closed_or_knows_few_letters_ends_nothing(tmp_path, redirect, environment):
    program = "from tidegate import cli, display, process\nprocess.make_streams_safe()\n"
    program += "print(display.coloured('0.75 ±3%', 'pass'))\nraise SystemExit(cli.main())"
    done = subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" list plots {redirect}', sys.executable, program],
        cwd=tmp_path,
        env=os.environ | environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_lists_end_with_the_line_of_a_terminal_and_are_whole_in_a_pipe(monkeypatch):
    rows = [["one", "x" * 300]]
    assert "x" * 300 in display.table(["id", "title"], rows, [False, False], fit=True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    cut = display.table(["id", "title"], rows, [False, False], fit=True)
    assert max(len(line) for line in cut.splitlines()) == 60
    assert cut.endswith("…")


def test_texts_of_a_list_go_on_below_and_names_stay_whole(monkeypatch):
    words = [f"word{number}" for number in range(60)]
    rows = [["nbp/fig8a", " ".join(words), " ".join(words[:20]), "7"], ["nbp/fig9", "short", "text", "12"]]

    def told():
        return display.table(["id", "title", "source", "n"], rows, [False, False, False, True], fit=True)

    for is_terminal, columns, limit in ((False, 40, 140), (True, 80, 80), (True, 200, 200)):
        monkeypatch.setattr(sys.stdout, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("NO_COLOR", "1")
        lines = told().splitlines()
        assert max(map(len, lines)) <= limit
        assert sorted(word for word in told().split() if word in words) == sorted([*words, *words[:20]])
        assert [line.split()[0] for line in lines if line.startswith("nbp/")] == ["nbp/fig8a", "nbp/fig9"]
        assert lines[2].endswith(" 7") and lines[-1].endswith(" 12")
    assert len(lines) < 14


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (12090.3, 4, "12 090"),
        (99.96, 2, "100"),
        (0.5, 4, "0.5"),
        (1.5e-7, 3, "1.50e-07"),
        (2.25e6, 4, "2 250 000"),
    ],
)
def test_numbers_are_written_as_people_do(value, digits, text):
    assert quantities.number(value, digits) == text


def test_fluids_and_what_links_carry_of_them_are_told():
    fluid = {"throughput_bps": 9e6, "sent_bps": 9.5e6, "loss_ratio": 0.05, "rtt_ms": 66.0, "timed_out": 0.5}
    link = {"utilization": 0.9, "arrived_packets": 0, "fluid": {"throughput_bps": 9e6}}
    summary = {"fluids": {"crowd": fluid}, "links": {"l": {"arrived_packets": 0, "reverse": link}}}
    text = display.run_summary("t", summary, 1.0, 0.0, 1)
    row = next(line.split() for line in text.splitlines() if line.startswith("crowd"))
    assert row == ["crowd", "9", "9.5", "5.00", "50.00", "66"]
    assert "l (reverse)    90.0           9" in text
    assert "fluid" not in display.run_summary("t", {"links": {"l": {"arrived_packets": 1}}}, 1.0, 0.0, 1)


def test_next_to_nothing_is_not_written_with_an_exponent():
    summary = {"links": {"l": {"arrived_packets": 1, "queue_packets": {"mean": 2.7e-5, "max": 1}}}}
    text = display.run_summary("t", summary, 1.0, 0.0, 1)
    assert "<0.0001" in text
    assert "e-05" not in text


@pytest.mark.real_core
@pytest.mark.parametrize(
    ("given", "words"), [("10", "like `1.5Mbit`"), ("0Mbit", "above zero"), ("-1s", "a rate")]
)
def test_a_design_says_how_a_quantity_is_written(tidegate_command, given, words):
    code, _, err = tidegate_command("design", "red", "--rate", given, "--rtt", "60ms", "--flows", "8")
    assert code == 2
    assert words in err


def test_temporaries_that_killed_processes_left_are_swept_and_those_of_living_ones_stay(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    names = {
        name: tmp_path / f".{name}.tmp"
        for name in ("page.html.left0000", "page.html.living00", "other.left0000")
    }
    for path in names.values():
        path.write_text("half")
        os.utime(path, (1, 1))
    with names["page.html.living00"].open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        store.write_atomic(tmp_path / "page.html", "whole")
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {".page.html.living00.tmp", ".other.left0000.tmp", "page.html"}


def test_what_another_process_writes_beside_a_place_stays(tmp_path):
    mine, others = (
        [".run.a1b2c3d4.tmp", ".run.a1b2c3d4.old"],
        [".run.v2.a1b2c3d4.tmp", ".run.v2.a1b2c3d4.old"],
    )
    for name in (*mine, *others):
        (tmp_path / name).mkdir()
    with store.locked(tmp_path / "run"):
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([".run.lock", *others])
