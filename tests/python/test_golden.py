"""The release build that Python loads gives the very bytes that `crates/lab/tests/golden.rs` demands of the development
build, with any number of workers."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"

core = pytest.importorskip("tidegate._core")
pytestmark = pytest.mark.real_core


def summary(seed: int) -> str:
    scenario = core.Scenario.from_file(str(GOLDEN / "mix.toml"))
    return core.run(scenario, seed).summary_json


def test_results_are_the_golden_bytes():
    golden = (GOLDEN / "mix.txt").read_text().splitlines()[0]
    assert summary(7) == golden


def test_results_do_not_depend_on_the_number_of_workers():
    alone = [summary(seed) for seed in (1, 2, 3, 4)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(summary, (1, 2, 3, 4))) == alone
