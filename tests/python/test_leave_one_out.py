"""A figure that is left out has no say in the fit, and the page tells what was measured."""

import math

import leave_one_out
import pytest
from leave_one_out import Number, Study

from tidegate import checks, experiment, library
from tidegate.checks.declared import Bounds
from tidegate.checks.measured import matches
from tidegate.stats import Estimate


def check(low, high, expected):
    bounds = Bounds(low, high, expected, "a test")
    return checks.Check("e", "n", "x", bounds, "quantitative", "text", "s")


def near(value, share=0.1):
    return check(value * (1 - share), value * (1 + share), value)


def at_least(value):
    return check(value, math.inf, value)


def study(candidates, *numbers):
    return Study("s", ("p",), candidates[0], dict.fromkeys(candidates, ()), numbers, 2)


def exactly(*values):
    return [Estimate(value, value, value, 2) for value in values]


def outcomes(of, measured):
    return {each.number.figure: each for each in leave_one_out.predictions(of, measured)}


class TestSelection:
    def test_the_value_behind_all_figures_is_found_whichever_is_left_out(self):
        # Figures of a law y = k p, as a document would have them for p = 3, with a little noise.
        laws = {"one": 2.0, "two": 5.0, "three": 0.5}
        noise = {"one": 1.02, "two": 0.99, "three": 1.01}
        of = study("12345", *(Number(name, "e", near(3 * k * noise[name])) for name, k in laws.items()))
        found = outcomes(of, {p: exactly(*(k * int(p) for k in laws.values())) for p in "12345"})
        for name, k in laws.items():
            assert found[name].found == ("3",)
            assert found[name].estimates[0].mean == 3 * k
            assert found[name].verdict == "predicted"
            assert found[name].met_by == ("3",)
            assert found[name].is_test

    def test_the_figure_left_out_has_no_say_however_well_another_value_fits_it(self):
        of = study("abc", *(Number(name, "e", near(10)) for name in ("one", "two", "odd")))
        measured = {"a": exactly(14, 14, 14), "b": exactly(10.2, 10.1, 20), "c": exactly(13, 13, 10)}
        found = outcomes(of, measured)
        assert found["odd"].found == ("b",)
        assert found["odd"].verdict == "not predicted"
        assert found["odd"].met_by == ("c",)

    def test_values_that_bounds_do_not_tell_apart_leave_open_what_they_disagree_about(self):
        of = study("abc", Number("bound", "e", at_least(1)), Number("figure", "e", near(10)))
        found = outcomes(of, {"a": exactly(2, 10), "b": exactly(3, 20), "c": exactly(0.5, 10)})
        assert found["figure"].found == ("a", "b")
        assert [each.mean for each in found["figure"].estimates] == [10, 20]
        assert found["figure"].verdict == "left open"
        assert found["bound"].found == ("a", "c")

    def test_what_every_value_gives_is_no_test(self):
        of = study("ab", Number("easy", "e", at_least(1)), Number("figure", "e", near(10)))
        easy = outcomes(of, {"a": exactly(2, 10), "b": exactly(9, 20)})["easy"]
        assert easy.verdict == "predicted"
        assert not easy.is_test

    def test_a_value_that_was_not_measured_is_named(self):
        of = study("ab", Number("one", "e", near(10)))
        with pytest.raises(ValueError, match="s lacks 'b'; run `make leave-one-out STUDIES=s`"):
            leave_one_out.predictions(of, {"a": exactly(10)})

    def test_a_bound_inside_of_the_interval_is_told(self):
        of = study("a", Number("one", "e", near(10)), Number("two", "e", near(10)))
        found = outcomes(of, {"a": [Estimate(10.8, 10.5, 11.1, 4), Estimate(10, 9.9, 10.1, 4)]})
        assert found["one"].is_within_noise
        assert not found["two"].is_within_noise

    def test_a_figure_of_many_numbers_counts_as_much_as_one_of_one(self):
        many = [Number("many", "e", near(10)) for _ in range(4)]
        of = study("a", *many, Number("one", "e", near(10)), Number("left", "e", near(10)))
        assert of.loss(exactly(12, 12, 12, 12, 11, 99), "left") == pytest.approx(2**2 + 1**2)


