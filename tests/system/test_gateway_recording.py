"""Recordings of two real gateways: what they decided is decided once more, and no payload is in the file."""

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tidegate.two_sites import INNER, TwoSites, told

MARK = "this-is-not-to-be-recorded"
RATES = '{ floor = "1Mbit", max = "100Mbit", fallback = "8Mbit" }'
EVERY_S = 0.01
VERDICTS_LEAST = 1000


@pytest.fixture(scope="module")
def sites(gateway):
    """Two daemons, of which b records from its start."""
    with TwoSites(gateway) as made:
        made.configure(RATES)
        made.start("a")
        made.start("b", ["--record", str(made.folder / "b.tgr")])
        made.wait_for("controlled")
        made.echo()
        yield made


def record(sites: TwoSites, *arguments: str) -> subprocess.Popen[str]:
    """Begins `tidegatectl record` at site a."""
    command = [str(sites.folder / "tidegatectl"), "--socket", str(sites.socket("a")), "record", *arguments]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def replay(gateway: Path, file: Path) -> dict:
    """What `tidegate-gateway replay` says of `file`, which must be the same."""
    command = [str(gateway), "replay", "--json", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found: dict = json.loads(ended.stdout)
    assert (found["identical"], found["differing"], found["first_differences"]) == (True, 0, [])
    return found


def traffic(sites: TwoSites, count: int = 150) -> None:
    """Probes that say the mark both ways, and TCP if there is iperf3."""
    load = sites.load(INNER["b"], 1.5) if shutil.which("iperf3") else None
    answers = told(sites.probe(INNER["b"], count, EVERY_S, MARK))
    assert sum(took is not None for _, took in answers) > count // 2
    if load is not None:
        load.finish()


def test_a_running_daemon_is_recorded_and_replays_and_sessions_go_on(sites, gateway):
    file = sites.folder / "a.tgr"
    lives = sites.status("a")["lives"]
    recorder = record(sites, "-o", str(file), "--seconds", "5")
    time.sleep(0.3)
    traffic(sites)
    said, complaint = recorder.communicate(timeout=30)
    assert recorder.returncode == 0, complaint
    assert f"{file.stat().st_size} bytes" in said
    assert file.stat().st_mode & 0o077 == 0, "who talks to whom is nobody else's business"
    found = replay(gateway, file)
    assert found["verdicts"] > VERDICTS_LEAST
    assert 4 < found["duration_s"] < 8
    assert min(found["to_hosts"], found["datagrams"], found["sealed"]) > 100
    data = file.read_bytes()
    assert MARK.encode() not in data
    assert b".key" not in data, "no path of a key, and no key"
    assert INNER["b"].rsplit(".", 1)[0].encode() in data, "the configuration is there"
    # A core of its own began, in the session that there was.
    sites.wait_for("controlled")
    assert sites.status("a")["lives"] <= lives + 1


def test_a_reload_and_ctrl_c_and_a_second_one(sites, gateway):
    file = sites.folder / "reloaded.tgr"
    recorder = record(sites, "--output", str(file))
    time.sleep(0.3)
    # There is one at a time, and who is refused leaves nothing.
    second = sites.control("a", "record", "-o", str(sites.folder / "second.tgr"))
    assert second.returncode == 1
    assert "one at a time" in second.stderr
    assert not (sites.folder / "second.tgr").exists()
    right = sites.file("a").read_text()
    sites.file("a").write_text(right.replace('max = "100Mbit"', 'max = "15Mbit"'))
    assert sites.control("a", "reload").returncode == 0
    sites.file("a").write_text(right)
    sites.wait_for("controlled")
    traffic(sites, 50)
    recorder.send_signal(signal.SIGINT)
    _, complaint = recorder.communicate(timeout=30)
    assert recorder.returncode == 0, complaint
    found = replay(gateway, file)
    assert found["cores"] == 2
    # A file that is there stays, unless somebody insists.
    again = sites.control("a", "record", "-o", str(file), "--seconds", "1")
    assert again.returncode == 1
    assert "exists" in again.stderr
    assert sites.control("a", "record", "-o", str(file), "--seconds", "1", "--force").returncode == 0
    assert replay(gateway, file)["cores"] == 1


def test_what_cannot_be_written_is_told_and_traffic_goes_on(sites):
    nowhere = sites.control("a", "record", "-o", str(sites.folder / "none" / "a.tgr"))
    assert nowhere.returncode == 1
    assert "none/a.tgr" in nowhere.stderr
    # A device that is always full, and traffic meanwhile.
    full = record(sites, "-o", "/dev/full", "--force", "--seconds", "10")
    time.sleep(0.3)
    traffic(sites, 50)
    _, complaint = full.communicate(timeout=30)
    assert full.returncode == 1
    assert "/dev/full: No space left on device" in complaint
    # A client that is killed is left, and the daemon is ready for the next one.
    stopped = record(sites, "-o", str(sites.folder / "stopped.tgr"))
    time.sleep(0.3)
    stopped.kill()
    stopped.communicate()
    file = sites.folder / "next.tgr"
    until = time.monotonic() + 15
    while sites.control("a", "record", "-o", str(file), "--seconds", "1").returncode != 0:
        assert time.monotonic() < until, sites.log("a")
    assert all(took is not None for _, took in told(sites.probe(INNER["b"], 5, EVERY_S)))


def test_what_is_no_recording_or_was_cut_or_changed_is_told(sites, gateway):
    recorded = sites.folder / "whole.tgr"
    recorder = record(sites, "-o", str(recorded), "--seconds", "2")
    time.sleep(0.3)
    traffic(sites, 50)
    _, complaint = recorder.communicate(timeout=30)
    assert recorder.returncode == 0, complaint
    whole = recorded.read_bytes()

    def told_of(name: str, data: bytes) -> str:
        file = sites.folder / name
        file.write_bytes(data)
        command = [str(gateway), "replay", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 1
        return ended.stdout + ended.stderr

    assert "no recording" in told_of("text.tgr", b"hello")
    assert "`tidegate replay` replays it" in told_of("other.tgr", b"TDGTREC\n" + whole[8:])
    cut = told_of("cut.tgr", whole[: len(whole) // 2])
    assert "ends early" in cut
    assert " 0 differ" in cut
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 4
    assert told_of("changed.tgr", bytes(changed))


# The last two, for each ends a daemon.
def test_a_daemon_that_records_from_its_start_replays(sites, gateway):
    file = sites.folder / "b.tgr"
    traffic(sites, 50)
    sites.daemons["b"].terminate()
    assert sites.daemons["b"].wait(timeout=10) == 0
    assert "the recording is complete" in sites.log("b")
    found = replay(gateway, file)
    assert found["verdicts"] > VERDICTS_LEAST
    assert MARK.encode() not in file.read_bytes()
    # It is never written over.
    command = [str(gateway), "run", str(sites.file("b")), "--record", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=10)
    assert ended.returncode == 1
    assert "choose another" in ended.stderr


def test_a_recording_is_whole_when_the_daemon_is_stopped_meanwhile(sites, gateway):
    file = sites.folder / "until.tgr"
    recorder = record(sites, "-o", str(file))
    time.sleep(0.3)
    sites.probe(INNER["b"], 50, EVERY_S)
    key = sites.folder / "a.key"
    key.write_text(sites.folder.joinpath("b.key").read_text())
    assert sites.control("a", "reload").returncode == 0
    assert "a.key has been written since the daemon began" in sites.log("a")
    sites.daemons["a"].terminate()
    _, complaint = recorder.communicate(timeout=30)
    assert recorder.returncode == 0, complaint
    assert sites.daemons["a"].wait(timeout=10) == 0
    assert replay(gateway, file)["verdicts"] > 0
