"""Figures: panels, events, spreads, ends of axes, and the files and drawings that they become."""

import builtins
import dataclasses
import json
import re
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

import pytest

from tidegate import (
    draw_page,
    draw_static,
    figures,
    happenings,
    labels,
    network,
    network_facts,
    network_view,
    report_figures,
    stats,
    topology,
    topology_svg,
)
from tidegate.errors import UsageError
from tidegate.experiment import Info, PointResult
from tidegate.figure import Event, Figure, Trace, in_words
from tidegate.store import StoredResult

SCENARIO = {
    "duration_s": 10.0,
    "warmup_s": 2.0,
    "nodes": [{"name": "a", "kind": "host"}, {"name": "r", "kind": "router"}, {"name": "s", "kind": "router"},
              {"name": "b", "kind": "host"}],
    "links": [
        {"name": "in", "a": "a", "b": "r", "forward": {"rate_bps": 1e7, "delay_s": 0.001}},
        {"name": "core", "a": "r", "b": "s", "forward": {
            "rate_bps": 1e6, "delay_s": 0.01, "queue": {"kind": "droptail", "limit_packets": 20}}},
        {"name": "out", "a": "s", "b": "b", "forward": {"rate_bps": 1e7, "delay_s": 0.001}},
    ],
    "flows": [{"name": "f", "from": "a", "to": ["b"], "transport": {"kind": "tcp", "variant": "reno"},
               "application": {"kind": "bulk"}, "start_s": 3.0, "stop_s": None}],
    "domains": [{"name": "net", "edges": ["r", "s"], "core": [], "mechanism": {"kind": "nbp"}}],
    "events": [{"at_s": 5.0, "link": "core", "direction": "both", "rate_bps": 500000, "delay_s": None,
                "background_bps": None, "state": None}],
}  # fmt: skip


class Series:
    """Time series of one run, as `_core.RunResult` gives them."""

    def __init__(self, **series):
        import numpy as np

        self.known = {name.replace("__", "."): np.asarray(values, float) for name, values in series.items()}
        self.series_names = list(self.known)

    def series(self, name):
        import numpy as np

        values = self.known[name]
        return np.arange(1, len(values) + 1, dtype=float), values


def run_of(**series) -> StoredResult:
    point = PointResult(None, {}, 1, {"flows": {}, "links": {}}, result=Series(**series))
    return StoredResult("run", Info.from_raw("mine", {"title": "Mine"}), SCENARIO, [point])


def series_figure(result, *names, **keys):
    spec = {"id": "f", "kind": "series", "y": list(names), **keys}
    return figures.build(spec, result.info, result.points, events=happenings.of(SCENARIO, result.info.raw))


def test_series_of_different_units_get_panels_of_their_own():
    result = run_of(
        flows__f__cwnd_segments=[1, 2], links__core__queue_packets=[3, 4],
        links__core__average_queue_packets=[2, 3],
        links__core__throughput_bps=[1e6, 2e6], links__core__marking_probability=[float("nan")] * 2,
    )  # fmt: skip
    figure = series_figure(result, "flows.*", "links.*")
    assert figure.y_labels == ["cwnd (segments)", "queue, average queue (packets)", "throughput (Mb/s)"]
    assert [trace.panel for trace in figure.traces] == [0, 1, 1, 2]
    assert series_figure(result, "links.core.queue_packets").panels == []
    # What the file calls an axis stays with the unit that it names.
    named = series_figure(result, "flows.*", "links.core.queue_packets", y_label="window (segments)")
    assert named.y_labels == ["window (segments)", "queue (packets)"]


