"""What leaves Tidegate for other tools comes back the same: CSV, DuckDB on a folder, flent."""

import csv
import gzip
import json
import math

import pytest

import tidegate
from tidegate.errors import UsageError

MANY = """
title = "A hundred points"
duration = "1s"
seeds = 5
nodes = { hosts = ["a", "b"] }
links.core = { between = ["a", "b"], rate = "2Mbit", delay = "5ms" }
flows.f = { from = "a", to = "b", transport = "tcp", start = { uniform = ["0s", "500ms"] } }
axes.limit = { path = "links.core.queue.limit", values = ["2p", "4p", "8p", "16p", "32p"] }
axes.rate = { path = "links.core.rate", values = ["1Mbit", "2Mbit"] }
variants.red = { label = "with, a comma", set = { "links.core.queue" = { kind = "red" } } }
variants.plain = {}
"""

RECORDED = """
title = "Two flows"
duration = "4s"
warmup = "1s"
seeds = 2
nodes = { hosts = ["a", "b"], routers = ["r"] }
[links]
in = { between = ["a", "r"], rate = "10Mbit", delay = "1ms" }
core = { between = ["r", "b"], rate = "1Mbit", delay = "10ms", queue = { kind = "droptail", limit = "10p" } }
[flows]
tcp = { from = "a", to = "b", transport = "tcp" }
udp = { from = "a", to = "b", transport = "udp", application = { kind = "cbr", rate = "200kbit" } }
[record]
every = "200ms"
series = ["flows.*.throughput_bps", "flows.tcp.srtt_ms", "links.core.queue_bytes",
    "links.core.dropped_packets"]
[variants]
one = {}
two = {}
"""

pytestmark = pytest.mark.real_core


def sweep(tmp_path, text, **options):
    file = tmp_path / "experiment.toml"
    file.write_text(text)
    return tidegate.sweep(file, **options)


def test_a_hundred_points_to_csv_and_back_are_equal(tmp_path):
    lab = sweep(tmp_path, MANY)
    assert len(lab.points) == 100
    frame = lab.values()
    assert len(frame) > 3000
    assert lab.export(tmp_path / "all.csv") == [tmp_path / "all.csv"]
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    types = {"seed": int, "value": float}
    for name, column in frame.columns.items():
        assert [types.get(name, str)(row[name]) for row in rows] == column, name
    polars = pytest.importorskip("polars")
    assert polars.read_csv(tmp_path / "all.csv").fill_null("").equals(frame.to_polars())
    pandas = pytest.importorskip("pandas")
    pandas.testing.assert_frame_equal(
        pandas.read_csv(tmp_path / "all.csv", keep_default_na=False),
        frame.to_pandas(),
        check_dtype=False,
        check_exact=True,
    )


