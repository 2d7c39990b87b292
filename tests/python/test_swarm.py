"""The swarm finds nothing in a few cases, notices what is broken, and reduces it to what it takes."""

import dataclasses
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from swarm import __main__ as swarm
from swarm.case import draw
from swarm.judge import BOUNDS, broken

pytestmark = pytest.mark.real_core

FEW = range(1, 9)
# One with several faults that matter to nothing which is tried here, and with a buffer for a queue.
FAULTY = next(
    case for case in map(draw, range(1, 400)) if len(case.faults) >= 3 and not case.tcp and case.buffer >= 100
)


@pytest.mark.parametrize("seed", FEW)
def test_what_must_hold_holds_in_a_few_cases(seed):
    assert swarm.look(seed) == (seed, [])


def test_a_case_is_that_of_its_seed():
    assert draw(7) == draw(7) != draw(8)
    for seed in range(1, 50):
        tomllib.loads(draw(seed).text())


def test_a_mechanism_that_lets_queues_stand_is_noticed():
    assert broken(FAULTY) == []
    lax = dataclasses.replace(FAULTY, more='target = "400ms"')
    assert any("bytes wait in the path" in told for told in broken(lax))


def test_a_mechanism_that_looks_too_rarely_is_noticed():
    shy = dataclasses.replace(FAULTY, more='interval_min = "5s"')
    assert any("are used after recovery" in told for told in broken(shy))


@pytest.mark.parametrize(
    ("tight", "expected"),
    [
        ({"queue": 0.0, "packets": 0}, "bytes wait"),
        ({"part_of_datagrams": 1.0}, "are used"),
        ({"control_share": 0.0, "control_free_bps": 0.0}, "control takes"),
    ],
)
def test_each_bound_is_one(tight, expected):
    told = broken(FAULTY, bounds=dataclasses.replace(BOUNDS, **tight))
    assert len(told) == 1 and expected in told[0], told


def test_what_fails_is_reduced_to_the_faults_that_it_takes():
    assert len(FAULTY.faults) >= 3
    guilty = FAULTY.faults[1]
    small = swarm.reduce(FAULTY, lambda case: guilty in case.faults)
    assert small.faults == (guilty,)
    # Where no fault is to blame none is left.
    tight = dataclasses.replace(BOUNDS, queue=0.0, packets=0)
    assert swarm.reduce(FAULTY, lambda case: broken(case, bounds=tight)).faults == ()


def test_a_seed_that_fails_is_told_and_left_as_a_scenario(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(swarm, "broken", lambda case, again=False: ["it does not hold"])
    monkeypatch.setattr(swarm.reduce, "__defaults__", (swarm.broken,))
    monkeypatch.setattr(swarm.concurrent.futures, "ProcessPoolExecutor", _Here)
    monkeypatch.setattr(sys, "argv", ["swarm", "--only", "3", "--out", str(tmp_path)])
    assert swarm.main() == 1
    told = capsys.readouterr().out
    assert "seed 3: it does not hold" in told and "1 failed" in told
    tomllib.loads((tmp_path / "3.toml").read_text())


class _Here:
    """A pool that is this process."""

    def __init__(self, jobs):
        self.jobs = jobs

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return None

    def map(self, function, items, chunksize=1):
        return map(function, items)