def test_a_figure_draws_the_points_that_it_names_and_colours_tell_runs_apart():
    info = Info.from_raw("mine", {"title": "Mine", "axes": {"n": {"values": ["1", "10", "100"]}}})
    points = [
        PointResult(
            None,
            {"n": n},
            1,
            {"flows": {}, "links": {}},
            result=Series(a__queue_bytes=[1, 2], a__rtt_ms=[3, 4]),
        )
        for n in ("1", "10", "100")
    ]
    spec = {"id": "f", "kind": "series", "y": ["a.*"]}
    every = figures.build(spec, info, points)
    assert len(every.traces) == 6
    # Each panel has one series: its runs have three colours and no dashes.
    assert len({trace.colour for trace in every.traces}) == 3
    assert {trace.dash for trace in every.traces} == {0}
    some = figures.build(spec | {"where": {"n": ["1", "100"]}}, info, points)
    assert {trace.label.split()[-1] for trace in some.traces} == {"1", "100"}
    assert len(some.traces) == 4
    # What is alike is said once, by the title: one that is written, or that of the experiment with it.
    one = figures.build(spec | {"where": {"n": ["10"]}}, info, points)
    assert one.title == f"{info.title}: {info.axes['n'].labelled('10')}"
    assert one.traces and not any("10" in trace.label for trace in one.traces)
    titled = figures.build(spec | {"where": {"n": ["10"]}, "title": "Of 10"}, info, points)
    assert titled.title == "Of 10" and not any("10" in trace.label for trace in titled.traces)
    none = figures.build(spec | {"where": {"n": ["7"]}}, info, points)
    assert none.problem == "no run belongs to this figure"


def test_every_panel_is_drawn_within_its_own_axes():
    figure = series_figure(
        run_of(flows__f__cwnd_segments=[0, 1000], links__core__queue_packets=[0, 1]), "flows.*", "links.*"
    )
    root = ElementTree.fromstring(draw_page.draw(figure, "k"))
    about = json.loads(root.get("data-axes"))
    assert len(about["panels"]) == 2
    for group in [each for each in root.iter("g") if each.get("data-t")]:
        start, end, low, high, _ = about["panels"][int(group.get("data-p"))]
        steps = re.findall(r"-?\d*\.?\d+", group.find("path").get("d"))
        first = float(steps[1])
        last = first + float(steps[3])
        assert low == 0
        assert first == pytest.approx(start, abs=0.1)
        assert last == pytest.approx(
            start + (end - start) / high * (1000 if group.get("data-t") == "0" else 1), abs=0.1
        )
    assert b"<svg" in draw_static.drawn(figure, "svg")


def test_what_happens_is_marked_in_series_and_told():
    figure = series_figure(run_of(flows__f__cwnd_segments=range(10)), "flows.*")
    assert figure.events == [
        Event(2.0, "end of the warm-up"), Event(3.0, "f begins"), Event(5.0, "core 500 kb/s"),
    ]  # fmt: skip
    drawn = draw_page.draw(figure, "k")
    assert drawn.count('class="event"') == 3
    assert "core 500 kb/s at 5 s" in drawn
    shown = report_figures.shown(figure, run_of(), "k")
    assert [each["letter"] for each in shown["events"]] == ["a", "b", "c"]
    narrow = series_figure(run_of(flows__f__cwnd_segments=range(10)), "flows.*", x_range=[4, 10])
    assert [event.at_s for event in narrow.events] == [5.0]


def test_only_what_happens_in_every_version_is_told():
    later = SCENARIO | {"events": [SCENARIO["events"][0] | {"at_s": 6.0}]}
    kept = happenings.common([json.dumps(SCENARIO), json.dumps(later)])
    assert [event.label for event in happenings.of(SCENARIO, kept)] == ["end of the warm-up", "f begins"]
    # What an older version stored does not tell what other runs had.
    assert happenings.of(SCENARIO, {"axes": {"load": {}}}) == []
    assert happenings.common(["{}"] * 1000) == {"happenings": []}


def test_quartiles_and_fences_are_tukeys():
    assert stats.spread([1, 2, 3, 4, 5, 6, 7, 8, 9, 100]) == (1, 3.25, 5.5, 7.75, 9, [100])
    assert stats.spread([2.0]) == (2, 2, 2, 2, 2, [])


