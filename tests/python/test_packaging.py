"""A release is refused for every reason there is; what installations are tried with knows all commands."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("Cargo.toml", "Cargo.lock", "CITATION.cff", "CHANGELOG.md")


def load(name):
    specification = importlib.util.spec_from_file_location(name, ROOT / "packaging" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def edit(file, pattern, replacement, count=0):
    text = file.read_text(encoding="utf-8")
    changed = re.sub(pattern, replacement, text, count=count, flags=re.MULTILINE)
    assert changed != text
    file.write_text(changed, encoding="utf-8")


@pytest.fixture
def released(tmp_path):
    """The files of this checkout as they would be for a release of 9.8.7."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    edit(tmp_path / "Cargo.toml", r'^version = ".*"', 'version = "9.8.7"')
    edit(tmp_path / "Cargo.lock", r'^(name = "tidegate-.*"\nversion = ").*"', r'\g<1>9.8.7"')
    edit(tmp_path / "CITATION.cff", r"^version: .*", "version: 9.8.7\ndate-released: 2031-02-03")
    edit(tmp_path / "CHANGELOG.md", r"^## ", "## [9.8.7] - 2031-02-03\n\n- Something.\n\n## ", count=1)
    return tmp_path


def test_a_release_that_is_ready_is_allowed(released):
    assert load("release_check").problems(released, "9.8.7") == []


@pytest.mark.parametrize(
    "file, pattern, replacement, says",
    [
        ("Cargo.toml", r'^version = "9.8.7"', 'version = "9.8.6"', "workspace.package.version is 9.8.6"),
        ("Cargo.lock", r'^(name = "tidegate-lab"\nversion = ").*"', r'\g<1>1.0.0"', "tidegate-lab is 1.0.0"),
        ("CITATION.cff", r"^version: 9.8.7", "version: 9.8", "version is 9.8, not 9.8.7"),
        ("CITATION.cff", r"^date-released: .*", "", "date-released is missing"),
        ("CITATION.cff", r"^date-released: .*", "date-released: 2031-02-04", "2031-02-04"),
        ("CHANGELOG.md", r"^## \[9.8.7\].*", "## [Unreleased]", "no heading"),
        ("CHANGELOG.md", r"^- Something.$", "", "nothing stands below"),
    ],
)
def test_a_release_that_is_not_ready_is_refused_for_its_reason(released, file, pattern, replacement, says):
    edit(released / file, pattern, replacement)
    (problem,) = load("release_check").problems(released, "9.8.7")
    assert problem.startswith(file) and says in problem


def test_names_of_wheels_are_looked_at():
    check = load("release_check")
    name = "tidegate-{}-cp311-abi3-manylinux_2_28_x86_64.whl"
    assert check.wheel_problem(Path(name.format("9.8.7")), "9.8.7") is None
    assert "not of" in check.wheel_problem(Path(name.format("9.8.6")), "9.8.7")
    assert "stable ABI" in check.wheel_problem(Path("tidegate-9.8.7-cp311-cp311-linux_x86_64.whl"), "9.8.7")
    assert "version like" in check.problems(ROOT, "9.8")[0]


def test_every_command_is_tried_in_an_installation(tidegate_command):
    smoke = load("smoke")
    listed = smoke.commands_of(tidegate_command("--help")[1])
    tried = {arguments[0] for arguments in [*smoke.PLAIN, *smoke.WORK, smoke.REAL]}
    assert set(listed) == {name for name in tried if not name.startswith("-")} | {"replay"}


def test_the_documents_are_cited():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    titles = re.findall(
        r'^title = "[^:]+: (.+?)(?: \(.*\))?"$', (ROOT / "docs/figures.toml").read_text(), re.M
    )
    assert len(titles) == 5
    for title in titles:
        assert f'title: "{title}"' in citation


def test_the_picture_of_the_readme_is_made_by_the_commands_below_it():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^!\[.*\]\((.*\.png)\)$", readme, re.MULTILINE)
    told = subprocess.run(
        ["make", "-n", "readme-picture", f"PYTHON={sys.executable}"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    # What make would run takes the commands out of the README.
    (command,) = [line for line in told.splitlines() if "sh picture" in line]
    taken = re.search(r"\$\((sed .*)\)", command)[1]
    lines = subprocess.run(
        ["bash", "-c", taken], cwd=ROOT, capture_output=True, text=True
    ).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["tidegate", "reproduce"], ["tidegate", "plot"]]
    assert lines[-1].endswith(f" -o {shown}")
    assert lines[-1].split()[2].startswith(lines[0].split()[-1])


# Only systemd judges its units; a machine without it runs none.
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_systemd_finds_the_unit_little_exposed():
    unit = ROOT / "packaging/gateway/tidegate-gateway.service"
    # In tenths; a unit without any restriction has 96.
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=25", str(unit)]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "Overall exposure level for tidegate-gateway.service" in told.stdout


# Where `CI` is set, as by `.ci/run`, which installs it, it must be there.
@pytest.mark.skipif(
    shutil.which("groff") is None and not os.environ.get("CI"),
    reason="no groff (Debian: apt install groff-base)",
)
@pytest.mark.parametrize("name", ["tidegate-gateway", "tidegatectl"])
def test_manual_pages_of_the_gateway_are_without_warnings(name):
    page = ROOT / f"packaging/gateway/{name}.8"
    told = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", page], capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
