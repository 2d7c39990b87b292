"""Expected against measured: checks hold, fail and differ when they should."""

import json
import statistics

import pytest
from conftest import check_text

from tidegate import checks, stats
from tidegate.checks import measured
from tidegate.errors import InvalidFileError, MeasureError
from tidegate.experiment import Info, PointResult


def point(value, seed=1, variant="nbp", **axes):
    return PointResult(variant, axes or {"load": "1Mbit"}, seed, {"x": value})


def make(tmp_path, body):
    path = tmp_path / "expected.toml"
    path.write_text(f'[["e/one".checks]]\nname = "n"\nmeasure = "x"\nsource = "s"\n{body}')
    return checks.load(path)["e/one"].checks[0]


TEXT = 'kind = "quantitative"\nprovenance = "text"\n'


def test_a_wrong_check_is_named_by_file_and_line(tmp_path):
    path = tmp_path / "expected.toml"
    good = f'[["e/one".checks]]\nname = "n"\nmeasure = "x"\nsource = "s"\nat_least = 1\n{TEXT}'
    path.write_text(f"# two of them\n{good}\n" + good.replace('measure = "x"', 'measure = "x +"'))
    with pytest.raises(InvalidFileError) as wrong:
        checks.load(path)
    assert str(wrong.value).startswith(f"{path}:10: e/one, check 2 (n): cannot read measure")


@pytest.mark.parametrize(
    ("compare", "value", "status"),
    [
        ('value = 10\ntolerance = "3%"', 10.29, "pass"),
        ('value = 10\ntolerance = "3%"', 10.31, "fail"),
        ('value = -10\ntolerance = "3%"', -10.29, "pass"),
        ('value = 10\ntolerance = "0.02"', 10.03, "fail"),
        ('value = 1\ntolerance = "0"', 1, "pass"),
        ("at_least = 5", 5, "pass"),
        ("at_least = 5", 4.99, "fail"),
        ("at_most = 5", 5.01, "fail"),
        ("between = [1, 2]", 1.5, "pass"),
        ("between = [1, 2]", 2.1, "fail"),
    ],
)
def test_a_check_passes_within_its_bounds_and_fails_outside(tmp_path, compare, value, status):
    outcome = checks.evaluate(make(tmp_path, TEXT + compare), [point(value)])
    assert outcome.status == status
    assert outcome.measured == value
    assert outcome.ci95 is None


def test_the_mean_over_seeds_is_compared_and_its_interval_reported(tmp_path):
    values = [9.0, 10.0, 11.0, 10.5]
    points = [point(value, seed) for seed, value in enumerate(values, 1)]
    outcome = checks.evaluate(make(tmp_path, TEXT + 'value = 10\ntolerance = "5%"'), points)
    assert outcome.status == "pass"
    half = 3.1824 * statistics.stdev(values) / 2
    assert outcome.ci95 == pytest.approx((10.125 - half, 10.125 + half))


def test_each_reports_the_worst_point(tmp_path):
    points = [point(10, load="1Mbit"), point(7, load="2Mbit"), point(9, load="500kbit")]
    outcome = checks.evaluate(make(tmp_path, TEXT + "at_least = 8"), points)
    assert (outcome.status, outcome.measured, outcome.where) == ("fail", 7, "nbp, load=2Mbit")


@pytest.mark.parametrize(("reduce", "measured"), [("mean", 9), ("median", 10), ("min", 7), ("max", 10)])
def test_points_are_reduced_per_seed(tmp_path, reduce, measured):
    points = [point(value, load=load) for value, load in ((10, "1Mbit"), (7, "2Mbit"), (10, "4Mbit"))]
    outcome = checks.evaluate(make(tmp_path, TEXT + f'at_least = 0\nreduce = "{reduce}"'), points)
    assert outcome.measured == measured


@pytest.mark.parametrize(
    ("where", "measured"),
    [
        ('{ load = "1000kbit" }', 10),
        ('{ load = ["2Mbit", "3Mbit"] }', 7),
        ('{ load = { at_least = "1.5Mbit" } }', 7),
        ('{ load = { at_most = "700kbit" } }', 9),
        ('{ variant = "fifo" }', 1),
    ],
)
def test_where_selects_points(tmp_path, where, measured):
    points = [point(10, load="1Mbit"), point(7, load="2Mbit"), point(9, load="500kbit")]
    points.append(point(1, variant="fifo", load="8Mbit"))
    if "variant" not in where:
        where = where.replace("{ load", '{ variant = "nbp", load')
    outcome = checks.evaluate(make(tmp_path, TEXT + f"at_least = 0\nwhere = {where}"), points)
    assert outcome.measured == measured