def test_a_violin_is_widest_where_values_lie():
    places, heights = stats.density([0.0, 4.9, 5.0, 5.0, 5.1, 10.0])
    assert (places[0], places[-1], max(heights)) == (0.0, 10.0, 1.0)
    assert places[heights.index(1.0)] == pytest.approx(5.0, abs=0.3)
    assert stats.density([3.0, 3.0]) == ([3.0], [1.0])
    assert len(stats.density([float(value) for value in range(100_000)])[0]) < 100


@pytest.fixture
def spread_points():
    values = {"x": [1.0, 2.0, 3.0, 4.0, 30.0], "y": [5.0] * 5}
    return [
        PointResult(variant, {}, seed, {"flows": {"f": {"throughput_bps": value}}})
        for variant, known in values.items() for seed, value in enumerate(known, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["box", "violin"])
def test_how_values_spread_over_seeds_is_drawn(spread_points, kind):
    info = Info.from_raw("e", {"variants": {"x": {}, "y": {}}})
    figure = figures.build({"id": "s", "kind": kind, "y": "flows.f.throughput_bps"}, info, spread_points)
    assert figure.problem == ""
    assert [trace.y for trace in figure.traces] == [[3.0], [5.0]]
    drawn = draw_page.draw(figure, "k")
    assert "x: median 3, quartiles 2 and 4, 5 values" in drawn
    assert drawn.count('class="median"') == 2
    for form in ("svg", "png", "pdf"):
        assert len(draw_static.drawn(figure, form)) > 1000


def test_ends_of_axes_are_those_that_were_asked_for():
    figure = series_figure(
        run_of(flows__f__cwnd_segments=range(10)), "flows.*", x_range=[2, 4], y_range=[0, 50]
    )
    about = json.loads(ElementTree.fromstring(draw_page.draw(figure, "k")).get("data-axes"))
    assert (about["x"][2:4], about["panels"][0][2:4]) == ([2, 4], [0, 50])
    figure = Figure("f", "t", "lines", y_log=True, y_range=(0.0, 1.0), traces=[Trace("t", [1.0], [0.5])])
    figures.finish(figure)
    assert figure.y_range is None


def test_a_value_far_outside_of_a_given_range_stays_a_short_number():
    figure = Figure("f", "t", "lines", y_range=(0.0, 1.0), traces=[Trace("t", [0.0, 1.0], [0.5, 1e300])])
    assert len(draw_page.draw(figure, "k")) < 4000


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1.5, ["0.0", "0.5", "1.0", "1.5"]),
        (0, 0.031, ["0.00", "0.01", "0.02", "0.03"]),
        (-3, 4, ["−2", "0", "2", "4"]),
        (0, 2.2e7, ["0", "5·10⁶", "10⁷", "1.5·10⁷", "2·10⁷"]),
        (1, 1, []),
    ],
)
def test_ticks_of_a_linear_axis_are_even(low, high, expected):
    assert [text for _, text in labels.linear_ticks(low, high)] == expected


def test_less_than_a_decade_of_a_logarithmic_axis_has_ticks_as_well():
    assert len(labels.log_ticks(0.11, 0.42)) >= 3


def some_figure():
    return Figure(
        "f", "Title", "lines", "time (s)", "rate (Mb/s)", traces=[Trace("t", [0.0, 1.0], [0.0, 1.0])]
    )


@pytest.mark.parametrize(
    ("style", "width_mm"), [("ieee", 88.9), ("ieee-wide", 181.9), ("acm", 84.6), ("acm-wide", 177.8)]
)
def test_figures_for_papers_are_as_wide_as_their_columns(style, width_mm):
    root = ElementTree.fromstring(draw_static.drawn(some_figure(), "svg", draw_static.look(style)))
    assert float(root.get("width").removesuffix("pt")) / 72 * 25.4 == pytest.approx(width_mm, abs=0.1)
    root = ElementTree.fromstring(draw_static.drawn(some_figure(), "svg", draw_static.look(style, (50, 40))))
    assert float(root.get("height").removesuffix("pt")) / 72 * 25.4 == pytest.approx(40, abs=0.1)


