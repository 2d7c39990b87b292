"""Tuning: what is found where the answer is known, whoever makes the runs, and whatever interrupts it."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tidegate
from tidegate import cli, errors, store
from tidegate.experiment import Experiment
from tidegate.tuning import declared, space, trials
from tidegate.tuning.space import Choices, Range

pytestmark = pytest.mark.real_core
pytest.importorskip("optuna")

# A stream over a link that is wide enough: what arrives is what is sent, and so known.
STREAM = """
title = "A stream"
duration = "2s"
warmup = "1s"
seeds = 2
[parameters]
rate = "1Mbit"
colour = "blue"
other = 1
[nodes]
hosts = ["A", "B"]
[links.wide]
between = ["A", "B"]
rate = "{width}Mbit"
delay = "1ms"
[flows.stream]
from = "A"
to = "B"
transport = { kind = "udp", packet = "100B", header = "0B" }
application = { kind = "cbr", rate = "{rate}" }
[axes.width]
path = "parameters.width"
values = [5, 6, 7]
"""
STREAM = STREAM.replace("other = 1\n", "other = 1\nwidth = 5\n")
RATE = "flows.stream.throughput_bps / 1e6"
TUNE = """
title = "A rate"
[tune]
experiment = "stream"
where = { width = [5, 6] }
trials = 40
quick_trials = 6
seeds = 2
compare_seeds = 3

[tune.parameters.rate]
path = "parameters.rate"
default = "1Mbit"
range = ["200kbit", "2000kbit"]

[tune.objectives.off]
measure = "abs(flows.stream.throughput_bps / 1e6 - 0.7)"
goal = "min"
unit = "Mb/s"

