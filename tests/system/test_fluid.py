"""Fluids against an independent integration of the same equations."""

import sys
from pathlib import Path

import numpy as np
import pytest

import tidegate

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/oracle/python"))
from reference_fluid import Pi, Red, Tcp, Windows, integrate  # noqa: E402

QUEUES = {
    "red": {
        "kind": "red", "limit": "5000p", "min": "50p", "max": "150p", "max_p": 0.1, "weight": 0.002,
        "gentle": True, "ecn": False, "mean_packet": "1500B",
    },
    "pi": {
        "kind": "pi", "limit": "5000p", "q_ref": "100p", "a": 1e-3, "b": 0.95e-3, "ecn": False,
        "mean_packet": "1500B",
    },
}  # fmt: skip
LAWS = {"red": lambda: Red(50.0, 150.0, 0.1, 0.002), "pi": lambda: Pi(100.0, 1e-3, 0.95e-3)}
SCENARIO = """
duration = "12s"
[nodes]
hosts = ["S", "D"]
routers = ["A", "B"]
[defaults]
link = { rate = "100Gbit", delay = "5ms", queue = { kind = "droptail", limit = "10000p" } }
[links.core]
between = ["A", "B"]
rate = "50Mbit"
delay = "10ms"
[links]
S-A = { between = ["S", "A"] }
B-D = { between = ["B", "D"] }
[flows.all]
from = "S"
to = "D"
fluid = { count = 100, window = 64 }
[record]
every = "100ms"
series = ["links.core.queue_packets", "fluids.all.*"]
"""


@pytest.mark.parametrize("kind", ["red", "pi"])
def test_the_engine_and_an_independent_integration_agree_over_time(kind: str, tmp_path: Path) -> None:
    (tmp_path / "fluid.toml").write_text(SCENARIO)
    run = tidegate.load(tmp_path / "fluid.toml", links__core__queue=QUEUES[kind]).run()
    wire = (1500 + 40) * 8
    rtt = 0.04 + wire / 50e6 + 2 * wire / 100e9
    reference = integrate(Tcp(100, rtt, window=64), LAWS[kind](), 50e6 / 12e3, 0.005 + 12e3 / 100e9, 12.0)
    at, queue = run.series("links.core.queue_packets")
    _, window = run.series("fluids.all.cwnd_segments")
    settled = at > 2.0
    expected = np.interp(at, reference.times, reference.queue)
    # The law settles where it does, and the way there is the same.
    assert abs(queue[settled].mean() / expected[settled].mean() - 1.0) < 0.03
    assert np.abs(queue - expected)[settled].mean() < 0.05 * expected[settled].mean()
    windows = np.interp(at, reference.times, reference.window)
    assert abs(window[settled].mean() / windows[settled].mean() - 1.0) < 0.01


def test_the_reference_follows_the_square_root_law() -> None:
    """Its stationary mean for a given small probability: both could be wrong together, but not here."""
    grid = Windows(Tcp(1, 0.1, window=4096, delayed_ack=0.0))
    state, rtt, p = grid.start(), 0.1, 1e-3
    state[-1] = 40.0
    for _ in range(8000):
        state = state + grid.slope(state, p, rtt) * 0.01
    assert abs(grid.window(state) * np.sqrt(p) / 1.3098 - 1.0) < 0.04
