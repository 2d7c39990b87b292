"""Designs follow their formulas, hold in a simulation, and refuse what makes no sense."""

import json
import math

import pytest

import tidegate
from tidegate.errors import UsageError


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