[tune.unseen]
where = { width = 7 }
"""
# Connections that begin at random: seeds differ.
NOISY = """
title = "Two connections"
duration = "3s"
warmup = "1s"
[parameters]
limit = "20p"
[nodes]
hosts = ["A", "B"]
routers = ["left", "right"]
[links]
A-left = { between = ["A", "left"], rate = "1Gbit", delay = "1ms" }
core = { between = ["left", "right"], rate = "2Mbit", delay = "8ms", queue = { limit = "{limit}" } }
right-B = { between = ["right", "B"], rate = "1Gbit", delay = "1ms" }
[flows."tcp{i}"]
repeat = "i = 1..2"
from = "A"
to = "B"
transport = "tcp"
start = { uniform = ["0s", "500ms"] }
"""
NOISY_TUNE = """
[tune]
experiment = "noisy"
trials = 20
seeds = 5
compare_seeds = 3
prune = 2
[tune.parameters.limit]
path = "parameters.limit"
default = "20p"
range = ["3p", "60p"]
step = "1p"
scale = "log"
[tune.objectives.delay]
measure = "links.core.delay_ms.mean"
goal = "min"
[tune.limits.used]
measure = "links.core.utilization"
at_least = 0.8
"""


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Path:
    """A folder with two experiments and their tunings, in which we are."""
    (tmp_path / "stream.toml").write_text(STREAM)
    (tmp_path / "mine.toml").write_text(TUNE)
    (tmp_path / "noisy.toml").write_text(NOISY)
    (tmp_path / "delay.toml").write_text(NOISY_TUNE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments) -> int:
    return cli.invoke(["tune", *arguments])


def numbers(folder="out") -> dict:
    return json.loads((Path(folder) / "tuning.json").read_text(encoding="utf-8"))


def chosen(folder="out") -> dict[str, str]:
    return {each["name"]: each["chosen"] for each in numbers(folder)["parameters"]}


def changed(old: str, new: str, text: str = TUNE) -> None:
    """Write `mine.toml` with one thing changed."""
    assert old in text
    Path("mine.toml").write_text(text.replace(old, new))


class TestSearch:
    def test_the_known_optimum_is_found(self, desk, capsys):
        assert run("mine.toml", "-o", "out") == 0
        rate = float(chosen()["rate"].removesuffix("kbit"))
        assert rate == pytest.approx(700, rel=0.02)
        found = numbers()
        assert len(found["trials"]) == 40 and found["trials"][0]["values"] == {"rate": "1Mbit"}
        told = capsys.readouterr().out
        assert chosen()["rate"] in told and "report: out/tuning.html" in told
        # What is told is measured: the stream's rate is what was set.
        rows = {(row["networks"], row["point"]): row for row in found["comparison"]["rows"]}
        assert rows["unseen", ""]["tuned"]["mean"] == pytest.approx(abs(rate / 1000 - 0.7), abs=0.002)
        assert rows["unseen", ""]["default"]["mean"] == pytest.approx(0.3, abs=0.002)
        assert rows["unseen", ""]["verdict"] == rows["seen", ""]["verdict"] == "better"

    @pytest.mark.parametrize("sampler", declared.SAMPLERS)
    def test_the_front_of_two_objectives_lies_between_their_optima(self, desk, sampler):
        second = (
            '[tune.objectives.far]\nmeasure = "abs(flows.stream.throughput_bps / 1e6 - 1.2)"\ngoal = "min"\n'
        )
        weighted = "weight = 3\n"
        text = TUNE.replace('unit = "Mb/s"\n', weighted + second)
        Path("mine.toml").write_text(text.replace("seeds = 2\n", f'seeds = 2\nsampler = "{sampler}"\n', 1))
        assert run("mine.toml", "-o", "out") == 0
        found = numbers()
        values = {trial["number"]: tuple(trial["measured"].values()) for trial in found["trials"]}
        rates = {number: values[number][0] for number in found["front"]}
        assert len(rates) > 2
        # Between 0.7 and 1.2 what is won of one is lost of the other: nothing there is beaten.
        front = {values[number] for number in found["front"]}
        assert {each for each in values.values() if sum(each) == pytest.approx(0.5, abs=1e-6)} <= front
        for off, far in front:
            assert not any(
                (one, other) != (off, far) and one <= off and other <= far for one, other in values.values()
            )
        # The first counts three times as much: its end of the front is chosen.
        assert found["chosen"] == min(rates, key=rates.__getitem__)

    def test_a_goal_may_be_the_most_within_a_limit(self, desk):
        text = TUNE.replace('measure = "abs(flows.stream.throughput_bps / 1e6 - 0.7)"', f'measure = "{RATE}"')
        text = text.replace('goal = "min"', 'goal = "max"')
        text += f'[tune.limits.most]\nmeasure = "{RATE}"\nat_most = 1.5\nreduce = "max"\n'
        Path("mine.toml").write_text(text)
        assert run("mine.toml", "-o", "out") == 0
        best = numbers()["trials"][numbers()["chosen"]]
        assert 1.4 < best["measured"]["off"] <= 1.5 and best["keeps_limits"]
        assert any(trial["keeps_limits"] is False for trial in numbers()["trials"])

    def test_where_nothing_keeps_the_limits_nothing_is_chosen(self, desk, capsys):
        # Nor does anything stay of what was chosen before.
        assert run("mine.toml", "-o", "out", "--quick") == 0 and Path("out/chosen.toml").exists()
        Path("mine.toml").write_text(TUNE + f'[tune.limits.most]\nmeasure = "{RATE}"\nat_least = 4\n')
        capsys.readouterr()
        assert run("mine.toml", "-o", "out", "--quick", "--resume") == 1
        assert "No trial keeps the limits (most at least 4)" in capsys.readouterr().out
        assert numbers()["chosen"] is None and not Path("out/chosen.toml").exists()
        assert not Path("out/points").exists()
        assert "No trial keeps the limits" in Path("out/tuning.html").read_text(encoding="utf-8")

    def test_relative_to_the_defaults_is_their_part_at_each_point(self, desk):
        changed('unit = "Mb/s"', "relative = true")
        assert run("mine.toml", "-o", "out", "--quick") == 0
        for trial in numbers()["trials"]:
            rate = float(re.match(r"[\d.]+", trial["values"]["rate"])[0])
            rate /= 1 if trial["number"] == 0 else 1000
            assert trial["measured"]["off"] == pytest.approx(abs(rate - 0.7) / 0.3, abs=0.01)

    def test_choices_and_steps_are_kept(self, desk):
        text = TUNE.replace('range = ["200kbit", "2000kbit"]', 'values = ["500kbit", "1Mbit", "650kbit"]')
        Path("mine.toml").write_text(text.replace("trials = 40", "trials = 12"))
        assert run("mine.toml", "-o", "out") == 0
        assert chosen() == {"rate": "650kbit"}
        changed('range = ["200kbit", "2000kbit"]', 'range = ["200kbit", "2000kbit"]\nstep = "200kbit"')
        assert run("mine.toml", "-o", "out", "--fresh") == 0
        assert {float(trial["values"]["rate"][:-4]) % 200 for trial in numbers()["trials"][1:]} == {0}
        assert chosen() in ({"rate": "600kbit"}, {"rate": "800kbit"})

    def test_a_range_whose_inside_is_not_taken_is_refused(self, desk, capsys):
        changed('step = "1p"\n', "", NOISY_TUNE)
        assert run("mine.toml", "-o", "out") == 3
        told = capsys.readouterr().err
        assert "mine.toml:" in told and "limit.range" in told and 'step = "1p"' in told
        assert not Path("out").exists()

    def test_one_path_has_one_parameter(self, desk, capsys):
        path = re.search(r'path = "(.*?)"', NOISY_TUNE)[1]
        again = f'[tune.parameters.again]\npath = "{path}"\ndefault = "20p"\nvalues = ["20p", "30p"]\n'
        changed("[tune.objectives.delay]", again + "[tune.objectives.delay]", NOISY_TUNE)
        assert run("mine.toml", "-o", "out") == 3
        assert f"again.path: {path} is that of limit already" in capsys.readouterr().err

    @pytest.mark.parametrize("number", ["nan", "-inf"])
    def test_a_limit_is_a_number(self, desk, capsys, number):
        changed("at_least = 0.8", f"at_least = {number}", NOISY_TUNE)
        assert run("mine.toml", "-o", "out") == 3
        assert f"used.at_least: {number} is no finite number" in capsys.readouterr().err

    def test_a_trial_without_a_value_has_no_result_and_the_others_go_on(self, desk):
        measure = "abs(flows.stream.throughput_bps / 1e6 - 0.7) / (flows.stream.throughput_bps > 6e5)"
        changed("abs(flows.stream.throughput_bps / 1e6 - 0.7)", measure)
        assert run("mine.toml", "-o", "out") == 0
        failed = [trial for trial in numbers()["trials"] if trial["state"] == "failed"]
        assert failed and all(float(trial["values"]["rate"][:-4]) <= 610 for trial in failed)
        assert all("off" in trial["reason"] for trial in failed)
        assert float(chosen()["rate"][:-4]) == pytest.approx(700, rel=0.03)


class TestStopping:
    def test_stopping_saves_runs_and_chooses_as_well(self, desk):
        assert run("delay.toml", "-o", "out") == 0
        changed("prune = 2", "prune = 0", NOISY_TUNE)
        assert run("mine.toml", "-o", "whole") == 0
        stopped = [trial for trial in numbers()["trials"] if trial["state"] == "stopped"]
        assert stopped and all(2 <= trial["seeds"] < 5 for trial in stopped)
        # Those who were stopped tell the optimizer less, so that later trials differ.
        assert numbers("whole")["runs_spared"] == 0
        assert numbers()["runs_spared"] == sum(5 - trial["seeds"] for trial in stopped)
        for folder in ("out", "whole"):
            best = numbers(folder)["trials"][numbers(folder)["chosen"]]
            assert best["seeds"] == 5 and best["measured"]["used"] >= 0.8
            default = numbers(folder)["trials"][0]["measured"]["delay"]
            assert best["measured"]["delay"] < 0.7 * default

    def test_only_what_is_clearly_worse_is_stopped(self, desk):
        tuning = declared.read(Path("delay.toml"))

        def trial(number, delays, used=1.0):
            of_seeds = [used + 0.001 * seed for seed in range(len(delays))]
            return trials.Trial(number, {}, per_seed={"delay": delays, "used": of_seeds})

        best = trial(1, [10.0, 20.0, 30.0, 40.0, 50.0])
        # By one each, whatever the seed: that is beyond doubt, though seeds differ by more.
        assert trials.clearly_worse(trial(2, [11.0, 21.1]), [best], tuning) == "worse than trial 1"
        assert trials.clearly_worse(trial(2, [9.0, 32.0]), [best], tuning) == ""
        assert trials.clearly_worse(trial(2, [9.0, 19.0]), [best], tuning) == ""
        assert trials.clearly_worse(trial(2, [11.0]), [best], tuning) == ""
        assert "limit" in trials.clearly_worse(trial(2, [1.0, 2.0], used=0.7), [best], tuning)
        # Counts: two seeds that agree say nothing, four do.
        assert trials.clearly_worse(trial(2, [11.0, 21.0]), [best], tuning) == ""
        equal = trial(2, [11.0, 21.0, 31.0, 41.0])
        assert trials.clearly_worse(equal, [best], tuning) == "worse than trial 1"


class TestKept:
    def test_any_number_of_workers_gives_the_same(self, desk):
        assert run("delay.toml", "-o", "one", "--workers", "1") == 0
        assert run("delay.toml", "-o", "three", "--workers", "3") == 0
        for name in ("tuning.json", "chosen.toml", "tuning.html"):
            one, three = (Path(folder, name).read_bytes() for folder in ("one", "three"))
            assert one == three, name

    def test_more_trials_begin_with_those_that_were_made(self, desk):
        assert run("delay.toml", "-o", "out", "--trials", "7") == 0
        first = numbers()["trials"]
        assert run("delay.toml", "-o", "out") == 2
        assert run("delay.toml", "-o", "out", "--resume", "--trials", "12") == 0
        assert numbers()["trials"][:7] == first and len(numbers()["trials"]) == 12

    def test_earlier_runs_are_neither_used_nor_lost_unless_somebody_says_so(self, desk, capsys):
        assert run("mine.toml", "-o", "out", "--quick") == 0
        before = sorted(Path("out/trials.partial").iterdir())
        assert run("mine.toml", "-o", "out", "--quick") == 2
        assert "add --resume to keep them or --fresh" in capsys.readouterr().err
        assert sorted(Path("out/trials.partial").iterdir()) == before
        assert run("mine.toml", "-o", "out", "--quick", "--resume", "--fresh") == 2

    def test_what_was_edited_is_run_again(self, desk):
        assert run("mine.toml", "-o", "out", "--quick") == 0
        before = numbers()
        point = sorted(Path("out/trials.partial").glob("*.json"))[0]
        point.write_text(point.read_text().replace('"throughput_bps":', '"throughput_bps":9'))
        assert run("mine.toml", "-o", "out", "--quick", "--resume") == 0
        assert numbers() == before

    def test_a_tuning_that_is_killed_goes_on_as_if_it_had_not_been(self, desk):
        Path("mine.toml").write_text(NOISY_TUNE)
        Path("noisy.toml").write_text(NOISY.replace("3s", "20s"))
        assert run("mine.toml", "-o", "whole") == 0
        command = [
            sys.executable,
            "-m",
            "tidegate",
            "tune",
            "mine.toml",
            "-o",
            "out",
            "--resume",
            "--workers",
            "2",
        ]
        kept = []
        for wanted in (1, 25):
            started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            end = time.monotonic() + 60
            while len(list(Path("out/trials.partial").glob("*.json"))) < wanted and time.monotonic() < end:
                time.sleep(0.002)
            started.send_signal(signal.SIGKILL)
            started.wait()
            kept.append(len(list(Path("out/trials.partial").glob("*.json"))))
            assert not Path("out/tuning.json").exists()
        assert kept[1] >= 25
        assert run("mine.toml", "-o", "out", "--resume") == 0
        assert numbers() == numbers("whole")

    def test_the_study_is_there_for_the_tools_of_the_optimizer(self, desk):
        import optuna
        from optuna.storages.journal import JournalFileBackend

        assert run("delay.toml", "-o", "out") == 0
        storage = optuna.storages.JournalStorage(JournalFileBackend("out/study.journal"))
        study = optuna.load_study(study_name="delay", storage=storage)
        assert len(study.trials) == len(numbers()["trials"]) == 20
        for told, trial in zip(study.trials, numbers()["trials"], strict=True):
            assert told.values == [trial["measured"]["delay"]]
            assert told.user_attrs["values"] == trial["values"]


class TestFiles:
    def test_the_chosen_file_does_what_setting_does(self, desk):
        assert run("mine.toml", "-o", "out", "--quick") == 0
        value = chosen()["rate"]
        set_to = Experiment("set", Path("stream.toml"), [("parameters.rate", value)]).tasks()
        laid = Experiment("laid", Path("stream.toml"), [("parameters.rate", "1Mbit")]).tasks()
        from tidegate import reach

        reach.allow([desk])
        over = Experiment("over", Path("out/tuned.toml")).tasks()
        assert [task.key for task in over] == [task.key for task in set_to] != [task.key for task in laid]
        # Below an experiment that does not set it.
        Path("bare.toml").write_text('include = "out/chosen.toml"\n' + STREAM.replace('rate = "1Mbit"\n', ""))
        below = Experiment("below", Path("bare.toml")).tasks()
        assert [task.key for task in below] == [task.key for task in set_to]

    def test_the_comparison_is_a_result_folder_with_seeds_of_its_own(self, desk):
        assert run("mine.toml", "-o", "out", "--quick") == 0
        stored = store.read_result(Path("out/points"))
        found = {(point.axes["networks"], point.axes["settings"], point.seed) for point in stored.points}
        seeds = (3, 4)
        assert {seed for _, _, seed in found} == set(seeds)
        assert found == {
            (name, which, seed)
            for name in ("seen", "unseen")
            for which in ("default", "tuned")
            for seed in seeds
        }
        assert cli.invoke(["export", "out/points", "-o", "all.csv"]) == 0

    def test_the_page_tells_what_was_chosen_and_draws_the_search(self, desk):
        text = TUNE.replace(
            'unit = "Mb/s"\n',
            '[tune.objectives.slow]\nmeasure = "flows.stream.throughput_bps / 1e6"\ngoal = "min"\n',
        )
        delay = 'path = "links.wide.delay"\ndefault = "1ms"\nrange = ["1ms", "20ms"]\n'
        text = text.replace("[tune.objectives.off]", f"[tune.parameters.delay]\n{delay}[tune.objectives.off]")
        text = text.replace("trials = 40", "trials = 24")
        Path("mine.toml").write_text(text)
        assert run("mine.toml", "-o", "out") == 0
        page = Path("out/tuning.html").read_text(encoding="utf-8")
        assert chosen()["rate"] in page and "Default against tuned" in page and "At each point" in page
        ids = re.findall(r'<figcaption>[^<]*<span class="id">([^<]+)</span>', page)
        assert ids[:4] == ["front-off-slow", "history-off", "history-slow", "importance"]
        assert "rate-off" in ids and page.count('class="chart"') == len(ids)
        assert sum(numbers()["importance"]["slow"].values()) == pytest.approx(1)
        # The rate decides, the delay of the link nothing.
        assert numbers()["importance"]["slow"]["rate"] > 0.7
        assert "http://" not in re.sub(r"http://www\.w3\.org/\S+", "", page) and "https://" not in page

    def test_what_was_set_besides_is_said(self, desk):
        assert run("mine.toml", "-o", "out", "--quick", "--set", "links.wide.delay=5ms") == 0
        assert "--set=links.wide.delay=5ms" in numbers()["command"]
        assert "links.wide.delay=5ms" in Path("out/tuning.html").read_text(encoding="utf-8")


class TestFromPython:
    def test_what_is_chosen_can_be_loaded(self, desk):
        result = tidegate.tune("mine.toml", quick=True)
        assert result.folder is None and not list(desk.glob("*/trials.partial"))
        scenario = tidegate.load("stream.toml", **result.settings)
        assert scenario.description["parameters"]["rate"] == result.chosen["rate"]
        best = result.trials.where(chosen=True)
        assert len(best) == 1 and best["rate"] == [result.chosen["rate"]] and best["on_front"] == [True]
        measured = scenario.run(seed=1).measure("abs(flows.stream.throughput_bps / 1e6 - 0.7)")
        assert best["off"] == [pytest.approx(measured)]
        rows = result.comparison.where(networks="unseen", point="")
        assert rows["tuned"] == [pytest.approx(measured)] and rows["default"] == [pytest.approx(0.3)]
        assert "A rate" in result._repr_html_()

    def test_a_folder_is_as_the_command_leaves_it(self, desk):
        tidegate.tune("mine.toml", out="mine", quick=True, links__wide__delay="5ms")
        assert run("mine.toml", "-o", "out", "--quick", "--set", "links.wide.delay=5ms") == 0
        assert numbers("mine") == numbers("out")


class TestErrors:
    @pytest.mark.parametrize(
        ("old", "new", "line", "said"),
        [
            (
                "trials = 40",
                "trails = 40",
                6,
                "tune.trails: unknown key; did you mean trials? allowed: batch, compare_seeds,",
            ),
            ("trials = 40", "trials = 1", 6, "tune.trials: 1 is no whole number from 2 to"),
            ("seeds = 2", 'seeds = 2\nsampler = "best"', 9, "'best' is none of these: tpe, nsga2, random"),
            ("seeds = 2", "seeds = 2\nprune = 1", 9, "tune.prune: 1 seed has no interval"),
            ('experiment = "stream"', 'experiment = "strem"', 4, "no file strem.toml beside, and no"),
            ('path = "parameters.rate"\n', "", 11, "tune.parameters.rate.path: one of `path ="),
            ('default = "1Mbit"\n', "", 11, "tune.parameters.rate.default: is missing"),
            ('"1Mbit"', '"3Mbit"', 13, "3Mbit is not among what is tried: 200kbit to 2000kbit"),
            ('"1Mbit"', '"1ms"', 13, "1ms is not among what is tried"),
            ('["200kbit", "2000kbit"]', '["2Mbit", "1Mbit"]', 14, "2Mbit is not below 1Mbit"),
            ('["200kbit", "2000kbit"]', '["200kbit", "2s"]', 14, "are of different kinds: bit/s, s"),
            ('["200kbit", "2000kbit"]', '["fast", "2Mbit"]', 14, "'fast' is no quantity"),
            (
                '["200kbit", "2000kbit"]',
                '["0bit", "2Mbit"]\nscale = "log"',
                14,
                "begins above 0, and not at 0bit",
            ),
            (
                '["200kbit", "2000kbit"]',
                '["250kbit", "2Mbit"]\nstep = "200kbit"',
                14,
                "no multiples of the step",
            ),
            ('goal = "min"', 'goal = "small"', 18, "'small' is none of these: min, max"),
            ("abs(flows", "abs(* flows", 17, "tune.objectives.off.measure: "),
            ('unit = "Mb/s"', "weight = -1", 19, "tune.objectives.off.weight: a number, 0 or more"),
            (
                "where = { width = 7 }",
                "where = { width = [5, 6] }",
                21,
                "these are the networks that are tuned on",
            ),
        ],
    )
    def test_a_mistake_in_the_file_is_told_with_line_and_key(self, desk, old, new, line, said):
        changed(old, new)
        with pytest.raises(errors.InvalidFileError) as caught:
            declared.read(Path("mine.toml"))
        assert said in str(caught.value)
        assert str(caught.value).startswith(f"mine.toml:{line}: "), caught.value

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ('default = "1Mbit"', 'default = "1.1Mbit"', "1.1Mbit is not what stream.toml has"),
            ('path = "parameters.rate"', 'path = "parameters.rat"', "parameters.rat"),
            (
                "where = { width = [5, 6] }",
                "where = { width = 9 }",
                "tune.where.width: 9 is none of 5, 6, 7",
            ),
            (
                "where = { width = [5, 6] }",
                "where = { width = [5, 9] }",
                "tune.where.width: 9 is none of 5, 6, 7",
            ),
            (
                "where = { width = [5, 6] }",
                "where = { wide = 5 }",
                "no axis 'wide'; there are variant, width",
            ),
            ("where = { width = 7 }", "where = { width = [6, 7] }", "width=6 is tuned on: it is not unseen"),
            ("flows.stream", "flows.streem", "no flow 'streem'; did you mean stream?"),
            ("abs(flows.stream.throughput_bps / 1e6 - 0.7)", "flows.stream.throughputs", "throughputs"),
        ],
    )
    def test_what_does_not_fit_the_experiment_is_told_before_anything_runs(
        self, desk, capsys, old, new, said
    ):
        changed(old, new)
        assert run("mine.toml", "-o", "out", "--quick") in (1, 3)
        assert said in capsys.readouterr().err

    def test_validate_knows_tunings(self, desk, capsys):
        assert cli.invoke(["validate", "mine.toml", "stream.toml"]) == 0
        assert "mine.toml: a valid tuning" in capsys.readouterr().out
        changed('default = "1Mbit"', 'default = "1.1Mbit"')
        assert cli.invoke(["validate", "mine.toml"]) == 3
        assert "1.1Mbit is not what stream.toml has" in capsys.readouterr().err

    def test_a_mistake_in_the_file_costs_nothing_that_was_run(self, desk):
        assert run("mine.toml", "-o", "out", "--quick") == 0
        before = sorted(Path("out/trials.partial").iterdir())
        changed('default = "1Mbit"', 'default = "1.1Mbit"')
        assert run("mine.toml", "-o", "out", "--quick", "--fresh") == 3
        assert sorted(Path("out/trials.partial").iterdir()) == before

    def test_a_value_that_changes_nothing_is_no_parameter(self, desk, capsys):
        text = TUNE.replace('"parameters.rate"', '"parameters.other"').replace('"1Mbit"', "1")
        Path("mine.toml").write_text(text.replace('["200kbit", "2000kbit"]', "[1, 5]"))
        assert run("mine.toml", "-o", "out") == 3
        assert (
            "mine.toml:12: tune.parameters.rate.path: parameters.other changes nothing"
            in capsys.readouterr().err
        )

    def test_unseen_networks_may_be_another_experiment_with_the_same_defaults(self, desk, capsys):
        Path("far.toml").write_text(STREAM.replace('delay = "1ms"', 'delay = "50ms"'))
        changed("where = { width = 7 }", 'experiment = "far"\nwhere = { width = [5, 6] }')
        assert run("mine.toml", "-o", "out", "--quick") == 0
        rows = [row for row in numbers()["comparison"]["rows"] if row["networks"] == "unseen"]
        assert [row["point"] for row in rows] == ["", "width 5", "width 6"]
        Path("far.toml").write_text(STREAM.replace('rate = "1Mbit"', 'rate = "1.2Mbit"'))
        assert run("mine.toml", "-o", "out", "--quick", "--fresh") == 3
        assert "mine.toml:22: tune.unseen.experiment: far.toml has other defaults" in capsys.readouterr().err

    @pytest.mark.parametrize("name", ["networks", "settings"])
    def test_an_axis_is_not_called_as_one_of_the_comparison(self, desk, capsys, name):
        text = STREAM + f'[axes.{name}]\npath = "parameters.other"\nvalues = [1, 2]\n'
        Path("stream.toml").write_text(text)
        line = text.splitlines().index(f"[axes.{name}]") + 1
        assert run("mine.toml", "-o", "out") == 3
        said = capsys.readouterr().err
        assert f"stream.toml:{line}: axes.{name}: tables of results have a column of that name" in said
        assert not Path("out/trials.partial").exists()

    def test_an_end_that_the_experiment_does_not_take_is_told(self, desk, capsys):
        text = TUNE.replace('"parameters.rate"', '"links.wide.loss"').replace('"1Mbit"', '"none"')
        text = text.replace('range = ["200kbit", "2000kbit"]', 'values = ["none", "many"]')
        Path("mine.toml").write_text(text)
        assert run("mine.toml", "-o", "out") == 3
        assert "mine.toml:1" in capsys.readouterr().err

    def test_a_value_that_a_variant_sets_cannot_be_a_file(self, desk, capsys):
        variant = '[variants.one]\nset = { "flows.stream.application" = { kind = "cbr", rate = "1Mbit" } }\n'
        Path("stream.toml").write_text(STREAM + variant)
        changed('"parameters.rate"', '"flows.stream.application.rate"')
        assert run("mine.toml", "-o", "out") == 3
        assert "a variant or an axis of stream.toml wins over files" in capsys.readouterr().err
        assert list(Path("out").glob("*.toml")) == []

    def test_relative_to_nothing_is_told(self, desk, capsys):
        changed(
            '"abs(flows.stream.throughput_bps / 1e6 - 0.7)"', '"links.wide.dropped_packets"\nrelative = true'
        )
        assert run("mine.toml", "-o", "out", "--quick") == 1
        assert "relative to the defaults, which give 0 at width=5, seed 1" in capsys.readouterr().err

    def test_relative_to_nothing_in_the_comparison_alone_costs_no_search(self, desk, capsys):
        changed('"abs(flows', '\'(7 - axis("width")) * abs(flows')
        mine = Path("mine.toml")
        mine.write_text(mine.read_text().replace('- 0.7)"', "- 0.7)'\nrelative = true"))
        assert run("mine.toml", "-o", "out", "--quick") == 0
        told = "unseen networks: off: relative to the defaults, which give 0 at width=7, seed 3"
        assert told in capsys.readouterr().out
        comparison = numbers()["comparison"]
        assert len(comparison["problems"]) == 1 and comparison["problems"][0].startswith(told)
        rows = [(row["networks"], row["point"]) for row in comparison["rows"]]
        assert rows == [("seen", ""), ("seen", "width 5"), ("seen", "width 6"), ("unseen", "width 7")]
        assert Path("out/chosen.toml").exists() and "which give 0" in Path("out/tuning.html").read_text()

    def test_without_optuna_it_says_what_to_install(self, desk, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "optuna", None)
        assert run("mine.toml", "-o", "out") == 1
        assert "pip install 'tidegate[tune]'" in capsys.readouterr().err
        # What ships is listed all the same.
        assert cli.invoke(["tune"]) == 0

    def test_names_that_are_none_are_told_with_those_that_are(self, desk, capsys):
        assert run("red") == 2
        assert "no tuning 'red': there are blue, nbp" in capsys.readouterr().err
        assert run("stream.toml") == 3
        assert "no tuning: it has no table [tune]" in capsys.readouterr().err


class TestSpace:
    @pytest.mark.parametrize("text", ["10ms", "0.02s", "50000us"])
    def test_a_value_is_the_same_in_any_unit(self, text):
        of = Range.between("1ms", "100ms", True, None)
        assert of.has(text)
        assert of.has(of.text(of.native(text)))

    def test_percent_and_bytes_are_units_like_others(self):
        of = Range.between("5%", "50%", False, None)
        assert of.has("0.1") and of.text(of.native("0.1")) == "10%"
        of = Range.between("150B", "6000B", True, "10B")
        assert of.text(of.native("1.5kB")) == "1500B" and not of.has("155B")

    def test_values_have_four_digits_and_no_exponent(self):
        assert space.plain(0.0000123456) == "0.00001235"
        assert space.plain(123456.7) == "123500"
        assert space.plain(3.0) == "3"

    def test_choices_are_found_in_another_spelling(self):
        assert Choices(("1Mbit", "red")).native("1000kbit") == "1Mbit"


def test_those_that_ship_are_valid_and_run_in_their_quick_form(tmp_path):
    known = declared.shipped()
    assert list(known) == ["blue", "nbp"]
    assert cli.invoke(["tune", "blue", "--quick", "--trials", "2", "-o", str(tmp_path / "blue")]) == 0
    assert cli.invoke(["validate", *map(str, known.values())]) == 0
    for path in known.values():
        tuning = declared.read(path)
        assert tuning.unseen is not None and tuning.title


def test_the_page_has_every_key():
    page = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
    tables = re.findall(r"<!-- tune: (\w+) -->\n((?:\|[^\n]*\n)*)", page)
    told = {name: set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) for name, table in tables}
    assert told == {
        "file": declared.FILE_KEYS,
        "tune": declared.TUNE_KEYS,
        "parameter": declared.PARAMETER_KEYS,
        "quantity": declared.QUANTITY_KEYS,
        "objective": declared.OBJECTIVE_KEYS - declared.QUANTITY_KEYS,
        "limit": declared.LIMIT_KEYS - declared.QUANTITY_KEYS,
        "unseen": declared.UNSEEN_KEYS,
    }
    for words in (declared.SAMPLERS, declared.GOALS, declared.REDUCTIONS, declared.SCALES):
        assert all(f"`{word}`" in page for word in words)
