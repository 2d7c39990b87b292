"""The measure language: what it computes, and that nothing but a MeasureError ever comes out of it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import measure
from tidegate.errors import LackingError, MeasureError, NoValueError
from tidegate.experiment import PointResult


class Series:
    series_names = ["flows.a.rate_bps", "flows.aa.rate_bps"]

    def series(self, name):
        return np.arange(6.0), np.array([0.0, 4.0, 9.0, 10.0, 10.5, 10.0])


RUN = PointResult(
    "nbp",
    {"load": "1.5Mbit", "scheme": "red"},
    1,
    {
        "flows": {
            "tcp": {"throughput_bps": 1.2e6, "delay_ms": {"mean": 4.0}, "empty": None},
            "udp1": {"throughput_bps": 3e5, "delay_ms": {"mean": 8.0}},
            "udp2": {"throughput_bps": 5e5, "delay_ms": {"mean": 6.0}},
        },
        "links": {"R1-R2": {"utilization": 0.9}},
        "text": "words",
    },
    result=Series(),
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("flows.tcp.throughput_bps / 1e6", 1.2),
        ("flows.tcp.delay_ms.mean", 4.0),
        ('value("links.R1-R2.utilization") * 100', 90.0),
        ('sum("flows.*.throughput_bps")', 2e6),
        ('mean("flows.udp*.throughput_bps")', 4e5),
        ('max("flows.*.delay_ms.mean") - min("flows.*.delay_ms.mean")', 4.0),
        ('count("flows.*.throughput_bps")', 3.0),
        ('quantile("flows.*.delay_ms.mean", 0.5)', 6.0),
        ('max(abs(values("flows.udp*.throughput_bps") / 4e5 - 1))', 0.25),
        ("min(3, 2, flows.tcp.delay_ms.mean)", 2.0),
        ("abs(-2) ** 2 + sqrt(9)", 7.0),
        ('axis("load") / 1e6', 1.5),
        ("1 < flows.tcp.delay_ms.mean <= 4 and not 0", 1.0),
        ("flows.tcp.delay_ms.mean == 5 or 0", 0.0),
        ('sum(values("flows.*.throughput_bps") < 6e5)', 2.0),
        ('series_mean("flows.a.rate_bps", "3s", "5s")', 30.5 / 3),
        ('series_last("flows.a.rate_bps")', 10.0),
        ('series_max("flows.a.rate_bps", "0s", "1000ms")', 4.0),
        ('series_settling_s("flows.a.rate_bps", 10, 0.2)', 2.0),
        ('sum(series_max("flows.*.rate_bps", "0s", "1s") ** 2)', 32.0),
        ('jain("flows.udp*.throughput_bps")', 0.64 / (2 * 0.34)),
    ],
)
def test_measures_compute(source, expected):
    assert measure.evaluate(source, RUN) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("flows.tpc.throughput_bps", "nothing matches.*here are: tcp, udp1, udp2"),
        ("flows.tcp", "a table"),
        ("flows.tcp.empty", "no value"),
        ("text", "not a number"),
        ("1 / 0", "division by zero"),
        ("1e308 * 10", "finite"),
        ("9 ** 9 ** 9 ** 9", r"9 \*\* 3.8742e\+08: the result is larger than any number here"),
        ("flows.tcp.throughput_bps / (flows.tcp.delay_ms.mean - 4)", r"1.2e\+06 / 0: a division by zero"),
        ("flows.tcp.throughput_bps % (flows.tcp.delay_ms.mean - 4)", "% 0: a division by zero"),
        ("flows.tcp.throughput_bps ** 99", r"1.2e\+06 \*\* 99: the result is larger than any number"),
        ("log(flows.tcp.delay_ms.mean - 4)", r"log\(\) takes numbers above 0, not 0"),
        ("exp(flows.tcp.throughput_bps)", r"exp\(\) takes numbers up to 709, not 1.2e\+06"),
        ('cov(values("flows.*.throughput_bps") * 0)', "a division by zero"),
        ("(-8) ** 0.5", "root"),
        ("sqrt(-1)", r"sqrt\(\) takes numbers from 0 on, not -1"),
        ("flows.tcp.throughput_bsp", "did you mean throughput_bps"),
        ("flows.*.throughput_bps", r'in quotes, in a function .*: mean\("flows\.\*\.throughput_bps"\)'),
        ('sum("a") + flows.udp*.throughput_bps', r'mean\("flows\.udp\*\.throughput_bps"\)'),
        ('values("flows.*.throughput_bps")', "gives 3 values"),
        ("__import__('os')", "functions are"),
        ("().__class__", "not allowed"),
        ("flows['tcp']", "not allowed"),
        ("lambda: 1", "not allowed"),
        ("[x for x in flows]", "not allowed"),
        ("'text'", "argument of a function"),
        ('axis("lode")', "axes: load, scheme"),
        ('axis("scheme")', "not a quantity"),
        ('series_mean("flows.b.rate_bps")', "recorded: flows.a.rate_bps"),
        ('sum(series_mean("links.*.rate_bps"))', "no series .*recorded: flows.a.rate_bps"),
        ('series_max("flows.*.rate_bps")', "gives 2 values"),
        ('series_mean("flows.a.rate_bps", "7s")', "no value between"),
        ('series_mean("flows.a.rate_bps", "7kg")', "not a time"),
        ('quantile("flows.*.delay_ms.mean", 2)', "between 0 and 1"),
        ("1 +", "cannot read"),
        ("(" * 500, ""),
        ("-" * 1500 + "1", ""),
        ("x" * 3000, "longer"),
        ("\0", ""),
        ("", ""),
    ],
)
def test_mistakes_are_explained(source, complaint):
    with pytest.raises(MeasureError, match=complaint or None):
        measure.evaluate(source, RUN)


@pytest.mark.parametrize(
    "source",
    ["1 / 0", "9**9**9**9", "log(0)", "10**400 * flows.a.x", "sum(1 % 0, flows.a.x)", "1e308 * 10", '"text"'],
)
def test_constants_without_a_result_are_refused_when_they_are_read(source):
    with pytest.raises(MeasureError) as refused:
        measure.parse(source)
    for words in ("math domain", "out of range", "Errno", "(34"):
        assert words not in str(refused.value)


@pytest.mark.parametrize("source", ["1 / 4", "0 * flows.a.x", "min(2, 3)", "log(flows.a.x) / 2", "1"])
def test_constants_with_a_result_are_read(source):
    measure.parse(source)


def test_all_keys_are_named_where_none_is_near():
    keys = {f"key{number}": number for number in range(20)}
    with pytest.raises(MeasureError, match="here are: key0, .*key19$"):
        measure.evaluate("flows.tcp.zzz", PointResult(None, {}, 1, {"flows": {"tcp": keys}}))


def finite_or_refused(source):
    try:
        assert math.isfinite(measure.evaluate(source, RUN))
    except MeasureError as error:
        assert str(error)


@given(st.text(max_size=200))
def test_any_text_gives_a_number_or_a_measure_error(source):
    finite_or_refused(source)


def test_who_gets_nothing_has_no_fairness():
    run = PointResult(None, {}, 1, {"flows": {name: {"goodput_bps": 0.0} for name in "ab"}})
    with pytest.raises(NoValueError, match="all that it compares are zero"):
        measure.evaluate('jain("flows.*.goodput_bps")', run)
    run.summary["flows"]["a"]["goodput_bps"] = 1.0
    assert measure.evaluate('jain("flows.*.goodput_bps")', run) == 0.5
    with pytest.raises(MeasureError, match="zero"):
        measure.parse("jain(0, 0)")


def test_what_was_not_counted_is_zero():
    link = {"delivered_packets": 5, "dropped_packets": 1, "drops_by_reason": {"early": 1}}
    empty = {"delivered_packets": 5, "dropped_packets": 0, "drops_by_reason": {}, "marks_by_reason": {}}
    run = PointResult(None, {}, 1, {"links": {"a": link | {"reverse": empty}, "b": empty}})

    def of(term):
        return measure.evaluate(term, run)

    assert of("links.a.drops_by_reason.early") == 1
    assert of("links.a.drops_by_reason.medium") == of("links.a.reverse.marks_by_reason.step") == 0
    assert of("links.a.duplicated_packets") == of("links.b.duplicated_packets") == 0
    assert of('mean("links.*.drops_by_reason.early")') == 0.5
    assert of('sum("links.b.drops_by_reason.*")') == 0
    assert of('sum("links.*.drops_by_reason.*")') == 1
    for misspelt in (
        "links.a.drops_by_reason.mediun",
        "links.b.marks_by_reason.medium",
        "links.a.duplicates",
    ):
        with pytest.raises(LackingError, match="nothing matches"):
            of(misspelt)
    with pytest.raises(LackingError, match="nothing matches"):
        measure.evaluate(
            "markers.m.duplicated_packets",
            PointResult(None, {}, 1, {"markers": {"m": {"dropped_packets": 1}}}),
        )


_LEAVES = st.sampled_from(
    [
        "1",
        "0",
        "1e300",
        "-3.5",
        "flows.tcp.throughput_bps",
        "flows.nobody.x",
        '"flows.*.throughput_bps"',
        '"4s"',
        '""',
    ]
)
_NAMES = st.sampled_from([*measure.FUNCTIONS, "eval", "open"])
_EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(
            inner,
            st.sampled_from(
                ["+", "-", "*", "/", "**", "%", "//", "<", "<=", "==", "and", "or", "@", "<<", "is"]
            ),
            inner,
        ).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        st.tuples(_NAMES, st.lists(inner, max_size=3)).map(lambda call: f"{call[0]}({', '.join(call[1])})"),
        inner.map(lambda term: f"(not -{term})"),
    ),
    max_leaves=12,
)


@given(_EXPRESSIONS)
def test_any_expression_gives_a_number_or_a_measure_error(source):
    finite_or_refused(source)
