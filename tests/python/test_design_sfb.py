"""`tidegate design sfb`: the least of equation 4.1 within the memory."""

import json

import pytest

from tidegate.design.sfb import LEVELS_MAX, command, figure, misclassification, sfb
from tidegate.errors import UsageError

pytestmark = pytest.mark.real_core  # which reads quantities


def test_equation_4_1_gives_the_printed_values():
    printed = [(2, 23, 4, 2.65), (2, 23, 8, 8.96), (1, 46, 4, 8.42), (1, 46, 8, 16.12)]
    for levels, bins, m, percent in printed:
        assert 100 * misclassification(levels, bins, m) == pytest.approx(percent, abs=0.005)


@pytest.mark.parametrize("m", [1, 4, 8, 40])
def test_no_other_split_of_the_memory_misclassifies_fewer(m):
    found = sfb(400, m, 90 * 32).parameters
    least = misclassification(found["levels"], found["bins"], m)
    assert found["levels"] * found["bins"] <= 90
    assert all(least <= misclassification(levels, 90 // levels, m) for levels in range(1, LEVELS_MAX + 1))


def test_beyond_half_as_many_flows_as_bins_one_level_is_best():
    assert sfb(400, 80, 90 * 32).parameters["levels"] == 1
    assert sfb(400, 2, 90 * 32).parameters["levels"] > 1


def test_the_bins_of_the_thesis_have_its_size():
    # 23 bins of one level: 13 packets of a buffer of 200.
    one_level = sfb(400, 1000, 23 * 32)
    assert (one_level.parameters["bins"], one_level.parameters["bin_size"]) == (23, "13p")


def test_bins_without_room_for_the_windows_of_their_flows_are_named():
    # The thesis's own queue: 200 packets for 400 flows, which shuts some of them out.
    assert any("shut some out" in warning for warning in sfb(400, 8, 90 * 32, limit="200kB").warnings)
    roomy = sfb(400, 8, 90 * 32, limit="400kB")
    assert not any("shut some out" in warning for warning in roomy.warnings)


def test_a_second_set_takes_half_of_the_memory():
    once, twice = sfb(400, 4, 4096).steps[0], sfb(400, 4, 4096, double_buffered=True).steps[0]
    assert (once.value, twice.value) == (128, 64)


@pytest.mark.parametrize("wrong", [(0, 1, 1000), (10, 0, 1000), (10, 1, 31), (10, 1, "10ms")])
def test_what_cannot_be_designed_is_refused(wrong):
    with pytest.raises(UsageError):
        sfb(*wrong)


def test_the_figure_is_drawn_and_json_has_the_parameters(tmp_path, capsys):
    picture = tmp_path / "f.png"
    assert command(400, 8, "1472B", plot=picture, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["parameters"]["levels"] == 3
    assert picture.stat().st_size > 10_000
    figure(sfb(10, 500, 32), picture)
