"""`tidegate.real`: which runs count, and which experiments need real hosts. No privileges needed."""

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

from tidegate import library, real
from tidegate.errors import TidegateError

ROOT = Path(__file__).parents[2]


def summary(late_us, unbuffered=0, ended=None):
    lateness = {"events": {"p99_us": late_us}, "deliveries": {"p99_us": late_us / 2}}
    return {
        "emulation": {
            "lateness": lateness,
            "unbuffered_packets": unbuffered,
            "ended_commands": ended or {},
        }
    }


@pytest.fixture
def emulator(monkeypatch):
    """Runs give these summaries, one after the other; the commands that were run."""
    from tidegate.commands import emulate

    said, commands = [], []

    def run(command, **_):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, json.dumps(said.pop(0)), "iperf3: refused\n")

    monkeypatch.setattr(emulate, "program", lambda: ["/bin/true"])
    monkeypatch.setattr(real.subprocess, "run", run)
    return said, commands


def test_late_runs_are_thrown_away_and_counted(emulator):
    said, commands = emulator
    said += [summary(9000.0), summary(100.0, unbuffered=1), summary(100.0)]
    result = real.run(Path("x.toml"), [("links.a.queue", '{ kind = "red" }')], seed=3)
    assert result["emulation"]["discarded_runs"] == 2
    assert commands[0] == [
        "/bin/true", "emulate", "x.toml", "--json", "--seed", "3", "--set", 'links.a.queue={ kind = "red" }',
    ]  # fmt: skip


def test_a_machine_that_is_always_late_fails_and_says_by_how_much(emulator):
    said, _ = emulator
    said += [summary(9000.0)] * real.ATTEMPTS_MAX
    with pytest.raises(real.LateError, match=r"late by 9\.0 ms"):
        real.run(Path("x.toml"), [], seed=1)
    assert not said


def test_a_command_that_fails_fails_the_run(emulator):
    said, _ = emulator
    said.append(summary(1.0, ended={"client": 1, "server": 0}))
    with pytest.raises(TidegateError, match=r"client ended with 1; iperf3: refused"):
        real.run(Path("x.toml"), [], seed=1)


def test_only_experiments_with_real_hosts_need_them():
    known = library.all_experiments(ROOT / "experiments")
    needing = {name for name, path in known.items() if library.is_real(path)}
    assert needing == {name for name in known if name.startswith("real/")}
    assert "real/nbp-fig8" in needing
    commands = [{"needs": ["iperf3"]}, {"needs": []}, {"needs": ["curl", "iperf3"]}]
    assert real.programs({"commands": commands}) == ["curl", "iperf3"]


def test_what_a_command_tells_of_a_flow_is_with_it(tmp_path):
    (tmp_path / "web.json").write_text('{"pages": {"loaded": 3}}')
    (tmp_path / "web.part").write_text("{")
    counted = {"flows": {"web": {"sent_packets": 7}, "other": {}}}
    real.add_told(counted, tmp_path)
    assert counted["flows"] == {"web": {"sent_packets": 7, "pages": {"loaded": 3}}, "other": {}}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nobody", "{}", "there is no flow `nobody`"),
        ("web", "{", "web.json, which is not JSON"),
        ("web", "[1]", "not an object"),
        ("web", '{"sent_packets": 0}', "with `sent_packets`, which the emulation counts itself"),
        ("web", " " * (real.TOLD_BYTES_MAX + 1), "more than 1048576 bytes"),
    ],
)
def test_what_a_command_tells_has_to_be_of_a_flow_and_new(tmp_path, name, text, message):
    (tmp_path / f"{name}.json").write_text(text)
    with pytest.raises(TidegateError, match=message):
        real.add_told({"flows": {"web": {"sent_packets": 7}}}, tmp_path)


def test_commands_are_told_where_their_file_lies_and_where_to_write(emulator, monkeypatch, tmp_path):
    """What they wrote is in the summary, and the folder is gone afterwards."""
    said, _ = emulator
    said.append(summary(1.0) | {"flows": {"web": {}}})
    again, folders = real.subprocess.run, []

    def run(command, env, **rest):
        assert env["TIDEGATE_FOLDER"] == str(tmp_path)
        folders.append(Path(env["TIDEGATE_RESULTS"]))
        (folders[0] / "web.json").write_text('{"pages": {}}')
        return again(command, **rest)

    monkeypatch.setattr(real.subprocess, "run", run)
    assert real.run(tmp_path / "x.toml", [], seed=1)["flows"] == {"web": {"pages": {}}}
    assert not folders[0].exists()


def _pages():
    path = ROOT / "experiments/real/pages.py"
    spec = importlib.util.spec_from_file_location("real_pages", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_answers_of_the_pages_have_exactly_the_bytes_that_were_asked_for():
    """At lengths whose number of digits changes with the head, too."""
    pages = _pages()
    for size in [400, *range(1_095, 1_110), *range(10_090, 10_110), 30_000]:
        data = pages.answer(size, "image/png", pages.picture)
        head, body = data.split(b"\r\n\r\n", 1)
        assert len(data) == size
        assert f"Content-Length: {len(body)}\r\n".encode() in head + b"\r\n"
        assert body.startswith(b"\x89PNG") and body.endswith(b"IEND\xaeB`\x82")
    data = pages.answer(10_000, "text/html", lambda length: pages.document(3, length, 12, 1.0))
    assert (len(data), data.count(b"<img "), b'"/page/4"' in data) == (10_000, 12, True)


def test_what_a_browser_measured_becomes_the_keys_of_pages():
    pages = _pages()
    book = pages.Book(skip=1)
    told = {"begun": 100, "connected": 150, "document": 250, "images": [[251, 252, 400], [253, 300, 600]]}
    book.begun = 1
    assert not book.is_open()
    book.begun = 2
    assert book.is_open()
    book.requests.append(390)
    book.add(told)
    result = book.pages()
    assert (result["begun"], result["loaded"], result["objects"]) == (1, 1, 3)
    assert result["load_s"]["p50"] == pytest.approx(0.5)
    assert result["object_s"]["mean"] == pytest.approx((0.15 + 0.149 + 0.347) / 3)
    assert result["found_s"]["mean"] == pytest.approx(0.001)
