"""The laws of docs/scale.md: known values, and that the page and the curves of figures are what they give."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def laws():
    name = "scale_laws"
    specification = importlib.util.spec_from_file_location(name, ROOT / "docs/scale_laws.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look there
    specification.loader.exec_module(module)
    yield module
    del sys.modules[name]


def test_the_page_and_the_curves_are_as_they_would_be_written(laws):
    # If not: python docs/scale_laws.py
    assert laws.main(["--check"]) == 0


def test_the_sizes_of_messages_are_those_of_the_code(laws):
    nbp = (ROOT / "crates/mechanism/src/edge/nbp/wire.rs").read_text(encoding="utf-8")
    iec = (ROOT / "crates/mechanism/src/edge/iec/wire.rs").read_text(encoding="utf-8")
    hop = (ROOT / "crates/mechanism/src/hop/wire.rs").read_text(encoding="utf-8")
    assert f"FORWARD_BYTES: usize = {laws.NBP_FORWARD_BYTES};" in nbp
    assert f"BACKWARD_BYTES: usize = {laws.NBP_BACKWARD_BYTES};" in nbp
    assert f"{laws.NBP_FLOW_BYTES} bytes for an IPv4 flow" in nbp
    assert "CONTROL_BYTES: usize = 2 + 8 + 4 + 8 * 5 + 4;" in iec
    assert "FEEDBACK_BYTES: usize = 2 + 8 + 4 + 8 * 4;" in iec
    assert (laws.IEC_CONTROL_BYTES, laws.IEC_FEEDBACK_BYTES) == (2 + 8 + 4 + 8 * 5 + 4, 2 + 8 + 4 + 8 * 4)
    assert "HEAD_BYTES: usize = 1 + 8 + 2;" in hop
    assert laws.NBQ_REPORT_BYTES == 1 + 8 + 2


def test_a_flow_of_nbp_is_listed_once_forward_and_twice_back(laws):
    forward, backward = 28 + 11 + 14, 28 + 13 + 18
    assert laws.nbp_control_bps(1, 0.04) == pytest.approx(8 * (forward + 2 * backward) / 0.04)
    assert laws.nbp_control_bps(1, 0.01) == pytest.approx(8 * (forward + backward) / 0.01)


def test_long_lists_are_split_into_packets(laws):
    # 104 flows fit forward, 81 back.
    assert laws.nbp_control_bps(105, 0.04) - laws.nbp_control_bps(104, 0.04) == pytest.approx(
        8 * (14 + 39 + 2 * 18) / 0.04
    )


def test_the_bound_of_iec_is_that_of_its_page(laws):
    # docs/mechanisms/iec.md, Robustness: 6.22 with 4.17 packets each, without control packets.
    assert laws.iec_queue(1, 4.1667) - 0.172 == pytest.approx(6.22, abs=0.005)
    assert laws.eec_queue(100) == pytest.approx(417.2)


def test_the_bound_of_nbp_is_that_of_growth_step_by_step(laws):
    """A hundredth of a round trip at a time, with the worst sampling and the worst first excess."""
    worst = 0.0
    for start in range(1, 101):
        time, queue, passed = 0, 0.0, None
        while passed is None or time < passed + 200:
            queue += (start / 100 + time // 100) / 100
            time += 1
            if passed is None and queue >= 2:
                passed = time
        worst = max(worst, queue)
    assert laws.nbp_queue(1) == pytest.approx(worst + 1, abs=0.1)


def test_growth_takes_a_round_trip_for_each_packet(laws):
    loop = laws.Loop(share_bps=2e6, rtt_s=0.5)
    assert loop.packets == 125
    assert laws.iec_refill_s(loop) == pytest.approx(0.4 * 125 * 0.5)
    assert laws.nbp_refill_s(loop) == pytest.approx(laws.iec_refill_s(loop))
    # Of 2 packets a tenth of the rate is less than a packet: 1.1 to the power of 7 is more than 1.8.
    assert laws.nbp_refill_s(laws.Loop(8e4, 0.2)) == pytest.approx(7 * 0.2)


def test_numbers_have_two_digits(laws):
    assert [laws.number(value) for value in (0, 0.0123, 4.56, 123.4, 12_345, 1_234_567)] == [
        "0", "0.012", "4.6", "120", "12,000", "1.2 million",
    ]  # fmt: skip
    assert [laws.memory(size) for size in (32, 8.3e4, 1.5e9)] == ["32 B", "83 kB", "1.5 GB"]
