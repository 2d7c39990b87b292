"""`tidegate design blue`: parameters follow from rate, round-trip time and flows as the thesis argues."""

import pytest

from tidegate.design.blue import blue
from tidegate.errors import UsageError

pytestmark = pytest.mark.real_core  # which reads quantities


def steps(design):
    return {step.symbol: step.value for step in design.steps}


def test_the_freeze_time_is_a_round_trip_and_the_steps_cross_the_range_in_the_adaptation_time():
    for rtt in (0.005, 0.06, 0.5):
        design = blue("45Mbit", rtt, 400, adaptation="10s")
        found = steps(design)
        assert found["freeze_time"] == rtt
        assert found["freeze_time"] / found["delta_up"] == pytest.approx(10)
        assert 0 < found["delta_down"] < found["delta_up"] <= 1
        assert design.queue()["freeze_time"] == f"{rtt * 1e3:.4g}ms"


def test_there_is_room_for_the_windows_of_sources_that_are_always_marked():
    for flows in (1, 100, 1000, 4000):
        found = steps(blue("45Mbit", "60ms", flows))
        assert found["limit"] + found["L RTT"] >= 2 * flows
        assert found["limit"] >= found["L RTT"]


def test_more_flows_need_more_marks_and_too_many_are_warned_of():
    few, many = blue("45Mbit", "60ms", 10), blue("45Mbit", "60ms", 4000)
    assert steps(few)["p_m"] < steps(many)["p_m"] <= 1
    assert not few.warnings
    assert any("every packet" in warning for warning in blue("45Mbit", "60ms", 4000).warnings)


def test_nonsense_is_refused():
    with pytest.raises(UsageError):
        blue("45Mbit", "60ms", 0)
    with pytest.raises(UsageError):
        blue("45ms", "60ms", 10)
