"""Differential testing against ns-2: its statistics, its reducer and its bookkeeping, without ns-2."""

import dataclasses
import json
import math
import random
import sys
from pathlib import Path

import pytest

ORACLE = Path(__file__).resolve().parent.parent / "oracle"
sys.path.insert(0, str(ORACLE))

from differential import clocks, generate, judge, known, ours, reduce, report, theirs  # noqa: E402
from differential.packets import SIMULTANEOUS, Event, first_divergence  # noqa: E402
from differential.scenario import Flow, Hop, Queue, Scenario  # noqa: E402

sys.path.remove(str(ORACLE))


def a_scenario(hops=3, flows=5, queue="red"):
    chain = tuple(Hop(1_000_000, 1_000_000, Queue(queue)) for _ in range(hops))
    some = [Flow("tcp", 0, hops, 8_000_000, 1_000_000, 1_000_000, start=(0, 10**9)) for _ in range(flows - 1)]
    some.append(Flow("cbr", hops, 0, 8_000_000, 1_000_000, 1_000_000, rate=100_000))
    return Scenario("test", chain, tuple(some), 4 * 10**9, 32 * 10**9)


@pytest.mark.parametrize(
    ("t", "freedom", "tail"),
    [(1.812461, 10, 0.05), (2.024394, 38, 0.025), (12.7062, 1, 0.025), (-1.475884, 5, 0.9), (0, 7, 0.5)],
)
def test_tails_of_students_t_are_those_of_tables(t, freedom, tail):
    assert judge.tail_of_t(t, freedom) == pytest.approx(tail, rel=1e-5)


def test_welch_gives_its_error_and_freedom():
    # Both samples by hand: variances 2.5 and 10, five each.
    error, freedom = judge.welch([1, 2, 3, 4, 5], [2, 4, 6, 8, 10])
    assert error == pytest.approx(math.sqrt(2.5))
    assert freedom == pytest.approx(2.5**2 / (0.5**2 / 4 + 2**2 / 4))


def test_a_difference_is_gone_if_what_is_left_is_within_the_margin_or_less_than_half_and_chance():
    def of(ours, theirs, error):
        return judge.verdict("", "queue", [ours - error, ours + error], [theirs, theirs], 0.5)

    found = of(7.2, 5.3, 0.1)
    assert judge.is_gone(found, of(7.2, 6.8, 0.1))
    assert judge.is_gone(found, of(7.2, 6.6, 0.3)), "scenario 79 of generator 24 with 48 runs"
    assert not judge.is_gone(found, of(7.2, 6.6, 0.001)), "beyond the margin, and not by chance"
    assert not judge.is_gone(found, of(7.2, 6.1, 0.6)), "more than half of it is there"


def test_the_procedure_of_benjamini_and_hochberg_rejects_up_to_the_last_small_enough():
    # 0.04 is above its own line at rank 3 and below none after it; 0.03 is above its line, and saved by 0.035
    # at rank 3.
    assert judge.discoveries([0.9, 0.001, 0.03, 0.035], 0.05) == [False, True, True, True]
    assert judge.discoveries([0.9, 0.02, 0.8, 0.7], 0.05) == [False] * 4
    assert judge.discoveries([], 0.05) == []


def test_false_discoveries_are_as_rare_as_promised():
    draw = random.Random(1)
    wrong = 0
    for _ in range(100):
        verdicts = [
            judge.verdict(
                "s", "q", [draw.gauss(10, 1) for _ in range(8)], [draw.gauss(10, 1) for _ in range(8)], 1e-9
            )
            for _ in range(20)
        ]
        # With no margin to speak of the test is one-sided on the size of the difference: half of the two-
        # sided value.
        wrong += any(judge.discoveries([2 * v.p_differs for v in verdicts]))
    assert wrong <= 12


