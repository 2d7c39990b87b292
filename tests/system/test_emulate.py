"""`tidegate emulate`: what real hosts see, and that nothing remains."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

PEER = Path(__file__).with_name("peer.py")
SERVE = f"B=exec {sys.executable} {PEER} serve"
NAMESPACES = Path("/run/netns")
LEASES = Path("/run/tidegate-emulate")


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
    lateness = summary["emulation"]["lateness"]
    assert lateness["deliveries"]["count"] >= 100
    # Both hosts wait for a processor of a machine that may be busy: not each of fifty times.
    late_ms = 2 * lateness["deliveries"]["p50_us"] / 1e3
    assert 40 <= min(said["round_trips_ms"]) <= 42 + late_ms


def test_the_loop_is_served_first_and_its_children_as_others_are(emulate):
    show = "import json, os; print(json.dumps({'policy': os.sched_getscheduler(0), 'nice': os.nice(0)}))"
    here = {"policy": os.sched_getscheduler(0), "nice": os.nice(0)}
    for urgency in ("on", "off"):
        show_it = ["--", sys.executable, "-c", show]
        ended = emulate("--rate", "1Mbit", "--urgency", urgency, "--json", *show_it)
        summary = json.loads(ended.stdout)
        assert [line for line in ended.stderr.splitlines() if line.startswith("{")] == [json.dumps(here)]
        got = summary["emulation"]["urgency"]
        assert got["asked"] is (urgency == "on")
        is_refused = urgency == "on" and (got["priority"] != "real-time" or not got["memory_locked"])
        assert ("this system refused" in ended.stderr) is is_refused


def test_no_packet_of_a_flood_is_lost_without_being_counted(emulate):
    queue = '{ kind = "droptail", limit = "50p" }'
    link = ("--rate", "1Gbit", "--delay", "1ms", "--queue", queue, "--buffers", "64")
    summary, said = results(emulate(*link, "--json", "--on", SERVE, *client("flood", "2")))
    emulation = summary["emulation"]
    (flow,) = [each for each in emulation["connections"] if each["source_port"] == said["port"]]
    elsewhere = sum(emulation[f"{fate}_packets"] for fate in ("unbuffered", "device_dropped", "unread"))
    assert elsewhere > 0, "more than this machine carries"
    # Among those that were lost may be some that the kernel sends of itself, to find its neighbours.
    assert 0 <= flow["sent_packets"] + elsewhere - said["sent"] <= 10
    assert emulation["kept_up"] is False


CHAIN = """
duration = "60s"
nodes = { hosts = ["A", "B"], routers = ["R", "Q"], real = ["A", "B"] }
defaults.link = { rate = "10Mbit", delay = "5ms" }
links.a = { between = ["A", "R"] }
links.middle = { between = ["R", "Q"] }
links.b = { between = ["Q", "B"] }
"""


@pytest.mark.parametrize("version", ["4", "6"])
def test_routers_answer_where_a_packet_has_made_all_its_hops(emulate, tmp_path, version):
    scenario = tmp_path / "chain.toml"
    scenario.write_text(CHAIN)
    summary, said = results(emulate(scenario, "--json", "--on", SERVE, *client("trace", version, "4")))
    routers = {"4": ["10.0.0.3", "10.0.0.4"], "6": ["fd00::3", "fd00::4"]}[version]
    assert [hop["from"] for hop in said["hops"][:2]] == routers
    # To the first router and back, to the second and back.
    for hop, expected in zip(said["hops"], (10, 20), strict=False):
        assert expected <= hop["ms"] < expected + 100
    assert [hop["from"] for hop in said["hops"][2:]] == ["echo", "echo"]
    assert summary["emulation"]["answers"] == 2


@pytest.mark.parametrize("offload", ["off", "on"])
def test_a_host_with_too_large_packets_hears_of_it(emulate, offload):
    script = f"ip link set tide0 mtu 3000 && exec {sys.executable} {PEER} large 2000"
    link = ["--rate", "10Mbit", "--offload", offload]
    ended = emulate(*link, "--json", "--on", SERVE, "--", "/bin/sh", "-c", script)
    summary, said = results(ended)
    assert summary["emulation"]["oversized_packets"] >= 1 and summary["emulation"]["answers"] >= 1
    assert said == {"sent": 1, "refused": "Message too long", "mtu": 1500}


def test_connections_are_known_by_their_ports_and_have_their_own_numbers(emulate):
    # Fewer than labels, and enough where the peer is late: each try to reach it is a connection.
    what = ["--flows-per-pair", "16", "--json", "--on", SERVE, *client("labels")]
    summary, said = results(emulate("--rate", "10Mbit", "--delay", "5ms", *what))
    connections = [
        one for one in summary["emulation"]["connections"]
        if one["protocol"] == "udp" and one["source_port"] == said["port"]
    ]  # fmt: skip
    assert [one["sent_packets"] for one in connections] == [said["sent"]]


def test_a_recording_that_nobody_takes_stops_nothing(program, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    common = [str(program), "emulate", "--rate", "100Mbit", "--delay", "5ms", "--record", str(pipe), "--json"]
    command = [*common, "--on", SERVE, *client("stream", "3")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and "the recording ends early, the results are whole" in ended.stderr
    summary = json.loads(ended.stdout)
    assert summary["emulation"]["recording"]["complete"] is False
    said = [line for line in ended.stderr.splitlines() if line.startswith("{")]
    assert json.loads(said[0])["bps"] > 8e7
    command = [*common, "--on", SERVE, "--on", f"A=exec {sys.executable} {PEER} stream 60"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: len(left_over(process.pid)) == 2)
        time.sleep(2)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=10)
        took = time.monotonic() - begin
    os.close(reader)
    # A second, and what a busy machine adds.
    assert took < 3


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
        try:
            # A command that is about to begin holds what the emulation has open.
            wait_for(lambda: all("sleep 1000" in processes_of(one.pid) for one in (killed, alive)))
            killed.send_signal(signal.SIGKILL)
            killed.wait()
            assert len(left_over(killed.pid)) == 2
            cleaned = subprocess.run([str(program), "emulate", "--clean"], capture_output=True, text=True)
            assert cleaned.returncode == 0, cleaned.stderr
            assert left_over(killed.pid) == []
            assert len(left_over(alive.pid)) == 2
        finally:
            alive.send_signal(signal.SIGTERM)
            alive.wait(timeout=10)
    assert left_over(alive.pid) == []
    assert not list(LEASES.glob(f"{killed.pid}.*"))
    devices = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout
    assert "tide0" not in devices


def test_cleaning_touches_nothing_that_is_not_of_an_emulation(program):
    # Where the gateway has its socket, and a namespace whose name begins as ours do.
    gateway, name = Path("/run/tidegate"), "tidegate-mine-1"
    was_there = gateway.exists()
    gateway.mkdir(exist_ok=True)
    foreign = gateway / f"test-{os.getpid()}.lock"
    foreign.write_text("theirs")
    subprocess.run(["ip", "netns", "add", name], check=True)
    sleeping = subprocess.Popen(["ip", "netns", "exec", name, "sleep", "1000"])
    try:
        cleaned = subprocess.run([str(program), "emulate", "--clean"], capture_output=True, text=True)
        assert cleaned.returncode == 0, cleaned.stderr
        assert foreign.read_text() == "theirs" and (NAMESPACES / name).exists() and sleeping.poll() is None
    finally:
        sleeping.kill()
        sleeping.wait()
        subprocess.run(["ip", "netns", "del", name], check=True)
        foreign.unlink()
        if not was_there:
            gateway.rmdir()


# The first `ip netns add` of a boot, while an emulation has namespaces already.
FIRST_NAMESPACE = """
mount -t tmpfs none /run
"$1" emulate --rate 1Mbit --on A='sleep 20' -- sh -c 'until [ -e /run/go ]; do sleep 0.1; done' >/dev/null &
while [ "$(ls /run/netns 2>/dev/null | wc -l)" -lt 2 ]; do sleep 0.05; done
ip netns add mine
touch /run/go
wait $! && ls /run/netns
"""


def test_namespaces_go_although_somebody_made_the_first_of_the_boot_meanwhile(program):
    command = ["unshare", "-m", "sh", "-c", FIRST_NAMESPACE, "sh", str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout) == (0, "mine\n"), ended.stderr


# Deaf to being asked; and what is asked next is another process.
RUNAWAY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while time.monotonic() < {until}:
    if os.fork():
        os._exit(0)
    os.setsid()
"""


