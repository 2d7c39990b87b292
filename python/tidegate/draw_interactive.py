"""Draws a `figure.Figure` as plotly.js traces, for the HTML report.

Gives plain dicts; the plotly package is needed only for the copy of plotly.js in it. Colours of paper, grid
and text are left to the page, which knows whether it is light or dark.
"""

import importlib.util
from pathlib import Path
from typing import Any

from tidegate.errors import MissingExtraError
from tidegate.figure import Figure, Trace
from tidegate.labels import wrapped

_DASHES = ("solid", "dash", "dot", "dashdot")
_PATTERNS = ("", "/", ".", "x")
_MARKERS = ("circle", "square", "triangle-up", "diamond")
_REFERENCE_MARKERS = ("diamond", "square", "triangle-up", "circle")
_MARKED_POINTS_MAX = 30
_NAMES_WIDTH_MAX = 72  # letters of all names below the bars, before they slope


def javascript() -> str:
    """The text of plotly.js."""
    spec = importlib.util.find_spec("plotly")
    path = Path(spec.origin).parent / "package_data" / "plotly.min.js" if spec and spec.origin else None
    if path is None or not path.is_file():
        raise MissingExtraError("the HTML report needs plotly: pip install 'tidegate[plot]'")
    # The end of a script element must not occur inside one.
    return path.read_text(encoding="utf-8").replace("</script", "<\\/script")


def draw(figure: Figure) -> dict[str, Any]:
    """Data and layout for `Plotly.newPlot`."""
    data: list[dict[str, Any]] = []
    if figure.heat is not None:
        data.append(_heat(figure))
    for order, trace in enumerate(figure.traces):
        data += _trace(figure, trace, order)
    x_axis = _axis(figure.x_label, figure.x_log, figure.ticks)
    y_axis = _axis(wrapped(figure.y_label, "<br>"), figure.y_log, figure.y_ticks)
    if figure.y_ticks is None and not figure.y_log:
        y_axis["rangemode"] = "tozero"
    if figure.kind == "bars":
        x_axis |= {"showgrid": False, "zeroline": False}
        # Long names slope down to their bar: upright they overlap, and the other way the last is cut off.
        if sum(len(name) for _, name in figure.ticks or ()) > _NAMES_WIDTH_MAX:
            x_axis["tickangle"] = -30
    if figure.kind == "lines" and len(figure.ticks or ()) == 1:
        x_axis["zeroline"] = False
    layout = {
        "xaxis": x_axis,
        "yaxis": y_axis,
        "barmode": "overlay",
        "hovermode": "closest" if figure.kind in ("bars", "heatmap") else "x unified",
        "showlegend": len(figure.traces) > 1 or any(trace.is_reference for trace in figure.traces),
    }
    # What several references share is named once.
    for label in {trace.label for trace in figure.traces if trace.is_reference}:
        for drawn in [each for each in data if each.get("name") == label][1:]:
            drawn["showlegend"] = False
    return {"data": data, "layout": layout}


def _axis(label: str, is_log: bool, ticks: list[tuple[float, str]] | None) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": label},
        "type": "log" if is_log else "linear",
        # No prefixes: `10 000`, not `10k`, and `10^-8`, not `10n`.
        "exponentformat": "power",
        "minexponent": 6,
        "separatethousands": True,
    }
    if ticks is not None:
        axis |= {"tickvals": [place for place, _ in ticks], "ticktext": [name for _, name in ticks]}
    return axis


def _trace(figure: Figure, trace: Trace, order: int) -> list[dict[str, Any]]:
    base: dict[str, Any] = {"name": trace.label, "x": trace.x, "y": trace.y, "legendgroup": f"trace-{order}"}
    if figure.kind == "bars" and not trace.is_reference:
        marker: dict[str, Any] = {"color": trace.colour}
        if shape := _PATTERNS[trace.dash % len(_PATTERNS)]:
            marker["pattern"] = {"shape": shape, "fgcolor": "#ffffff", "bgcolor": trace.colour, "size": 6}
        bars = base | {"type": "bar", "width": trace.width, "marker": marker}
        bars["hovertemplate"] = "%{y:.4g}<extra>" + trace.label + "</extra>"
        if trace.high is not None:
            below, above = trace.whiskers()
            bars["error_y"] = {
                "type": "data",
                "array": above,
                "arrayminus": below,
                "thickness": 1.2,
                "width": 3,
                "color": "#888888",
            }
        return [bars]
    if trace.is_reference and not trace.is_line:
        marker = {
            "symbol": _REFERENCE_MARKERS[figure.reference_number(trace) % len(_REFERENCE_MARKERS)],
            "size": 9,
            "color": "#ffffff",
            "line": {"color": "#222222", "width": 1.5},
        }
        return [base | {"type": "scatter", "mode": "markers", "marker": marker}]
    few = len(trace.x) <= _MARKED_POINTS_MAX and not trace.is_reference and figure.kind == "lines"
    line: dict[str, Any] = {
        "color": trace.colour,
        "dash": _DASHES[trace.dash % len(_DASHES)],
        "width": 1.4 if trace.is_reference or figure.kind == "series" else 2.2,
    }
    if figure.kind == "cdf" and not trace.is_reference:
        line["shape"] = "hv"
    drawn = base | {"type": "scatter", "mode": "lines+markers" if few else "lines", "line": line}
    drawn["hovertemplate"] = "%{y:.4g}"
    if few:
        drawn["marker"] = {"size": 6, "symbol": _MARKERS[order % len(_MARKERS)]}
    return [*_band(trace, order), drawn]


def _band(trace: Trace, order: int) -> list[dict[str, Any]]:
    if trace.low is None or trace.high is None:
        return []
    both = [
        (x, low, high)
        for x, low, high in zip(trace.x, trace.low, trace.high, strict=True)
        if low is not None and high is not None
    ]
    outline = {
        "type": "scatter",
        "x": [x for x, _, _ in both] + [x for x, _, _ in reversed(both)],
        "y": [high for _, _, high in both] + [low for _, low, _ in reversed(both)],
        "fill": "toself",
        "fillcolor": _translucent(trace.colour, 0.18),
        "line": {"width": 0, "color": "rgba(0,0,0,0)"},
        "mode": "lines",
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": f"trace-{order}",
    }
    return [outline]


def _heat(figure: Figure) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "z": figure.heat,
        "x": [place for place, _ in figure.ticks or ()],
        "y": [place for place, _ in figure.y_ticks or ()],
        "colorscale": "Viridis",
        "colorbar": {"title": {"text": figure.note, "side": "right"}},
        "hovertemplate": "%{z:.4g}<extra></extra>",
    }


def _translucent(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[index : index + 2], 16) for index in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