def test_a_difference_within_the_margin_is_none_however_sure():
    same = judge.verdict("s", "q", [100.5, 100.6] * 20, [100.0, 100.1] * 20, 1.0)
    assert same.is_same and same.p_differs > 0.99
    large = judge.verdict("s", "q", [102.5, 102.6] * 20, [100.0, 100.1] * 20, 1.0)
    assert not large.is_same and large.p_differs < 1e-9


def test_runs_without_spread_are_judged_by_the_margin_alone():
    assert judge.verdict("s", "q", [5.0] * 3, [5.0] * 3, 0.1).p_differs == 1
    assert judge.verdict("s", "q", [6.0] * 3, [5.0] * 3, 0.1).p_differs == 0


def test_pooling_sees_what_is_too_small_for_one_scenario():
    draw = random.Random(2)
    verdicts = [
        judge.Verdict(f"s{i}", "queue.hop0", 10 * (1.02 + draw.gauss(0, 0.02)), 10.0, 0.2, 0.5, 1.0, 1.0)
        for i in range(60)
    ]
    row = next(
        row for row in judge.pool({"all": {f"s{i}" for i in range(60)}}, verdicts) if row.quantity == "queue"
    )
    assert row.scenarios == 60
    assert row.p < 0.001 and row.mean == pytest.approx(0.02, abs=0.008)


def test_reduction_leaves_what_the_difference_needs():
    # It needs RED, a TCP with ECN, and eight seconds.
    def persists(scenario):
        return (
            any(flow.ecn and flow.is_tcp for flow in scenario.flows)
            and all(hop.queue.kind == "red" for hop in scenario.hops)
            and scenario.stop >= 8 * 10**9
        )

    large = a_scenario()
    large = dataclasses.replace(
        large, flows=(dataclasses.replace(large.flows[0], ecn=True), *large.flows[1:])
    )
    small, steps = reduce.reduce(large, persists, 200)
    assert len(small.hops) == 1 and len(small.flows) == 1 and small.flows[0].ecn
    assert small.hops[0].queue.kind == "red"
    assert small.stop == 8 * 10**9 and small.begin <= small.stop // 4
    assert steps and persists(small)


def test_reduction_keeps_to_its_tries():
    asked = []
    small, steps = reduce.reduce(a_scenario(), lambda scenario: asked.append(scenario) or False, 7)
    assert len(asked) == 7 and not steps and small == a_scenario()


def test_a_form_without_chance_has_none():
    assert not a_scenario().is_deterministic
    assert reduce.deterministic(a_scenario(), 1).is_deterministic


def test_every_scenario_can_be_told_to_both_sides():
    for scenario in generate.scenarios(3, 40):
        assert not theirs.shares_a_queue(scenario)
        assert scenario == Scenario.from_json(json.loads(json.dumps(scenario.to_json())))
        assert scenario.name in theirs.tcl(scenario, 1)
        # Sums of such times are exact in the clock that ns-2 has in deterministic runs.
        for flow in scenario.flows:
            assert flow.access_delay % 125 == flow.exit_delay % 125 == flow.start[0] % 125 == 0
            assert 32_000_000_000 % (125 * flow.access_rate) == 0 and flow.packet % 4 == 0
        assert all(32_000_000_000 % (125 * hop.rate) == 0 for hop in scenario.hops)


def test_generators_give_the_same_for_the_same_seed():
    assert generate.scenario(1, 5) == generate.scenario(1, 5) != generate.scenario(2, 5)


@pytest.mark.real_core
def test_tidegate_reads_what_it_is_told(tmp_path):
    import tidegate

    for scenario in generate.scenarios(4, 25):
        path = tmp_path / "scenario.toml"
        path.write_text(ours.toml(scenario, 1))
        tidegate.load(path)


