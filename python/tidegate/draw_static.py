"""Draws a `figure.Figure` with matplotlib: SVG, PNG or PDF, for papers and slides."""

import io
from pathlib import Path
from typing import Any

from tidegate.errors import MissingExtraError
from tidegate.figure import Figure, Trace
from tidegate.labels import wrapped
from tidegate.store import write_atomic

_DASHES = ("-", "--", ":", "-.")
_PATTERNS = ("", "///", "...", "xxx")
_MARKERS = ("o", "s", "^", "D")
_REFERENCE_MARKERS = ("D", "s", "^", "o")
_MARKED_POINTS_MAX = 30
_TITLE_WIDTH_MAX = 70  # letters of a title in one line
_NAMES_WIDTH_MAX = 60  # letters of all names below the bars, before they slope
FORMATS = (".svg", ".png", ".pdf")

_STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.labelcolor": "#333333",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "tidegate",
}


def draw(figure: Figure, path: Path) -> None:
    """Write the figure to `path`; its suffix chooses the format."""
    write_atomic(path, drawn(figure, path.suffix[1:]))


def drawn(figure: Figure, form: str) -> bytes:
    """The figure as `svg`, `png` or `pdf`."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise MissingExtraError("drawing needs matplotlib: pip install 'tidegate[plot]'") from None
    with rc_context(_STYLE):
        canvas = Canvas(figsize=(7.2, 4.2), layout="constrained")
        axes = canvas.add_subplot()
        axes.set_title(wrapped(figure.title, "\n", _TITLE_WIDTH_MAX))
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel(wrapped(figure.y_label, "\n"))
        if figure.x_log:
            axes.set_xscale("log")
        if figure.y_log:
            axes.set_yscale("log")
        if figure.heat is not None:
            _heat(canvas, axes, figure)
        for order, trace in enumerate(figure.traces):
            _draw_trace(axes, figure, trace, order)
        if figure.ticks is not None:
            _set_ticks(axes.xaxis, figure.ticks)
            if figure.kind == "bars" and sum(len(name) for _, name in figure.ticks) > _NAMES_WIDTH_MAX:
                axes.tick_params(axis="x", labelrotation=30)
                for text in axes.get_xticklabels():
                    text.set_horizontalalignment("right")
        if figure.y_ticks is not None:
            _set_ticks(axes.yaxis, figure.y_ticks)
        if figure.heat is None and not figure.y_log:
            lowest = min(
                (value for trace in figure.traces for value in trace.y if value is not None), default=0.0
            )
            axes.set_ylim(bottom=min(0.0, 1.05 * lowest))
        _legend(canvas, figure)
        metadata = {"Date": None} if form == "svg" else None
        stream = io.BytesIO()
        canvas.savefig(stream, dpi=160, metadata=metadata, format=form)
        return stream.getvalue()


def _set_ticks(axis: Any, ticks: list[tuple[float, str]]) -> None:
    axis.set_ticks([place for place, _ in ticks], [name for _, name in ticks])
    axis.set_ticks([], minor=True)


def _draw_trace(axes: Any, figure: Figure, trace: Trace, order: int) -> None:
    y = [float("nan") if value is None else value for value in trace.y]
    if figure.kind == "bars" and not trace.is_reference:
        axes.grid(visible=False, axis="x")
        error = None if trace.high is None else trace.whiskers()
        axes.bar(
            trace.x, y, trace.width, yerr=error, color=trace.colour, label=trace.label, capsize=2,
            error_kw={"elinewidth": 1, "ecolor": "#333333"},
            hatch=_PATTERNS[trace.dash % len(_PATTERNS)], edgecolor="white", linewidth=0,
        )  # fmt: skip
    elif trace.is_reference and not trace.is_line:
        marker = _REFERENCE_MARKERS[figure.reference_number(trace) % len(_REFERENCE_MARKERS)]
        axes.plot(
            trace.x, y, marker, color="white", markeredgecolor="#222222", markeredgewidth=1.3, markersize=5.5,
            label=trace.label, zorder=5,
        )  # fmt: skip
    elif figure.kind == "cdf" and not trace.is_reference:
        axes.step(
            trace.x, y, where="post", color=trace.colour, linestyle=_DASHES[trace.dash % 4], label=trace.label
        )
    else:
        few = len(trace.x) <= _MARKED_POINTS_MAX and not trace.is_reference and figure.kind == "lines"
        axes.plot(
            trace.x, y, linestyle=_DASHES[trace.dash % 4], color=trace.colour, label=trace.label,
            linewidth=1.3 if trace.is_reference or figure.kind == "series" else 1.8,
            marker=_MARKERS[order % len(_MARKERS)] if few else None, markersize=4,
        )  # fmt: skip
        if trace.low is not None and trace.high is not None:
            low = [float("nan") if value is None else value for value in trace.low]
            high = [float("nan") if value is None else value for value in trace.high]
            axes.fill_between(trace.x, low, high, color=trace.colour, alpha=0.18, linewidth=0)


def _heat(canvas: Any, axes: Any, figure: Figure) -> None:
    rows = [[float("nan") if value is None else value for value in row] for row in figure.heat or ()]
    image = axes.imshow(rows, aspect="auto", origin="lower", cmap="viridis")
    axes.grid(visible=False)
    canvas.colorbar(image, ax=axes, label=figure.note)


def _legend(canvas: Any, figure: Figure) -> None:
    """Below the axes, where it covers no data."""
    if len(figure.traces) < 2 and not any(trace.is_reference for trace in figure.traces):
        return
    longest = max(len(trace.label) for trace in figure.traces)
    columns = max(1, min(len(figure.traces), 90 // (longest + 6)))
    # What several references share is named once.
    references = {trace.label for trace in figure.traces if trace.is_reference}
    named: list[tuple[Any, str]] = []
    for axes in canvas.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            if label not in references or label not in [name for _, name in named]:
                named.append((handle, label))
    handles, names = zip(*named, strict=True)
    canvas.legend(handles, names, loc="outside lower center", ncols=columns, fontsize=9)
