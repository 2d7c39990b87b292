"""Experiments from a program: the same results as from the command, as tables that other tools read."""

import csv
import json
import threading

import pytest

import tidegate
from tidegate import parallel, reach, store, tidy
from tidegate.errors import UsageError
from tidegate.experiment import PointResult

QUEUES = """
title = "Two queues"
duration = "4s"
warmup = "1s"
seeds = 2
[nodes]
hosts = ["a", "b"]
[links.core]
between = ["a", "b"]
rate = "2Mbit"
delay = "5ms"
[flows.tcp]
from = "a"
to = "b"
transport = "tcp"
start = { uniform = ["0s", "1s"] }
[record]
every = "500ms"
series = ["links.core.queue_packets"]
[axes.limit]
path = "links.core.queue.limit"
values = ["5p", "50p"]
[variants.red]
set = { "links.core.queue" = { kind = "red" } }
[variants.plain]
[[figures]]
id = "delay"
kind = "lines"
x = "limit"
y = "flows.tcp.delay_ms.mean"
y_label = "delay (ms)"
[[figures]]
id = "table"
kind = "table"
y = ["flows.tcp.throughput_bps / 1e6"]
labels = ["Mb/s"]
"""

pytestmark = pytest.mark.real_core


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "queues.toml"
    path.write_text(QUEUES)
    return path


@pytest.fixture
def lab(experiment):
    return tidegate.sweep(experiment, workers=2)


def test_a_sweep_in_memory_writes_nothing_and_gives_what_a_folder_has(experiment, lab, tmp_path):
    assert {path.name for path in tmp_path.iterdir()} == {"queues.toml"}
    kept = tidegate.sweep(experiment, out=tmp_path / "kept")
    opened = tidegate.open(tmp_path / "kept")
    assert len(lab.points) == 8
    for other in (kept, opened):
        assert other.values().columns == lab.values().columns
        assert other.series().columns == lab.series().columns


def test_values_are_tidy(lab):
    frame = lab.values("flows.*.throughput_bps", "links.core.queue_packets.*")
    assert list(frame.columns) == ["variant", "limit", "seed", "place", "metric", "unit", "value"]
    assert set(zip(frame["metric"], frame["unit"], strict=True)) == {
        ("throughput_bps", "bit/s"),
        ("queue_packets.mean", "packets"),
        ("queue_packets.max", "packets"),
    }
    with pytest.raises(UsageError, match="the column 'seed' has numbers, and '2' is a text"):
        frame.where(seed="2")
    with pytest.raises(UsageError, match="the column 'variant' has texts, and 2 is a number"):
        frame.where(variant=["plain", 2])
    one = frame.where(variant="plain", limit="5p", seed=2, metric="throughput_bps")
    assert len(one) == 1
    point = next(p for p in lab.points if (p.variant, p.axes["limit"], p.seed) == ("plain", "5p", 2))
    assert one["value"] == [point.summary["flows"]["tcp"]["throughput_bps"]]


def test_both_ways_of_a_link_are_places(lab):
    places = set(lab.values("links.core.reverse.arrived_packets", "links.core.arrived_packets")["place"])
    assert places == {"links.core", "links.core.reverse"}


def test_means_have_their_interval(lab):
    mean = next(lab.means("flows.tcp.delay_ms.mean").where(variant="plain", limit="50p").rows())
    values = lab.values("flows.tcp.delay_ms.mean").where(variant="plain", limit="50p")["value"]
    assert mean["mean"] == pytest.approx(sum(values) / 2)
    assert mean["low"] < mean["mean"] < mean["high"] and mean["seeds"] == 2
    with pytest.raises(UsageError, match=r"^flows.tpc.\*: no number of this result is called so"):
        lab.means("flows.tpc.*")


def test_measures_are_columns_and_what_nothing_has_is_an_error(lab):
    frame = lab.measure(rate='sum("flows.*.throughput_bps") / 1e6', packets="links.core.arrived_packets")
    assert list(frame.columns) == ["variant", "limit", "seed", "rate", "packets"]
    assert len(frame) == 8 and all(0 < rate < 2.1 for rate in frame["rate"])
    with pytest.raises(tidegate.MeasureError, match="here are: throughput_bps"):
        lab.measure(rate="flows.tcp.throughput")


