"""Seeds are added where a check is open, and only there; results decide, not the order of work."""

import math
from dataclasses import replace

import pytest
from test_checks import TEXT, make, point

from tidegate import checks, seeding, stats
from tidegate.experiment import Task


def tasks(count, *places):
    return [
        Task(variant, axes, seed, None, f"{variant}{axes}{seed}")
        for variant, axes in places
        for seed in range(1, count + 1)
    ]


def results(asked, value):
    """What the tasks give: `value` of each."""
    return [replace(point(value(task), task.seed, task.variant), axes=task.axes) for task in asked]


def counts(asked):
    found = {}
    for task in asked:
        found[task.variant] = found.get(task.variant, 0) + 1
    return found


LOAD = {"load": "1Mbit"}


def run(judged, all_tasks, value):
    """Rounds until nothing is asked for."""
    work = seeding.Seeding(all_tasks, judged, False)
    rounds = 1
    while work.go_on(results(work.asked, value)):
        rounds += 1
        assert rounds < 20
    return work


def test_what_is_clear_stops_with_the_first_seeds(tmp_path):
    check = make(tmp_path, TEXT + "at_least = 5")
    work = run([check], tasks(64, ("a", LOAD)), lambda task: 10 + task.seed % 2)
    assert counts(work.asked) == {"a": seeding.FIRST}


def test_an_open_check_uses_up_its_seeds(tmp_path):
    check = make(tmp_path, TEXT + "at_least = 5")
    work = run([check], tasks(50, ("a", LOAD)), lambda task: 5 + (-1) ** task.seed)
    assert counts(work.asked) == {"a": 50}


def test_only_points_that_are_open_go_on(tmp_path):
    check = make(tmp_path, TEXT + "at_least = 5")
    value = lambda task: {"near": 5.2, "far": 50}[task.variant] + (-1) ** task.seed  # noqa: E731
    work = run([check], tasks(16, ("near", LOAD), ("far", LOAD)), value)
    assert counts(work.asked) == {"near": 16, "far": 4}


def test_what_a_point_is_compared_with_goes_on_too(tmp_path):
    check = make(tmp_path, TEXT + 'where = { variant = "a" }\nrelative_to = { variant = "b" }\nat_least = 1')
    value = lambda task: 5 + math.sin(task.seed * (2 if task.variant == "a" else 3))  # noqa: E731
    work = run([check], tasks(16, ("a", LOAD), ("b", LOAD), ("c", LOAD)), value)
    sizes = counts(work.asked)
    assert sizes["a"] == sizes["b"] > 4 and sizes["c"] == seeding.DRAWN


def test_only_common_seeds_are_compared(tmp_path):
    check = make(
        tmp_path,
        TEXT + 'where = { variant = "a" }\nrelative_to = { variant = "b" }\nvalue = 2\ntolerance = "0"',
    )
    points = [point(4.0, seed, "a") for seed in (1, 2, 3)] + [point(2.0, 1, "b")]
    assert checks.evaluate(check, points).status == "pass"
    check = make(tmp_path, TEXT + 'reduce = "mean"\nvalue = 3\ntolerance = "0"')
    points = [point(4.0, 1, "a"), point(9.0, 2, "a"), point(2.0, 1, "b")]
    assert checks.evaluate(check, points).measured == 3.0


def test_which_seeds_are_run_does_not_depend_on_the_order_of_results(tmp_path):
    check = make(tmp_path, TEXT + "at_least = 5")
    all_tasks = tasks(32, ("a", LOAD), ("b", {"load": "2Mbit"}))
    value = lambda task: 5.4 + math.sin(7 * task.seed)  # noqa: E731
    work = seeding.Seeding(all_tasks, [check], False)
    other = seeding.Seeding(all_tasks, [check], False)
    while work.go_on(results(work.asked, value)):
        assert other.go_on(list(reversed(results(other.asked, value))))
        assert [task.key for task in work.asked] == [task.key for task in other.asked]


def test_all_seeds_are_run_where_they_are_wanted_or_few(tmp_path):
    check = make(tmp_path, TEXT + "at_least = 5")
    assert len(seeding.Seeding(tasks(30, ("a", LOAD)), [check], True).asked) == 30
    work = run([check], tasks(3, ("a", LOAD)), lambda task: 5 + (-1) ** task.seed)
    assert len(work.asked) == 3


def test_what_cannot_be_measured_needs_no_seeds(tmp_path):
    check = replace(make(tmp_path, TEXT + "at_least = 5"), measure="nothing")
    assert checks.undecided([check], [point(1.0, seed) for seed in range(4)]) == set()


@pytest.mark.parametrize(("degrees", "quantile"), [(3, 5.8409), (10, 3.1693), (40, 2.7045), (120, 2.6174)])
def test_student_t_of_99_per_cent_matches_tables(degrees, quantile):
    assert stats.t_995(degrees) == pytest.approx(quantile, abs=2e-3)
