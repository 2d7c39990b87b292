"""Completion, manual pages and the version: what a newcomer's shell knows of the command."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import manual, shells

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "packaging" / "wheel.data" / "data" / "share" / "man" / "man1"

pytestmark = pytest.mark.real_core


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """A folder in front of PATH with the command `tidegate`."""
    command = tmp_path / "bin" / "tidegate"
    command.parent.mkdir()
    command.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT / 'python')!r})\n"
        "from tidegate.cli import main\nmain()\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return command.parent


ASKED = [
    ("tidegate re", {"reproduce", "report", "replay"}),
    ("tidegate new dumbbell --queue s", {"sfb", "sfq", "step"}),
    ("tidegate run --trace-", {"--trace-at", "--trace-drops"}),
    ("tidegate explain red", {"red", "red-penalty-box"}),
    ("tidegate design ", {"blue", "ered", "red", "sfb"}),
    ("tidegate list p", {"plots"}),
    ("tidegate reproduce nbp/fig8", {"nbp/fig8", "nbp/fig8a", "nbp/fig8b", "nbp/fig8c", "nbp/fig8-choices"}),
]


def test_bash_completes(on_path):
    lines = ['eval "$(tidegate completion bash)"', "complete -p tidegate | grep -q -- '-o default'"]
    for line, _ in ASKED:
        words = " ".join(f"'{word}'" for word in line.split(" "))
        lines.append(f"COMP_WORDS=({words}); COMP_CWORD={len(line.split(' ')) - 1}; COMPREPLY=()")
        lines.append("_tidegate_completion tidegate; echo ${COMPREPLY[*]}")
    told = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    answers = [set(line.split()) for line in told.stdout.splitlines()]
    assert answers == [expected for _, expected in ASKED], told.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same_answers(on_path, monkeypatch, shell):
    """By the protocol of their scripts; the scripts are parsed where the shells are installed."""
    script = shells.script(shells.Shell(shell), "tidegate")
    line, expected = ASKED[1]
    asked = {"_TIDEGATE_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
    assert all(variable in script for variable in asked)
    for variable, value in (asked | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}).items():
        monkeypatch.setenv(variable, value)
    told = subprocess.run([on_path / "tidegate"], capture_output=True, text=True, check=True)
    assert set(re.findall(r"\bs\w{2,3}\b", told.stdout)) == expected, told.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_the_script_of_another_command_asks_that_command():
    script = shells.script(shells.Shell.bash, "own-mechanism")
    assert "_OWN_MECHANISM_COMPLETE=complete_bash" in script and "tidegate" not in script
    assert "tidegate" in shells.script(shells.Shell.bash, "python -m tidegate")


def test_manual_pages_are_written_from_the_declarations(tmp_path, monkeypatch):
    specification = importlib.util.spec_from_file_location("make_manual", ROOT / "packaging/make_manual.py")
    make_manual = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(make_manual)
    monkeypatch.setattr(sys, "argv", ["make_manual.py", str(tmp_path)])
    make_manual.main()
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    # If not: python packaging/make_manual.py
    assert written == {path.name: path.read_text(encoding="utf-8") for path in PAGES.iterdir()}


def plain(page):
    """A page as `man` shows it, without its fonts."""
    return re.sub(r"\\f[A-Z]|\\&", "", page).replace("\\-", "-").replace("\\e", "\\")


def options_in(lines):
    return {name for line in lines for name in re.findall(r"(?<![\w-])--?[a-z][\w-]*", line)}


def test_pages_have_every_option_and_command_that_help_has(tidegate_command):
    pages = manual.pages()
    for name, page in pages.items():
        path = name.removesuffix(".1").split("-")[1:]
        if path and path[0] in ("emulate", "replay"):
            continue
        told = tidegate_command(*path, "--help")[1].partition("\nOptions:\n")[2]
        told = re.findall(r"^  (-.*?)(?:  |$)", told, re.MULTILINE)
        section = plain(page).partition("\n.SH OPTIONS\n")[2]
        written = re.findall(r"^\.TP\n(-.*)$", section, re.MULTILINE)
        assert options_in(told) == options_in(written), name
    commands = re.findall(r"^  (\w+) ", tidegate_command("--help")[1].partition("Commands:")[2], re.MULTILINE)
    assert {f"tidegate-{command}.1" for command in commands} < set(pages)


# Nothing but this test needs groff. Where `CI` is set, as by `.ci/run`, which installs it, it must be there.
@pytest.mark.skipif(
    shutil.which("groff") is None and not os.environ.get("CI"),
    reason="no groff (Debian: apt install groff-base)",
)
def test_pages_are_proper_roff():
    command = ["groff", "-man", "-Tutf8", "-ww", "-z", *sorted(PAGES.glob("*.1"))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""


def test_the_version_names_the_build(tidegate_command, core):
    code, out, _ = tidegate_command("--version")
    assert code == 0
    assert out == f"tidegate {core.__version__} ({core.__build__})\n"
    assert re.fullmatch(r"([0-9a-f]{12}\+?|no repository), [a-z]+", core.__build__)