def test_styles_and_sizes_that_cannot_be_are_refused():
    with pytest.raises(UsageError, match="styles: screen, ieee"):
        draw_static.look("springer")
    with pytest.raises(UsageError, match="20 to 1000 mm"):
        draw_static.look("ieee", (5, 40))


def test_vector_files_have_their_fonts_inside_and_tell_what_they_show():
    figure = some_figure()
    pdf = draw_static.drawn(figure, "pdf")
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    svg = draw_static.drawn(figure, "svg").decode()
    assert "<text" not in svg
    assert "Line chart of rate (Mb/s) over time (s)" in svg
    assert draw_static.drawn(figure, "pdf") == pdf
    assert zlib.crc32(draw_static.drawn(figure, "png")) == zlib.crc32(draw_static.drawn(figure, "png"))


def test_a_description_tells_ranges_ends_and_references():
    figure = some_figure()
    figure.traces = [
        Trace("t", [0.0, 1.0, 2.0], [3.0, 1.0, 2.0]),
        Trace("paper", [0.0], [1.0], is_reference=True),
    ]
    assert in_words(figure) == (
        "Line chart of rate (Mb/s) over time (s). t: 1 to 3, from 3 at 0 to 2 at 2. "
        "Beside them, of the document: paper."
    )


def test_long_series_make_small_drawings():
    figure = series_figure(
        run_of(flows__f__cwnd_segments=[(7 * step) % 1000 for step in range(200_000)]), "flows.*"
    )
    assert len(draw_page.draw(figure, "k")) < 20_000


def test_figures_say_how_they_are_made_again():
    result = run_of(flows__f__cwnd_segments=range(10))
    result.info.id = "somewhere/else/mine.toml"
    assert report_figures.commands(result, "f") == [
        "tidegate run mine.toml --seed 1 -o results/mine",
        "tidegate plot results/mine -p f -o f.pdf",
    ]
    result.overridden = [{"path": "duration", "value": "2s", "document": ""}]
    assert report_figures.commands(result, "f")[0].endswith(" -o results/mine --set=duration=2s")
    result = dataclasses.replace(result, kind="experiment", quick=True)
    result.info.id, result.overridden = "nbp/x", [{"path": "links.a.rate", "value": "2 Mbit", "document": ""}]
    assert report_figures.commands(result, "f")[0] == (
        "tidegate sweep x.toml --quick -o results/x '--set=links.a.rate=2 Mbit'"
    )
    # What is shipped is called by its name, and its page says how many seeds where they are more.
    result = dataclasses.replace(result, quick=False, overridden=[])
    result.info.id, result.info.figures = "nbp/fig8a", [{"id": "t", "kind": "table"}]
    result.points = [dataclasses.replace(result.points[0], seed=seed) for seed in (1, 2)]
    assert report_figures.commands(result, "t") == [
        "tidegate reproduce nbp/fig8a --seeds 2",
        "tidegate plot results/nbp/fig8a -p t -o t.md",
    ]
    # Into the folder in which it stands, from where it was read.
    for folder, make in (
        ("results/nbp/fig8a", "reproduce nbp/fig8a --seeds 2"),
        ("results/quick/nbp/fig8a", "reproduce nbp/fig8a --seeds 2 --out results/quick"),
        ("nbp/fig8a", "reproduce nbp/fig8a --seeds 2 --out ."),
        ("mine", "sweep nbp/fig8a --seeds 2 -o mine"),
    ):
        result.folder = Path(folder)
        assert report_figures.commands(result, "t") == [
            f"tidegate {make}",
            f"tidegate plot {folder} -p t -o t.md",
        ]


