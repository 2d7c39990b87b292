"""Transfers, pages and films, from the file to the numbers: through the command line and from Python."""

from pathlib import Path

import pytest

import tidegate
from tidegate import cli, draw_page, draw_static, figures
from tidegate.experiment import Info, PointResult

pytestmark = pytest.mark.real_core

NETWORK = """
duration = "{duration}"
warmup = "1s"

[nodes]
hosts = ["A", "B"]

[defaults.tcp]
profile = "modern"
handshake = true

[links]
A-B = {{ between = ["A", "B"], rate = "20Mbit", delay = "10ms", queue = "droptail" }}

[flows.one]
from = "A"
to = "B"
transport = "tcp"
application = {application}
"""
SIZES = "# a comment\nbytes,cdf\n2000,0.5\n20000,1\n"


def summary(folder: Path, application: str, duration: str = "11s", more: str = "") -> dict:
    path = folder / "traffic.toml"
    path.write_text(NETWORK.format(application=application, duration=duration) + more)
    return tidegate.run(path).summary


def test_one_transfer_at_a_time_takes_what_it_takes_on_an_idle_network(tmp_path):
    application = (
        '{ kind = "transfers", arrivals = { kind = "even", every = "500ms" }, '
        'sizes = { kind = "fixed", size = "20kB" } }'
    )
    transfers = summary(tmp_path, application)["flows"]["one"]["transfers"]
    # From 1 s to 11 s, the last of them under way.
    assert (transfers["arrived"], transfers["refused"]) == (20, 0)
    assert transfers["completed"] + transfers["unfinished"] == 20
    assert transfers["slowdown"]["mean"] == pytest.approx(1.0, abs=0.02)
    # A handshake, ten segments, and the other four in the next round trip.
    assert transfers["completion_s"]["p50"] == pytest.approx(0.0535, abs=0.001)
    assert list(transfers["by_size"]) == ["to_100kB"]


def test_a_table_beside_the_scenario_is_read_and_is_part_of_what_a_run_is(tmp_path):
    (tmp_path / "sizes.csv").write_text(SIZES)
    application = (
        '{ kind = "transfers", arrivals = { kind = "poisson", rate = "4Mbit" }, '
        'sizes = { kind = "table", file = "sizes.csv" } }'
    )
    transfers = summary(tmp_path, application, "61s")["flows"]["one"]["transfers"]
    mean = transfers["arrived_bytes"] / transfers["arrived"]
    assert mean == pytest.approx(0.5 * 2000 + 0.5 * 11000, rel=0.05)
    assert set(transfers["by_size"]) == {"to_10kB", "to_100kB"}
    (tmp_path / "sizes.csv").write_text(SIZES.replace("20000", "30000"))
    after = summary(tmp_path, application, "61s")["flows"]["one"]["transfers"]
    assert after["arrived_bytes"] > transfers["arrived_bytes"]


def test_a_list_is_replayed(tmp_path):
    (tmp_path / "list.csv").write_text("seconds,bytes\n2,1000\n2,5000\n3.5,200000\n")
    application = '{ kind = "transfers", arrivals = { kind = "list", file = "list.csv" } }'
    transfers = summary(tmp_path, application)["flows"]["one"]["transfers"]
    assert (transfers["arrived"], transfers["arrived_bytes"]) == (3, 206_000)
    assert {name: one["completed"] for name, one in transfers["by_size"].items()} == {
        "to_1kB": 1, "to_10kB": 1, "to_1MB": 1,
    }  # fmt: skip


def test_what_is_wrong_with_a_table_names_its_line(tmp_path, capsys):
    (tmp_path / "sizes.csv").write_text("1000,0.5\n500,1\n")
    application = (
        '{ kind = "transfers", arrivals = { kind = "poisson", rate = "4Mbit" }, '
        'sizes = { kind = "table", file = "sizes.csv" } }'
    )
    (tmp_path / "t.toml").write_text(NETWORK.format(application=application, duration="2s"))
    assert cli.invoke(["run", str(tmp_path / "t.toml")]) != 0
    error = " ".join(capsys.readouterr().err.split())
    assert "sizes.csv, line 2: 500 bytes and 1 come after 1000 and 0.5; both ascend" in error