def test_clocks_are_those_of_the_simulators():
    draws = json.loads((ORACLE / "verdicts" / "draws.json").read_text())
    assert clocks.first_bits(draws["seed"]) == int(draws["bits"][0], 16)
    # Vectors of the reference implementation: key 00..0f, of nothing.
    key = [int.from_bytes(bytes(range(i, i + 8)), "little") for i in (0, 8)]
    assert clocks.siphash_1_3(*key, b"").to_bytes(8, "little").hex() == "dcc40f055801acab"
    # `$defaultRNG seed 401` and a draw, in ns-2.35.
    assert clocks.first_draw_of_ns(401) == pytest.approx(0.13406157965495324, abs=1e-9)
    near = clocks.first_draw_of_ns(clocks.seed_of_ns(50_000_000)) * clocks.TICK_NS
    assert near == pytest.approx(50_000_000, abs=100)


def at(time, link="hop0.forward", what="arrive", flow=0, sequence=0, kind="data"):
    return Event(time, link, what, flow, kind, sequence)


def next_link(event):
    return "hop0.forward" if event.link.startswith("in") else None


def test_equal_traces_do_not_diverge_in_whatever_order_an_instant_stands():
    events = [at(1), at(1, flow=1), at(2, sequence=1)]
    assert first_divergence(events, [events[1], events[0], events[2]], next_link) is None


def test_the_first_packet_that_differs_is_found():
    mine, other = [at(1), at(2, sequence=1)], [at(1), at(3, sequence=1)]
    found = first_divergence(mine, other, next_link)
    assert (found.matched, found.ours, found.theirs, found.cause) == (1, mine[1], other[1], "")
    lost = first_divergence([at(1)], [at(1), at(2, what="drop")], next_link)
    assert lost.ours is None and lost.theirs.what == "drop" and lost.time == 2


def test_packets_that_come_in_the_same_instant_are_told_from_others():
    coming = [at(1, "in0.forward"), at(1, "in1.forward", flow=1)]
    first, second = at(5), at(5, flow=1)
    found = first_divergence([*coming, first], [*coming, second], next_link)
    assert found.cause == SIMULTANEOUS
    apart = [coming[0], at(2, "in1.forward", flow=1)]
    assert first_divergence([*apart, first], [*apart, second], next_link).cause == ""


def test_known_differences_have_evidence():
    for entry in known.load():
        assert entry["why"].strip() and entry["evidence"].strip()


def test_a_known_difference_explains_no_more_than_it_says(tmp_path):
    path = tmp_path / "known.toml"
    path.write_text(
        '[[difference]]\nname = "n"\nquantity = "queue.*"\nqueue = ["red"]\nat_most = 0.1\n'
        'why = "w"\nevidence = "e"\n'
    )
    entries = known.load(path)
    small = judge.Verdict("test", "queue.hop0", 10.5, 10.0, 0.1, 0.2, 0.0, 1.0)
    assert known.of_verdict(entries, a_scenario(), small) == "n"
    assert known.of_verdict(entries, a_scenario(), dataclasses.replace(small, ours=12.0)) is None
    assert known.of_verdict(entries, a_scenario(queue="droptail"), small) is None
    assert known.of_verdict(entries, a_scenario(), dataclasses.replace(small, quantity="drops.hop0")) is None
    path.write_text('[[difference]]\nname = "n"\nquantity = "queue.*"\nwhy = "w"\n')
    with pytest.raises(ValueError, match="evidence"):
        known.load(path)


def test_unexplained_differences_fail_and_few_by_chance_do_not():
    verdict = judge.Verdict("test", "queue.hop0", 12.0, 10.0, 0.1, 0.5, 0.0, 1.0)
    outcome = report.Outcome(1, 8, [a_scenario()], [verdict], {})
    assert outcome.is_good
    outcome.findings = [report.Finding(a_scenario(), verdict)]
    assert not outcome.is_good and "NO KNOWN CAUSE" in report.text(outcome)
    outcome.findings[0].known = "n"
    assert outcome.is_good
    outcome.findings = [report.Finding(a_scenario(), verdict, known="n") for _ in range(19)]
    outcome.findings.append(report.Finding(a_scenario(), verdict))
    assert outcome.is_good and outcome.expected == 1
