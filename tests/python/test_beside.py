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


def test_the_whole_of_it_with_a_program_whose_packet_hops_cost_the_same(
    beside, tmp_path, monkeypatch, capsys
):
    def program(name, text):
        (tmp_path / name).write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
        (tmp_path / name).chmod(0o755)

    hops = "import re, sys; text = open(sys.argv[-1]).read()\n"
    hops += "of = {k: int(n) for k, n in re.findall(r'^(plain|other|duration) = \"?([0-9]+)', text, re.M)}\n"
    hops += "hops = (of['plain'] + of['other']) * of['duration']\n"
    says = "print('{\"packet_hops\":', hops, '}')\n"
    program("speed", hops + says)
    program("valgrind", hops + says + "print('Collected :', 700 * hops, file=sys.stderr)\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(sys, "argv", ["beside.py", "--flows", "2", "--program", str(tmp_path / "speed")])
    with pytest.raises(SystemExit) as ended:
        beside.main()
    assert ended.value.code == 0
    assert "cubic 700.0" in (said := capsys.readouterr().out) and "reno pays +0.00% for bbr" in said


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
