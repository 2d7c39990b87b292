"""The Python interface: loading, building, running, looking."""

import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate import builder, experiment, library, parallel, quantities

ROOT = Path(__file__).resolve().parents[2]


def test_load_run_and_look(scenario_file):
    scenario = tidegate.load(scenario_file, duration="6s", model__noise=0)
    assert (scenario.duration_s, scenario.warmup_s) == (6.0, 1.0)
    result = tidegate.run(scenario, seed=3)
    assert result.seed == 3
    assert result.flows["tcp"]["throughput_bps"] == pytest.approx(0.5e6)
    time_s, values = result.series("flows.tcp.throughput_bps")
    assert isinstance(values, np.ndarray)
    assert len(time_s) == len(values)
    assert result.measure('sum("flows.*.throughput_bps") / 1e6') == pytest.approx(1.5)
    with pytest.raises(KeyError, match="recorded: flows.tcp"):
        result.series("flows.tcp.cwnd_bytes")
    assert "2 flows" in repr(result)
    assert "throughput" in result._repr_html_()
    assert "<svg" in scenario._repr_html_()


@pytest.mark.real_core
@pytest.mark.parametrize(
    "file", sorted((ROOT / "benches/scenarios").glob("*.toml")), ids=lambda file: file.stem
)
def test_scenarios_of_benchmarks_are_valid(file):
    assert tidegate.load(file, allow=[ROOT / "experiments"]).duration_s > 0


def test_nothing_is_kept_once_the_caller_has_left():
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    class Task:
        is_real = False

        def __init__(self, is_slow):
            self.is_slow = is_slow

        def run(self):
            if self.is_slow:
                begun.set()
                go_on.wait(20)
                threading.Timer(0.05, ended.set).start()
            else:
                begun.wait(20)
            return self

    kept = []
    tasks = [Task(False), Task(True)]
    runs = experiment.run_tasks(tasks, parallel.Threads(2), keep=lambda task, point: kept.append(task))
    next(runs)
    runs.close()
    go_on.set()
    ended.wait(20)
    assert kept == [tasks[0]]


@pytest.mark.real_core
def test_traces_are_taken_where_they_are_asked_for(tmp_path):
    network = tidegate.Scenario(duration="2s").hosts("a", "b")
    queue = {"kind": "droptail", "limit": "5p"}
    network.link("a", "b", name="thin", rate="1Mbit", delay="10ms", queue=queue)
    network.flow("f", "a", "b", transport="tcp")
    sizes = {}
    for places in (["hosts"], ["links"], ["b"], ["thin.forward"]):
        trace, drops = tmp_path / "trace", tmp_path / "drops"
        network.run(trace=trace, trace_at=places, trace_drops=drops)
        sizes[places[0]] = trace.stat().st_size
        assert drops.stat().st_size > 300
    assert len(set(sizes.values())) == 4 and sizes["links"] > sizes["thin.forward"]
    with pytest.raises(ValueError, match="there is no host and no link `thinn`; did you mean `thin`"):
        network.run(trace=tmp_path / "trace", trace_at=["thinn"])


@pytest.mark.real_core
def test_a_dict_replaces_a_table(tmp_path):
    s = tidegate.Scenario(duration="1s").hosts("a", "b").link("a", "b", rate="1Mbit", delay="1ms")
    s.flow("f", "a", "b", transport="tcp")
    file = s.save(tmp_path / "one.toml")
    queue = {"kind": "wfq", "queue": {"kind": "red", "limit": "50p", "ecn": True}}
    loaded = tidegate.load(file, **{"links.a-b.queue": queue, "flows.f.to": ["b"]})
    assert loaded.description["links"][0]["forward"]["queue"]["queue"]["ecn"] is True


@pytest.mark.real_core
def test_a_loaded_scenario_says_what_is_hardly_meant(tmp_path):
    s = tidegate.Scenario(duration="2s").hosts("a", "b").link("a", "b", rate="1Mbit", delay="1ms")
    s.flow("f", "a", "b", transport="udp", application={"kind": "cbr", "rate": "500kbit"})
    file = s.save(tmp_path / "small.toml")
    assert tidegate.load(file).warnings == []
    with file.open("a") as more:
        more.write('[markers.m]\nflows = ["f"]\n')
        more.write('mechanism = { kind = "profile", rate = "400kbit", depth = "100B" }\n')
    (warning,) = tidegate.load(file).warnings
    assert "bucket" in warning


def test_series_are_an_arrow_stream(scenario_file):
    polars = pytest.importorskip("polars")
    table = polars.DataFrame(tidegate.run(scenario_file).to_arrow())
    assert table.columns == ["time_s", "name", "value"]


