"""A site with two ways to the world: from which of its addresses it answers; by the real daemon."""

import subprocess
import time
from contextlib import contextmanager

from tidegate.two_sites import INNER, OUTER, PORT, TwoSites, told

RATES = '{ floor = "1Mbit", max = "20Mbit", fallback = "8Mbit" }'
# The second way of site b: its own address, the router's, and the table with its route.
SECOND, SECOND_ROUTER, TABLE = "198.18.7.2", "198.18.7.1", "7"
WAIT_S = 10


def ip(sites: TwoSites, site: str, *command: str) -> None:
    subprocess.run(["ip", "-n", sites.namespace(site), *command], check=True)


def second_way(sites: TwoSites) -> None:
    """Site b gets another device with an address and a route of its own, for what it sends from there."""
    own, middle = sites.namespace("b"), sites.namespace("middle")
    peer = ("peer", "name", "also-b", "netns", middle)
    subprocess.run(["ip", "link", "add", "second", "netns", own, "type", "veth", *peer], check=True)
    ip(sites, "b", "address", "add", f"{SECOND}/30", "dev", "second")
    ip(sites, "middle", "address", "add", f"{SECOND_ROUTER}/30", "dev", "also-b")
    ip(sites, "b", "link", "set", "dev", "second", "up")
    ip(sites, "middle", "link", "set", "dev", "also-b", "up")
    ip(sites, "b", "route", "add", "default", "via", SECOND_ROUTER, "dev", "second", "table", TABLE)
    ip(sites, "b", "rule", "add", "from", SECOND, "table", TABLE)


@contextmanager
def two_ways(gateway):
    """Site a looks for site b at the second of its addresses."""
    with TwoSites(gateway) as sites:
        sites.configure(RATES)
        second_way(sites)
        file = sites.file("a")
        file.write_text(file.read_text().replace(f'"{OUTER["b"]}:', f'"{SECOND}:'))
        # b does not know where a is.
        file = sites.file("b")
        file.write_text(file.read_text().replace(f'endpoint = "{OUTER["a"]}:{PORT}"\n', ""))
        for site in ("b", "a"):
            sites.start(site)
        sites.wait_for("controlled")
        sites.echo()
        yield sites


def settled(sites: TwoSites, heard: str, answers_from: str | None) -> None:
    """Site a hears b at an address, and b says that it answers from one, after a while."""
    until = time.monotonic() + WAIT_S
    while True:
        seen = sites.status("a").get("endpoint"), sites.status("b").get("answers_from", "?")
        if seen == (f"{heard}:{PORT}", answers_from):
            return
        assert time.monotonic() < until, (seen, sites.log("b"))
        time.sleep(0.1)


def lost(sites: TwoSites) -> int:
    """How many of 100 probes in a second stay without an answer."""
    probe = sites.probe(INNER["b"], 100, 0.01)
    return sum(took is None for _, took in told(probe))


def test_who_is_reached_at_its_second_address_answers_from_there(gateway):
    with two_ways(gateway) as sites:
        settled(sites, SECOND, SECOND)
        assert lost(sites) == 0
        settled(sites, SECOND, SECOND)
        # Without its rule the answer would leave by the first way, where the provider drops such.
        ip(sites, "b", "rule", "del", "from", SECOND, "table", TABLE)
        settled(sites, OUTER["b"], OUTER["b"])
        assert lost(sites) == 0
        assert f"to {SECOND}, from where packets would leave by wan" in sites.log("b")


def test_when_its_second_way_breaks_it_takes_the_first(gateway):
    with two_ways(gateway) as sites:
        settled(sites, SECOND, SECOND)
        probe = sites.probe(INNER["b"], 700, 0.01)
        time.sleep(1)
        ip(sites, "b", "link", "set", "dev", "second", "down")
        settled(sites, OUTER["b"], OUTER["b"])
        answers = [sent for sent, took in told(probe) if took is not None]
        assert max(answers) - min(answers) > 6, "it answers again"
