"""Golden results: the release build gives the very bytes that the development build must give.

`crates/lab/tests/suite/golden.rs` is the other half. Results do not depend on the number of workers either.
"""

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
