"""The notebooks of examples/ run from top to bottom and draw their figure in few lines."""

import ast
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples/notebooks"
# What the first figure of each has in it besides lines: whiskers, bands, or neither.
NOTEBOOKS = {
    "first-dumbbell": "LineCollection",
    "compare-queues": "FillBetweenPolyCollection",
    "edge-control": "FillBetweenPolyCollection",
    "design-red": "",
    "change-a-figure": "FillBetweenPolyCollection",
}
LINES_MAX = 15
SECONDS_MAX = 300


def code_cells(name):
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def code_lines(source):
    return [line for line in source.splitlines() if line.strip() and not line.strip().startswith("#")]


def test_all_of_them_are_tested():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_figure_needs_at_most_15_lines(name):
    cells = code_cells(name)
    last = next(number for number, source in enumerate(cells) if ".plot(" in source)
    lines = [line for source in cells[: last + 1] for line in code_lines(source)]
    assert len(lines) <= LINES_MAX, "from the import to the figure"
    assert max(map(len, lines)) <= 110 and not any(";" in line for line in lines), "lines are lines"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_is_kept_without_outputs(name):
    for cell in json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None
    assert all(ast.parse(source) for source in code_cells(name))


@pytest.mark.filterwarnings("ignore")  # what the parts of Jupyter say of each other
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs_and_draws(name, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    place = tmp_path / "place"
    place.mkdir()
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=SECONDS_MAX, kernel_name="python3", resources={"metadata": {"path": str(place)}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output["data"] for output in outputs if "data" in output]
    drawn = next(cell for cell in notebook.cells if ".plot(" in cell.source).outputs[-1]["data"]
    assert drawn["text/html"].startswith("<svg") and NOTEBOOKS[name] in drawn["text/html"]
    assert {"text/html": "", "text/plain": ""} in shown, "the progress of the sweep, which is over"
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert list(place.iterdir()) == [], "a notebook leaves nothing that it does not name"