@pytest.mark.parametrize(
    ("reverse", "says"),
    [
        ({"rate_bps": 1e7, "delay_ns": 10_000_000}, "10 Mb/s · 10 ms"),
        ({"rate_bps": 5e7, "delay_ns": 10_000_000}, "10 Mb/s, 50 Mb/s back · 10 ms"),
        ({"rate_bps": 1e7, "delay_ns": 30_000_000}, "10 Mb/s · 10 ms, 30 ms back"),
        (None, "10 Mb/s · 10 ms"),
    ],
)
def test_a_link_says_what_each_direction_has_where_they_differ(reverse, says):
    link = {"name": "up", "a": "A", "b": "B", "forward": {"rate_bps": 1e7, "delay_ns": 10_000_000}}
    scenario = {"links": [link | {"reverse": reverse}]}
    assert [each.label for each in network.Network.from_scenario(scenario).links] == [says]


def test_domains_are_drawn_around_their_nodes():
    drawing = topology.layout(SCENARIO)
    assert [(domain.name, len(domain.places)) for domain in drawing.domains] == [("net", 2)]
    drawn = topology_svg.render(drawing)
    assert "net: nbp" in drawn
    assert "Domain net: nbp of 2 nodes" in ElementTree.fromstring(drawn).get("aria-label")
    inside = topology_svg._hull([(0, 0), (4, 0), (4, 4), (0, 4), (2, 2), (0, 2)])
    assert sorted(inside) == [(0, 0), (0, 4), (4, 0), (4, 4)]


def test_beside_the_network_stands_what_was_drawn():
    facts = dict(network_facts.of(run_of(flows__f__cwnd_segments=[1])))
    assert facts["Drawn"] == ["the scenario"]
    assert facts["Time"] == ["10 s, counted after 2 s"]
    assert facts["Queues between routers"] == ["droptail, 20 packets: core"]
    assert facts["Traffic"] == ["TCP reno, bulk: f"]
    assert facts["Domains"] == ["net: nbp"]
    assert "5 s: core 500 kb/s" in facts["Events"]


def test_a_fluid_is_traffic_as_well():
    result = run_of(flows__f__cwnd_segments=[1])
    fluid = {"name": "others", "fluid": {"count": 400, "control": "reno"}}
    result = dataclasses.replace(result, scenario=result.scenario | {"fluids": [fluid]})
    facts = dict(network_facts.of(result))
    assert facts["Traffic"] == ["TCP reno, bulk: f", "fluid of 400 connections, reno: others"]


def test_the_network_over_time_shows_queues_links_and_edges():
    result = run_of(
        links__core__queue_packets=[0, 10, 20, 5], links__core__throughput_bps=[0, 5e5, 1e6, 1e6],
        domains__net__f__ingress_rate_bps=[0, 0, 1e6, float("nan")],
    )  # fmt: skip
    moving = network_view.build(result)
    assert [channel["label"] for channel in moving["channels"]] == [
        "core: queue",
        "core: throughput",
        "r lets in f",
    ]
    # It begins where the queue is fullest.
    assert (moving["shown"], moving["frames"], moving["time"]) == (2, 4, "3 s")
    assert [channel["value"] for channel in moving["channels"]] == ["20 packets", "1 Mb/s", "1 Mb/s"]
    data = json.loads(moving["json"])
    assert data["runs"] == [[[0, 500, 999, 250], [0, 500, 999, 999], [0, 0, 999, 999]]]
    root = ElementTree.fromstring(moving["svg"])
    assert [each.get("width") for each in root.iter("rect") if each.get("class") == "fill"] == [
        "26.0",
        "26.0",
    ]


def test_without_series_the_network_stands_still():
    assert network_view.build(run_of()) is None


def test_a_long_run_has_a_bounded_number_of_frames():
    moving = network_view.build(run_of(links__core__queue_packets=range(100_000)))
    assert moving["frames"] == 120
    assert len(moving["json"]) < 2000


def test_plot_says_what_to_record(tidegate_command, scenario_file, tmp_path):
    text = scenario_file.read_text().replace('series = ["flows.*.throughput_bps"]', "series = []")
    scenario_file.write_text(text)
    assert tidegate_command("run", scenario_file, "-o", tmp_path / "out")[0] == 0
    code, _, err = tidegate_command("plot", tmp_path / "out", "-p", "queue")
    assert code == 2
    assert '`series = ["links.*.queue_packets"' in err