def test_a_csv_file_comes_back_equal(lab, tmp_path):
    lab.export(tmp_path / "one.csv", patterns="flows.tcp.throughput_bps")
    assert (tmp_path / "one.csv").read_text().count("throughput_bps") == len(lab.points)
    lab.export(tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    frame = lab.values()
    assert [float(row["value"]) for row in rows] == frame["value"]
    assert [row["place"] for row in rows] == frame["place"]


def test_polars_pandas_and_files_see_the_same_table(lab, tmp_path):
    polars = pytest.importorskip("polars")
    with pytest.raises(UsageError, match="no series of this result is called so"):
        lab.series("links.nope.*")
    frame = lab.series()
    table = frame.to_polars()
    assert table["value"].to_list() == frame["value"] and table["unit"].unique().to_list() == ["packets"]
    assert polars.DataFrame(frame).equals(table), "by the Arrow C stream"
    for name, read in (("t.parquet", polars.read_parquet), ("t.arrow", polars.read_ipc)):
        lab.export(tmp_path / name, "series")
        assert read(tmp_path / name).equals(table)


def test_what_cannot_be_written_is_refused(lab, tmp_path):
    with pytest.raises(UsageError, match=r"\.csv, \.parquet, \.arrow"):
        lab.export(tmp_path / "all.xls")
    with pytest.raises(UsageError, match="values, means, series"):
        lab.export(tmp_path / "all.csv", "medians")
    with pytest.raises(UsageError, match=r"figure table as \.png"):
        lab.plot("table", tmp_path / "t.png")
    with pytest.raises(UsageError, match="no figure 'delays'; there are delay, table"):
        lab.plot("delays")
    assert {path.name for path in tmp_path.iterdir()} == {"queues.toml"}


def test_notebooks_see_pictures_and_tables(lab):
    pytest.importorskip("matplotlib")
    assert lab.plot()._repr_html_().startswith("<svg")
    assert "<table>" in lab.plot("table")._repr_html_()
    page = lab._repr_html_()
    assert "Two queues" in page and "<svg" in page


def test_a_key_that_does_not_exist_is_an_error_with_its_place(experiment):
    with pytest.raises(tidegate.ConfigError, match="did you mean `transport`"):
        tidegate.sweep(experiment, flows__tcp__tranport="udp")


def test_keywords_override_and_the_checks_then_are_not_comparable(tmp_path):
    results = tidegate.reproduce("nbp/fig1", out=tmp_path, quick=True, duration="15s")
    assert [result.status for result in results] == ["not comparable"]
    assert results[0].folder == tmp_path / "nbp/fig1" and store.is_result(results[0].folder)


def test_the_command_exports_what_the_library_does(lab, tmp_path, experiment, tidegate_command):
    tidegate.sweep(experiment, out=tmp_path / "kept")
    out = tmp_path / "means.csv"
    code, done, _ = tidegate_command("export", tmp_path / "kept", "-o", out, "--what", "means", "--json")
    assert code == 0 and json.loads(done)["files"] == [str(out)]
    assert out.read_text() == lab.means().to_csv()


def test_units_follow_the_names():
    expected = {
        "throughput_bps": "bit/s", "queue_packets.mean": "packets", "delay_ms.p99": "ms", "loss_ratio": "1",
        "timeouts": "", "links.core.queue_bytes": "B", "utilization": "1",
    }  # fmt: skip
    assert {name: tidy.unit_of(name) for name in expected} == expected


def test_fluids_have_places_and_reasons_are_packets():
    summary = {
        "fluids": {"crowd": {"rtt_ms": 4.0, "loss_ratio": 0.1}},
        "links": {"core": {"drops_by_reason": {"medium": 3}, "reverse": {"marks_by_reason": {"step": 1}}}},
    }
    rows = tidy.values([PointResult(None, {}, 1, summary)]).rows()
    assert [(row["place"], row["metric"], row["unit"], row["value"]) for row in rows] == [
        ("fluids.crowd", "rtt_ms", "ms", 4.0),
        ("fluids.crowd", "loss_ratio", "1", 0.1),
        ("links.core", "drops_by_reason.medium", "packets", 3.0),
        ("links.core.reverse", "marks_by_reason.step", "packets", 1.0),
    ]


def test_an_empty_table_is_one():
    frame = tidy.values([PointResult(None, {}, 1, {})])
    assert len(frame) == 0 and frame.to_csv() == "variant,seed,place,metric,unit,value\n"


def test_a_reason_that_did_not_occur_with_a_seed_counts_as_zero_of_it():
    def run(seed, rate, **reasons):
        link = {"delivered_packets": 9, "dropped_packets": len(reasons), "drops_by_reason": reasons}
        return PointResult(None, {"rate": rate}, seed, {"links": {"core": link | {"reverse": link}}})

    points = [run(1, "1Mbit", medium=1)] + [run(seed, "1Mbit") for seed in range(2, 11)]
    points += [run(seed, "2Mbit", early=seed) for seed in (1, 2)]
    patterns = ["links.core*.drops_by_reason.*"]
    rows = list(tidy.means(points, patterns).where(place="links.core").rows())
    assert [(row["rate"], row["metric"], row["mean"], row["seeds"]) for row in rows] == [
        ("1Mbit", "drops_by_reason.medium", 0.1, 10),
        ("2Mbit", "drops_by_reason.early", 1.5, 2),
    ]
    every = tidy.values(points, patterns).where(metric="drops_by_reason.medium", place="links.core.reverse")
    assert every["value"] == [1.0] + [0.0] * 9 and every["seed"] == list(range(1, 11))


def test_what_a_call_allows_is_allowed_to_that_call_alone(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "base.toml").write_text(QUEUES)
    mine = tmp_path / "one" / "mine.toml"
    mine.write_text('include = "../other/base.toml"\n')
    with pytest.raises(tidegate.ConfigError, match="lies outside"):
        tidegate.sweep(mine, quick=True)
    for call in (
        tidegate.sweep,
        lambda *given, **more: tidegate.reproduce(*given, out=tmp_path / "res", **more),
    ):
        assert call(mine, quick=True, allow=[tmp_path / "other"])
        with pytest.raises(tidegate.ConfigError, match="lies outside"):
            tidegate.load(mine)
    # Nor to another thread meanwhile; but to those that make the runs.
    seen, before = [], reach.allowed()
    with reach.allowing([tmp_path / "other"]):
        thread = threading.Thread(target=lambda: seen.append(reach.allowed()))
        thread.start()
        thread.join()
        inside = [*parallel.Threads(2).run_ordered([parallel.Job(reach.allowed)])]
    other = str(tmp_path / "other")
    assert other not in seen[0] and other in inside[0] and reach.allowed() == before