def test_pages_and_films_tell_what_a_user_of_them_feels(tmp_path):
    pages = summary(
        tmp_path,
        '{ kind = "pages", think = "1s", thinking = "constant", '
        'objects = [{ size = "10kB" }, { size = "5kB", count = 8, delay = "5ms" }] }',
    )["flows"]["one"]["pages"]
    assert pages["loaded"] >= 7 and pages["objects"] >= 9 * pages["loaded"]
    # Four round trips of 20 ms (a handshake and a request, twice), what is parsed, and 50 kB at 20 Mb/s.
    assert 0.085 < pages["load_s"]["p50"] < 0.16
    film = summary(tmp_path, '{ kind = "video", rates = ["1Mbit", "4Mbit"] }', "61s")["flows"]["one"]["video"]
    assert film["stalls"] == 0 and film["played_s"] == pytest.approx(60.0, abs=1.5)
    assert 3.5e6 < film["mean_bitrate_bps"] <= 4e6
    starved = summary(
        tmp_path, '{ kind = "video", rates = ["30Mbit"], segment = "1s", buffer = "4s" }', "61s"
    )["flows"]["one"]["video"]
    assert starved["stalls"] > 10
    # It plays two thirds of the time: 20 Mb/s less headers for 30.
    assert starved["stalled_ratio"] == pytest.approx(1 - 20 / 30 * 1460 / 1500, abs=0.04)


def test_what_happens_over_time_can_be_recorded(tmp_path):
    application = (
        '{ kind = "transfers", places = 5, arrivals = { kind = "even", every = "4s", burst = 9 }, '
        'sizes = { kind = "fixed", size = "1MB" } }'
    )
    path = tmp_path / "traffic.toml"
    more = '\n[record]\nevery = "100ms"\nseries = ["flows.one.active_transfers"]\n'
    path.write_text(NETWORK.format(application=application, duration="7s") + more)
    result = tidegate.run(path)
    times, active = result.series("flows.one.active_transfers")
    assert (len(times), max(active)) == (70, 5)
    assert result.summary["flows"]["one"]["transfers"]["refused"] == 4


@pytest.fixture
def by_size() -> list[PointResult]:
    def point(variant, seed, times):
        of = {name: {"completion_s": {"p95": value}} for name, value in times.items()}
        return PointResult(variant, {}, seed, {"flows": {"web": {"transfers": {"by_size": of}}}})

    return [
        point("x", 1, {"to_10kB": 0.1, "to_1MB": 1.0}), point("x", 2, {"to_10kB": 0.3, "to_1MB": 1.0}),
        point("y", 1, {"to_10kB": 0.2, "to_100kB": 0.4}), point("y", 2, {"to_10kB": 0.2, "to_100kB": 0.4}),
    ]  # fmt: skip


def test_a_figure_over_sizes_has_a_place_for_each_class_between_the_least_and_the_greatest(by_size):
    info = Info.from_raw("e", {"variants": {"x": {}, "y": {}}})
    spec = {"id": "s", "kind": "sizes", "y": "flows.web.transfers.by_size.{size}.completion_s.p95"}
    figure = figures.build(spec, info, by_size)
    assert figure.problem == ""
    assert [name for _, name in figure.ticks] == ["1 to 10 kB", "10 to 100 kB", "0.1 to 1 MB"]
    first, second = figure.traces
    assert first.y == [pytest.approx(0.2), None, pytest.approx(1.0)]
    assert second.y == [pytest.approx(0.2), pytest.approx(0.4), None]
    assert "x" in draw_page.draw(figure, "k")
    assert len(draw_static.drawn(figure, "svg")) > 1000
    unnamed = figures.build({**spec, "y": "flows.web.transfers.completed"}, info, by_size)
    assert "{size}" in unnamed.problem
