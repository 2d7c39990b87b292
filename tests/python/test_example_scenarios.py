"""The scenarios of `examples/` give the numbers that their first lines promise; a page lists all of them."""

import re
import tomllib
from pathlib import Path

import pytest

import tidegate

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples").glob("*.toml"))
EXPECTED = re.compile(r"^# expect (.+) from (\S+) to (\S+)$", re.MULTILINE)

pytestmark = pytest.mark.real_core


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_gives_what_it_says(file):
    text = file.read_text(encoding="utf-8")
    scenario = tidegate.load(file)
    assert scenario.warnings == []
    expected = EXPECTED.findall(text)
    assert expected and "# Look at:" in text
    result = scenario.run()
    for measure, low, high in expected:
        assert float(low) <= result.measure(measure) <= float(high), measure


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_an_example_suggests_can_be_run(tidegate_command, file):
    # Without the marks of comments, and with lines joined that end in a backslash.
    text = re.sub(r"^# ?", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    commands = re.findall(r"tidegate run (\S+\.toml)((?: +--set (?:'[^']*'|[^\s`]+))+)", text)
    for name, options in commands:
        assert name == file.name
        overrides = [word.strip("'") for word in re.findall(r"--set ('[^']*'|\S+)", options)]
        sets = [word for override in overrides for word in ("--set", override)]
        code, _, err = tidegate_command("validate", file, *sets)
        assert code == 0, err


def test_a_default_that_is_too_small_is_named_with_the_command_for_a_better_one(tidegate_command):
    campus = ROOT / "examples" / "campus.toml"
    code, out, err = tidegate_command("validate", campus, "--set", "links.uplink.reverse.queue=red")
    assert code == 0 and "a valid scenario" in out
    (command,) = re.findall(r"`tidegate (design red [^`]+)`", err)
    code, found, _ = tidegate_command(*command.split())
    assert code == 0
    queue = tomllib.loads(found.splitlines()[-1])["queue"]

    def used(**overrides):
        return tidegate.load(campus, **overrides).run().links["uplink"]["reverse"]["utilization"]

    default = used(links__uplink__reverse__queue="red")
    assert default < 0.75 and used(links__uplink__reverse__queue=queue) > default + 0.1


def test_the_page_lists_every_example():
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[`([\w-]+\.toml)`\]\(\.\./examples/([\w-]+\.toml)\)", page, re.MULTILINE)
    assert set(listed) == {(file.name, file.name) for file in FILES}
    assert len(listed) == len(FILES) == 13
