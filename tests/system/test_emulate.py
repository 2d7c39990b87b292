"""`tidegate emulate`: what real hosts see, and that nothing remains."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest

PEER = Path(__file__).with_name("peer.py")
SERVE = f"B=exec {sys.executable} {PEER} serve"
NAMESPACES = Path("/run/netns")


def client(*what: str) -> list[str]:
    return ["--", sys.executable, str(PEER), *what]


def last_line(text: str) -> dict:
    return json.loads(text.strip().splitlines()[-1])


def results(ended: subprocess.CompletedProcess[str]) -> tuple[dict, dict]:
    """The summary of `--json`, and what the command said on standard error."""
    assert ended.returncode == 0, ended.stderr
    said = [line for line in ended.stderr.splitlines() if line.startswith("{")]
    return json.loads(ended.stdout), json.loads(said[-1])


def left_over(pid: int) -> list[str]:
    return [path.name for path in NAMESPACES.glob(f"tidegate-{pid}-*")]


@pytest.mark.parametrize("what", ["round_trips", "round_trips6"])
def test_a_round_trip_takes_twice_the_delay(emulate, what):
    ended = emulate("--rate", "10Mbit", "--delay", "20ms", "--json", "--on", SERVE, *client(what, "50"))
    summary, said = results(ended)
    assert median(said["round_trips_ms"]) == pytest.approx(40, abs=2)
    lateness = summary["emulation"]["lateness"]
    assert lateness["deliveries"]["count"] >= 100
    assert min(said["round_trips_ms"]) >= 40


@pytest.mark.parametrize("control", ["cubic", "reno"])
def test_tcp_fills_the_link(emulate, control):
    ended = emulate(
        "--rate", "10Mbit", "--delay", "20ms", "--queue", '{ kind = "droptail", limit = "60p" }',
        "--json", "--on", SERVE, *client("stream", "8", control),
    )  # fmt: skip
    summary, said = results(ended)
    assert said["congestion_control"] == control
    assert 9e6 <= said["bps"] <= 10e6
    forward = summary["links"]["link"]
    # The flow of data saw every drop of the link.
    data = max(summary["emulation"]["connections"], key=lambda flow: flow["throughput_bps"])
    assert data["lost_packets"] == forward["dropped_packets"] > 0
    assert forward["queue_packets"]["max"] <= 61


def test_a_recording_replays_identically_and_a_changed_one_fails(emulate, program, tmp_path):
    recording = tmp_path / "run.tdg"
    ended = emulate(
        "--rate", "5Mbit", "--delay", "10ms", "--queue", "red", "--record", recording,
        "--json", "--on", SERVE, *client("stream", "3"),
    )  # fmt: skip
    summary, _ = results(ended)
    replay = [str(program), "replay", "--json", str(recording)]
    same = subprocess.run(replay, capture_output=True, text=True)
    assert same.returncode == 0, same.stderr
    said = json.loads(same.stdout)
    assert said["identical"] and said["arrivals"] == summary["emulation"]["arrived_packets"]
    damaged = bytearray(recording.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    recording.write_bytes(damaged)
    assert subprocess.run(replay, capture_output=True).returncode == 1


def test_simulated_traffic_shares_the_link_with_real_traffic(emulate, tmp_path):
    scenario = tmp_path / "mixed.toml"
    scenario.write_text(
        """
        duration = "60s"
        nodes = { hosts = ["A", "B", "S", "D"], routers = ["R", "Q"], real = ["A", "B"] }
        defaults.link = { rate = "100Mbit", delay = "1ms" }
        links.a = { between = ["A", "R"] }
        links.s = { between = ["S", "R"] }
        links.middle = { between = ["R", "Q"], rate = "10Mbit", delay = "5ms", queue = "red" }
        links.b = { between = ["Q", "B"] }
        links.d = { between = ["Q", "D"] }
        [flows.simulated]
        from = "S"
        to = "D"
        transport = "udp"
        application = { kind = "cbr", rate = "6Mbit", packet = "1000B" }
        """
    )
    summary, said = results(emulate(scenario, "--json", "--on", SERVE, *client("stream", "6")))
    assert 2e6 < said["bps"] < 4.2e6
    assert summary["flows"]["simulated"]["throughput_bps"] > 5e6


def test_nothing_remains_after_the_end_and_after_a_signal(program):
    for ending in (None, signal.SIGINT, signal.SIGTERM):
        duration = ["--duration", "500ms"] if ending is None else []
        command = [str(program), "emulate", "--rate", "1Mbit", *duration, "--on", "A=sleep 1000"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            wait_for(lambda pid=process.pid: len(left_over(pid)) == 2)
            if ending is not None:
                process.send_signal(ending)
            assert process.wait(timeout=10) == (0 if ending is None else 130)
            assert left_over(process.pid) == []


def test_what_a_killed_run_left_is_cleaned_and_a_living_one_stays(program):
    command = [str(program), "emulate", "--rate", "1Mbit", "--on", "A=sleep 1000"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **quiet) as killed, subprocess.Popen(command, **quiet) as alive:
        wait_for(lambda: len(left_over(killed.pid)) == len(left_over(alive.pid)) == 2)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert len(left_over(killed.pid)) == 2
        cleaned = subprocess.run([str(program), "emulate", "--clean"], capture_output=True, text=True)
        assert cleaned.returncode == 0, cleaned.stderr
        assert left_over(killed.pid) == []
        assert len(left_over(alive.pid)) == 2
        alive.send_signal(signal.SIGTERM)
        alive.wait(timeout=10)
    assert left_over(alive.pid) == []
    assert not Path("/run/tidegate").exists() or not list(Path("/run/tidegate").glob(f"{killed.pid}.*"))
    devices = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout
    assert "tide0" not in devices


def test_without_rights_one_sentence_says_so(program):
    def drop_rights() -> None:
        os.setgid(65534)
        os.setuid(65534)

    ended = subprocess.run(
        [str(program), "emulate", "--rate", "1Mbit", "--duration", "1s"],
        capture_output=True, text=True, preexec_fn=drop_rights,
    )  # fmt: skip
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1 and "root" in ended.stderr


def test_a_failing_command_is_told(emulate):
    ended = emulate("--rate", "1Mbit", "--", "sh", "-c", "exit 3")
    assert ended.returncode == 1 and "3" in ended.stderr


def wait_for(condition, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
