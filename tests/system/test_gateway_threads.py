"""`tidegate-gateway` with two packet threads: four sites around it, two on each."""

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from keeper import Keeper
from star import HUB, HUB_INNER, PORT, SPOKES, Star

# 20,000 datagrams of all kinds, with names of sessions of all threads, that say nothing.
GARBAGE = """
import os, socket, sys
sends = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(20_000):
    kind, size = number % 6, (148, 92, 64, 32 + 16 * (number % 5))[number % 4]
    datagram = bytes([kind, 0, 0, 0, 0, number % 256, 0, 0]) + os.urandom(size - 8)
    try:
        sends.sendto(datagram, (sys.argv[1], int(sys.argv[2])))
    except OSError:
        pass
"""
# Looks are left four times a second.
LOOK_S = 0.6


@pytest.fixture(scope="module")
def star(gateway):
    with Star(gateway) as made:
        for site in (HUB, *SPOKES):
            made.start(site)
            made.host(site)
        made.wait()
        yield made


def between(star: Star) -> tuple[int, int]:
    """What threads of the hub have handed over, and what was lost on the way."""
    time.sleep(LOOK_S)
    wire = star.status()["wire"]
    return wire["handed_over"], wire["lost_between"]


def replays(gateway: Path, file: Path) -> dict[str, Any]:
    """What `tidegate-gateway replay` says of `file`, which must be the same."""
    command = [str(gateway), "replay", "--json", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    assert found["identical"]
    return found


def everybody(star: Star) -> list[str]:
    """Addresses of the hosts around."""
    return [star.inner(site) for site in SPOKES]


def test_all_sites_are_shown_with_their_threads_and_one_thread_is_alive_as_the_other(star):
    sites = star.sites()
    assert list(sites) == list(SPOKES)
    assert [one["thread"] for one in sites.values()] == [0, 1, 0, 1]
    log = star.log(HUB)
    assert "thread 0 has s0, s2" in log
    assert "thread 1 has s1, s3" in log
    assert "does not give datagrams to their threads" not in log, "this kernel steers"
    tasks = f"/proc/{star.daemons[HUB].pid}/task"
    names = subprocess.run(f"cat {tasks}/*/comm", shell=True, capture_output=True, text=True).stdout.split()
    assert {"packets", "packets-1"} <= set(names)
    # Each site has its part of the buffers, as it has with one thread.
    assert {one["buffers_max"] for one in sites.values()} == {16384 // 4}


def test_connections_come_to_their_thread_and_nothing_is_handed_over_any_more(star):
    talk = star.talk(HUB, everybody(star))
    assert talk.say(1000)
    begun, _ = between(star)
    before = star.sites()
    for _ in range(4):
        assert talk.say(1_000_000)
    now, lost = between(star)
    after = star.sites()
    for site in SPOKES:
        for key in ("sent_packets", "received_packets"):
            assert after[site][key] - before[site][key] > 2000, (site, key)
    # The kernel knows a connection by what was written of it, until that pauses for seconds.
    assert now - begun < 10, "packets of connections that go on are read where their site is"
    assert lost == 0
    # From outside it is the name of the session that counts.
    inwards = star.talk("s1", [HUB_INNER])
    assert inwards.say(1_000_000)


def test_what_goes_one_way_arrives_whichever_thread_reads_it(star):
    handed, _ = between(star)
    before = {site: star.heard(site) for site in SPOKES}
    star.shout(HUB, 16, 20, everybody(star))
    assert {site: star.heard(site) - before[site] for site in SPOKES} == dict.fromkeys(SPOKES, 320)
    now, lost = between(star)
    # Of 16 ports to each of four sites half are read by the other thread, more or less.
    assert 64 * 20 * 0.2 < now - handed < 64 * 20 * 0.8
    assert lost == 0
    # What comes from outside one way is steered by the kernel, and written by its own thread.
    here = star.heard(HUB)
    for site in SPOKES:
        star.shout(site, 4, 20, [HUB_INNER])
    assert star.heard(HUB) - here == 4 * 80
    again, _ = between(star)
    assert again - now < 10


def test_a_second_daemon_gets_no_queue_of_the_device_and_no_socket_at_the_port(star):
    talk = star.talk(HUB, everybody(star))
    text = star.file(HUB).read_text().replace('hub.sock"', 'beside.sock"') + '[status]\nlisten = ""\n'
    beside = star.folder / "beside.toml"
    for threads in (1, 2):
        for more, said in (
            ("", "gateway.device"),
            ('listen = "[::]:9999"\n', "gateway.device"),
            ('device = "tidegate1"\n', "ss -lunp"),
        ):
            beside.write_text(text.replace("threads = 2\n", f"threads = {threads}\n{more}"))
            command = star.within(HUB, str(star.program), "run", str(beside))
            ended = subprocess.run(command, capture_output=True, text=True, timeout=20)
            assert ended.returncode == 1
            assert said in ended.stderr, ended.stderr
            assert talk.say(10_000)
    assert between(star)[1] == 0


def test_garbage_is_refused_and_keeps_nobody_from_others(star):
    talk = star.talk(HUB, everybody(star))
    assert talk.say(1000)
    handed, _ = between(star)
    before = sum(star.status()["stray"]["refused"].values())
    flood = subprocess.Popen(star.within("s0", sys.executable, "-c", GARBAGE, star.outer("s0", 1), str(PORT)))
    for _ in range(5):
        assert talk.say(100_000)
    assert flood.wait(timeout=60) == 0
    now, lost = between(star)
    # Nothing of it has a session or a key. What the sockets could not hold was not seen at all.
    status = star.status()
    refused = sum(status["stray"]["refused"].values()) - before
    assert refused + sum(sum(one["refused"].values()) for one in status["sites"]) > 10_000
    assert lost == 0
    # The kernel gives all that has no session to the first thread, but for what it joins.
    assert now - handed < 1000
    assert {one["state"] for one in status["sites"]} == {"controlled"}


def test_packets_for_nobody_are_counted_where_they_are_read(star):
    before = star.status()["stray"]["unrouted_packets"]
    command = ["ip", "-n", star.namespace(HUB), "route", "add", "10.99.0.0/16", "dev", "tidegate0"]
    subprocess.run(command, check=True)
    star.shout(HUB, 8, 5, ["10.99.0.1"])
    time.sleep(LOOK_S)
    assert star.status()["stray"]["unrouted_packets"] == before + 40


def test_who_is_killed_comes_back_with_all_sites(star):
    for victim in (HUB, "s1"):
        star.kill(victim)
        star.start(victim)
        star.wait()
        talk = star.talk(HUB, everybody(star))
        assert talk.say(10_000)
    assert between(star)[1] == 0


def test_a_reload_changes_what_it_may_and_sessions_go_on(star):
    talk = star.talk(HUB, everybody(star))
    star.configure_hub(3)
    refused = star.control(HUB, "reload")
    assert refused.returncode == 1
    assert "gateway.threads" in refused.stderr
    star.configure_hub(2, '{ floor = "1Mbit", max = "20Mbit", fallback = "10Mbit" }')
    assert star.control(HUB, "reload").returncode == 0
    assert talk.say(100_000)
    # A mechanism that begins behind these has a link once something is sent over it.
    star.wait()
    assert talk.say(1000)
    time.sleep(LOOK_S)
    sites = star.sites()
    assert [one["thread"] for one in sites.values()] == [0, 1, 0, 1]
    rates = [link["rate_bps"] for one in sites.values() for link in one["links"]]
    assert rates
    assert max(rates) <= 20_000_000
    star.configure_hub(2)
    assert star.control(HUB, "reload").returncode == 0


@contextlib.contextmanager
def held(process: int, name: str) -> Iterator[None]:
    """One thread of `process`, by its name, does nothing meanwhile."""
    attach, detach, all_kinds = 16, 17, 0x40000000
    tasks = Path(f"/proc/{process}/task")
    (thread,) = (int(one.name) for one in tasks.iterdir() if (one / "comm").read_text().strip() == name)
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    trace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    trace.restype = ctypes.c_long
    assert trace(attach, thread, None, None) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(thread, all_kinds)
    try:
        yield
    finally:
        assert trace(detach, thread, None, None) == 0, os.strerror(ctypes.get_errno())


def test_a_reload_that_one_thread_does_not_hear_of_changes_none(star):
    star.wait()
    talk = star.talk(HUB, everybody(star))

    def rates():
        # Without traffic for a while nothing is known of links.
        assert talk.say(1000)
        star.wait()
        time.sleep(LOOK_S)
        return [max(link["rate_bps"] for link in one["links"]) for one in star.sites().values()]

    star.configure_hub(2, '{ floor = "1Mbit", max = "2Mbit", fallback = "1Mbit" }')
    with held(star.daemons[HUB].pid, "packets-1"):
        refused = star.control(HUB, "reload")
    assert refused.returncode == 1
    assert "packet thread 1 does not answer" in refused.stderr
    assert "not reloaded, and nothing has changed" in star.log(HUB)
    # Also not when the thread goes on, and finds what it was asked.
    assert min(rates()) > 2_000_000
    assert star.control(HUB, "reload").returncode == 0
    assert max(rates()) <= 2_000_000
    star.configure_hub(2)
    assert star.control(HUB, "reload").returncode == 0
    assert talk.say(1000)


def test_a_site_that_comes_to_another_group_moves_and_begins_anew(star):
    star.wait()
    stays = star.talk(HUB, [star.inner(site) for site in ("s0", "s2", "s3")])
    # By way of s0 nobody would find s1, for s0 passes nothing on; where it is counts.
    star.configure_hub(2, more={"s1": 'via = "s0"\n'})
    assert star.control(HUB, "reload").returncode == 0
    sites = star.sites()
    assert [one["thread"] for one in sites.values()] == [0, 0, 0, 1]
    assert "site s1 is on thread 0 now" in star.log(HUB)
    assert stays.say(100_000)
    # Apart again it stays there, asks anew, and what its end sends finds it by the new name of its session.
    star.configure_hub(2)
    assert star.control(HUB, "reload").returncode == 0
    star.wait()
    assert [one["thread"] for one in star.sites().values()] == [0, 0, 0, 1]
    assert star.talk("s1", [HUB_INNER]).say(100_000)
    begun, _ = between(star)
    talk = star.talk(HUB, everybody(star))
    assert talk.say(1000)
    assert talk.say(1_000_000)
    # Names of sessions say thread 0 now: nothing that comes from s1 is handed over.
    assert between(star)[0] - begun < 200


def test_the_thread_of_a_site_is_recorded_and_replays(star, gateway):
    file = star.folder / "s3.tgr"
    unnamed = star.control(HUB, "record", "-o", str(file), "--seconds", "1")
    assert unnamed.returncode == 1
    assert "--site NAME" in unnamed.stderr
    assert not file.exists()
    wrong = star.control(HUB, "record", "-o", str(file), "--site", "s9")
    assert "there is no site `s9`" in wrong.stderr
    thread = star.sites()["s3"]["thread"]
    beside = [name for name, one in star.sites().items() if one["thread"] == thread]
    talk = star.talk(HUB, everybody(star))
    command = [str(star.folder / "tidegatectl"), "--socket", str(star.folder / "hub.sock"), "record"]
    recorder = subprocess.Popen(
        [*command, "-o", str(file), "--site", "s3", "--seconds", "4"], text=True, stdout=subprocess.PIPE
    )
    time.sleep(0.5)
    assert talk.say(200_000)
    # A reload meanwhile is recorded too.
    assert star.control(HUB, "reload").returncode == 0
    assert talk.say(200_000)
    said, _ = recorder.communicate(timeout=30)
    assert recorder.returncode == 0
    assert f"records {', '.join(beside)}\n" in said
    found = replays(gateway, file)
    assert found["cores"] == 2
    assert found["verdicts"] > 500
    # It says nothing of who is elsewhere.
    assert star.inner("s3").encode() in file.read_bytes().replace(b".0.0/16", b".0.1/16")
    assert star.keys[HUB].encode() not in file.read_bytes()
    for site in SPOKES:
        assert (star.keys[site].encode() in file.read_bytes()) == (site in beside), site


def test_a_recording_ends_where_its_thread_has_no_site_any_more(star, gateway):
    star.wait()
    file = star.folder / "left.tgr"
    command = [str(star.folder / "tidegatectl"), "--socket", str(star.folder / "hub.sock"), "record"]
    recorder = subprocess.Popen(
        [*command, "-o", str(file), "--site", "s3", "--seconds", "60"], text=True, stdout=subprocess.PIPE
    )
    time.sleep(0.5)
    assert star.sites()["s3"]["thread"] == 1
    star.configure_hub(2, more={site: 'via = "s0"\n' for site in SPOKES[1:]})
    assert star.control(HUB, "reload").returncode == 0
    assert {one["thread"] for one in star.sites().values()} == {0}
    said, _ = recorder.communicate(timeout=20)
    assert recorder.returncode == 0, said
    replays(gateway, file)
    # All are on one thread now, and nobody has to be named.
    every = star.folder / "every.tgr"
    assert star.control(HUB, "record", "-o", str(every), "--seconds", "1").returncode == 0
    assert replays(gateway, every)["cores"] == 1


def test_a_daemon_records_a_thread_from_its_start(star, gateway):
    star.configure_hub(2)
    file = star.folder / "start.tgr"
    star.kill(HUB)
    star.start(HUB, ["--record", str(file)])
    assert star.daemons[HUB].wait(timeout=20) == 1
    assert "--site NAME" in star.log(HUB)
    star.start(HUB, ["--record", str(file), "--site", "s1"])
    star.wait()
    assert star.talk(HUB, everybody(star)).say(100_000)
    star.daemons[HUB].terminate()
    assert star.daemons[HUB].wait(timeout=20) == 0
    assert replays(gateway, file)["verdicts"] > 200
    star.start(HUB)
    star.wait()


def test_another_number_of_threads_gives_up_what_does_not_fit(star):
    keeper = Keeper(star.folder)
    keeper.hear_for_ever()

    def device() -> int:
        command = ["ip", "-n", star.namespace(HUB), "-j", "link", "show", "tidegate0"]
        found: int = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)[0]["ifindex"]
        return found

    def start(threads: int) -> None:
        star.kill(HUB)
        star.configure_hub(threads)
        run = [str(star.program), "run", str(star.file(HUB))]
        command = keeper.command(*run) if keeper.kept else run
        star.start(HUB, command=command, **keeper.options())
        star.wait()
        assert star.talk(HUB, everybody(star)).say(10_000)

    try:
        seen = []
        for threads in (2, 2, 1, 1, 5):
            start(threads)
            time.sleep(0.2)
            names = sorted(name for name, _ in keeper.kept)
            # IPv4 and IPv6.
            assert len(names) == 3 * threads, names
            seen.append((threads, device()))
        assert seen[0] == seen[1], "the same threads have the same device"
        assert seen[2] == seen[3]
        assert len({index for _, index in seen}) == 3, seen
        # One of them has no site, and hands over what it reads.
        assert [one["thread"] for one in star.sites().values()] == [0, 1, 2, 3]
    finally:
        star.kill(HUB)
        keeper.close()
