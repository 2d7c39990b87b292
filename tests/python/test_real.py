"""`tidegate.real`: which runs count, and which experiments need real hosts. No privileges needed."""

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
