"""Files from strangers: nothing outside of their folder is read or written, and they cost little."""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import store

CORPUS = Path(__file__).parents[1] / "hostile"
SECRET = "the-secret-of-the-folder-above"
MEGABYTES_MAX = 500
SECONDS_MAX = 60
# Runs the command line and tells its own memory, which is that of what it read. (What `getrusage` says on
# Linux is no less than what the process had that started this one.)
MEASURED = """
import pathlib, re, resource, sys
from tidegate import cli, process
process.make_streams_safe()
code = cli.invoke(sys.argv[1:])
status = pathlib.Path("/proc/self/status")
if status.exists():
    most = re.search(r"VmHWM:\\s+([0-9]+) kB", status.read_text())[1]
else:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("MEMORY", most, file=sys.stderr)
raise SystemExit(code)
"""


def tidegate(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run it in `folder`; the exit code and what it said. It may not take more than it is given."""
    command = [sys.executable, "-c", MEASURED, *arguments]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX)
    said = ended.stdout + ended.stderr
    kilobytes = int(re.findall(r"^MEMORY (\d+)$", said, re.MULTILINE)[-1])
    assert kilobytes < MEGABYTES_MAX * 1024, f"{kilobytes} kB"
    assert "Traceback" not in said and SECRET not in said
    return ended.returncode, said


@pytest.fixture
def place(tmp_path) -> Path:
    """A copy of the corpus, with a secret in the folder above and links that lead to it."""
    (tmp_path / "outside.toml").write_text(f'title = "{SECRET}"\n0\n{SECRET}\n')
    folder = tmp_path / "inside"
    shutil.copytree(CORPUS, folder)
    (folder / "link.toml").symlink_to("../outside.toml")
    return folder


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.real_core
@pytest.mark.parametrize("name", sorted(path.name for path in CORPUS.glob("*.toml")))
def test_a_hostile_file_is_refused_with_its_name_and_the_place(place, name):
    before = everything(place.parent)
    # It may be no text.
    first = (place / name).read_bytes().split(b"\n", 1)[0].decode()
    kind, expected = re.fullmatch(r"# (as an experiment, )?says: (.*)", first).groups()
    commands = [["validate", name], ["sweep", name, "--out", "kept"]]
    if not kind:
        # `run` takes the scenario of an experiment, without what makes many of it.
        commands.append(["run", name, "--seed", "1"])
    for command in commands:
        code, said = tidegate(place, *command)
        assert code == 3, f"{command}: {said[:500]}"
        assert name in said and expected in said, f"{command}: {said[:500]}"
        assert "\x1b" not in said and "\x07" not in said, "nobody writes to the terminal through a file"
    assert everything(place.parent) == before


@pytest.mark.real_core
@pytest.mark.parametrize("key", ["include", "trace"])
def test_a_link_that_leads_out_of_the_folder_is_not_followed(place, key):
    plain = (CORPUS / "include-above.toml").read_text()
    if key == "include":
        linked = plain.replace("../outside.toml", "link.toml")
    else:
        alone = plain.replace('include = ["../outside.toml"]\n', "")
        linked = alone.replace('"1Mbit"', '{ trace = "link.toml" }')
    (place / "linked.toml").write_text(linked)
    code, said = tidegate(place, "validate", "linked.toml")
    assert code == 3 and "lies outside" in said


JUNK = [None, True, -1, 1e308, "", "x", "../../x", [], {}, [None], {"a": None}, 10**30, "\u0000\x1b[2J"]


def parts(value, path=()):
    """The paths of all parts of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield (*path, key)
        yield from parts(part, (*path, key))


def damage(value, chance: random.Random) -> None:
    """Take away or replace one part."""
    *way, last = chance.choice(list(parts(value)))
    for key in way:
        value = value[key]
    if chance.random() < 0.3:
        del value[last]
    else:
        value[last] = chance.choice(JUNK)


EXPERIMENT = """
title = "t"
duration = "1s"
seeds = 2
nodes = { hosts = ["a", "b"] }
links.l = { between = ["a", "b"], rate = "1Mbit", delay = "1ms" }
flows.f = { from = "a", to = "b", transport = "tcp" }
record = { every = "100ms", series = ["flows.*.throughput_bps"] }
[axes.rate]
path = "links.l.rate"
values = ["1Mbit", "2Mbit"]
[[figures]]
id = "x"
title = "X"
kind = "lines"
x = "rate"
y = "flows.f.throughput_bps"
y_label = "b/s"
[[figures]]
id = "s"
title = "S"
kind = "series"
y = "flows.f.throughput_bps"
y_label = "b/s"
"""


@pytest.mark.real_core
def test_results_that_were_changed_are_drawn_or_refused(tmp_path, tidegate_command):
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    whole, changed = tmp_path / "whole", tmp_path / "changed"
    assert tidegate_command("sweep", "e.toml", "--out", whole)[0] == 0
    refused = 0
    for seed in range(60):
        chance = random.Random(seed)
        shutil.rmtree(changed, ignore_errors=True)
        shutil.copytree(whole, changed)
        manifest = json.loads((changed / "result.json").read_text())
        points = [json.loads(line) for line in (changed / "points.jsonl").read_text().splitlines()]
        # As one who knows of the digests would do it.
        del manifest["points_digest"], manifest["digest"]
        for point in points:
            del point["digest"]
        damage(chance.choice([manifest, points]), chance)
        (changed / "result.json").write_text(json.dumps(manifest))
        (changed / "points.jsonl").write_text("".join(json.dumps(point) + "\n" for point in points))
        code, _, said = tidegate_command("report", changed, "-o", tmp_path / "r.html")
        assert code in (0, 3), said
        refused += code == 3
        assert code == 0 or "changed" in said, said
        assert tidegate_command("plot", changed, "--out", tmp_path / "p.svg")[0] in (0, 2, 3)
    assert refused >= 3


@pytest.mark.real_core
def test_points_of_another_run_are_noticed(tmp_path, tidegate_command):
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    for name, rest in (("one", []), ("two", ["--set", "duration=2s"])):
        assert tidegate_command("sweep", "e.toml", "--out", name, *rest)[0] == 0
    shutil.copyfile(tmp_path / "two/points.jsonl", tmp_path / "one/points.jsonl")
    code, _, said = tidegate_command("report", "one")
    assert code == 3 and "points.jsonl is not the one that was written with result.json" in said


@pytest.mark.real_core
def test_series_of_another_point_are_noticed_when_they_are_read(tmp_path, tidegate_command):
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    assert tidegate_command("sweep", "e.toml", "--out", "one")[0] == 0
    export = ("export", "one", "-o", "series.csv", "--what", "series")
    assert tidegate_command(*export)[0] == 0
    one, two = (tmp_path / f"one/series/0000{number}.parquet" for number in (1, 3))
    one.rename(tmp_path / "aside")
    two.rename(one)
    (tmp_path / "aside").rename(two)
    code, _, said = tidegate_command(*export)
    assert code == 3 and "00001.parquet: changed after it was written, or of another point" in said
    # Nothing of them is in this.
    assert tidegate_command("export", "one", "-o", "values.csv")[0] == 0


@pytest.mark.real_core
@pytest.mark.parametrize("change", [("status", "pass"), ("problems", []), ("quick", True)])
def test_an_edited_manifest_is_not_reported(tmp_path, tidegate_command, change):
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    assert tidegate_command("sweep", "e.toml", "--out", "one")[0] == 0
    file = tmp_path / "one/result.json"
    manifest = json.loads(file.read_text())
    # Other white space is no change.
    file.write_text(json.dumps(manifest))
    assert tidegate_command("report", "one")[0] == 0
    key, value = change
    file.write_text(json.dumps(manifest | {key: value, "description": "x"}))
    for command in (("report", "one"), ("export", "one", "-o", "x.csv"), ("plot", "one")):
        code, _, said = tidegate_command(*command)
        assert code == 3 and "result.json was changed after it was written" in said


@pytest.mark.real_core
def test_names_that_are_no_text_are_names(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    with contextlib.suppress(OSError):
        (tmp_path / f"{name}.toml").write_text(EXPERIMENT)
    if not (tmp_path / f"{name}.toml").exists():
        pytest.skip("this file system takes only text")
    traces = ["--trace", f"{name}.pcapng", "--trace-drops", f"{name}-drops.pcapng"]
    for command in (
        ["validate", f"{name}.toml"],
        ["run", f"{name}.toml", "--out", f"{name}-run", *traces],
        ["sweep", f"{name}.toml", "--out", name],
        ["report", name],
        ["plot", name, "--out", f"{name}.svg"],
    ):
        code, said = tidegate(tmp_path, *command)
        assert code == 0, said
    assert (tmp_path / f"{name}.pcapng").exists() and (tmp_path / f"{name}-drops.pcapng").exists()
    assert len(store.read_result(tmp_path / name).points) == 4


@pytest.mark.real_core
def test_a_table_that_grows_when_it_is_read_is_refused_before(tmp_path, tidegate_command):
    polars = pytest.importorskip("polars")
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    assert tidegate_command("sweep", "e.toml", "--out", "res")[0] == 0
    rows = 20_000_000
    series = tmp_path / "res/series/00001.parquet"
    columns = polars.LazyFrame().select(
        time_s=polars.repeat(0.0, rows), name=polars.repeat("x", rows), value=polars.repeat(0.0, rows)
    )
    columns.sink_parquet(series)
    assert series.stat().st_size < 2_000_000
    code, said = tidegate(tmp_path, "report", "res")
    assert code == 3 and "00001.parquet" in said


@pytest.mark.real_core
def test_outputs_do_not_overwrite_scenarios_or_results(tmp_path, tidegate_command):
    text = EXPERIMENT.split("[axes")[0].replace("seeds = 2\n", "")
    scenario = tmp_path / "s.toml"
    scenario.write_text(text)
    (tmp_path / "link").symlink_to(scenario)
    assert tidegate_command("run", "s.toml", "-o", "res")[0] == 0
    before = (tmp_path / "res/result.json").read_bytes()
    for words in (
        ("run", "s.toml", "--trace", "s.toml"),
        ("run", "s.toml", "--trace-drops", "link"),
        ("run", "s.toml", "--trace", "res/result.json"),
        ("report", "res", "-o", "s.toml"),
        ("report", "res", "-o", "res/points.jsonl"),
    ):
        code, _, said = tidegate_command(*words)
        assert code != 0 and "give another name" in said, words
    code, _, said = tidegate_command("run", "s.toml", "--trace", "t.pcapng", "--trace-drops", "./t.pcapng")
    assert code != 0 and "give two" in said
    assert scenario.read_text() == text and (tmp_path / "res/result.json").read_bytes() == before
