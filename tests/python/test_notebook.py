"""What notebooks show and complete: drawings, charts, progress, the keys of scenarios built in code."""

import html
import inspect
import io
import json
import sys
import types

import pytest

import tidegate
from tidegate import builder, design, kinds, notebook, progress
from tidegate.errors import MissingExtraError, UsageError

pytestmark = pytest.mark.real_core

# How the builder calls the tables of the schema, and what it calls otherwise or has as its position.
METHODS = {
    "__init__": ("file", {"include", "nodes", "links", "flows", "domains", "markers", "commands", "events",
                          "record", "axes", "variants", "figures"}),
    "link": ("LinkText", {"between"}),
    "flow": ("FlowText", {"from"}),
    "domain": ("DomainText", set()),
    "marker": ("MarkerText", set()),
    "command": ("CommandText", set()),
    "event": ("EventText", set()),
    "record": ("RecordText", set()),
    "axis": ("AxisText", set()),
    "variant": ("VariantText", set()),
    "figure": ("Figure", set()),
}  # fmt: skip


def dumbbell():
    s = tidegate.Scenario("4s", "Two queues", warmup="1s").hosts("a", "b").routers("r")
    s.link("a", "r", "10Mbit", "1ms").link("r", "b", "1Mbit", "10ms", name="core")
    s.flow("f", "a", "b", start={"uniform": ["0s", "1s"]}).flow("g", "a", "b")
    s.variant("plain", label="drop-tail").variant(
        "red", {"links.core.queue": tidegate.queues.red(limit="20p")}
    )
    s.figure("rate", ["flows.f.throughput_bps / 1e6"], "bars", labels=["f"])
    return s


@pytest.mark.parametrize("method", METHODS)
def test_every_key_of_files_is_a_keyword_of_the_builder(core, method):
    table, otherwise = METHODS[method]
    schema = json.loads(core.schema())
    keys = set(schema["properties"] if table == "file" else schema["$defs"][table]["properties"])
    keywords = {name.rstrip("_") for name in inspect.signature(getattr(builder.Scenario, method)).parameters}
    assert keys - otherwise <= keywords, "give the method a keyword for each key of the schema"


@pytest.mark.parametrize("family", [name for name, it in vars(kinds).items() if isinstance(it, kinds.Family)])
def test_every_kind_of_the_schema_is_a_function_of_its_keys(core, family):
    assert family in dir(tidegate)
    made = getattr(tidegate, family)
    schema = json.loads(core.schema())["$defs"][made._definition]["anyOf"]
    tables = next(choice["oneOf"] for choice in schema if "oneOf" in choice)
    assert len(dir(made)) == len(tables) > 0
    for table in tables:
        keys = set(table["properties"]) - {"kind"}
        kind = table["properties"]["kind"]["const"]
        function = getattr(made, kind.replace("-", "_"))
        names = inspect.signature(function).parameters
        assert {name.rstrip("_") for name in names} == keys
        assert all(f"{name}: " in inspect.getdoc(function) for name in names)
        assert function(**dict.fromkeys(names, 1)) == {"kind": kind} | dict.fromkeys(keys, 1)


def test_notebooks_complete_kinds_and_keys():
    jedi = pytest.importorskip("jedi")
    here = [{"tidegate": tidegate, "s": dumbbell()}]
    for code, wanted in (
        ("tidegate.queues.", {"red", "codel", "drr", "adaptive_red"}),
        ("tidegate.queues.red(", {"limit=", "max_p=", "ecn="}),
        ("tidegate.transports.tcp(", {"control=", "ecn=", "initial_window="}),
        ("s.link(", {"rate=", "queue=", "loss=", "duplex="}),
        ("s.flow(", {"transport=", "application=", "class_="}),
        ("tidegate.Scenario(", {"warmup=", "defaults=", "seeds="}),
    ):
        assert wanted <= {each.name for each in jedi.Interpreter(code, here).complete()}, code


