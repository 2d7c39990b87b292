"""Places that cannot be written to, and programs that are not there: said before any work, and by name."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from conftest import EXPERIMENT

from tidegate import real, two_sites
from tidegate.commands import demo, emulate
from tidegate.errors import TidegateError, UsageError

# Nothing can be made there, not even by root.
NOWHERE = Path("/proc/tidegate")
linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux'")


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(EXPERIMENT)
    return path


def require_told(code, said, option, place):
    assert code in (1, 2, 3)
    assert f"{option} {place}: nothing can be made in /proc" in said
    assert "Errno" not in said and ".lock" not in said and "give a place that may be written to" in said


@linux
@pytest.mark.parametrize("deeper", ["", "deeper/still"])
def test_a_folder_that_cannot_be_made_is_told_before_the_run(
    tidegate_command, scenario_file, mine, monkeypatch, deeper
):
    monkeypatch.setattr("tidegate._core.run", None)
    place = NOWHERE / deeper
    for command, file in (("run", scenario_file), ("sweep", mine), ("reproduce", mine)):
        code, out, said = tidegate_command(command, file, "-o", place)
        inside = place / "mine" if command == "reproduce" else place
        require_told(code, said, "--out", inside)
        assert out == ""


@linux
@pytest.mark.parametrize("option", ["--trace", "--trace-drops"])
def test_a_trace_that_cannot_be_made_is_told_before_the_run(
    tidegate_command, scenario_file, monkeypatch, option
):
    monkeypatch.setattr("tidegate._core.run", None)
    place = NOWHERE / "x.pcapng"
    code, _, said = tidegate_command("run", scenario_file, option, place)
    require_told(code, said, option, place)


@linux
@pytest.mark.real_core
def test_files_that_cannot_be_made_are_told(tidegate_command, mine, tmp_path):
    assert tidegate_command("new", "dumbbell", "-o", "my.toml", "--duration", "2s")[0] == 0
    assert tidegate_command("run", "my.toml", "-o", "kept")[0] == 0
    for name, arguments in {
        "x.toml": ["new", "dumbbell"],
        "x.csv": ["export", "kept"],
        "x.svg": ["plot", "kept"],
        "x.html": ["report", "kept"],
    }.items():
        place = NOWHERE / name
        code, _, said = tidegate_command(*arguments, "-o", place)
        require_told(code, said, "--out", place)
        code, _, said = tidegate_command(*arguments, "-o", tmp_path)
        assert code != 0 and str(tmp_path) in said and "Errno" not in said


@pytest.mark.real_core
def test_folders_above_a_file_are_made_by_every_command(tidegate_command, mine):
    new = Path("made/by/new.toml")
    assert tidegate_command("new", "dumbbell", "-o", new, "--duration", "2s")[0] == 0 and new.is_file()
    trace = Path("made/for/trace.pcapng")
    assert tidegate_command("run", new, "-o", "made/for/run", "--trace", trace)[0] == 0
    assert trace.is_file() and Path("made/for/run/result.json").is_file()
    for command, file in (("export", "a/n.csv"), ("plot", "b/n.svg"), ("report", "c/n.html")):
        assert tidegate_command(command, "made/for/run", "-o", file)[0] == 0
        assert list(Path(file).parent.glob(f"n*{Path(file).suffix}"))


def test_a_table_makes_its_folders_too(tidegate_command, mine):
    text = EXPERIMENT.replace('kind = "lines"\nx = "load"', 'kind = "table"').replace(
        'y_label = "through', "#"
    )
    mine.write_text(text)
    assert tidegate_command("sweep", mine, "--quick", "-o", "kept")[0] == 0
    assert tidegate_command("plot", "kept", "-p", "throughput", "-o", "a/b/table.md")[0] == 0
    assert Path("a/b/table.md").read_text().startswith("| ")


@pytest.mark.parametrize(
    ("variable", "ask"),
    [(demo.VARIABLE, demo.program), (emulate.VARIABLE, emulate.program)],
)
def test_a_variable_that_names_no_program_is_named(monkeypatch, tmp_path, variable, ask):
    plain = tmp_path / "no-program"
    plain.write_text("text")
    for named in ("target/nope", str(plain), str(tmp_path)):
        monkeypatch.setenv(variable, named)
        with pytest.raises(UsageError, match=f"{variable} names {named}, which is no program"):
            ask()
    plain.chmod(0o755)
    monkeypatch.setenv(variable, str(plain))
    assert str(plain) in str(ask())


@linux
def test_the_package_of_a_missing_program_is_named(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Path, "exists", lambda self: True)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "unshare" else f"/usr/bin/{name}")
    assert two_sites.obstacle() == real.obstacle([]) == "not installed: unshare (util-linux)"


@linux
def test_a_demo_tries_its_place_first(tidegate_command, monkeypatch):
    monkeypatch.setattr(demo, "compare", lambda *_: pytest.fail("it ran"))
    code, _, said = tidegate_command("demo", "gateway", "--out", NOWHERE)
    require_told(code, said, "--out", f"{NOWHERE}/gateway.json")


def test_a_place_is_tried_without_a_trace(tmp_path):
    from tidegate import store

    store.require_place(tmp_path / "a/b")
    store.require_file(tmp_path / "a/b.csv", "--out")
    store.require_file(Path(os.devnull), "--out")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(TidegateError, match=r"--out .*/file/x.csv: .*/file is no folder"):
        store.require_file(tmp_path / "file/x.csv", "--out")
