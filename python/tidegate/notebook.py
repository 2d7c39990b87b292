"""What notebooks show of scenarios, runs and experiments: HTML that needs nothing else.

Takes what `_repr_html_` methods have, gives texts. Without matplotlib there is all but the charts.
"""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import MissingExtraError
from tidegate.figure import Figure

if TYPE_CHECKING:
    from tidegate import draw_static

CHARTS_MAX = 2  # of a run or an experiment: what is seen at a glance


def text(plain: str) -> str:
    """Text as it is, in lines."""
    return f"<pre>{html.escape(plain)}</pre>"


def heading(title: str, more: str = "") -> str:
    """What is shown, and what is to be said of it first."""
    return f"<div><b>{html.escape(title)}</b>{html.escape(f' ({more})' if more else '')}</div>"


def folded(title: str, content: str) -> str:
    """Content that opens when its title is clicked; nothing where there is none."""
    return f"<details><summary>{html.escape(title)}</summary>{content}</details>" if content else ""


def topology(description: dict[str, Any]) -> str:
    """The network of a scenario, drawn; `description` is the JSON of the core."""
    from tidegate.topology_svg import svg

    drawn = svg(description)
    if not drawn:
        return ""
    style = (Path(__file__).parent / "templates" / "network.css").read_text(encoding="utf-8")
    # White, as charts are: it is readable where the notebook is dark.
    return f'<style>{style}</style><div style="background:#fff;color:#222;overflow-x:auto">{drawn}</div>'


def chart(figure: Figure, look: "draw_static.Look | None" = None) -> str:
    """A figure as an `<svg>` as wide as it is drawn, or as there is room."""
    from tidegate import draw_static

    drawn = draw_static.drawn(figure, "svg", look).decode()
    return drawn[drawn.index("<svg") :].replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)


def charts(figures: Sequence[Figure]) -> str:
    """The first figures that are drawn, small and side by side."""
    chosen = [each for each in figures if not each.problem and each.table is None][:CHARTS_MAX]
    try:
        drawn = [f'<div style="flex:0 1 380px">{chart(figure)}</div>' for figure in chosen]
    except MissingExtraError:
        return ""
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px">{"".join(drawn)}</div>' if drawn else ""