def test_relative_to_another_variant_pairs_seeds(tmp_path):
    points = [point(3, 1), point(8, 2), point(6, 1, "fifo"), point(4, 2, "fifo")]
    body = (
        TEXT
        + 'value = 1.25\ntolerance = "0"\nwhere = { variant = "nbp" }\nrelative_to = { variant = "fifo" }'
    )
    assert checks.evaluate(make(tmp_path, body), points).status == "pass"


@pytest.mark.parametrize("where", ['{ load = "9Mbit" }', '{ nothing = "1" }', '{ variant = "none" }'])
def test_a_check_that_matches_no_point_fails(tmp_path, where):
    outcome = checks.evaluate(make(tmp_path, TEXT + f"at_least = 0\nwhere = {where}"), [point(1)])
    assert outcome.status == "fail"
    assert outcome.measured is None
    assert outcome.note


def test_a_measure_that_is_not_there_fails(tmp_path):
    check = make(tmp_path, TEXT + "at_least = 0")
    assert checks.evaluate(check, [PointResult("nbp", {}, 1, {"y": 1})]).status == "fail"


DIFFERS = 'differs = { cause = "the paper averages elsewhere", sensitivity = "fifo", band = [3.8, 4.2] }\n'


def test_a_miss_differs_only_for_a_named_cause(tmp_path):
    check = make(tmp_path, TEXT + "at_least = 5\n" + DIFFERS)
    missed = checks.evaluate(check, [point(4)])
    assert (missed.status, missed.note) == ("differs", "the paper averages elsewhere")
    assert checks.evaluate(check, [point(6)]).status == "pass"


def test_what_follows_for_an_ideal_differs_for_a_named_cause_too(tmp_path):
    check = make(tmp_path, TEXT.replace("text", "derived") + "at_least = 5\n" + DIFFERS)
    assert checks.evaluate(check, [point(4)]).status == "differs"
    assert checks.evaluate(check, [point(3)]).status == "fail"


@pytest.mark.parametrize(
    "body",
    [
        TEXT + 'at_least = 5\ndiffers = { cause = "because" }',
        TEXT + 'at_least = 5\ndiffers = { sensitivity = "fifo" }',
        TEXT + 'at_least = 5\ndiffers = { cause = "because", sensitivity = "fifo" }',
        TEXT + "",
        TEXT + "at_least = 5\nat_most = 6",
        TEXT + "value = 5",
        TEXT + 'value = 5\ntolerance = "3 apples"',
        TEXT + 'value = 5\ntolerance = "-1"',
        TEXT + 'at_least = 5\ntolerance = "3%"',
        TEXT + 'at_least = "five"',
        TEXT + "between = [2, 1]",
        TEXT + "at_least = 5\ntypo = 1",
        TEXT + 'at_least = 5\nreduce = "some"',
        TEXT + "at_least = 5\nwhere = { load = { more = 1 } }",
        'kind = "vague"\nprovenance = "text"\nat_least = 5',
        'kind = "quantitative"\nprovenance = "hearsay"\nat_least = 5',
        'kind = "quantitative"\nat_least = 5',
        "not toml",
    ],
)
def test_a_wrong_file_is_refused(tmp_path, body):
    with pytest.raises(InvalidFileError):
        make(tmp_path, body)


def test_a_sensitivity_must_exist(tmp_path):
    path = tmp_path / "expected.toml"
    path.write_text(
        check_text("at_least = 1", more='differs = { cause = "c", sensitivity = "no/where", band = [0, 1] }')
    )
    with pytest.raises(InvalidFileError, match="no/where"):
        checks.load(path, ["share"])
    path.write_text(
        check_text("at_least = 1", more='differs = { cause = "c", sensitivity = "nobody", band = [0, 1] }')
    )
    expected = checks.load(path, ["share"])
    with pytest.raises(InvalidFileError, match="nobody"):
        checks.require_fits(expected["share"], Info("two/share", {}, variants={"fifo": "", "fair": ""}))


