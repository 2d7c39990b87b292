"""What keeps a gateway from starting, and what does not: nothing leaves in clear text meanwhile."""

import socket
import subprocess
import time

import pytest

from tidegate import two_sites
from tidegate.two_sites import INNER, OUTER, PORT, TwoSites

RATES = '{ floor = "1Mbit", max = "100Mbit", fallback = "8Mbit" }'
# Somebody at the port of the status page, until a line is said.
TAKES = "import socket; s = socket.create_server(('127.0.0.1', 9586)); print(flush=True); input()"
BEHIND = two_sites.network_of(INNER["b"], 24)


@pytest.fixture
def sites(gateway):
    with TwoSites(gateway) as made:
        made.configure(RATES)
        yield made


def ip(sites: TwoSites, *command: str) -> str:
    command = ("ip", "-n", sites.namespace("a"), *command)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def gateway(sites: TwoSites, *command: str) -> subprocess.CompletedProcess[str]:
    whole = sites.within("a", str(sites.program), *command)
    return subprocess.run(whole, capture_output=True, text=True, timeout=20)


def as_service(sites: TwoSites) -> subprocess.CompletedProcess[str]:
    """As systemd starts it."""
    whole = sites.within(
        "a", "env", "NOTIFY_SOCKET=/run/nobody", str(sites.program), "run", str(sites.file("a"))
    )
    return subprocess.run(whole, capture_output=True, text=True, timeout=20)


def is_closed(sites: TwoSites) -> bool:
    return f"blackhole {BEHIND} proto 116 metric 11" in ip(sites, "route", "show")


def until(said: str, sites: TwoSites) -> None:
    limit = time.monotonic() + 10
    while said not in sites.log("a"):
        assert time.monotonic() < limit, sites.log("a")
        time.sleep(0.05)


def test_a_start_that_fails_leaves_nothing_open(sites):
    # As at the start of a machine: there was no daemon yet.
    assert not is_closed(sites)
    key = sites.folder / "a.key"
    key.chmod(0o644)
    said = f"gateway.private_key_file: {key} may be read by others"
    ended = gateway(sites, "run", str(sites.file("a")))
    assert ended.returncode == 1
    assert said in ended.stderr
    assert f"--> {sites.file('a')}:2:20" in ended.stderr
    assert not is_closed(sites), "who starts it by hand may need the network to mend it"
    ended = as_service(sites)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert "`tidegate-gateway open` lets them go other ways" in ended.stderr
    assert is_closed(sites)
    # What was closed by a file that says it no more is known.
    file = sites.file("a")
    right = file.read_text()
    file.write_text(right.replace(f'["{BEHIND}"]', '["10.44.0.0/16"]'))
    assert as_service(sites).returncode == 1
    # A machine starts without routes, and its file is wrong: what was closed is known, wherever the state is.
    ip(sites, "route", "flush", "type", "blackhole")
    assert not is_closed(sites)
    as_it_was = file.read_text()
    file.write_text(as_it_was.replace("networks = [", "networks = ["[:-1]))
    assert as_service(sites).returncode == 1
    assert is_closed(sites)
    file.write_text(as_it_was)
    opened = gateway(sites, "open", str(file)).stdout
    assert opened == f"open: 10.44.0.0/16, {BEHIND}\n"


def test_the_port_of_the_page_is_nobodys_but_packets_do_not_wait_for_it(sites):
    taken = subprocess.Popen(
        sites.within("a", "python3", "-c", TAKES),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    taken.stdout.readline()
    for site in ("a", "b"):
        sites.start(site)
    sites.wait_for("controlled")
    assert "status at 127.0.0.1:9586: " in sites.log("a")
    assert "`ss -ltnp` shows it" in sites.log("a")
    taken.communicate("")
    until("status at http://127.0.0.1:9586/", sites)


def test_an_address_that_a_network_brings_later_is_waited_for(sites):
    file = sites.file("a")
    file.write_text(file.read_text().replace("user =", f'listen = "198.51.100.77:{PORT}"\nuser ='))
    sites.start("a")
    until("it is waited for", sites)
    assert is_closed(sites)
    time.sleep(1)
    assert sites.daemons["a"].poll() is None
    ip(sites, "address", "add", "198.51.100.77/32", "dev", "lo")
    until("listens at 198.51.100.77", sites)
    # And where it is told to end meanwhile, it does.
    sites.daemons["a"].terminate()
    sites.daemons["a"].wait()
    ip(sites, "address", "del", "198.51.100.77/32", "dev", "lo")
    sites.start("a")
    time.sleep(1)
    sites.daemons["a"].terminate()
    assert sites.daemons["a"].wait(timeout=5) == 0


def test_it_is_closed_before_it_runs_and_opened_when_it_does_not(sites):
    file = str(sites.file("a"))
    assert f"closed until a daemon runs: {BEHIND}" in gateway(sites, "close", file).stdout
    assert is_closed(sites)
    for site in ("a", "b"):
        sites.start(site)
    sites.wait_for("controlled")
    while_it_runs = gateway(sites, "open", file)
    assert while_it_runs.returncode == 1
    assert "the daemon runs" in while_it_runs.stderr
    assert is_closed(sites)
    sites.daemons["a"].terminate()
    sites.daemons["a"].wait()
    # Another gateway's, or an earlier file's of which nothing is known.
    ip(sites, "route", "add", "blackhole", "10.200.0.0/16", "metric", "11", "proto", "116")
    drop = ["setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
    command = sites.within("a", *drop, str(sites.program), "open", file)
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "rights of root" in refused.stderr
    opened = gateway(sites, "open", file)
    assert opened.stdout.startswith(f"open: {BEHIND}\nnote: 10.200.0.0/16 stay closed"), opened.stdout
    assert not is_closed(sites)
    assert "none of 1 networks was closed" in gateway(sites, "open", file).stdout
    sites.start("a")
    until("packets for 10.200.0.0/16 are dropped here too", sites)


def test_a_network_of_this_machine_that_is_a_part_of_anothers_is_told(sites):
    file = sites.file("a")
    file.write_text(file.read_text().replace(f'["{BEHIND}"]', f'["{BEHIND}", "10.44.0.0/16"]'))
    ip(sites, "route", "add", "10.44.3.0/24", "via", two_sites.ROUTER["a"])
    sites.start("a")
    until("10.44.3.0/24 of 10.44.0.0/16 leaves by wan, in clear text", sites)


def test_where_a_name_leads_into_the_tunnel_nobody_is_looked_for(sites):
    file = sites.file("a")
    own = socket.gethostbyname("localhost")
    text = file.read_text().replace(f'"{OUTER["b"]}:', '"gateway.test:')
    file.write_text(text)
    hosts = sites.folder / "hosts"
    inside = BEHIND.replace(".0/24", ".77")
    hosts.write_text(f"{own} localhost\n{inside} gateway.test\n")
    hosts.chmod(0o644)
    command = ["unshare", "--mount", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"]
    command += [str(sites.program), "run", str(file)]
    with (sites.folder / "a.log").open("ab") as log:
        sites.daemons["a"] = subprocess.Popen(sites.within("a", *command), stdout=log, stderr=log)
    until(f"gateway.test:{PORT} is {inside}, in {BEHIND}, which goes through the tunnel", sites)
    assert "is looked for at" not in sites.log("a")
    # And an address that is said later.
    file.write_text(text.replace('"gateway.test:', f'"{inside}:'))
    answer = sites.control("a", "reload")
    assert answer.returncode == 1
    assert f"{inside} is in {BEHIND}, which goes through the tunnel" in answer.stderr