def test_plot_draws_as_it_is_asked_to(tidegate_command, shelf, tmp_path):
    assert tidegate_command("sweep", "two/share", "-o", "res")[0] == 0
    options = ["--style", "acm", "--y-range", "0:2", "--as", "box", "--scale", "log-x"]
    code, out, err = tidegate_command("plot", "res", "-p", "throughput", "-o", "b.svg", *options)
    assert (code, out.strip()) == (0, "b.svg"), err
    assert "Box plot" in (tmp_path / "b.svg").read_text()
    for wrong, told in (
        (["--size", "90"], "WIDTHxHEIGHT"), (["--y-range", "2:1"], "lower end"), (["--style", "x"], "styles"),
        (["--scale", "x"], "scales"), (["--as", "pie"], "violin"), (["--x-range", "0:inf"], "LOW:HIGH"),
    ):  # fmt: skip
        code, _, err = tidegate_command("plot", "res", "-o", "b.svg", *wrong)
        assert code == 2
        assert told in err


def test_a_reproduction_needs_no_plotting(tidegate_command, shelf, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **keywords):
        if name.split(".")[0] in ("matplotlib", "plotly"):
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    code, out, err = tidegate_command("reproduce", "two/share", "--out", "res")
    assert code == 0, err
    assert "TCP keeps half" in out
    assert (shelf.parent / "res" / "report.html").read_text().count('class="chart"') == 2


@pytest.mark.parametrize("kind", ["lines", "bars", "cdf", "box", "series"])
def test_matplotlib_reads_no_text(kind, monkeypatch):
    Canvas = pytest.importorskip("matplotlib.figure").Figure
    texts = [r"price $\frac$", "_under", "$a$ and $b$", r"a \$", "__"]
    samples = [[1.0, 2.0], [2.0]] if kind == "box" else None
    traces = [Trace(text, [0.0, 1.0], [1.0, 2.0], samples=samples) for text in texts]
    figure = Figure(
        "f", r"$\title", kind, x_label=r"$\x$", y_label="_$_$", traces=traces,
        ticks=[(0.0, r"$\one$"), (1.0, "_")], events=[Event(0.5, r"$\up$")],
    )  # fmt: skip
    legends, make = [], Canvas.legend

    def noted(*given, **more):
        legends.append(make(*given, **more))
        return legends[-1]

    monkeypatch.setattr(Canvas, "legend", noted)
    assert draw_static.drawn(figure, "svg").startswith(b"<?xml")
    # A dollar behind a backslash is one.
    assert [text.get_text() for text in legends[0].get_texts()] == [
        each.replace("$", r"\$") for each in texts
    ]


@pytest.mark.parametrize(
    ("y", "more", "note"),
    [
        ("links.a.delay_ms.mean", {}, "links.a.delay_ms.mean (ms)"),
        ("links.a.delay_ms.mean", {"labels": ["delay, ms"]}, "delay, ms"),
        ("links.a.utilization", {}, "links.a.utilization"),
        ("links.a.delay_ms.mean / 2", {}, "links.a.delay_ms.mean / 2"),
    ],
)
def test_the_colours_of_a_heat_map_have_the_unit_that_a_number_has_in_its_name(y, more, note):
    axes = {name: {"values": ["1", "2"]} for name in "nm"}
    info = Info.from_raw("mine", {"title": "Mine", "axes": axes})
    summary = {"flows": {}, "links": {"a": {"delay_ms": {"mean": 1.0}, "utilization": 0.5}}}
    points = [PointResult(None, {"n": n, "m": m}, 1, summary) for n in "12" for m in "12"]
    figure = figures.build({"id": "f", "kind": "heatmap", "x": "n", "y": [y], **more}, info, points)
    assert (figure.problem, figure.note) == ("", note)


def test_the_label_of_a_heat_map_is_no_formula():
    figure = Figure("f", "t", "heatmap", heat=[[1.0, 2.0]], note=r"price $\frac$")
    assert draw_static.drawn(figure, "png")