def is_running(file: Path) -> bool:
    """Whether a process has `file` on its command line, which may become another while one looks."""
    for _ in range(20):
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(file).encode() in line.read_bytes():
                    return True
            except OSError:
                continue
    return False


def test_no_process_is_left_whatever_it_does(emulate, tmp_path):
    runaway = tmp_path / "runaway.py"
    runaway.write_text(RUNAWAY.format(until=time.monotonic() + 40))
    # A program whose first thread has ended.
    headless = "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(50,)).start(); " + (
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    begin = time.monotonic()
    ended = emulate(
        "--rate", "1Mbit", "--duration", "1s", "--on", "A=exec unshare -n sleep 60",
        "--on", f"B=exec {sys.executable} {runaway}", "--on", f'B=exec {sys.executable} -c "{headless}"',
    )  # fmt: skip
    assert time.monotonic() - begin < 30, ended.stderr
    assert not is_running(runaway)


# More events than any machine carries in real time.
HEAVY = """
duration = "60s"
nodes = { hosts = ["A", "B", "C", "D"], routers = ["R"], real = ["A", "B"] }
defaults.link = { rate = "100Gbit", delay = "1ms" }
links.a = { between = ["A", "R"] }
links.b = { between = ["R", "B"] }
links.c = { between = ["C", "R"] }
links.d = { between = ["R", "D"] }
[flows.simulated]
from = "C"
to = "D"
transport = "udp"
application = { kind = "cbr", rate = "50Gbit", packet = "100B" }
"""


def test_a_machine_that_is_far_behind_ends_when_it_is_asked_to_and_says_how_late_it_was(program, tmp_path):
    scenario = tmp_path / "heavy.toml"
    scenario.write_text(HEAVY)
    command = [str(program), "emulate", str(scenario), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        time.sleep(2.5)
        begin = time.monotonic()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130 and "could not keep up" in err
    # Some milliseconds, and what a busy machine adds.
    assert time.monotonic() - begin < 2
    summary = json.loads(out)
    lag_us = 1e6 * (2 - summary["duration_s"])
    assert summary["emulation"]["lateness"]["events"]["max_us"] > lag_us > 0


def test_a_device_that_is_taken_away_ends_it_with_results(emulate):
    ended = emulate("--rate", "1Mbit", "--json", "--", "sh", "-c", "ip link del tide0; sleep 20")
    assert ended.returncode == 1 and "the device of host A cannot be read" in ended.stderr
    assert json.loads(ended.stdout)["emulation"]["kept_up"] is True


@pytest.mark.parametrize("words", [["--live"], ["--metrics"]])
def test_who_watches_and_does_not_read_holds_up_nothing(program, words):
    if words == ["--metrics"]:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            words = ["--metrics", f"127.0.0.1:{probe.getsockname()[1]}"]
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
    os.write(theirs, bytes(4090))
    command = [str(program), "emulate", "--rate", "1Mbit", "--json", *words, "--on", SERVE]
    command += client("stream", "60")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        wait_for(lambda: len(left_over(process.pid)) == 2)
        time.sleep(2)
        if words != ["--live"]:
            slow = socket.create_connection(("127.0.0.1", int(words[1].split(":")[1])))
            # A request that goes on and on.
            threading.Thread(target=say_slowly, args=(slow,)).start()
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        wait_for(lambda: not left_over(process.pid), 3)
        os.close(ours)
        assert process.wait(timeout=5) == 130
        assert time.monotonic() - begin < 3


def say_slowly(client: socket.socket) -> None:
    with client, contextlib.suppress(OSError):
        for _ in range(12):
            client.send(b"G")
            time.sleep(0.3)


def test_a_command_beside_that_fails_is_told(emulate, tmp_path):
    scenario = tmp_path / "commands.toml"
    scenario.write_text(CHAIN.replace("60s", "1s") + 'commands.client = { host = "A", run = "exit 7" }\n')
    ended = emulate(scenario, "--json", "--on", "B=sleep 20", "--on", "B=true", "--on", "B=kill -9 $$")
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["emulation"]["ended_commands"] == {
        "client": 7, "B=true": 0, "B=kill -9 $$": None,
    }  # fmt: skip
    assert "`client` ended with exit status: 7" in ended.stderr and "`B=kill -9 $$` was ended" in ended.stderr


def test_a_shell_that_is_made_to_end_leaves_the_terminal_as_it_was(program):
    import pty
    import termios

    child, terminal = pty.fork()
    if child == 0:
        environment = {**os.environ, "SHELL": shutil.which("bash") or "/bin/sh"}
        emulation = [str(program), "emulate", "--rate", "1Mbit", "--shell", "A", "--duration", "2s"]
        code = subprocess.run(emulation, env=environment).returncode
        flags, mine = termios.tcgetattr(0)[3], os.tcgetpgrp(0) == os.getpgrp()
        is_usual = all(flags & flag for flag in (termios.ECHO, termios.ICANON)) and mine
        os.write(1, f"AFTER {code} {is_usual}".encode())
        os._exit(0)
    seen = b""
    try:
        while chunk := os.read(terminal, 65536):
            seen += chunk
    except OSError:
        pass  # the other side is closed
    os.waitpid(child, 0)
    os.close(terminal)
    assert b"AFTER 0 True" in seen, seen


def test_a_start_that_fails_leaves_an_older_recording(emulate, tmp_path):
    recording = tmp_path / "older"
    recording.write_text("precious")
    ended = emulate("--rate", "1Mbit", "--congestion-control", "nothing", "--record", recording, "--", "true")
    assert ended.returncode != 0 and recording.read_text() == "precious"


def test_causes_are_told_as_they_are(emulate, program, tmp_path):
    script = tmp_path / "script"
    script.write_text("true")
    for word in (script, tmp_path):
        ended = emulate("--rate", "1Mbit", "--", word)
        assert ended.returncode == 1 and "Permission denied" in ended.stderr and "sudo" not in ended.stderr
    assert emulate("--rate", "1Mbit", "--congestion-control", "", "--", "true").returncode == 2
    drop = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", str(program)]
    ended = subprocess.run(
        [*drop, "emulate", "--rate", "1Mbit", "--", "true"], capture_output=True, text=True
    )
    assert (
        ended.returncode == 1 and "needs the rights of root" in ended.stderr and "EPERM" not in ended.stderr
    )


NAMES = """
duration = "5s"
nodes = { hosts = ["a-b", "n2", "ä", "a_b"], routers = ["r"], real = ["a-b", "n2", "ä", "a_b"] }
defaults.link = { rate = "10Mbit", delay = "1ms" }
links.a = { between = ["a-b", "r"] }
links.b = { between = ["n2", "r"] }
links.c = { between = ["ä", "r"] }
links.d = { between = ["a_b", "r"] }
"""


def test_names_that_clash_are_told_or_told_apart(emulate, tmp_path):
    scenario = tmp_path / "names.toml"
    scenario.write_text(NAMES)
    ended = emulate(scenario, "--json", "--", "true")
    assert ended.returncode == 0, ended.stderr
    assert "TIDEGATE_ADDRESS_a_b is the variable of several" in ended.stderr
    assert len(set(json.loads(ended.stdout)["emulation"]["hosts"])) == 4


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


@pytest.mark.parametrize("offload", ["off", "on"])
def test_routes_and_devices_of_a_killed_run_are_gone_after_cleaning(program, offload):
    before = network_state()
    command = [str(program), "emulate", "--rate", "1Mbit", "--offload", offload, "--on", "A=sleep 1000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        wait_for(lambda: len(left_over(killed.pid)) == 2 and "sleep 1000" in processes_of(killed.pid))
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert "sleep 1000" in processes_of(killed.pid)
        subprocess.run([str(program), "emulate", "--clean"], capture_output=True, check=True)
    assert left_over(killed.pid) == [] and processes_of(killed.pid) == ""
    # Other tests may run beside this one, and their devices pass through here on the way to a namespace.
    wait_for(lambda: network_state() <= before)


def network_state() -> set[str]:
    """Devices, addresses and routes of our own namespace."""
    said = [subprocess.run(["ip", *words], capture_output=True, text=True).stdout for words in
            (["-br", "link"], ["-br", "addr"], ["route", "list", "table", "all"],
             ["-6", "route", "list", "table", "all"])]  # fmt: skip
    return {line for text in said for line in text.splitlines() if "tide" in line}


def processes_of(pid: int) -> str:
    """The command lines of processes that a run started in its hosts."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TIDEGATE_NAMESPACE=tidegate-{pid}-".encode() in environment.read_bytes():
                found.append(environment.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return "\n".join(found)


def test_a_recording_that_was_cut_off_is_recognised_as_such(program, tmp_path):
    recording = tmp_path / "cut.tdg"
    command = [str(program), "emulate", "--rate", "5Mbit", "--record", str(recording),
               "--on", SERVE, *client("stream", "60")]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        wait_for(lambda: recording.exists() and recording.stat().st_size > 100_000)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    subprocess.run([str(program), "emulate", "--clean"], capture_output=True, check=True)
    replayed = subprocess.run([str(program), "replay", str(recording)], capture_output=True, text=True)
    assert replayed.returncode == 1
    assert "ends early: what made it was interrupted" in replayed.stderr


def test_a_full_disk_does_not_stop_the_emulation_and_is_told(emulate, program, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], check=True)
    try:
        recording = small / "run.tdg"
        ended = emulate("--rate", "5Mbit", "--record", recording, "--on", SERVE, *client("stream", "3"))
        assert ended.returncode == 1
        assert "run.tdg cannot be written" in ended.stderr and "space" in ended.stderr.lower()
        # The connection went on to its end.
        said = [line for line in ended.stdout.splitlines() if line.startswith("{")]
        assert json.loads(said[0])["bps"] > 3e6
        assert "packets handed over" in ended.stdout, "the results are there"
        replayed = subprocess.run([str(program), "replay", str(recording)], capture_output=True, text=True)
        assert replayed.returncode == 1 and "ends early" in replayed.stderr
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.parametrize("control", ["cubic", "reno"])
def test_offload_carries_the_same_traffic_in_packets_of_the_same_size(emulate, program, control, tmp_path):
    recording = tmp_path / "run.tdg"
    ended = emulate(
        "--rate", "50Mbit", "--delay", "5ms", "--queue", '{ kind = "droptail", limit = "60p" }',
        "--offload", "on", "--record", recording, "--json", "--on", SERVE, *client("stream", "4", control),
    )  # fmt: skip
    summary, said = results(ended)
    assert 44e6 <= said["bps"] <= 50e6
    forward = summary["links"]["link"]
    # What mechanisms saw were packets: 1500 bytes at most, and each dropped alone.
    assert forward["queue_bytes"]["max"] <= 61 * 1500 and forward["queue_packets"]["max"] <= 61
    assert forward["dropped_packets"] > 0
    replayed = subprocess.run([str(program), "replay", str(recording)], capture_output=True, text=True)
    assert replayed.returncode == 0, replayed.stderr


def test_offload_leaves_right_checksums_on_datagrams_and_ipv6(emulate):
    for what in ("round_trips", "round_trips6"):
        link = ["--rate", "10Mbit", "--delay", "5ms", "--offload", "on"]
        ended = emulate(*link, "--json", "--on", SERVE, *client(what, "20"))
        _, said = results(ended)
        assert len(said["round_trips_ms"]) == 20 and min(said["round_trips_ms"]) >= 10


def test_a_trace_drives_the_link(emulate, tmp_path):
    trace = tmp_path / "cell.trace"
    # 1500 bytes every 3 ms: 4 Mbit/s.
    trace.write_text("3\n")
    ended = emulate("--trace", trace, "--delay", "10ms", "--json", "--on", SERVE, *client("stream", "5"))
    summary, said = results(ended)
    assert 3.5e6 <= said["bps"] <= 4e6
    trace.write_text("3\nthree\n")
    refused = emulate("--trace", trace)
    assert refused.returncode == 3 and "cell.trace, line 2" in refused.stderr


def test_the_live_view_becomes_lines_without_a_terminal(emulate):
    ended = emulate("--rate", "5Mbit", "--live", "--json", "--on", SERVE, *client("stream", "4"))
    assert ended.returncode == 0
    lines = [line for line in ended.stderr.splitlines() if "link link A > B: " in line]
    assert len(lines) >= 3 and "\x1b" not in ended.stderr
    assert any(float(line.split(": ")[1].split()[0]) > 4 for line in lines)
    assert any("flow tcp 10.0.0.1:" in line for line in ended.stderr.splitlines())


@pytest.mark.parametrize("ending", [None, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_the_live_view_gives_the_terminal_back(program, ending):
    import pty

    ours, theirs = pty.openpty()
    command = [str(program), "emulate", "--rate", "5Mbit", "--live", "--duration", "60s" if ending else "2s",
               "--on", "A=echo from the host; sleep 100"]  # fmt: skip
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        while b"queue p" not in seen:
            seen += os.read(ours, 65536)
        assert b"\x1b[?1049h" in seen and b"from the host" not in seen
        if ending is not None:
            process.send_signal(ending)
        try:
            while chunk := os.read(ours, 65536):
                seen += chunk
        except OSError:
            pass  # the other side is closed
        assert process.wait(timeout=10) == (130 if ending else 0)
    os.close(ours)
    after = seen[seen.rindex(b"\x1b[?1049l") :]
    assert seen.count(b"\x1b[?1049h") == 1 and b"\x1b[?25h" in seen
    assert b"from the host" in after and b"\x1b[?25l" not in after


def test_metrics_are_offered_while_the_emulation_runs(program):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [str(program), "emulate", "--rate", "5Mbit", "--metrics", f"127.0.0.1:{port}", "--json",
               "--on", SERVE, *client("stream", "5")]  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **quiet) as process:
        page = ""

        def has_traffic() -> bool:
            nonlocal page
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as response:
                    page = response.read().decode()
            except OSError:
                return False
            return value('tidegate_link_delivered_bytes_total{link="link",direction="forward"}') > 500_000

        def value(name: str) -> float:
            lines = [line for line in page.splitlines() if line.startswith(name)]
            return float(lines[0].rsplit(" ", 1)[1]) if lines else 0.0

        wait_for(has_traffic)
        assert value('tidegate_link_rate_bytes_per_second{link="link",direction="forward"}') == 625_000
        assert value('tidegate_flow_received_bytes_total{flow="tcp 10.0.0.1:') > 0
        assert "# TYPE tidegate_link_dropped_packets counter" in page and page.endswith("# EOF\n")
        # A client that says nothing holds up neither the emulation nor the next one.
        address = ("127.0.0.1", port)
        with socket.create_connection(address), socket.create_connection(address) as other:
            other.settimeout(10)
            other.sendall(b"GET /nothing HTTP/1.1\r\n\r\n")
            # The answer may come in pieces.
            with other.makefile("rb") as answer:
                assert b"404" in answer.readline()
        assert process.wait(timeout=30) == 0


def test_a_taken_address_for_metrics_is_one_sentence(emulate):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = emulate("--rate", "1Mbit", "--duration", "1s", "--metrics", address)
    assert ended.returncode == 1 and len(ended.stderr.splitlines()) == 1 and "metrics" in ended.stderr


def test_a_failing_command_is_told(emulate):
    ended = emulate("--rate", "1Mbit", "--", "sh", "-c", "exit 3")
    assert ended.returncode == 1 and "3" in ended.stderr


# Of a program and of a module of Python the standard library starts others in different ways.
MODULE = [sys.executable, "-m", "tidegate"]


@pytest.mark.parametrize("is_module", [False, True])
def test_a_command_holds_no_signals_and_a_job_ends_when_it_is_asked_to(program, is_module):
    show = "grep SigBlk /proc/self/status; exec timeout 0.2 sleep 20"
    words = MODULE if is_module else [str(program)]
    command = [*words, "emulate", "--rate", "1Mbit", "--live", "--duration", "15s", "--", "sh", "-c", show]
    ended = subprocess.run(command, capture_output=True, text=True, env=without_program())
    blocked = [line.split()[1] for line in ended.stdout.splitlines() if line.startswith("SigBlk")]
    assert [int(mask, 16) for mask in blocked] == [0]
    assert "exit status: 124" in ended.stderr, "`timeout` hears when its time is over"


def test_children_are_heard_of_although_the_caller_ignores_them(program):
    command = [str(program), "emulate", "--rate", "1Mbit", "--duration", "20s", "--", "sh", "-c", "exit 3"]
    ignore = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); " + (
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", ignore, *command], capture_output=True, text=True, timeout=10
    )
    assert ended.returncode == 1 and "exit status: 3" in ended.stderr


@pytest.mark.parametrize("is_module", [False, True])
def test_control_c_is_an_interruption_although_the_command_hears_of_it_too(program, is_module):
    import pty

    words = MODULE if is_module else [str(program)]
    child, terminal = pty.fork()
    if child == 0:
        words = [*words, "emulate", "--rate", "1Mbit", "--", "sleep", "20"]
        os.execvpe(words[0], words, without_program())
    wait_for(lambda: "sleep 20" in processes_of(child))
    os.write(terminal, b"\x03")
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass  # the other side is closed
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
    os.close(terminal)


def without_program() -> dict[str, str]:
    """The environment, in which the module is itself and not the program that is tested."""
    return {name: value for name, value in os.environ.items() if name != "TIDEGATE_EMULATE"}


def wait_for(condition, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


# The wall clock is an hour ahead in one half second and an hour behind in the next. The monotonic one is not.
JUMPING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, out);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        struct timespec now;
        real(CLOCK_MONOTONIC, &now);
        out->tv_sec += now.tv_nsec < 500000000 ? 3600 : -3600;
    }
    return code;
}
int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec, out->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"""


def test_a_wall_clock_that_jumps_changes_nothing(program, tmp_path):
    if not shutil.which("cc"):
        pytest.skip("skipped: there is no C compiler")
    source, library = tmp_path / "jumping.c", tmp_path / "jumping.so"
    source.write_text(JUMPING, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    environment = os.environ | {"LD_PRELOAD": str(library)}
    shows = [sys.executable, "-c", "import time; print(time.time())"]
    now = float(subprocess.run(shows, env=environment, capture_output=True, text=True, check=True).stdout)
    assert abs(now - time.time()) > 3000, "it does jump"
    recording = tmp_path / "recording"
    command = [
        str(program), "emulate", "--rate", "10Mbit", "--delay", "20ms", "--json", "--record", str(recording),
        "--on", SERVE, *client("round_trips", "100"),
    ]  # fmt: skip
    summary, said = results(
        subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    )
    assert len(said["round_trips_ms"]) == 100
    assert 40 <= min(said["round_trips_ms"]) <= 42
    assert summary["emulation"]["lateness"]["deliveries"]["max_us"] < 3e6
    replayed = subprocess.run([str(program), "replay", str(recording)], capture_output=True, text=True)
    assert replayed.returncode == 0 and "identical" in replayed.stdout


def test_a_process_that_was_stopped_goes_on_late_and_says_so(program, tmp_path):
    recording = tmp_path / "recording"
    command = [
        str(program), "emulate", "--rate", "10Mbit", "--delay", "20ms", "--json", "--record", str(recording),
        "--on", SERVE, *client("stream", "7", "reno"),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        time.sleep(3)
        running.send_signal(signal.SIGSTOP)
        time.sleep(2)
        running.send_signal(signal.SIGCONT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert "panicked" not in err and "could not keep up" not in out
    summary = json.loads(out)
    emulation = summary["emulation"]
    # What was due in the two seconds ran behind them, each event at its own virtual instant.
    assert 1.9e6 < emulation["lateness"]["events"]["max_us"] < 4e6
    forward = summary["links"]["link"]
    gone = emulation["delivered_packets"] + forward["dropped_packets"] + forward["reverse"]["dropped_packets"]
    assert 0 <= emulation["arrived_packets"] - gone < 200, "what came in went out, or is under way"
    assert left_over(running.pid) == []
    replayed = subprocess.run([str(program), "replay", str(recording)], capture_output=True, text=True)
    assert replayed.returncode == 0 and "identical" in replayed.stdout
