"""The report: self-contained, complete, safe against what files say; topologies as they should look."""

import json
import re
import xml.etree.ElementTree as ElementTree

import networks
import pytest

from tidegate import checks, experiment, figures, report, topology
from tidegate.commands.reproduce import judge
from tidegate.network import range_label, stem


@pytest.fixture
def result(shelf):
    each = experiment.Experiment("two/share", shelf / "two" / "share.toml")
    points = list(experiment.run_tasks(each.tasks(), 2))
    expected = checks.load(shelf / "expected.toml")["two/share"]
    return judge(each, points, [], expected, quick=False)


def test_the_page_loads_nothing(result):
    page = report.render([result], "A page")
    own = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    addresses = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]*)""", own)
    assert all(address.startswith("#") for address in addresses)
    assert "@import" not in own
    assert "url(" not in own
    assert page.count("<script") == page.count("</script>")


def test_the_page_shows_what_matters(result):
    page = report.render([result, result], "Two")
    for text in (
        "Two flows share a link",
        "a test",
        "TCP keeps half",
        "0.75 ±3% Mb/s",
        "assumed",
        "<svg",
        "1.5 Mb/s",
    ):
        assert text in page
    drawn = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])
    assert set(drawn) == {"two-share/throughput", "two-share/time"}


def test_texts_cannot_break_out_of_the_page(result):
    result.info.title = "<script>alert(1)</script>"
    result.info.figures[0]["title"] = "</script><b>"
    result.info.figures[0]["labels"] = ["</script><i>", "UDP"]
    page = report.render([result], "<title>")
    assert "<script>alert" not in page
    assert "</script><i>" not in page


def test_figures_have_units_bands_and_labels(result):
    figure, over_time = figures.build_all(result.info, result.points)
    assert figure.problem == ""
    assert figure.x_label == "offered by UDP (Mb/s)"
    assert [trace.label for trace in figure.traces] == [
        "TCP, FIFO", "TCP, fair queueing", "UDP, FIFO", "UDP, fair queueing",
    ]  # fmt: skip
    assert figure.traces[0].x == [0.25, 0.5, 1.0]
    assert all(trace.low is not None for trace in figure.traces)
    assert over_time.y_label == "throughput (Mb/s)"
    assert [trace.label for trace in over_time.traces] == [
        f"{flow}, load {load}" for load in ("250kbit", "500kbit", "1Mbit") for flow in ("tcp", "udp")
    ]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"kind": "pie", "y": "1"}, "unknown kind"),
        ({"kind": "lines", "y": "1", "x": "nothing"}, "no axis"),
        ({"kind": "lines", "x": "load"}, "no `y`"),
        ({"kind": "lines", "x": "load", "y": "flows.nobody.x"}, "nothing matches"),
        ({"kind": "series", "y": "flows.*.cwnd_bytes"}, "no recorded series"),
        ({"kind": "heatmap", "x": "load", "y": "1"}, "two axes"),
        ({"kind": "lines", "x": "load", "y": "1", "variant": "none"}, "no run"),
    ],
)
def test_a_figure_that_cannot_be_made_says_why(result, spec, complaint):
    figure = figures.build({"id": "f", **spec}, result.info, result.points)
    assert re.search(complaint, figure.problem)


def test_bars_and_references_share_the_axis(result):
    spec = {
        "id": "b",
        "kind": "bars",
        "y": ["flows.tcp.throughput_bps", "flows.udp.throughput_bps"],
        "labels": ["T", "U"],
    }
    chosen = [point for point in result.points if point.axes["load"] == "1Mbit"]
    references = [
        {"figure": "b", "label": "paper", "x": ["U", "T"], "y": [1.0, 2.0]},
        {"figure": "b", "y": 3},
    ]
    figure = figures.build(spec, result.info, chosen, references)
    assert figure.problem == ""
    assert figure.ticks == [(0.0, "T"), (1.0, "U")]
    assert figure.traces[-2].x == [1.0, 0.0]
    assert len(figure.traces) == 4


def test_long_series_keep_their_peaks():
    x = [float(i) for i in range(100_000)]
    y = [0.0] * 100_000
    y[54_321] = 7.0
    thin_x, thin_y = figures._thinned(x, y)
    assert len(thin_x) <= figures.SERIES_POINTS_MAX + 2
    assert max(thin_y) == 7.0


def drawing(scenario):
    text = topology.svg(scenario.build().description)
    root = ElementTree.fromstring(text)
    nodes = [
        group
        for group in root.iter("g")
        if group.get("class", "").startswith("node") and group.find("title") is not None
    ]
    return text, {node.find("title").text: node for node in nodes}


def centre(node):
    circle = next((each for each in node.iter("circle")), None)
    if circle is not None:
        return float(circle.get("cx")), float(circle.get("cy"))
    rect = next(node.iter("rect"))
    return float(rect.get("x")) + float(rect.get("width")) / 2, float(rect.get("y")) + float(
        rect.get("height")
    ) / 2


def test_the_dumbbell_has_sources_left_and_sinks_right():
    text, nodes = drawing(networks.fig7())
    assert set(nodes) == {"S1", "S2", "S3", "S4", "I1", "I2", "R1", "R2", "E1", "E2"}
    order = [centre(nodes[name])[0] for name in ("S1", "I1", "R1", "R2", "E1", "S3")]
    assert order == sorted(order)
    assert "1.5 Mb/s" in text
    assert "128 kb/s" in text


def test_the_chain_is_straight_with_sources_above_and_sinks_below():
    _, nodes = drawing(networks.chain(10))
    routers = [centre(nodes[f"R{index}"]) for index in range(1, 12)]
    assert [x for x, _ in routers] == sorted(x for x, _ in routers)
    assert len({y for _, y in routers}) == 1
    assert centre(nodes["U5"])[1] < routers[0][1] < centre(nodes["V5"])[1]


def test_equal_branches_of_a_large_network_are_drawn_once():
    _, nodes = drawing(networks.gfc2())
    assert "G1…G7" in nodes
    assert len(nodes) < 60


@pytest.mark.parametrize("build", [networks.fig7, networks.chain, networks.gfc2])
def test_no_two_nodes_are_drawn_on_each_other(build):
    places = [centre(node) for node in drawing(build())[1].values()]
    for index, (x, y) in enumerate(places):
        for other_x, other_y in places[index + 1 :]:
            assert abs(x - other_x) + abs(y - other_y) > 34


def test_names_are_put_together():
    assert stem("G7") == "G"
    assert range_label(["G1", "G2", "G7"]) == "G1…G7"
    assert range_label(["A1-sink", "A3-sink"]) == "A1…A3-sink"
    assert range_label(["one"]) == "one"


def test_flows_that_are_alike_are_written_once():
    flows = [
        {"name": f"f{i}", "from": "a", "to": ["b", "c"], "transport": {"kind": "udp"}, "weight": 1}
        for i in range(3)
    ]
    flows.append({"name": "other", "from": "a", "to": ["b"], "transport": {"kind": "tcp"}, "weight": 1})
    rows = dict(report._flat({"flows": flows}))
    assert rows == {
        "flows.f0 and 2 more": "f0 (a to b, c), f1 (a to b, c), f2 (a to b, c)",
        "flows.f0 and 2 more.transport.kind": "udp",
        "flows.f0 and 2 more.weight": "1",
        "flows.other.from": "a",
        "flows.other.to": "b",
        "flows.other.transport.kind": "tcp",
        "flows.other.weight": "1",
    }