@pytest.mark.parametrize(
    ("of", "document", "measured", "deviation"),
    [
        (near(10), None, 10.5, 0.5),
        (near(10), None, 8.0, 2.0),
        (at_least(10), None, 12.0, 0.0),
        (at_least(10), None, 8.0, 0.2),
        (check(-math.inf, 0.05, 0.05), 0.01, 0.03, 0.5),
        (check(-math.inf, 0.05, 0.05), 0.01, 0.0, 0.25),
        (check(-math.inf, 0.0, 0.0), None, 0.5, 0.5),
        (check(1.0, 9.0, [1.0, 9.0]), 3.0, 2.0, 0.5),
        (check(1.0, 9.0, [1.0, 9.0]), 3.0, 6.0, 0.5),
        (check(1.0, 9.0, [1.0, 9.0]), None, 8.0, 0.0),
    ],
)
def test_deviation_is_in_tolerances(of, document, measured, deviation):
    assert Number("f", "e", of, document).deviation(measured) == pytest.approx(deviation)


def test_every_fitted_number_is_left_out_once_or_has_a_reason():
    listed = {(each.experiment, each.check.name) for of in leave_one_out.studies() for each in of.numbers}
    for name, path in library.all_experiments().items():
        judged = checks.load(library.expected_file(path)).get(path.stem, checks.Expectations()).checks
        for each in judged:
            if each.fitted and not each.cause:
                assert (name, each.name) in listed, "add it to docs/leave_one_out.toml"


def test_what_was_measured_is_of_the_list():
    # If not: make leave-one-out
    measured = leave_one_out.read()
    wanted = {of.id: of for of in leave_one_out.studies() if not of.why}
    assert measured.keys() == wanted.keys()
    for name, of in wanted.items():
        assert measured[name].keys() == of.candidates.keys()
        for estimates in measured[name].values():
            assert [each.count for each in estimates] == [of.seeds] * len(of.numbers)


def test_what_is_written_is_read_again(tmp_path, monkeypatch):
    before = leave_one_out.read()
    monkeypatch.setattr(leave_one_out, "RESULTS", tmp_path / "again.json")
    leave_one_out._write(before)
    assert leave_one_out.read(tmp_path / "again.json") == before


@pytest.mark.real_core
def test_what_was_measured_comes_out_again(core):
    of = next(of for of in leave_one_out.studies() if of.id == "short_delay")
    again = leave_one_out.measure(of, [of.used], 2)
    assert again == {of.used: leave_one_out.read()[of.id][of.used]}


def test_only_points_that_are_asked_for_are_made(shelf):
    each = experiment.Experiment("two/share", shelf / "two" / "share.toml")
    some = each.tasks(only=lambda point: matches(point, {"variant": "fair", "load": "1Mbit"}))
    assert [(task.variant, task.axes, task.seed) for task in some] == [
        ("fair", {"load": "1Mbit"}, seed) for seed in (1, 2, 3, 4)
    ]
    assert {task.key for task in some} < {task.key for task in each.tasks()}


def test_the_values_of_one_parameter_move_together_and_those_of_two_are_combined():
    of = next(of for of in leave_one_out.studies() if of.id == "sfb")
    assert len(of.candidates) == 12
    assert dict(of.candidates["0.01, keyed"]) == {
        "parameters.increment": "0.01",
        "parameters.decrement": "0.001",
        "links.A-B.queue.hash": "keyed",
    }


@pytest.mark.real_core
def test_used_values_are_those_of_the_experiments(core):
    def keys(of, name, overrides):
        path = library.all_experiments()[name]
        where = next(number.check.where for number in of.numbers if number.experiment == name)
        each = experiment.Experiment(name, path, overrides)
        return [task.key for task in each.tasks(seeds=1, only=lambda point: matches(point, where))]

    for of in leave_one_out.studies():
        for name in dict.fromkeys(number.experiment for number in of.numbers):
            overrides = of.overrides(of.used, name)
            ends = [(key, value) for key, value in overrides if key == "duration"]
            assert keys(of, name, overrides) == keys(of, name, ends), (of.id, name)