def test_expectations_of_an_unknown_experiment_are_refused(tmp_path):
    path = tmp_path / "expected.toml"
    path.write_text(check_text("at_least = 1"))
    with pytest.raises(InvalidFileError, match="no experiment"):
        checks.load(path, ["other"])


def test_quick_false_is_skipped_in_the_quick_form_only(tmp_path):
    check = make(tmp_path, TEXT + "at_least = 5\nquick = false")
    assert checks.evaluate(check, [point(1)], quick=True).status == "skipped"
    assert checks.evaluate(check, [point(1)], quick=False).status == "fail"


def test_an_experiment_is_as_bad_as_its_worst_check(tmp_path):
    check = make(tmp_path, TEXT + "at_least = 5")
    outcomes = {status: checks.Outcome(check, status) for status in ("pass", "differs", "fail", "skipped")}
    assert checks.status_of([outcomes["pass"], outcomes["skipped"]]) == "pass"
    assert checks.status_of([outcomes["pass"], outcomes["differs"]]) == "differs"
    assert checks.status_of([outcomes["differs"], outcomes["fail"]]) == "fail"


def test_outcomes_are_plain_json(tmp_path):
    outcome = checks.evaluate(make(tmp_path, TEXT + "at_least = 5"), [point(6)])
    assert json.loads(json.dumps(outcome.to_record(), allow_nan=False))["status"] == "pass"


def test_student_t_matches_tables():
    for degrees, expected in (
        (1, 12.706),
        (9, 2.262),
        (30, 2.042),
        (31, 2.0395),
        (40, 2.0211),
        (120, 1.9799),
    ):
        assert stats.t_975(degrees) == pytest.approx(expected, abs=5e-4)


BANDED = 'differs = { cause = "c", sensitivity = "nbp", band = [3, 4] }'


@pytest.mark.parametrize(
    ("value", "quick", "status", "says"),
    [
        (3.5, False, "differs", "c"),
        (4.5, False, "fail", "outside of 3 to 4"),
        (2.5, True, "fail", "outside of 3 to 4"),
        (1.0, False, "pass", "stale"),
        (1.0, True, "pass", ""),
    ],
)
def test_a_difference_stays_in_its_band_or_is_none(tmp_path, value, quick, status, says):
    check = make(tmp_path, f"at_most = 2\n{TEXT}{BANDED}")
    outcome = checks.evaluate(check, [point(value)], quick)
    assert (outcome.status, says in outcome.note) == (status, True)
    assert outcome.to_json()["band"] == [3.0, 4.0]


def test_a_difference_stands_until_seeds_decide_that_there_is_none(tmp_path):
    check = make(tmp_path, f"at_most = 2\n{TEXT}{BANDED}")
    near = [point(value, seed=seed) for seed, value in enumerate([1.7, 2.1, 1.9, 2.0], 1)]
    outcome = checks.evaluate(check, near)
    assert (outcome.status, "may still differ: c" in outcome.note) == ("differs", True)
    far = [point(value, seed=seed) for seed, value in enumerate([1.0, 1.1, 0.9, 1.0], 1)]
    assert checks.evaluate(check, far).status == "pass"


def test_the_median_of_seeds_does_not_move_with_a_run_of_another_kind(tmp_path):
    points = [point(value, seed=seed) for seed, value in enumerate([1.0, 1.2, 1.1, 9.0, 1.1], 1)]
    median = make(tmp_path, f'over_seeds = "median"\nat_most = 2\n{TEXT}')
    outcome = checks.evaluate(median, points)
    assert (outcome.status, outcome.measured) == ("pass", 1.1)
    # sqrt(pi / 2) * 1.4826 * 0.1 / sqrt(5), and 2.7764 of them on both sides.
    assert outcome.ci95 == pytest.approx((1.1 - 0.2307, 1.1 + 0.2307), abs=1e-4)
    assert not checks.undecided([median], points)
    assert checks.evaluate(make(tmp_path, f"at_most = 2\n{TEXT}"), points).measured == pytest.approx(2.68)


