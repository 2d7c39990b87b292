"""Where a daemon that starts anew looks for a site: where it was heard last, then where the file says."""

import time

import pytest

from tidegate.two_sites import INNER, OUTER, ROUTER, TwoSites, told

RATES = '{ floor = "1Mbit", max = "1Gbit", fallback = "8Mbit" }'
EVERY_S = 0.02
# Of which no file knows.
PLACE, PLACE_ROUTER = "198.19.7.2", "198.19.7.1"
# A place is kept once in a second.
KEPT_S = 2.5
# WireGuard's timer, by which the other end would notice: what is tried here has to be quicker.
UNHELPED_S = 15


@pytest.fixture
def moved(gateway):
    """Site a has moved, and is heard by b."""
    with TwoSites(gateway) as made:
        made.join(RATES)
        made.move("a", PLACE, PLACE_ROUTER)
        told(made.probe(INNER["b"], 25, EVERY_S))
        time.sleep(KEPT_S)
        assert made.status("b")["endpoint"].startswith(PLACE)
        yield made


def end(sites: TwoSites, site: str) -> None:
    """As if the power failed."""
    sites.daemons[site].kill()
    sites.daemons[site].wait()


def test_a_site_that_has_moved_is_asked_where_it_was_heard_last(moved):
    probe = moved.probe(INNER["b"], 500, EVERY_S)
    time.sleep(1)
    end(moved, "b")
    moved.start("b")
    answers = told(probe)
    lost = [sent - answers[0][0] for sent, took in answers if took is None]
    print(f"{len(lost)} of {len(answers)} probes lost, between {min(lost):.2f} and {max(lost):.2f} s")
    assert max(lost) - min(lost) < UNHELPED_S / 2, lost
    assert all(took is not None for _, took in answers[-50:]), lost


def test_who_is_no_more_where_it_was_heard_last_is_looked_for_where_the_file_says(moved):
    for site in ("a", "b"):
        end(moved, site)
    moved.move("a", OUTER["a"], ROUTER["a"])
    # It does not know where b is, so that it cannot ask.
    text = moved.file("a").read_text()
    moved.file("a").write_text("".join(line for line in text.splitlines(True) if "endpoint" not in line))
    moved.state("a").unlink()
    for site in ("a", "b"):
        moved.start(site)
    begun = time.monotonic()
    moved.wait_for("controlled")
    took_s = time.monotonic() - begun
    print(f"heard after {took_s:.1f} s")
    assert took_s < UNHELPED_S / 2
    assert moved.status("b")["endpoint"].startswith(OUTER["a"])
