"""What is asked for and is not there, or is wrong: one wording, one exit code, and all of it."""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import EXPERIMENT

import tidegate
from tidegate.errors import InvalidFileError


@pytest.mark.parametrize("command", ["run", "sweep", "validate", "reproduce", "tune"])
def test_a_missing_file_is_told_alike(tidegate_command, shelf, command):
    code, _, said = tidegate_command(command, "missing.toml")
    assert code == 3
    assert said.removeprefix("tidegate: ") == "no file missing.toml\n"


@pytest.mark.parametrize("command", ["run", "validate"])
@pytest.mark.parametrize("name", ["two/share", "two", "two/share.toml"])
def test_an_id_in_the_place_of_a_file_says_what_takes_ids(tidegate_command, shelf, command, name):
    code, _, said = tidegate_command(command, name)
    told = name.removesuffix(".toml")
    assert code == 3
    assert f"no file {name}; ids of experiments, as {told}, are for `tidegate sweep` and" in said


def test_a_folder_is_no_file(tidegate_command, tmp_path):
    code, _, said = tidegate_command("run", tmp_path)
    assert code == 3 and f"{tmp_path} is a folder: give a file in it" in said


def test_a_folder_of_the_name_of_an_id_hides_it_not(tidegate_command, shelf, tmp_path):
    (tmp_path / "two" / "share").mkdir(parents=True)
    assert tidegate_command("sweep", "two/share", "--quick", "-o", "kept")[0] == 0


def test_a_result_that_is_not_there_is_not_called_damaged(tidegate_command, tmp_path):
    with pytest.raises(InvalidFileError, match="^no folder nope$"):
        tidegate.open("nope")
    for command in (["plot"], ["report"], ["export", "-o", "x.csv"]):
        code, _, said = tidegate_command(*command, "nope")
        assert code == 3 and said == "tidegate: no folder nope\n"
    with pytest.raises(InvalidFileError, match=r"is no result folder: it has no result\.json"):
        tidegate.open(tmp_path)
    Path("kept.partial").mkdir()
    for name in ("kept", "kept.partial"):
        Path(name).mkdir(exist_ok=True)
        with pytest.raises(InvalidFileError, match="not complete; --resume goes on from them"):
            tidegate.open(name)


@pytest.mark.real_core
def test_seeds_and_cores_are_whole_numbers(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(EXPERIMENT.split("seeds = 4")[0].replace("4s", "2s") + NETWORK)
    for seed in ("x", 1.5, -1, 1 << 64, [1]):
        with pytest.raises(ValueError, match="seed is .*: a whole number from 0 to 18446744073709551615"):
            tidegate.run(path, seed=seed)
    with pytest.raises(ValueError, match="cores is 'all': a whole number from 1 to 64"):
        tidegate.run(path, cores="all")
    result = tidegate.run(path, seed=np.int64(3))
    assert result.seed == 3 and type(result.seed) is int


NETWORK = """
nodes = { hosts = ["A", "B"] }
links.bottleneck = { between = ["A", "B"], rate = "1Mbit", delay = "1ms" }
flows.tcp = { from = "A", to = "B", transport = "tcp" }
"""


@pytest.mark.real_core
def test_all_that_is_wrong_with_a_file_is_in_json(tidegate_command):
    file = Path("broken.toml")
    file.write_text('duration = "1s"\nx = 1\n' + NETWORK.replace("1Mbit", "1Mbi").replace("tcp", "tpc"))
    code, out, _ = tidegate_command("validate", file, "--json")
    (report,) = json.loads(out)["files"]
    first, *rest = report["errors"]
    assert code == 3 and f"(and {len(rest)} more)" in report["error"]["message"] and len(rest) >= 2
    for key in ("line", "column", "path"):
        assert first[key] == report["error"][key]
    assert report["error"]["message"].startswith(first["message"])
    assert {(each["file"], each["line"], each["path"]) for each in report["errors"]} >= {
        ("broken.toml", 2, "x"),
        ("broken.toml", 5, "links.bottleneck.rate"),
    }
    assert all(each["message"].startswith(f"broken.toml:{each['line']}:") for each in report["errors"])
    code, out, _ = tidegate_command("run", file, "--json")
    assert json.loads(out)["errors"] == report["errors"]
    # One error is a list of one.
    file.write_text(NETWORK)
    (report,) = json.loads(tidegate_command("validate", file, "--json")[1])["files"]
    assert [each["message"] for each in report["errors"]] == [report["error"]["message"]]
    (report,) = json.loads(tidegate_command("validate", "missing.toml", "--json")[1])["files"]
    assert [each["message"] for each in report["errors"]] == ["no file missing.toml"]
    code, out, _ = tidegate_command("validate", file, "--set", "duration=1", "--set", "y=2", "--json")
    assert len(json.loads(out)["files"][0]["errors"]) == 2 and "--set y=2" in out
