"""What an experiment file may not ask for, beside what the core refuses: said before anything runs.

In: what the file says (`experiment.Info`) and its path. Out: nothing, or a `MeasureError` with file, line and
key.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import measure, quantities, toml_text
from tidegate.errors import MeasureError

if TYPE_CHECKING:
    from tidegate.experiment import Axis, Info

# What stands for each class of sizes of transfers in the measure of a figure, and one of them.
SIZE = "{size}"
SOME_SIZE = "to_10kB"
# Columns of the tables that results become (`tidy`), beside those of the axes.
TAKEN = (
    "variant", "seed", "seeds", "place", "metric", "unit", "value", "mean", "low", "high", "series", "time_s",
)  # fmt: skip


def require(info: "Info", path: Path) -> None:
    """Refuse axes and figures that could not be made, or would be wrong."""
    for axis in info.axes.values():
        require_name(axis.name, TAKEN, path)
        _require_unit(axis, path)
    for figure in info.figures:
        _require_measures(figure, path)
        if figure.get("kind") == "heatmap":
            _require_heatmap(figure, info, path)


def require_name(name: str, taken: Sequence[str], path: Path) -> None:
    """Refuse an axis whose column in tables of results would be another one's."""
    if name in taken:
        raise MeasureError(
            f"{_place_of_axis(path, name)}: tables of results have a column of that name; no axis can be "
            f"called {', '.join(taken)}"
        )


def _require_unit(axis: "Axis", path: Path) -> None:
    """Refuse a unit that values with one are not counted in. What plain numbers count may have any name."""
    for value in axis.values if axis.unit else ():
        parsed = quantities.parse(value)
        if parsed is None or not parsed[1] or quantities.base_unit(axis.unit) == parsed[1]:
            continue
        units = ", ".join(quantities.units_of(parsed[1]))
        place = _place_of_axis(path, axis.name, "unit")
        raise MeasureError(f"{place}: {axis.unit!r} is no unit of {value}, which is one of {units}")


def _place_of_axis(path: Path, *key: str) -> str:
    """File, line and key of what an axis has; no line where it stands in an include."""
    try:
        line = toml_text.line_of(path.read_text(encoding="utf-8"), ("axes", *key))
    except (OSError, ValueError):
        line = 1
    return f"{path}{f':{line}' if line > 1 else ''}: {'.'.join(('axes', *key))}"


def place_of_figure(figure: Mapping[str, Any], path: Path, key: str = "y") -> str:
    """The file and the line of a figure's `key`; the file alone where the figure stands in an include."""
    try:
        line = toml_text.line_in_list(path.read_text(encoding="utf-8"), "figures", figure["id"], key)
    except (OSError, ValueError):
        line = None
    return f"{path}:{line}" if line else str(path)


def _require_measures(figure: Mapping[str, Any], path: Path) -> None:
    """Refuse measures that cannot be read. Series have names instead."""
    drawn = [figure["y"]] if isinstance(figure["y"], str) else figure["y"]
    for term in drawn if figure.get("kind") != "series" else ():
        try:
            measure.parse(term.replace(SIZE, SOME_SIZE))
        except MeasureError as error:
            place = place_of_figure(figure, path)
            raise MeasureError(f"{place}: figure {figure['id']!r}, y: {error}") from None


def _require_heatmap(figure: Mapping[str, Any], info: "Info", path: Path) -> None:
    try:
        heat_axis(figure, info, drawn_variants(figure, list(info.variants)))
    except MeasureError as error:
        place = place_of_figure(figure, path, "kind")
        raise MeasureError(f"{place}: figure {figure['id']!r}: {error}") from None


def drawn_variants(figure: Mapping[str, Any], variants: Sequence[str]) -> list[str]:
    """Those of `variants` that a figure draws."""
    wanted = figure.get("variants") or figure.get("variant") or variants
    return [name for name in variants if name in (wanted if isinstance(wanted, list) else [wanted])]


def heat_axis(figure: Mapping[str, Any], info: "Info", variants: Sequence[str]) -> "Axis":
    """The axis that a heat map has upwards. A cell is one point: nothing else may differ."""
    if len(variants) > 1:
        raise MeasureError(
            f"a heatmap draws one variant, and here are {', '.join(variants)}: name one in `variant`"
        )
    where = figure.get("where") or {}
    others = [axis for name, axis in info.axes.items() if name != figure.get("x")]
    several = [axis for axis in others if len(where.get(axis.name) or axis.values) > 1]
    if len(several) > 1:
        names = ", ".join(axis.name for axis in several)
        raise MeasureError(
            f"a heatmap needs exactly two axes that vary, and beside x there are {names}: name one value of "
            "all but one of them in `where`"
        )
    if not several and len(others) != 1:
        raise MeasureError(f"a heatmap needs exactly two axes, here are {len(others) + 1}")
    return (several or others)[0]
