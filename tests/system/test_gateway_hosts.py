"""What hosts of two sites meet: sizes, pieces, outages, files that change; by the real daemon."""

import json
import subprocess
import sys
import time

import pytest

from tidegate import two_sites
from tidegate.two_sites import INNER, OUTER, PORT, TwoSites

# At a fixed rate nothing is found out about the path: it takes 1280 bytes.
FIXED = '{ floor = "1Mbit", max = "100Mbit", fallback = "20Mbit" }\ncontrol = "none"'
PATH = '{ floor = "1Mbit", max = "20Mbit", fallback = "8Mbit" }'
# Says what comes back of datagrams of these sizes, and how large the kernel takes the path for.
ASKS = """
import json, socket, sys
to, mode, sizes = sys.argv[1], int(sys.argv[2]), [int(size) for size in sys.argv[3:]]
asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asks.setsockopt(socket.IPPROTO_IP, 10, mode)  # IP_MTU_DISCOVER
asks.settimeout(0.5)
asks.connect((to, 7777))
got = {}
for size in sizes:
    try:
        asks.send(bytes(size))
        got[size] = len(asks.recv(65536))
    except OSError as why:
        got[size] = type(why).__name__
print(json.dumps({"got": got, "mtu": asks.getsockopt(socket.IPPROTO_IP, 14)}))
"""
# Answers with one byte for each that came.
COUNTS = """
import socket
counts = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
counts.bind(("0.0.0.0", 7777))
print("ready", flush=True)
while True:
    heard, who = counts.recvfrom(65536)
    counts.sendto(bytes(min(len(heard), 1000)), who)
"""
DONT, DO = 0, 2
# So many datagrams without a byte, as fast as it can.
EMPTY = """
import socket, sys, time
sends = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sends.connect((sys.argv[1], int(sys.argv[2])))
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    for _ in range(100):
        sends.send(b"")
"""


def up(sites: TwoSites, state: str) -> None:
    for site in ("a", "b"):
        sites.start(site)
    sites.wait_for(state)


@pytest.fixture(scope="module")
def fixed(gateway):
    with TwoSites(gateway) as made:
        made.configure(FIXED)
        up(made, "fixed")
        made.beside("b", sys.executable, "-c", COUNTS)
        yield made


def asked(sites: TwoSites, mode: int, *sizes: int) -> dict:
    command = [sys.executable, "-c", ASKS, INNER["b"], str(mode), *map(str, sizes)]
    said = subprocess.run(sites.within("a", *command), capture_output=True, text=True, check=True, timeout=20)
    return json.loads(said.stdout)


def test_a_host_learns_what_the_path_takes(fixed):
    heard = asked(fixed, DO, 1200, 1380, 1252, 1253)
    # The first that is too large is lost, and says so: from then on the kernel refuses what is larger.
    assert heard["mtu"] == 1280, heard
    assert heard["got"]["1200"] == heard["got"]["1252"] == 1000, heard
    assert heard["got"]["1253"] == "OSError", heard


def test_what_may_be_cut_arrives_in_pieces(fixed):
    before = fixed.status("b")["received_packets"]
    heard = asked(fixed, DONT, 1252, 1253, 1380, 3000, 20_000)
    assert set(heard["got"].values()) == {1000}, heard
    time.sleep(0.5)  # looks are left four times a second
    # Pieces of the kernel's own, cut for the device, are cut once more.
    assert fixed.status("b")["received_packets"] - before >= 5 + 3 + 14


def test_datagrams_without_a_byte_keep_nobody_from_anything(fixed):
    command = [sys.executable, "-c", EMPTY, OUTER["b"], str(PORT), "2.5"]
    floods = [subprocess.Popen(fixed.within("a", *command)) for _ in range(2)]
    time.sleep(0.5)
    before = json.loads(fixed.control("b", "status", "--json").stdout)
    time.sleep(1)
    now = json.loads(fixed.control("b", "status", "--json").stdout)
    for flood in floods:
        assert flood.wait(timeout=20) == 0
    # It goes on looking, and counts them.
    assert now["uptime_s"] - before["uptime_s"] > 0.5
    assert now["stray"]["refused"]["malformed"] > before["stray"]["refused"]["malformed"] + 1000
    assert asked(fixed, DONT, 100)["got"] == {"100": 100}


def test_another_endpoint_in_the_file_counts_at_once(gateway):
    with TwoSites(gateway) as sites:
        sites.configure(PATH)
        other = OUTER["b"].rsplit(".", 1)[0] + ".99"
        up(sites, "controlled")
        # From where it is heard now it is heard no more, or that would count.
        sites.daemons["b"].kill()
        sites.daemons["b"].wait()
        file = sites.file("a")
        file.write_text(file.read_text().replace(f'"{OUTER["b"]}:', f'"{other}:'))
        assert sites.control("a", "reload").returncode == 0
        assert sites.status("a")["endpoint"] == f"{other}:{PORT}"