def test_the_quick_form_may_have_a_band_of_its_own(tmp_path):
    banded = BANDED.replace("band = [3, 4]", "band = [3, 4], quick_band = [5, 6]")
    check = make(tmp_path, f"at_most = 2\n{TEXT}{banded}")
    assert checks.evaluate(check, [point(5.5)], quick=True).status == "differs"
    assert checks.evaluate(check, [point(3.5)], quick=True).status == "fail"
    assert checks.evaluate(check, [point(3.5)]).status == "differs"


def test_a_band_is_a_range(tmp_path):
    with pytest.raises(InvalidFileError, match="band"):
        make(tmp_path, f"at_most = 2\n{TEXT}{BANDED.replace('[3, 4]', '[4, 3]')}")


def test_what_lies_less_than_two_standard_errors_outside_is_within_its_noise(tmp_path):
    check = make(tmp_path, f"at_most = 2\n{TEXT}")
    near = checks.evaluate(check, [point(value, seed) for seed, value in enumerate((1.9, 2.3, 2.1), 1)])
    assert (near.status, near.note) == ("pass", "within its noise")
    far = checks.evaluate(check, [point(value, seed) for seed, value in enumerate((2.1, 2.3, 2.2), 1)])
    assert (far.status, far.note) == ("fail", "")
    assert checks.evaluate(check, [point(2.001)]).status == "fail", "one seed has no noise"


def test_what_passes_within_its_noise_says_so(tmp_path):
    check = make(tmp_path, f"at_most = 2\n{TEXT}")
    noisy = [point(value, seed) for seed, value in enumerate((1.0, 2.9, 1.9), 1)]
    outcome = checks.evaluate(check, noisy)
    assert outcome.status == "pass" and outcome.note == "within its noise"
    deviation = statistics.stdev((1.0, 2.9, 1.9)) / 3**0.5
    assert outcome.margin_sigma == pytest.approx((2 - statistics.mean((1.0, 2.9, 1.9))) / deviation)
    assert checks.evaluate(check, noisy[:1]).margin_sigma is None


def test_what_was_fitted_is_counted_as_such(tmp_path):
    check = make(tmp_path, f'at_most = 2\n{TEXT}fitted = "delay"')
    stored = checks.evaluate(check, [point(1.0)]).to_record()
    assert (stored["provenance"], checks.worth(stored)) == ("fitted", "fitted")
    assert checks.counts([stored])["fitted"] == 1


def test_a_range_is_compared_in_its_unit(tmp_path):
    def chosen(where, *values):
        check = make(tmp_path, f"at_most = 2\n{TEXT}where = {{ delay = {where} }}")
        points = [point(1.0, delay=value) for value in values]
        return [each.axes["delay"] for each in points if measured.matches(each, check.where)]

    assert chosen('{ at_most = "0.05s" }', "5ms", "100ms", "560ms") == ["5ms"]
    assert chosen('{ at_least = 50, at_most = "1e2" }', "5", "100", "560") == ["100"]
    for ends in ('{ at_most = "50" }', '{ at_least = "1kB" }', '{ at_least = "1ms", at_most = 7 }'):
        with pytest.raises(MeasureError, match="cannot compare '5ms' with"):
            chosen(ends, "5ms")


def test_a_point_that_fails_for_certain_is_not_hidden_by_one_that_is_noisy(tmp_path):
    check = make(tmp_path, f"at_most = 0.59\n{TEXT}")
    still = [point(0.594, seed, load="1Mbit") for seed in range(1, 5)]
    noisy = [point(value, seed, load="2Mbit") for seed, value in enumerate((0.5, 0.9, 0.55, 0.8), 1)]
    assert checks.evaluate(check, noisy).status == "pass"
    outcome = checks.evaluate(check, still + noisy)
    assert (outcome.status, outcome.where) == ("fail", "nbp, load=1Mbit")


def test_seeds_that_gave_the_same_decide_only_where_nothing_is_drawn_or_they_are_many(tmp_path):
    check = make(tmp_path, f"at_least = 0.99\n{TEXT}")

    def points(count, **more):
        of = {key: (lambda seed, value=value: value * seed) for key, value in more.items()}
        made = [point(1.0, seed) for seed in range(1, count + 1)]
        for one in made:
            one.summary.update({key: make_value(one.seed) for key, make_value in of.items()})
        return made

    assert checks.undecided([check], points(4)) == set()
    assert len(checks.undecided([check], points(4, delay=0.1))) == 1
    assert checks.undecided([check], points(12, delay=0.1)) == set()
