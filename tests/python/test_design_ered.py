"""`tidegate design ered`: the thresholds leave the room that the thesis's condition asks for."""

import pytest

from tidegate.design.ered import ered
from tidegate.errors import UsageError

pytestmark = pytest.mark.real_core  # which reads quantities


@pytest.mark.parametrize("peak", ["1Mbit", "10Mbit", "12.5Mbit", "40Mbit", "70Mbit"])
def test_the_thresholds_fulfil_the_condition_of_admission(peak):
    found = ered("10Mbit", peak)
    link, most, hi = 10e6, 100, int(found.parameters["max"][:-1])
    assert (found.inputs["peak_bps"] - link) * hi / link <= most - hi
    assert not any("can be lost" in warning for warning in found.warnings)


def test_the_thesis_has_80_of_100_packets_for_peaks_up_to_a_quarter_above_the_link():
    assert ered("10Mbit", "12.5Mbit").parameters["max"] == "80p"
    assert ered("10Mbit", "13Mbit").parameters["max"] == "76p"


def test_peaks_far_above_the_link_leave_best_effort_no_queue_and_it_says_so():
    assert any("hardly a queue" in warning for warning in ered("10Mbit", "200Mbit").warnings)
    with pytest.raises(UsageError):
        ered("10Mbit", "20Mbit", limit=2)
