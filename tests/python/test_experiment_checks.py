"""What an experiment file may not ask for is refused before anything runs, with file, line and key."""

import re

import pytest
from conftest import EXPERIMENT

from tidegate import experiment, experiment_checks, tidy
from tidegate.errors import UsageError
from tidegate.experiment import PointResult

HEAT = """
[[figures]]
id = "map"
kind = "heatmap"
x = "load"
y = ["flows.tcp.throughput_bps / 1e6"]
"""
AXES = """
[axes.late]
path = "model.late"
values = ["1ms", "2ms"]
[axes.noise]
path = "model.noise"
values = ["0", "0.1"]
"""


def refused(tidegate_command, tmp_path, text, key):
    """What is said of an experiment, with the line of `key` in its own text."""
    file = tmp_path / "mine.toml"
    file.write_text(text)
    said = set()
    for command in (["validate"], ["sweep", "--out", tmp_path / "out"]):
        code, _, err = tidegate_command(*command, file)
        assert code == 3, err
        said.add(err.removeprefix("tidegate: "))
    assert not (tmp_path / "out").exists() and len(said) == 1
    told = re.fullmatch(r".*mine\.toml:(\d+): (.*)\n", said.pop(), re.DOTALL)
    assert text.splitlines()[int(told[1]) - 1].startswith(key)
    return told[2]


@pytest.mark.parametrize(
    ("axes", "more", "says"),
    [
        (AXES, "", "one variant, and here are fifo, fair: name one in `variant`"),
        (AXES, 'variants = ["fair", "fifo"]', "one variant, and here are fifo, fair"),
        (AXES, 'variant = "fair"', "beside x there are late, noise: name one value"),
        ("", 'variant = "fair"', "needs exactly two axes, here are 1"),
    ],
)
def test_a_heatmap_that_would_average_over_what_differs_is_refused(
    tidegate_command, tmp_path, axes, more, says
):
    said = refused(tidegate_command, tmp_path, EXPERIMENT + axes + HEAT + more, 'kind = "heatmap"')
    assert said.startswith("figure 'map': ") and says in said


def test_a_heatmap_takes_one_variant_and_one_value_of_all_axes_but_two(tidegate_command, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(EXPERIMENT + AXES + HEAT + 'variant = "fair"\nwhere = { noise = ["0"] }\n')
    assert tidegate_command("sweep", file, "--out", tmp_path / "out", "--quick")[0] == 0
    assert tidegate_command("plot", tmp_path / "out", "-p", "map")[0] == 0


@pytest.mark.parametrize(
    ("values", "unit", "says"),
    [
        ('"1Mbit", "2Mbit"', "MB/s", "'MB/s' is no unit of 1Mbit, which is one of b/s, kb/s, Mb/s, Gb/s"),
        ('"5ms", "10ms"', "Mb/s", "'Mb/s' is no unit of 5ms, which is one of ns, us, ms, s, min"),
        ('"0", "10p"', "kB", "'kB' is no unit of 10p, which is one of packets"),
        ('"1kB"', "%", "'%' is no unit of 1kB, which is one of B, kB, MB, KiB, MiB"),
    ],
)
def test_an_axis_is_counted_in_no_unit_of_something_else(tidegate_command, tmp_path, values, unit, says):
    more = f'[axes.late]\npath = "model.late"\nvalues = [{values}]\nunit = "{unit}"\n'
    said = refused(tidegate_command, tmp_path, EXPERIMENT + more, f'unit = "{unit}"')
    assert said == f"axes.late.unit: {says}"


@pytest.mark.parametrize(
    ("values", "unit", "places"),
    [
        ('"1Mbit", "2000kbit"', "kb/s", [1000, 2000]),
        ('"1", "2"', "connections", [1, 2]),
        ('"5", "1e1"', "ms", [5, 10]),
        ('"50", "60%"', "%", [50, 60]),
        ('"red", "blue"', "colours", [None, None]),
    ],
)
def test_an_axis_counts_in_its_unit_and_plain_numbers_in_any(tmp_path, values, unit, places):
    file = tmp_path / "mine.toml"
    file.write_text(EXPERIMENT + f'[axes.late]\npath = "model.late"\nvalues = [{values}]\nunit = "{unit}"\n')
    axis = experiment.Experiment("mine", file).info.axes["late"]
    assert [axis.position(value) for value in axis.values] == places


def test_no_axis_is_called_as_a_column_of_tables(tidegate_command, tmp_path):
    for name in experiment_checks.TAKEN:
        more = f'[axes.{name}]\npath = "model.late"\nvalues = ["1", "2"]\n'
        said = refused(tidegate_command, tmp_path, EXPERIMENT + more, f"[axes.{name}]")
        assert said.startswith(f"axes.{name}: tables of results have a column of that name; no axis can")
    point = PointResult(None, {"value": "1"}, 1, {"flows": {"f": {"throughput_bps": 1.0}}})
    with pytest.raises(UsageError, match="two columns of this table would be called 'value'"):
        tidy.values([point])
    with pytest.raises(UsageError, match="would be called 'load'"):
        tidy.measured([PointResult(None, {"load": "1"}, 1, {})], {"load": "1"})
    columns = {*tidy.values([]).columns, *tidy.means([]).columns, *tidy.series([]).columns}
    assert columns == set(experiment_checks.TAKEN)
