"""What plain flows pay for paced ones (benches/beside.py): its arithmetic, and that flows keep apart."""

import importlib
import sys
from pathlib import Path

import pytest

import tidegate

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def beside():
    sys.path.insert(0, str(ROOT / "benches"))
    yield importlib.import_module("beside")
    sys.path.remove(str(ROOT / "benches"))
    del sys.modules["beside"], sys.modules["instructions"]


def test_what_a_mixture_takes_above_its_parts_is_charged_to_the_plain_flows(beside):
    plain, paced = beside.Cost(600_000, (500, 500)), beside.Cost(900_000, (400, 600))
    assert (plain.per_hop, paced.per_hop) == (600, 900)
    # 400 packet-hops at 600 and 300 at 900.
    assert beside.paid(plain, paced, beside.Cost(510_000, (400, 300))) == pytest.approx(0)
    assert beside.paid(plain, paced, beside.Cost(534_000, (400, 300))) == pytest.approx(0.1)
    assert beside.paid(plain, paced, beside.Cost(498_000, (400, 300))) == pytest.approx(-0.05)


@pytest.mark.real_core
def test_a_flow_does_the_same_whoever_else_is_there(beside, tmp_path):
    network = ROOT / "benches/scenarios/beside.toml"
    (tmp_path / network.name).write_bytes(network.read_bytes())

    def flows(*kinds):
        text = beside.scenario(kinds, 3, 2.0).replace(f"../../benches/scenarios/{network.name}", network.name)
        (tmp_path / "of.toml").write_text('title = "of"\n' + text, encoding="utf-8")
        return tidegate.load(tmp_path / "of.toml").run().summary["flows"]

    plain, paced = flows("reno", None), flows(None, "bbr")
    assert set(plain) == {"plain1", "plain2", "plain3"} and set(paced) == {"other1", "other2", "other3"}
    assert plain | paced == flows("reno", "bbr")
    assert all(flows(None, kind) != paced for kind in ("bbr3", "reno by timer", "cubic"))