def test_what_is_built_in_code_has_the_errors_of_a_file(tmp_path):
    s = dumbbell().link("a", "b", "1Mbit", "1ms", queue=tidegate.queues.red(limt="5p"))
    with pytest.raises(tidegate.ConfigError) as of_file:
        tidegate.load(s.save(tmp_path / "it.toml"))
    for ask in (s.build, s.run, s.sweep):
        with pytest.raises(tidegate.ConfigError, match="unknown key `limt` for kind `red`") as built:
            ask()
        assert (built.value.path, built.value.line) == (of_file.value.path, of_file.value.line)
        there = built.value.rendered.replace(str(built.value.file), "PLACE")
        assert there == of_file.value.rendered.replace(str(of_file.value.file), "PLACE")
    assert "did you mean `limit`" in s._repr_html_(), "a notebook shows what is wrong with it"
    with pytest.raises(AttributeError, match="did you mean red"):
        _ = tidegate.queues.redd


def test_a_scenario_built_in_code_sweeps_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lab = dumbbell().sweep(seeds=2, name="two")
    assert (lab.id, len(lab.points), list(tmp_path.iterdir())) == ("two", 4, [])
    assert lab.means("flows.f.throughput_bps")["low"][0] is not None
    for name in ("../two", "a/b", ""):
        with pytest.raises(UsageError, match="is no name of a result"):
            dumbbell().sweep(name=name)


def test_scenarios_results_and_experiments_are_drawn():
    pytest.importorskip("matplotlib")
    s = dumbbell()
    s.record("links.core.queue_packets", every="100ms")
    assert 'aria-label="Network of 2 hosts, 1 router.' in s._repr_html_() and ">core<" not in s._repr_html_()
    loaded = s.build()
    assert "Two queues" in loaded._repr_html_() and 'class="node router"' in loaded._repr_html_()
    run = loaded.run()._repr_html_()
    assert run.count("<svg") == 2 and "Throughput per flow" in run and "throughput Mb/s" in run
    lab = s.sweep(seeds=2)
    page = lab._repr_html_()
    assert "4 runs" in page and page.count("<svg") == 2 and "The network" in page
    assert all("style=" in part[:80] for part in page.split("<svg")[1:]), "none is wider than the page"


def test_several_results_are_shown_one_below_the_other(tmp_path):
    pytest.importorskip("matplotlib")
    both = tidegate.reproduce("nbp/fig1", "nbp/leak", out=tmp_path, quick=True, duration="15s")
    page = both._repr_html_()
    assert all(result.title in page for result in both) and page.count("<hr>") == 1


def test_a_design_shows_its_argument():
    made = design.red("10Mbit", rtt="60ms", flows=8)
    page = made._repr_html_()
    assert all(html.escape(step.symbol) in page for step in made.steps) and "max_p = 0.00854" in page


def test_without_matplotlib_there_is_all_but_the_charts(monkeypatch):
    def lacking(*_):
        raise MissingExtraError("no matplotlib")

    monkeypatch.setattr(notebook, "chart", lacking)
    page = dumbbell().build().run()._repr_html_()
    assert "<svg" not in page and "throughput Mb/s" in page


class FakeNotebook:
    """What a kernel has of IPython, as far as progress asks for it."""

    def __init__(self, monkeypatch):
        self.shown = []
        modules = {"IPython": types.ModuleType("IPython"), "IPython.display": types.ModuleType("display")}
        modules["IPython"].get_ipython = lambda: types.SimpleNamespace(kernel=self)
        modules["IPython.display"].display = self.display
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)

    def display(self, content, raw, display_id):
        assert raw and display_id
        self.shown.append(content)
        return types.SimpleNamespace(update=lambda content, raw: self.shown.append(content))


def test_a_notebook_sees_progress_and_in_the_end_nothing(monkeypatch):
    kernel = FakeNotebook(monkeypatch)
    monkeypatch.setattr(progress, "_REDRAWN_S", 0.0)
    dumbbell().sweep(seeds=3, name="queues")
    texts = [content["text/plain"] for content in kernel.shown]
    assert texts[0] == "queues: 0 of 6" and texts[-2:] == ["queues: 6 of 6", ""]
    assert '<progress value="6" max="6">' in kernel.shown[-2]["text/html"]


def test_a_notebook_is_not_flooded(monkeypatch):
    kernel = FakeNotebook(monkeypatch)
    with progress.Progress(10_000, "many") as bar:
        for _ in range(10_000):
            bar.advance()
    assert len(kernel.shown) < 100


def test_elsewhere_there_is_no_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.Progress(3, "few") as bar:
        bar.advance()
        bar.expect(2)
        bar.say("a line")
    assert sys.stderr.getvalue() == "a line\n"
