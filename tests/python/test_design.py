"""Designs follow their formulas, hold in a simulation, and refuse what makes no sense."""

import json
import math

import pytest

import tidegate
from tidegate.errors import UsageError

pytestmark = pytest.mark.real_core  # which reads quantities


def test_max_p_is_what_equation_3_2_asks_for():
    design = tidegate.design.red("10Mbit", rtt="60ms", flows=8)
    packets_in_flight = 1250 * 0.060 + (12 + 50) / 2
    assert design.parameters["max_p"] == pytest.approx(1.5 * (8 / packets_in_flight) ** 2, rel=0.005)
    by_ns = tidegate.design.red(10e6, rtt=0.06, flows=8, gap="ns")
    assert by_ns.parameters["max_p"] == pytest.approx(3 * design.parameters["max_p"], rel=0.005)


def test_thresholds_stand_in_their_order_for_any_link():
    for rate in (64e3, 1e6, 1e9, 1e11):
        for limit in (None, 3, 10, 10_000):
            design = tidegate.design.red(rate, rtt=0.05, flows=3, limit=limit)
            low, high, most = (int(design.parameters[key][:-1]) for key in ("min", "max", "limit"))
            assert 1 <= low < high <= most, (rate, limit)
            assert 0 < design.parameters["max_p"] <= 1
            assert 0 < design.parameters["weight"] < 1


def test_the_average_forgets_over_ten_round_trips():
    weight = tidegate.design.red("10Mbit", rtt="60ms", flows=8).parameters["weight"]
    assert (1 - weight) ** 750 == pytest.approx(math.exp(-1), rel=0.01)


def test_limits_of_the_argument_are_said():
    assert any("often enough" in text for text in tidegate.design.red("1Mbit", "20ms", 200).warnings)
    assert any("loss" in text for text in tidegate.design.red("10Mbit", "60ms", 8, ecn=False).warnings)
    assert tidegate.design.red("10Mbit", "60ms", 8).warnings == []


@pytest.mark.parametrize(
    "arguments",
    [("10ms", "60ms", 8), ("10Mbit", "60", 8), ("10Mbit", "60ms", 0), ("0Mbit", "60ms", 1)],
)
def test_what_makes_no_sense_is_refused(arguments):
    with pytest.raises(UsageError):
        tidegate.design.red(*arguments)
    with pytest.raises(UsageError):
        tidegate.design.red("10Mbit", "60ms", 8, limit="2p")


LINK = """
duration = "1s"
nodes = {{ hosts = ["a", "b"] }}
links.l = {{ between = ["a", "b"], rate = "{}", delay = "{}", queue.limit = "{}" }}
"""
TEXTS = """10Mbit;10 Mbit;+1kbit;1_000kbit;0.5bit;1e6bit;10;10Mbps;10Mb/s;10mbit;10MB;Mbit;-1kbit;
60ms;60 ms;.5s;0.1us;0.0001us;1min;1m;1sec;60;inf;nan;
100p;100 packets;1.5p;100kB;32KiB;100KB;100b;5000000000p"""


@pytest.mark.parametrize("text", TEXTS.replace("\n", "").split(";"))
def test_designs_take_exactly_the_quantities_that_scenarios_take(core, text):
    def takes(rate="1Mbit", delay="10ms", limit="30p"):
        try:
            core.Scenario.from_text(LINK.format(rate, delay, limit))
        except core.ConfigError:
            return False
        return True

    def designs(rate="1Mbit", rtt="10ms", limit="30p"):
        try:
            tidegate.design.red(rate, rtt, 1, limit=limit)
        except UsageError as error:
            # What scenarios take and a design has no use for, it says in words of its own.
            return "no room for" in str(error)
        return True

    assert takes(rate=text) == designs(rate=text)
    assert takes(delay=text) == designs(rtt=text)
    assert takes(limit=text) == designs(limit=text)


def test_a_limit_is_the_same_in_packets_bytes_and_time():
    limits = [tidegate.design.red("8Mbit", "60ms", 8, limit=text) for text in ("60p", "60kB", "60ms")]
    assert [design.parameters["limit"] for design in limits] == ["60p"] * 3
    bins = [tidegate.design.sfb(4, 1, "3kB", limit=text).parameters for text in ("200p", "200kB", 200_000)]
    assert bins[0] == bins[1] == bins[2]
    with pytest.raises(UsageError, match="no rate of a link"):
        tidegate.design.sfb(4, 1, "3kB", limit="20ms")
    rooms = [
        tidegate.design.ered("8Mbit", "10Mbit", limit=text).parameters for text in ("60p", "60kB", "60ms")
    ]
    assert rooms[0] == rooms[1] == rooms[2]


def test_the_command_prints_what_the_function_finds(tidegate_command):
    arguments = ["design", "red", "--rate", "10Mbit", "--rtt", "60ms", "--flows", "8"]
    design = tidegate.design.red("10Mbit", "60ms", 8)
    code, out, _ = tidegate_command(*arguments)
    assert code == 0
    assert out.rstrip().endswith(design.toml())
    code, out, _ = tidegate_command(*arguments, "--json")
    assert json.loads(out) == json.loads(design.json())
    assert tidegate_command("design", "red", "--rate", "soon", "--rtt", "60ms", "--flows", "8")[0] == 2


@pytest.mark.real_core
@pytest.mark.parametrize("adaptive", [False, True])
def test_the_average_settles_between_the_thresholds(core, adaptive):
    design = tidegate.design.red("10Mbit", rtt="60ms", flows=8, adaptive=adaptive)
    network = tidegate.Scenario(duration="60s", warmup="20s")
    for i in range(8):
        network.hosts(f"s{i}", f"d{i}")
    network.routers("r0", "r1")
    network.link("r0", "r1", rate="10Mbit", delay="20ms", queue=design.queue(), name="slow")
    for i in range(8):
        network.link(f"s{i}", "r0", rate="100Mbit", delay="5ms")
        network.link("r1", f"d{i}", rate="100Mbit", delay="5ms")
        transport = {"kind": "tcp", "profile": "ns-1999", "window": "100p", "ecn": True}
        network.flow(f"f{i}", f"s{i}", f"d{i}", transport=transport, start={"uniform": ["0s", "5s"]})
    link = network.run(seed=1).links["slow"]
    low, high = (int(design.parameters[key][:-1]) for key in ("min", "max"))
    assert low < link["queue_packets"]["mean"] < high
    assert link["utilization"] > 0.95
    assert link["dropped_packets"] == 0


@pytest.mark.real_core
@pytest.mark.parametrize(
    "more", [("blue", "--rtt", "100s"), ("blue", "--rtt", "10000s"), ("red", "--rtt", "1000s")]
)
def test_what_no_scenario_takes_is_not_designed(tidegate_command, more):
    code, said, complaint = tidegate_command("design", *more, "--rate", "100Gbit", "--flows", 10)
    assert code == 2 and not said and "is one of them a mistake?" in complaint
    assert "no unit" not in complaint, "it is out of range, and well written"
