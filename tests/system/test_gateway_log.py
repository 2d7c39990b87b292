"""What the log of a gateway says where a site, a path, a route or a file is not as it should be."""

import json
import subprocess
import sys
import time

import pytest

from tidegate import two_sites
from tidegate.two_sites import INNER, OUTER, PORT, TwoSites

RATES = '{ floor = "1Mbit", max = "20Mbit", fallback = "8Mbit" }'
BEHIND = two_sites.network_of(INNER["b"], 24)
# Browsers that open connections to the status page and say nothing, and one that asks for metrics: how many
# of the others were left before it had its answer.
BROWSERS = """
import json, socket, sys
idle = [socket.create_connection(("127.0.0.1", 9586)) for _ in range(int(sys.argv[1]))]
asks = socket.create_connection(("127.0.0.1", 9586))
asks.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
heard = b""
while more := asks.recv(65536):
    heard += more
left = 0
for one in idle:
    one.setblocking(False)
    try:
        left += one.recv(1) == b""
    except BlockingIOError:
        pass
print(json.dumps({"left": left, "heard": heard.startswith(b"HTTP/1.1 200 OK")}))
"""


@pytest.fixture
def sites(gateway):
    with TwoSites(gateway) as made:
        made.configure(RATES)
        yield made


def begin(sites: TwoSites) -> None:
    for site in ("a", "b"):
        sites.start(site)


def hear(sites: TwoSites, said: str, seconds: float = 40) -> None:
    limit = time.monotonic() + seconds
    while said not in sites.log("a"):
        assert time.monotonic() < limit, sites.log("a")
        time.sleep(0.1)


def ip(sites: TwoSites, site: str, *command: str) -> None:
    subprocess.run(["ip", "-n", sites.namespace(site), *command], check=True)


def test_a_path_that_takes_less_is_noticed_while_it_is_in_use_and_told(sites):
    begin(sites)
    sites.wait_for("controlled")
    sites.echo()
    # Of 1300 bytes and more, for as long as it takes.
    sites.others.append(sites.probe(INNER["b"], 2000, 0.02, "x" * 1300))
    limit = time.monotonic() + 20
    while sites.status("a").get("mtu", 0) < 1420:
        assert time.monotonic() < limit, sites.log("a")
        time.sleep(0.1)
    # 60 bytes are the tunnel's.
    ip(sites, "middle", "link", "set", "dev", "to-b", "mtu", str(1344 + 60))
    # It is 1280 for two seconds, which may be too short to be told.
    hear(sites, "bytes inside, and no more of 1420")
    hear(sites, "the path to site b takes packets of 1344 bytes inside")


def test_a_path_that_takes_not_even_the_least_is_told(sites):
    # 1280 bytes and what is the tunnel's do not go through.
    ip(sites, "middle", "link", "set", "dev", "to-b", "mtu", "1300")
    begin(sites)
    hear(sites, "the path to site b does not even take packets of 1280 bytes inside")
    assert sites.status("a")["mtu_arrives"] is False
    assert "takes packets of" not in sites.log("a").replace("not even take packets of", "")
    ip(sites, "middle", "link", "set", "dev", "to-b", "mtu", "1500")
    hear(sites, "the path to site b takes packets of 1420 bytes inside")


def test_who_does_not_answer_is_told_with_what_it_may_be(sites):
    # Of the two ends each has another secret.
    for site, other in (("a", "b"), ("b", "a")):
        secret = sites.folder / f"{site}.psk"
        command = [str(sites.folder / "tidegatectl"), "keygen", str(secret)]
        subprocess.run(command, capture_output=True, check=True)
        file = sites.file(site)
        at = f"[sites.{other}]\n"
        file.write_text(file.read_text().replace(at, f'{at}preshared_key_file = "{secret}"\n'))
    begin(sites)
    hear(sites, "`preshared_key_file` is not the same at both ends")
    assert f"site b, looked for at {OUTER['b']}:{PORT}, speaks to us" in sites.log("a")


def test_where_nobody_is_that_is_told_once(sites):
    sites.start("a")
    hear(sites, f"site b does not answer at {OUTER['b']}:{PORT}: does its daemon run")
    time.sleep(3)
    assert sites.log("a").count("does not answer") == 1
    assert sites.log("a").count("site b is down") == 1


def test_a_route_that_is_gone_is_told_and_a_restart_makes_it_again(sites):
    begin(sites)
    sites.wait_for("controlled")
    sites.echo()
    ip(sites, "a", "link", "set", "dev", "tidegate0", "down")
    ip(sites, "a", "link", "set", "dev", "tidegate0", "up")
    hear(sites, f"the route over tidegate0 to {BEHIND} is gone")
    sites.daemons["a"].terminate()
    assert sites.daemons["a"].wait(timeout=10) == 0
    sites.start("a")
    sites.wait_for("controlled")
    ip(sites, "a", "route", "del", BEHIND, "dev", "tidegate0", "metric", "10")
    limit = time.monotonic() + 10
    while sites.log("a").count("is gone") < 2:
        assert time.monotonic() < limit, sites.log("a")
        time.sleep(0.1)
    ip(sites, "a", "route", "add", BEHIND, "dev", "tidegate0", "metric", "10")
    hear(sites, "all routes over tidegate0 are there again")


def test_a_name_that_nobody_knows_moves_nobody_who_is_heard(sites):
    begin(sites)
    sites.wait_for("controlled")
    file = sites.file("a")
    right = file.read_text()
    # A name that is longer than names are is known to be unknown without a resolver.
    nobody = f"{'n' * 64}.invalid"
    for name, said in ((f"{nobody}:{PORT}", f"no address of {nobody}:{PORT} is found"), ("", "")):
        at = sites.status("a")["endpoint"]
        file.write_text(right.replace(f'"{OUTER["b"]}:{PORT}"', f'"{name}"') if name else right)
        ended = sites.control("a", "reload")
        assert ended.returncode == (1 if name else 0), ended.stderr
        assert (said in ended.stderr) if said else ("is found" not in ended.stderr), ended.stderr
        assert sites.status("a")["endpoint"] == at
        sites.wait_for("controlled")
    # A reload is no end of a session.
    time.sleep(2)
    assert "site b is down" not in sites.log("a")
    # One that is known counts at once, whoever is heard elsewhere.
    file.write_text(right.replace(f'"{OUTER["b"]}:{PORT}"', f'"localhost:{PORT + 1}"'))
    sites.daemons["b"].kill()
    sites.daemons["b"].wait()
    assert sites.control("a", "reload").returncode == 0
    assert sites.status("a")["endpoint"].endswith(f":{PORT + 1}")


def test_a_second_daemon_does_not_say_that_packets_are_dropped(sites):
    begin(sites)
    sites.wait_for("controlled")
    command = sites.within("a", str(sites.program), "run", str(sites.file("a")))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert ended.returncode == 1
    assert "another daemon answers there" in ended.stderr
    assert "are dropped" not in ended.stderr
    sites.echo()


def test_idle_browsers_keep_nobody_waiting(sites):
    sites.start("a")
    hear(sites, "listens at")
    # All but the first would be left, half a second each, before somebody answered.
    command = sites.within("a", sys.executable, "-c", BROWSERS, "12")
    for _ in range(5):
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
        found = json.loads(said)
        assert found["heard"]
        if found["left"] < 6:
            break
    assert found["left"] < 6, found
