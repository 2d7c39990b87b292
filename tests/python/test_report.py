"""The report: self-contained, complete, safe against what files say; topologies as they should look."""

import dataclasses
import re
import xml.etree.ElementTree as ElementTree

import networks
import pytest

from tidegate import (
    checks,
    display,
    draw_page,
    experiment,
    figure_kinds,
    figures,
    labels,
    parallel,
    report,
    report_figures,
    side_by_side,
    stats,
    topology,
    topology_svg,
)
from tidegate.commands.reproduce import judge
from tidegate.experiment import PointResult
from tidegate.figure import Trace
from tidegate.network import range_label, stem


@pytest.fixture
def result(shelf):
    each = experiment.Experiment("two/share", shelf / "two" / "share.toml")
    points = list(experiment.run_tasks(each.tasks(), parallel.Threads(2)))
    expected = checks.load(shelf / "two" / "expected.toml")["share"]
    return judge(each, points, [], expected, quick=False)


def test_the_page_loads_nothing(result):
    page = report.render([result], "A page")
    own = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    addresses = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]*)""", own)
    assert all(address.startswith("#") for address in addresses)
    assert "@import" not in own
    assert "url(" not in own
    assert page.count("<script") == page.count("</script>")


@pytest.mark.parametrize("other", ["two/share", "two-share", "two/share-time", "results", "overview"])
def test_every_id_of_a_page_is_there_once(result, other):
    again = dataclasses.replace(result, info=dataclasses.replace(result.info, id=other))
    page = report.render([result, again, again], "Three")
    ids = re.findall(r"\sid=\"([^\"]*)\"", page)
    assert len(ids) == len(set(ids)) and "two-share" in ids
    linked = set(re.findall(r"""href="#([^"]+)\"""", page))
    assert linked <= {*ids, "top"}


def _run(result, summary, seed=1, **scenario):
    point = dataclasses.replace(result.points[0], summary=summary, seed=seed)
    return dataclasses.replace(result, kind="run", points=[point], scenario=scenario, checks=[])


def _queue(kind, **more):
    return {"forward": {"queue": {"kind": kind} | more}, "reverse": {"queue": {"kind": kind} | more}}


def test_runs_stand_side_by_side(result):
    lower = {"links": {"in": {"utilization": 0.5, "dropped_packets": 0, "delay_ms": {"mean": 2.0}}}}
    first = _run(result, lower | {"flows": {"a": {"throughput_bps": 3e6}}}, links={"in": _queue("droptail")})
    flows = {"a": {"throughput_bps": 1e6}, "b": {"throughput_bps": 1.5e6}}
    other = {"links": {"in": {"utilization": 0.4, "dropped_packets": 7, "delay_ms": {"mean": 1.0}}}}
    second = _run(result, other | {"flows": flows}, 2, links={"in": _queue("codel", ecn=True)})
    tables = side_by_side.tables([first, second], ["one", "two"])
    assert [table["header"] for table in tables] == [
        ["Key", "one", "two"],
        ["Link", "Measure", "one", "two"],
        ["Flow", "Measure", "one", "two"],
    ]
    differs, links, flows = (table["rows"] for table in tables)
    # Both directions are one key, as in a file; what is missing is not made up.
    assert sorted(differs) == [
        ["links.in.queue.ecn", "–", "true"],
        ["links.in.queue.kind", "droptail", "codel"],
        ["seed", "1", "2"],
    ]
    assert links == [
        ["in", "used %", "50.0", "40.0"],
        ["in", "dropped", "0", "7"],
        ["in", "delay ms mean", "2", "1"],
    ]
    assert flows == [
        ["all together", "throughput Mb/s", "3", "2.5"],
        ["a", "throughput Mb/s", "3", "1"],
        ["b", "throughput Mb/s", "–", "1.5"],
    ]
    runs = [_run(result, lower, **result.scenario), _run(result, other, 2, **result.scenario)]
    page = report.render(runs, "Runs", ["results/<one>", "results/two"])
    assert 'id="side-by-side"' in page and "results/&lt;one&gt;" in page


def test_directions_that_differ_in_one_run_are_told_apart_in_all(result):
    mixed = {"forward": {"queue": {"kind": "codel"}}, "reverse": {"queue": {"kind": "droptail"}}}
    runs = [_run(result, {}, links={"in": each}) for each in (_queue("droptail"), mixed)]
    (differs,) = side_by_side.tables(runs, ["one", "two"])
    assert differs["rows"] == [["links.in.forward.queue.kind", "droptail", "codel"]]


def test_only_a_few_runs_are_set_side_by_side(result):
    runs = [_run(result, {"flows": {"a": {"throughput_bps": 1e6}}}) for _ in range(side_by_side.RUNS_MAX + 1)]
    names = [str(number) for number in range(len(runs))]
    assert side_by_side.tables(runs[:1], names[:1]) == side_by_side.tables(runs, names) == []
    # Neither is a run beside an experiment.
    assert side_by_side.tables([runs[0], result], names[:2]) == []
    entries = {f"x{number}": {"throughput_bps": 1e6} for number in range(200)}
    many = [_run(result, {"flows": entries}, seed) for seed in (1, 2)]
    seeds, flows = side_by_side.tables(many, names[:2])
    assert seeds["rows"] == [["seed", "1", "2"]]
    assert flows["title"] == "Flows (and 180 more flows)" and len(flows["rows"]) == 21


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
    assert re.findall(r'<figure id="(.*?)">', page) == [
        f"{section}-{figure}"
        for section in ("two-share", "two-share--2")
        for figure in ("throughput", "time")
    ]
    assert page.count('<svg class="chart"') == 4


def test_texts_cannot_break_out_of_the_page(result):
    result.info.title = "<script>alert(1)</script>"
    result.info.figures[0]["title"] = "</script><b>"
    result.info.figures[0]["labels"] = ["</script><i>", "UDP"]
    page = report.render([result], "<title>")
    assert "<script>alert" not in page
    assert "</script><i>" not in page
    assert "</script><b>" not in page


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
        f"{flow}, offered by UDP {load} Mb/s" for load in ("0.25", "0.5", "1") for flow in ("tcp", "udp")
    ]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"kind": "pie", "y": "1"}, "unknown kind"),
        ({"kind": "lines", "y": "1", "x": "nothing"}, "no axis"),
        ({"kind": "lines", "x": "load"}, "no `y`"),
        ({"kind": "lines", "x": "load", "y": "flows.nobody.x"}, "nothing matches"),
        ({"kind": "series", "y": "flows.*.cwnd_bytes"}, "no recorded series"),
        ({"kind": "heatmap", "x": "load", "y": "1"}, "one variant, and here are fifo, fair"),
        ({"kind": "heatmap", "x": "load", "y": "1", "variant": "fair"}, "two axes"),
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


def test_a_reference_stands_on_the_bar_of_its_own_variant(result):
    spec = {"id": "b", "kind": "bars", "y": ["flows.tcp.throughput_bps"], "labels": ["T"]}
    chosen = [point for point in result.points if point.axes["load"] == "1Mbit"]
    info = dataclasses.replace(result.info, variants={"fifo": "NBP", "fair": "NBP with more"})
    references = [{"figure": "b", "x": ["T"], "y": [1.0], "variant": variant} for variant in info.variants]
    figure = figures.build(spec, info, chosen, references)
    bars, marks = figure.traces[:2], figure.traces[2:]
    assert [mark.x for mark in marks] == [bar.x for bar in bars]
    assert bars[0].x != bars[1].x


def test_more_bars_than_colours_have_patterns(result):
    info = dataclasses.replace(result.info, variants={f"v{number}": f"V{number}" for number in range(13)})
    points = [dataclasses.replace(result.points[0], variant=variant) for variant in info.variants]
    spec = {"id": "b", "kind": "bars", "y": ["flows.tcp.throughput_bps"], "labels": ["T"]}
    figure = figures.build(spec, info, points)
    assert len({(bar.colour, bar.dash) for bar in figure.traces}) == 13
    drawn = draw_page.draw(figure, "b")
    assert re.findall(r'<pattern id="(.*?)"', drawn) == ["b-10", "b-11", "b-12"]


def test_long_series_keep_their_peaks():
    x = [float(i) for i in range(100_000)]
    y = [0.0] * 100_000
    y[54_321] = 7.0
    thin_x, thin_y = figure_kinds.thinned(x, y)
    assert len(thin_x) <= figure_kinds.SERIES_POINTS_MAX + 2
    assert max(thin_y) == 7.0


def drawing(scenario):
    text = topology_svg.svg(scenario.build().description)
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
    assert range_label([f"G{number}" for number in range(8, 12)]) == "G8…G11"
    assert range_label(["A1-sink", "A2-sink", "A3-sink"]) == "A1…A3-sink"
    assert range_label(["R1", "R5"]) == "R1, R5"
    assert range_label(["n0", "n2", "n3", "n4"]) == "n0, n2…n4"
    assert range_label(["a", "c", "e", "g"]) == "a, … g"
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


def test_figures_of_one_experiment_have_titles_that_tell_them_apart():
    variants = {"red": "RED", "blue": "BLUE"}
    specs = [
        {"id": "a", "variant": "red", "y_label": "queue (kB)"},
        {"id": "b", "variant": "blue", "y_label": "queue (kB)"},
        {"id": "c", "y_label": "loss (%)"},
        {"id": "d", "y_label": "throughput (Mb/s)"},
        {"id": "e", "title": "Its own"},
        {"id": "f", "title": "Its own"},
    ]
    assert labels.titles(specs, "Queues", variants) == [
        "Queues: RED", "Queues: BLUE", "Queues: loss", "Queues: throughput", "Its own: e", "Its own: f",
    ]  # fmt: skip


def test_a_value_of_an_axis_carries_its_unit():
    assert labels.axis_value("queue", "100kB", "kB") == "100 kB"
    assert labels.axis_value("queue", "100", "kB") == "100 kB"
    assert labels.axis_value("delay", "10ms", "") == "10 ms"
    assert labels.axis_value("load", "1.5Mbit", "") == "1.5 Mb/s"
    assert labels.axis_value("window", "8p", "") == "8 packets"
    assert labels.axis_value("queue", "red", "") == "red"
    axis = experiment.Axis("period", ("2ms", "10ms"), "sampling period", "")
    assert axis.title == "sampling period (s)"
    assert axis.labelled("10ms") == "sampling period 10 ms"
    assert experiment.Axis("n", ("8", "32"), "connections", "").labelled("32") == "connections = 32"


def test_references_with_one_label_are_one_entry_of_the_legend(result):
    figure = figures.build(
        {"id": "f", "kind": "lines", "x": "load", "y": "flows.tcp.throughput_bps"}, result.info, result.points
    )
    figure.traces += [
        Trace("paper", [0.5], [height], is_reference=True, is_line=False) for height in (1e5, 2e5)
    ]
    shown = report_figures.shown(figure, result, "f")
    assert [entry["traces"] for entry in shown["legend"] if entry["label"] == "paper"] == [[2, 3]]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.004, 0.5, ["0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5"]),
        (1, 900, ["1", "2", "5", "10", "20", "50", "100", "200", "500", "1 000"]),
        (1e-12, 1e4, ["10⁻¹²", "10⁻¹⁰", "10⁻⁸", "10⁻⁶", "10⁻⁴", "0.01", "1", "100", "10 000"]),
        (0.0, 1.0, []),
    ],
)
def test_ticks_of_a_logarithmic_axis_are_whole_numbers(low, high, expected):
    assert [text for _, text in labels.log_ticks(low, high)] == expected


def test_no_two_lines_of_a_legend_are_called_the_same(result):
    spec = {"id": "f", "kind": "series", "y": ["flows.tcp.*"], "variant": "fifo"}
    figure = figures.build(spec, result.info, result.points)
    names = [entry["label"] for entry in report_figures.shown(figure, result, "f")["legend"]]
    assert len(set(names)) == len(names) == len(figure.traces)


def test_what_a_run_lacks_is_a_gap_and_what_all_lack_an_error(result):
    points = list(result.points)
    for point in points:
        if point.variant == "fifo" and point.axes["load"] == "500kbit":
            del point.summary["flows"]["tcp"]["throughput_bps"]
    spec = {"id": "f", "kind": "lines", "x": "load", "y": "flows.tcp.throughput_bps"}
    figure = figures.build(spec, result.info, points)
    assert figure.problem == ""
    assert [value is None for value in figure.traces[0].y] == [False, True, False]
    spec["y"] = "flows.tcp.thruput_bps"
    assert "nothing matches" in figures.build(spec, result.info, points).problem


def test_no_whisker_reaches_below_zero_where_nothing_measured_does(result):
    bands = figure_kinds._band([stats.Estimate(1.0, -2.0, 4.0, 3), stats.Estimate(5.0, 4.0, 6.0, 3)])
    assert bands == ([0.0, 4.0], [4.0, 6.0])
    assert figure_kinds._band([stats.Estimate(-1.0, -2.0, 4.0, 3)])[0] == [-2.0]


def test_a_picture_is_told_in_words(result):
    page = report.render([result], "Words")
    assert 'role="img" aria-label="' in page
    assert "Lines over time of throughput (Mb/s) over time (s)" in page


def test_a_run_is_told_in_the_units_of_the_terminal():
    link = {"utilization": 0.5, "arrived_packets": 10, "queue_packets": {"mean": 1.5, "max": 3}}
    flow = {"throughput_bps": 1849411.2, "delay_ms": {"mean": 24.1}}
    summary = {"flows": {"f": flow}, "links": {"l": link | {"reverse": link}}, "totals": {"packet_hops": 7}}
    flows, links, numbers = report._summary_tables(summary)
    assert [column["title"] for column in flows["columns"]] == ["flow", "throughput Mb/s", "delay ms mean"]
    assert flows["rows"] == [["f", "1.849", "24.1"]]
    assert [row[0] for row in links["rows"]] == ["l", "l (reverse)"]
    assert numbers["folded"]
    assert ["flows.f.delay_ms.mean", "24.1"] in numbers["rows"]
    assert ["totals.packet_hops", "7"] in numbers["rows"]


@pytest.mark.parametrize(
    ("kind", "name", "outside"), [("edge", "gwA", True), ("router", "home", True), ("host", "web1", False)]
)
def test_a_name_that_does_not_fit_into_its_node_stands_below(kind, name, outside):
    drawn = topology_svg._node(topology.Place(0.0, 0.0, kind, [name]))
    assert ("outside" in drawn) == outside


def test_a_distribution_without_values_keeps_its_place_in_the_legend(result):
    for point in result.points:
        if point.variant == result.points[0].variant:
            for flow in point.summary["flows"].values():
                flow["delay_ms"] = dict.fromkeys(flow.get("delay_ms", {"mean": 0}))
    spec = {"id": "d", "kind": "cdf", "y": 'values("flows.*.delay_ms.mean")'}
    figure = figures.build(spec, result.info, result.points)
    assert not figure.problem
    empty = [trace.label.endswith("(no values)") for trace in figure.traces]
    assert any(empty)
    assert empty == [not trace.y for trace in figure.traces]
    assert not all(empty)
    assert draw_page.draw(figure, "d").count('class="line"') == empty.count(False)


def test_no_node_is_drawn_on_a_link_that_passes_it():
    nodes = {name: {"kind": "router"} for name in ("r1", "r2", "r3", "r4")}
    ways = [("r1", "r2"), ("r1", "r3"), ("r2", "r3"), ("r3", "r4"), ("r1", "r4")]
    links = [{"name": a + b, "a": a, "b": b} for a, b in ways]
    places = topology.layout({"nodes": nodes, "links": links, "flows": {}}).places
    for a, b in ways:
        for name in places.keys() - {a, b}:
            (ax, ay), (bx, by), (x, y) = ((places[each].x, places[each].y) for each in (a, b, name))
            if min(ax, bx) < x < max(ax, bx):
                passes_at = ay + (by - ay) * (x - ax) / (bx - ax)
                assert abs(y - passes_at) > 20, f"{name} stands on {a}-{b}"


def test_what_people_wait_for_stands_side_by_side(result):
    def pages(mean, loaded):
        own = {"begun": 9, "loaded": loaded, "load_s": {"mean": mean, "p95": 3 * mean}}
        return {"flows": {"web": {"throughput_bps": 1e6, "pages": own}}}

    runs = [_run(result, pages(0.5, 9)), _run(result, pages(0.25, 8))]
    (waits,) = (each for each in side_by_side.tables(runs, ["one", "two"]) if each["title"] == "Pages")
    assert waits["rows"] == [
        ["web", "begun", "9", "9"],
        ["web", "loaded", "9", "8"],
        ["web", "loaded after s mean", "0.5", "0.25"],
        ["web", "loaded after s p95", "1.5", "0.75"],
    ]


def test_a_file_without_figures_shows_how_long_people_wait(result):
    def point(mean, seed=1):
        waits = {"load_s": {"mean": mean, "p95": 2 * mean}, "loaded": 3}
        return PointResult(
            "v", {}, seed, {"flows": {"web": {"pages": waits}, "bulk": {"throughput_bps": 1e6}}}
        )

    info = dataclasses.replace(result.info, figures=[], variants={"v": "v"}, axes={})
    made = figures.build_all(info, [point(0.5), point(1.5, 2)])
    (waits,) = (figure for figure in made if figure.title == "Load times of pages")
    assert [name for _, name in waits.ticks] == ["mean", "p95"]
    assert [(trace.label, trace.y) for trace in waits.traces] == [("v", [1.0, 2.0])]
    assert waits.y_label == "load time (s)"
    # Where one seed has loaded none there is nothing to compare.
    nothing = [point(0.5), PointResult("v", {}, 2, {"flows": {"web": {"pages": {"loaded": 0}}}})]
    assert all(figure.title != "Load times of pages" for figure in figures.build_all(info, nothing))


def test_the_terminal_shows_means_of_a_file_that_describes_nothing(result):
    def point(variant, seed, mbit):
        links = {"in": {"delay_ms": {"mean": 1.0}}, "out": {"delay_ms": {"mean": mbit}, "dropped_packets": 7}}
        flows = {"a": {"throughput_bps": mbit * 1e6}, "b": {"throughput_bps": 1e6}}
        return PointResult(variant, {}, seed, {"flows": flows, "links": links, "fairness": {"jain": 0.5}})

    points = [point("v", 1, 3.0), point("v", 2, 5.0), point("w", 1, 2.0), point("w", 2, 2.0)]
    info = dataclasses.replace(result.info, id="mine", figures=[], variants={"v": "v", "w": "w"}, axes={})
    nothing = dataclasses.replace(result, info=info, points=points, checks=[])
    title, heads, _, *rows = display.tables_of([nothing]).splitlines()
    assert title.startswith("mine: means")
    assert re.split(r"\s{2,}", heads) == [
        "variant", "all flows Mb/s", "fairness (Jain)", "out: delay ms", "out: dropped",
    ]  # fmt: skip
    assert [row.split() for row in rows] == [["v", "5", "0.5", "4", "7"], ["w", "3", "0.5", "2", "7"]]
    # Who describes or checks something is shown that.
    assert display.tables_of([dataclasses.replace(nothing, checks=[{}])]) == ""
    assert display.tables_of([dataclasses.replace(nothing, points=[])]) == ""
