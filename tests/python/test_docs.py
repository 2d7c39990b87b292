"""The documentation is true: every key of the format is in it, its examples are valid, its commands run.

Code blocks say after their language what is to be done with them: `toml file=NAME` (write the file and
validate it), `toml append=NAME`, `sh run` (`exit=CODE` where it fails), `python run`, `text output` (every
line, `...` aside, is in the output of the block before, numbers within 5 %). The blocks of a page run in
order in a folder of their own.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import measure, summary_keys

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md")) + [path for path in [ROOT / "README.md"] if path.exists()]
BLOCK = re.compile(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?: \d{3})*(?:\.\d+)?(?:e-?\d+)?")
SECONDS_MAX = 300


def text_of(name):
    return (DOCS / name).read_text(encoding="utf-8")


def mentions(text, key):
    return re.search(rf"`[^`\n]*(?<![\w-]){re.escape(key)}(?![\w-])[^`\n]*`", text) is not None


def tables_of_schema(schema):
    """Keys and defaults by the name of their table: `LinkText`, `Queue/red`; the file itself is `file`."""
    tables = {"file": schema["properties"]}
    for name, definition in schema["$defs"].items():
        if "properties" in definition:
            tables[name] = definition["properties"]
        for alternative in definition.get("anyOf", []):
            for kind in alternative.get("oneOf", []):
                properties = dict(kind["properties"])
                tables[f"{name}/{properties.pop('kind')['const']}"] = properties
    return tables


def tables_of_page(text):
    """Rows by the name that the comment before a table gives; several names for tables that are the same."""
    tables = {}
    for names, table in re.findall(r"<!-- schema: ([^>]*?) -->\n((?:\|[^\n]*\n)*)", text):
        rows = re.findall(r"^\| `([\w-]+)` \|(.*)$", table, re.MULTILINE)
        for name in names.split():
            tables[name] = dict(rows)
    return tables


@pytest.mark.real_core
class TestReference:
    """`docs/scenarios.md` and `docs/experiments.md` against `tidegate schema` and the sources."""

    def test_every_table_of_the_schema_is_described_with_exactly_its_keys(self, core):
        text = text_of("scenarios.md") + text_of("experiments.md")
        described = tables_of_page(text)
        for name, properties in tables_of_schema(json.loads(core.schema())).items():
            assert name in described, f"no table for {name}"
            assert set(described[name]) == set(properties), name

    def test_tables_are_written_from_the_declarations(self, core):
        specification = importlib.util.spec_from_file_location("make_tables", DOCS / "make_tables.py")
        make_tables = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(make_tables)
        schema = json.loads(core.schema())
        for name in make_tables.PAGES:
            # If not: python docs/make_tables.py
            assert make_tables.page(text_of(name), schema) == text_of(name), name

    def test_what_explain_says_of_results_is_what_the_pages_say(self):
        import make_meanings

        entries = {
            "keys": make_meanings.of_results(),
            "functions": make_meanings.of_measures(),
            "checks": make_meanings.of_checks(),
        }
        # If not: python docs/make_meanings.py
        assert json.loads(make_meanings.TARGET.read_text(encoding="utf-8")) == entries

    def test_explain_knows_every_key_of_a_summary_and_every_function_of_measures(self):
        import make_meanings

        told = {entry["path"] for entry in make_meanings.of_results()}
        for key in (*summary_keys.FLOW, *summary_keys.TCP, *summary_keys.MULTICAST):
            assert f"flows.NAME.{key}" in told, key
        assert {f"links.NAME.{key}" for key in summary_keys.LINK if key != "fluid"} <= told
        assert {entry["path"] for entry in make_meanings.of_measures()} == set(measure.FUNCTIONS)

    def test_the_page_of_figures_is_written_from_the_experiments(self):
        specification = importlib.util.spec_from_file_location("make_documents", DOCS / "make_documents.py")
        make_documents = importlib.util.module_from_spec(specification)
        sys.modules["make_documents"] = make_documents
        specification.loader.exec_module(make_documents)
        # If not: python docs/make_documents.py
        assert make_documents.page() == text_of("documents.md")

    def test_defaults_are_those_of_the_schema(self, core):
        text = text_of("scenarios.md") + text_of("experiments.md")
        described = tables_of_page(text)
        for name, properties in tables_of_schema(json.loads(core.schema())).items():
            for key, about in properties.items():
                default = about.get("default")
                if "Default: " in about.get("description", ""):
                    # The declaration says it in words, `2 / ln 2` for instance.
                    continue
                if isinstance(default, bool):
                    assert f"`{str(default).lower()}`" in described[name][key], f"{name}: {key}"
                elif isinstance(default, str | int | float):
                    shown = f"{default:g}" if isinstance(default, float) else str(default)
                    assert f"`{shown}`" in described[name][key], f"{name}: {key}"

    def test_every_word_that_a_key_takes_is_mentioned(self, core):
        text = text_of("scenarios.md") + text_of("experiments.md")
        for name, definition in json.loads(core.schema())["$defs"].items():
            words = list(definition.get("enum", []))
            words += [one["const"] for one in definition.get("oneOf", []) if "const" in one]
            for word in words:
                assert mentions(text, word), f"{name}: {word}"

    def test_all_controls_are_listed_where_new_is_described(self, core):
        (row,) = [line for line in text_of("examples.md").splitlines() if line.startswith("| `--control` |")]
        kinds = [each["kind"] for each in json.loads(core.list_mechanisms()) if each["family"] == "control"]
        assert re.findall(r"`([a-z0-9]+)`", row.split("|")[3].split(". ")[0]) == kinds

    def test_the_readme_counts_queues_and_controls(self, core):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        # Two of them control nothing: a window that stays, and a sender that listens to nobody.
        counted = [
            each
            for each in json.loads(core.list_mechanisms())
            if each["kind"] not in ("fixed", "unresponsive")
        ]
        families = [each["family"] for each in counted]
        assert f"{families.count('queue')} kinds (" in text
        assert f"under {families.count('control')} congestion controls" in text

    def test_every_quantity_and_reason_is_mentioned(self):
        quantities = (ROOT / "crates/scenario/src/model/record.rs").read_text(encoding="utf-8")
        variables = [
            name
            for path in (ROOT / "crates/mechanism/src").rglob("*.rs")
            for name in re.findall(r'Variable::new\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
        ]
        assert variables
        for name in variables:
            assert mentions(text_of("scenarios.md"), name), name
        reasons = (ROOT / "crates/packet/src/reason.rs").read_text(encoding="utf-8")
        for source, page in ((quantities, "scenarios.md"), (reasons, "results.md")):
            names = re.findall(r'^ +\w+ = "(\w+)",$', source, re.MULTILINE)
            assert names
            for name in names:
                assert mentions(text_of(page), name), f"{page}: {name}"

    def test_every_function_of_measures_is_described(self):
        for name in measure.FUNCTIONS:
            assert f"| `{name}(" in text_of("experiments.md"), name

    def test_every_key_of_a_summary_is_described(self, core):
        scenario = """
            duration = "2s"
            nodes = { hosts = ["a", "b", "c"], routers = ["i", "r", "e"] }
            defaults.link = { rate = "1Mbit", delay = "1ms" }
            links.a = { between = ["a", "i"] }
            links.i = { between = ["i", "r"], queue = "red" }
            links.r = { between = ["r", "e"] }
            links.b = { between = ["e", "b"] }
            links.c = { between = ["e", "c"] }
            flows.tcp = { from = "a", to = "b", transport = { kind = "tcp", ecn = true } }
            [flows.udp]
            from = "a"
            to = ["b", "c"]
            transport = "udp"
            application = { kind = "cbr", rate = "1Mbit" }
            [domains.net]
            edges = ["i", "e"]
            core = ["r"]
            mechanism = "nbp"
            [markers.a]
            flows = ["udp"]
            mechanism = { kind = "profile", rate = "1Mbit" }
            """
        text = "\n".join(line.strip() for line in scenario.splitlines())
        summary = json.loads(core.run(core.Scenario.from_text(text)).summary_json)

        def walk(node):
            for key, value in node.items():
                # Names of flows, links and nodes are the scenario's, not ours.
                if key not in ("tcp", "udp", "a", "i", "r", "b", "c"):
                    assert mentions(text_of("results.md"), key), key
                if isinstance(value, dict):
                    walk(value)

        walk(summary)


def options(info):
    return dict(word.partition("=")[::2] for word in info.split())


def blocks(page):
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(language, options(info), body) for language, info, body in found]


def is_checked(block):
    language, wanted, _ = block
    return "run" in wanted or (language == "toml" and wanted.keys() & {"file", "append"})


def same(expected, line):
    """Whether a printed line is the expected one but for spaces and numbers that are 5 % off."""
    if NUMBER.sub("#", expected).split() != NUMBER.sub("#", line).split():
        return False
    values = [[float(text.replace(" ", "")) for text in NUMBER.findall(one)] for one in (expected, line)]
    return all(abs(a - b) <= 0.05 * abs(a) for a, b in zip(*values, strict=True))


class Shell:
    """A folder in which the blocks of one page are run."""

    def __init__(self, folder):
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        package = f"{ROOT / 'python'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        self.environment = os.environ | {"PATH": path, "PYTHONPATH": package, "NO_COLOR": "1"}
        self.output = ""

    def run(self, command, code):
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
        )
        self.output = done.stdout
        assert done.returncode == code, f"{command[-1]}\n{done.stdout}"

    def write(self, name, body, mode, is_whole=True):
        with (self.folder / name).open(mode, encoding="utf-8") as file:
            file.write(body)
        if is_whole and name != "expected.toml":  # what an experiment is judged by; no scenario
            self.run(["tidegate", "validate", name], 0)


PAGES_WITH_EXAMPLES = [page for page in PAGES if any(map(is_checked, blocks(page)))]


@pytest.mark.real_core
@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page, tmp_path):
    shell = Shell(tmp_path)
    for language, wanted, body in blocks(page):
        code = int(wanted.get("exit", 0))
        match language:
            case "toml" if "file" in wanted:
                shell.write(wanted["file"], body, "w", "part" not in wanted)
            case "toml" if "append" in wanted:
                shell.write(wanted["append"], "\n" + body, "a")
            case "sh" if "run" in wanted:
                shell.run(["bash", "-euc", body], code)
            case "python" if "run" in wanted:
                shell.run([sys.executable, "-W", "error", "-c", body], code)
            case "text" if "output" in wanted:
                printed = shell.output.splitlines()
                for line in body.splitlines():
                    is_there = line.strip() in ("", "...") or any(same(line, one) for one in printed)
                    assert is_there, f"{line!r} is not in:\n{shell.output}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_is_named_in_the_index():
    # The site takes its chapters from there, and refuses what is in none.
    named = set(re.findall(r"^\| \[[^]]+\]\(([^)]+\.md)\)", text_of("index.md"), re.MULTILINE))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"index.md"}
    assert pages == named


@pytest.mark.real_core
def test_every_mechanism_has_a_page(core):
    text = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.glob("mechanisms/*.md"))
    families = ("queue", "mechanism", "labels", "marker", "control")
    kinds = [one["kind"] for one in json.loads(core.list_mechanisms()) if one["family"] in families]
    assert len(kinds) > 30
    assert [kind for kind in kinds if not mentions(text, kind)] == []


def test_what_is_said_here_in_place_of_another_tools_words_is_in_a_file_that_runs():
    page = DOCS / "coming-from.md"
    runs = "\n".join(body for block in blocks(page) if is_checked(block) for body in block[2:])
    said = 0
    for row in re.findall(r"^\|(.+)\|$", page.read_text(encoding="utf-8"), re.MULTILINE):
        # Links lead to what is said there; in brackets are other words for the same place.
        cell = re.sub(r"(\[`[^]]*\])?\([^)]*\)", "", row.split(" | ")[-1])
        for code in re.findall(r"`([^`]+)`", cell):
            if re.search(r"[= ]", code):
                assert code in runs, code
                said += 1
    assert said > 60