def test_duckdb_asks_a_folder_that_nobody_has_read(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    lab = sweep(tmp_path, RECORDED, out=tmp_path / "kept")
    monkeypatch.chdir(tmp_path)
    asked = duckdb.sql(
        "SELECT variant, avg(summary.flows.udp.throughput_bps) FROM 'kept/points.jsonl' "
        "GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    means = lab.means("flows.udp.throughput_bps")
    assert asked == [(name, pytest.approx(means.where(variant=name)["mean"][0])) for name in ("one", "two")]
    sampled = duckdb.sql(
        "SELECT variant, seed, name, max(value) FROM 'kept/series/*.parquet' AS s "
        "JOIN 'kept/points.jsonl' AS p ON suffix(s.filename, p.series) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    assert len(sampled) == 4 * 5
    series = lab.series()
    for variant, seed, name, most in sampled:
        assert most == max(series.where(variant=variant, seed=seed, series=name)["value"])


def test_duckdb_takes_a_table_as_it_is(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("polars")
    values = sweep(tmp_path, RECORDED).values("flows.tcp.throughput_bps")
    assert duckdb.sql("SELECT sum(value) FROM values").fetchall() == [(pytest.approx(sum(values["value"])),)]


def read(path):
    return json.loads(gzip.decompress(path.read_bytes()))


def test_flent_has_a_file_for_each_run_in_its_own_terms(tmp_path):
    lab = sweep(tmp_path, RECORDED)
    written = lab.export(tmp_path / "runs.flent.gz")
    assert [path.name for path in written] == [f"runs-0000{number}.flent.gz" for number in (1, 2, 3, 4)]
    for path, point in zip(written, lab.points, strict=True):
        found = read(path)
        assert found["version"] == 4 and set(found) == {
            "version", "metadata", "x_values", "results", "raw_values",
        }  # fmt: skip
        about = found["metadata"]
        assert about["NAME"] == "tcp_nup" and about["TEST_PARAMETERS"]["upload_streams"] == "2"
        assert about["TITLE"] == f"Two flows: {point.variant}, seed {point.seed}"
        times, tcp_bps = point.series("flows.tcp.throughput_bps")
        assert found["x_values"] == list(times)
        assert all(len(values) == len(times) for values in found["results"].values())
        assert set(found["results"]) == set(about["SERIES_META"])
        assert found["results"]["TCP upload::1"] == pytest.approx([rate / 1e6 for rate in tcp_bps])
        udp_bps = point.series("flows.udp.throughput_bps")[1]
        assert found["results"]["TCP upload sum"] == pytest.approx(list((tcp_bps + udp_bps) / 1e6))
        known = [value for value in point.series("flows.tcp.srtt_ms")[1] if math.isfinite(value)]
        assert [sample["val"] for sample in found["raw_values"]["Ping (ms) ICMP"]] == known
        samples = found["raw_values"]["qdisc_stats_core"]
        assert [sample["t"] for sample in samples] == list(times)
        assert [sample["backlog_bytes"] for sample in samples] == list(
            point.series("links.core.queue_bytes")[1]
        )
        # The counter begins again after the warm-up; what flent has is per interval.
        drops = point.series("links.core.dropped_packets")[1]
        after = times > 1.0
        assert sum(
            sample["dropped"] for sample, is_after in zip(samples, after, strict=True) if is_after
        ) == pytest.approx(drops[-1])
        assert all(sample["dropped"] >= 0 for sample in samples)


def test_the_same_run_gives_the_same_bytes_for_flent(tmp_path):
    lab = sweep(tmp_path, RECORDED, seeds=1)
    first, again = (lab.export(tmp_path / name)[0] for name in ("a.flent.gz", "b.flent.gz"))
    assert first.read_bytes() == again.read_bytes()


def test_flent_opens_it(tmp_path):
    resultset = pytest.importorskip("flent.resultset")
    lab = sweep(tmp_path, RECORDED, seeds=1)
    opened = resultset.load(str(lab.export(tmp_path / "x.flent.gz")[0]))
    assert opened.meta("TOTAL_LENGTH") == 4.0
    round_trips = list(opened.raw_series("TCP upload::1", raw_key="tcp_rtt"))
    assert len(round_trips) > 10 and all(0 < time <= 4 and value > 22 for time, value in round_trips)
    assert opened.series("TCP upload sum")[-1] == pytest.approx(1.0, rel=0.15)


def test_what_flent_cannot_hold_is_refused(tmp_path):
    lab = sweep(tmp_path, RECORDED, seeds=1)
    with pytest.raises(UsageError, match="time series, and no means"):
        lab.export(tmp_path / "x.flent.gz", "means")
    with pytest.raises(UsageError, match="no run recorded such"):
        lab.export(tmp_path / "x.flent.gz", patterns=["flows.nobody.*"])
    assert {path.name for path in tmp_path.iterdir()} == {"experiment.toml"}


def test_the_command_writes_for_flent(tmp_path, tidegate_command):
    sweep(tmp_path, RECORDED, seeds=1, out=tmp_path / "kept")
    arguments = ("export", "kept", "-o", "x.flent.gz", "--only", "flows.*")
    code, done, _ = tidegate_command(*arguments)
    assert code == 0 and done.splitlines() == ["x-00001.flent.gz", "x-00002.flent.gz"]
    assert "qdisc_stats_core" not in read(tmp_path / "x-00001.flent.gz")["results"]


@pytest.mark.parametrize(
    ("pattern", "what", "says"),
    [
        ("flows.nosuch.*", "values", "? there are: flows.tcp, flows.udp, links.in"),
        ("flows.tcp.troughput_bps", "means", "did you mean throughput_bps"),
        ("flows.*.x", "values", "; flows.* has: throughput_bps, goodput_bps"),
        ("links.core.queue_packets", "series", "did you mean links.core.queue_bytes"),
    ],
)
def test_a_pattern_that_matches_nothing_leaves_the_old_file(tmp_path, tidegate_command, pattern, what, says):
    sweep(tmp_path, RECORDED, seeds=1, out=tmp_path / "kept")
    old = tmp_path / "x.csv"
    old.write_text("old")
    good = "flows.tcp.throughput_bps"
    code, _, said = tidegate_command(
        "export", "kept", "-o", old, "--what", what, "--only", good, "--only", pattern
    )
    assert code == 2 and f"--only {pattern}: no " in said and says in said
    assert old.read_text() == "old"
    assert tidegate_command("export", "kept", "-o", old, "--what", what, "--only", good)[0] == 0
    assert good.rpartition(".")[2] in old.read_text()


def test_series_that_nobody_recorded_are_no_empty_table(tmp_path, tidegate_command):
    sweep(tmp_path, RECORDED.partition("[record]")[0], seeds=1, out=tmp_path / "kept")
    code, _, said = tidegate_command("export", "kept", "-o", "x.csv", "--what", "series")
    assert code == 2 and "nothing was recorded over time" in said and not (tmp_path / "x.csv").exists()