def test_a_resolver_that_does_not_answer_keeps_nobody_waiting(gateway, tmp_path):
    """Names are asked of an address where nobody answers."""
    with TwoSites(gateway) as sites:
        sites.configure(PATH)
        silent = tmp_path / "resolv.conf"
        silent.write_text("nameserver 192.0.2.200\noptions timeout:5 attempts:2\n")
        file = sites.file("a")
        text = file.read_text()
        file.write_text(text.replace(f'"{OUTER["b"]}:', '"b.example.net:'))
        bind = f'mount --bind {silent} /etc/resolv.conf && exec "$@"'
        hides = ["unshare", "--mount", "sh", "-c", bind, "sh"]
        command = sites.within("a", *hides, str(gateway), "run", str(file))
        began = time.monotonic()
        with (sites.folder / "a.log").open("ab") as log:
            sites.daemons["a"] = subprocess.Popen(command, stdout=log, stderr=log)
        while "listens at" not in sites.log("a"):
            assert time.monotonic() - began < 4, sites.log("a")
            time.sleep(0.05)
        # The other end knows where this one is.
        sites.start("b")
        sites.wait_for("controlled")
        begun = time.monotonic()
        assert sites.control("a", "reload").returncode == 0
        assert time.monotonic() - begun < 2, "it is the same name, and nobody asks"
        # Of another one nothing is known yet: it is taken, and its site stays where it is heard.
        sites.wait_for("controlled")
        at = sites.status("a")["endpoint"]
        file.write_text(file.read_text().replace("b.example.net", "c.example.net"))
        ended = sites.control("a", "reload")
        assert ended.returncode == 0, ended.stderr
        assert f"no resolver has said yet where c.example.net:{PORT} is" in sites.log("a")
        assert sites.status("a")["endpoint"] == at
        sites.echo()
        # Nothing is known of it as long as that is so.
        sites.wait_for("controlled")
        assert sites.control("a", "reload").returncode == 0
        assert sites.log("a").count("no resolver has said yet") == 2
        # One that cannot be reached at all says so at once, which tells of the name as little.
        silent.write_text("nameserver 127.0.0.66\n")
        sites.wait_for("controlled")
        file.write_text(file.read_text().replace("c.example.net", "d.example.net"))
        begun = time.monotonic()
        ended = sites.control("a", "reload")
        assert ended.returncode == 0, ended.stderr
        assert time.monotonic() - begun < 2
        assert f"no resolver has said yet where d.example.net:{PORT} is" in sites.log("a")
        assert sites.status("a")["endpoint"] == at
        begun = time.monotonic()
        sites.daemons["a"].terminate()
        assert sites.daemons["a"].wait(timeout=10) == 0
        assert time.monotonic() - begun < 4


def test_after_an_outage_segments_are_as_large_as_before(gateway):
    with TwoSites(gateway) as sites:
        sites.configure(PATH)
        up(sites, "controlled")
        sites.echo()
        until = time.monotonic() + 20
        while sites.status("a")["mtu"] < 1420:
            assert time.monotonic() < until
            time.sleep(0.2)
        middle = sites.namespace("middle")
        # Long enough for a probe of the size, which goes every 15 s, to be lost as often as it takes.
        subprocess.run(["ip", "-n", middle, "link", "set", "dev", "to-b", "down"], check=True)
        time.sleep(19)
        subprocess.run(["ip", "-n", middle, "link", "set", "dev", "to-b", "up"], check=True)
        # What was not answered is no reason to take the path for smaller, also in the moment it is back.
        until = time.monotonic() + 5
        while time.monotonic() < until:
            assert sites.status("a")["mtu"] == 1420
            time.sleep(0.1)
        sites.wait_for("controlled")
        answers = two_sites.told(sites.probe(INNER["b"], 20, 0.05))
        assert any(took is not None for _, took in answers)


def test_a_name_is_looked_up_while_it_runs(gateway):
    with TwoSites(gateway) as sites:
        sites.configure(PATH)
        file = sites.file("a")
        file.write_text(file.read_text().replace(f'"{OUTER["b"]}:', '"localhost:'))
        sites.start("a")
        until = time.monotonic() + 10
        while "site b is looked for at 127.0.0.1:" not in sites.log("a"):
            assert time.monotonic() < until, sites.log("a")
            time.sleep(0.05)