def test_a_scenario_built_in_code():
    s = tidegate.Scenario(duration="10s", title='with "quotes" and ü').hosts("a", "b")
    s.link("a", "b", rate="10Mbit", delay="5ms", queue={"kind": "red", "max_p": 0.1, "ecn": True})
    s.flow("f", "a", "b", transport="tcp").record("flows.*.throughput_bps", every="100ms")
    s.event("5s", "a-b", rate="5Mbit").domain(
        "net", ["r"], mechanism={"kind": "nbp", "shaper": {"bucket": "1500B"}}
    )
    table = tomllib.loads(s.to_toml())
    assert table["links"]["a-b"]["queue"] == {"kind": "red", "max_p": 0.1, "ecn": True}
    assert table["flows"]["f"] == {"from": "a", "to": "b", "transport": "tcp"}
    assert table["events"] == [{"at": "5s", "link": "a-b", "rate": "5Mbit"}]
    assert table["domains"]["net"]["mechanism"]["shaper"]["bucket"] == "1500B"
    assert s.run(seed=1).flows["f"]["throughput_bps"] > 0
    with pytest.raises(ValueError, match="already link 'a-b'"):
        s.link("a", "b", rate="1Mbit", delay="1ms")


_VALUES = st.recursive(
    st.one_of(st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), _VALUES, max_size=5))
def test_written_toml_reads_back_the_same(table):
    assert tomllib.loads(builder.to_toml(table)) == table


def test_importing_the_package_offers_its_names():
    assert set(tidegate.__all__) <= set(dir(tidegate))
    with pytest.raises(AttributeError):
        _ = tidegate.nothing


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [("1.5Mbit", 1.5e6, "bit/s"), ("10ms", 0.01, "s"), ("100kB", 1e5, "bytes"), ("64KiB", 65536, "bytes"),
     ("100p", 100, "packets"), ("3%", 0.03, ""), ("7", 7, ""), ("100us", 1e-4, "s")],
)  # fmt: skip
def test_quantities(text, value, unit):
    assert quantities.parse(text) == (pytest.approx(value), unit)


def test_what_is_no_quantity():
    assert quantities.parse("red") is None
    assert quantities.parse("10 parsec") is None
    assert quantities.in_unit("500kbit", "Mb/s") == 0.5
    assert quantities.rate(1.5e6) == "1.5 Mb/s"
    assert quantities.duration(1e-4) == "100 µs"


class Run:
    def __init__(self, number):
        self.number = number

    def run(self):
        if self.number == 3:
            raise ValueError("three")
        return self.number


def test_runs_come_back_in_order_with_their_errors():
    class Bar:
        advanced = 0

        def advance(self):
            self.advanced += 1

    def finish(number, result):
        finished.append((number, result))
        if number == 5:
            raise OSError("no room")

    bar, finished = Bar(), []
    outcomes = list(parallel.Threads(4).run_ordered([Run(n) for n in range(20)], finish, bar))
    well = [n for n in range(20) if n not in (3, 5)]
    assert [n for n, outcome in enumerate(outcomes) if outcome == n] == well
    assert (str(outcomes[3]), str(outcomes[5])) == ("three", "no room")
    assert sorted(finished) == [(n, n) for n in range(20) if n != 3]
    assert bar.advanced == 20


def test_experiments_are_found_by_prefix(shelf):
    assert list(library.select(["two"])) == list(library.select([])) == ["two/share"]
    assert library.natural_key("fig8") < library.natural_key("fig10")
    with pytest.raises(tidegate.TidegateError, match="did you mean two/share"):
        library.select(["two/shore"])


def test_an_experiment_is_found_by_the_figures_it_holds(shelf):
    file = shelf / "two" / "share.toml"
    file.write_text('also = ["fig7a", "fig7b"]\n' + file.read_text())
    assert list(library.select(["two/fig7b"])) == ["two/share"]
    assert list(library.select(["two/fig7a", "two/fig7b", "two"])) == ["two/share"]
    with pytest.raises(tidegate.TidegateError, match="did you mean two/fig7"):
        library.select(["two/fig7c"])


def test_no_two_shipped_experiments_hold_the_same_figure():
    known = library.all_experiments()
    files = [tomllib.loads(path.read_text()) for path in known.values()]
    listed = sum(len(file.get("also", ())) for file in files)
    assert len(library.other_names(known)) == listed, "a name is listed twice, or is an experiment's own"


def test_shipped_experiments_are_a_folder_of_the_package():
    assert library.experiments_dir.__module__ == "tidegate.library"


def test_one_shipped_experiment_is_known_as_all_of_them_are():
    known = library.all_experiments()
    others = [
        "",
        "nbp",
        "nbp/_x",
        "nbp/expected",
        "nbp/fig11.toml",
        "./nbp/fig11",
        "nbp//fig11",
        "nbp/../nbp/fig11",
    ]
    others += [str(known["nbp/fig11"].with_suffix("")), "../experiments/nbp/fig11"]
    assert all(library.is_shipped(name) for name in known)
    assert [name for name in others if library.is_shipped(name)] == []
