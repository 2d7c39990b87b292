"""Draws a `figure.Figure` with matplotlib: SVG, PNG or PDF, for papers and slides."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate import stats
from tidegate.errors import MissingExtraError, UsageError
from tidegate.figure import SIDE_BY_SIDE, Figure, Trace, in_words
from tidegate.labels import wrapped
from tidegate.store import write_atomic

_DASHES = ("-", "--", ":", "-.")
_PATTERNS = ("", "///", "...", "xxx")
_MARKERS = ("o", "s", "^", "D")
_REFERENCE_MARKERS = ("D", "s", "^", "o")
_MARKED_POINTS_MAX = 30
_NAMES_WIDTH_MAX = 60  # letters of all names below the bars, before they slope
_EVENTS_NAMED_MAX = 6
FORMATS = (".svg", ".png", ".pdf")

_RC = {
    "font.family": "sans-serif",
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
    # Fonts are in the file: as TrueType in PDF, as outlines in SVG.
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "tidegate",
}


@dataclass(frozen=True)
class Style:
    """What a figure is drawn for."""

    width: float  # inches
    font: float  # points
    has_title: bool
    families: tuple[str, ...]
    about: str


_SERIF = ("Times New Roman", "Nimbus Roman", "STIXGeneral")
STYLES = {
    "screen": Style(7.2, 10, True, ("sans-serif",), "pages and slides"),
    "ieee": Style(3.5, 8, False, _SERIF, "a column of an IEEE paper, 88.9 mm"),
    "ieee-wide": Style(7.16, 8, False, _SERIF, "both columns of an IEEE paper, 182 mm"),
    "acm": Style(3.33, 8, False, ("Linux Libertine O", *_SERIF), "a column of an ACM paper, 84.6 mm"),
    "acm-wide": Style(7.0, 8, False, ("Linux Libertine O", *_SERIF), "both columns of an ACM paper, 178 mm"),
}
_RATIO = 0.58  # height over width
_PANEL_RATIO = 0.36  # of each of several panels
_MM, _POINTS = 25.4, 72  # of an inch
SIZE_MM = (20.0, 1000.0)  # least and greatest width or height that can be asked for


@dataclass(frozen=True)
class Look:
    """How a figure is drawn: the name of a style, and width and height in millimetres if not its own."""

    style: str = "screen"
    size_mm: tuple[float, float] | None = None

    def inches(self, figure: Figure) -> tuple[float, float]:
        """Width and height: its own, or room for all panels and for a legend of more than two lines."""
        if self.size_mm is not None:
            return self.size_mm[0] / _MM, self.size_mm[1] / _MM
        style, panels = STYLES[self.style], len(figure.y_labels)
        height = style.width * (_RATIO if panels == 1 else max(_RATIO, _PANEL_RATIO * panels))
        rows = -(-len(figure.traces) // _legend_columns(figure, style.width, style.font))
        return style.width, height + max(0, rows - 2) * 1.5 * style.font / _POINTS


def look(style: str = "screen", size_mm: tuple[float, float] | None = None) -> Look:
    """The look of a named style, in its own size or another; both checked."""
    if style not in STYLES:
        raise UsageError(f"no style {style!r}; styles: {', '.join(STYLES)}")
    low, high = SIZE_MM
    if size_mm is not None and not all(low <= side <= high for side in size_mm):
        raise UsageError(f"a figure of {size_mm[0]:g} by {size_mm[1]:g} mm; sides are {low:g} to {high:g} mm")
    return Look(style, size_mm)


def draw(figure: Figure, path: Path, look: Look | None = None) -> None:
    """Write the figure to `path`; its suffix chooses the format."""
    write_atomic(path, drawn(figure, path.suffix[1:], look))


def drawn(figure: Figure, form: str, look: Look | None = None) -> bytes:
    """The figure as `svg`, `png` or `pdf`."""
    look = look or Look()
    try:
        from matplotlib import font_manager, rc_context
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise MissingExtraError("drawing needs matplotlib: pip install 'tidegate[plot]'") from None
    style = STYLES[look.style]
    known = set(font_manager.get_font_names())
    family = next((name for name in style.families if name in known or name == "sans-serif"), "serif")
    sizes = {"font.size": style.font, "axes.titlesize": style.font + 1, "axes.linewidth": style.font / 12}
    with rc_context(_RC | sizes | {"font.family": family}):
        width, height = look.inches(figure)
        canvas = Canvas(figsize=(width, height), layout="constrained")
        panels = canvas.subplots(len(figure.y_labels), sharex=True, squeeze=False)[:, 0]
        # Letters in a line of the width and of the height of an axis.
        letters = [int(1.35 * side * _POINTS / style.font) for side in (width, 0.8 * height / len(panels))]
        if style.has_title:
            panels[0].set_title(_plain(wrapped(figure.title, "\n", letters[0])))
        panels[-1].set_xlabel(_plain(figure.x_label))
        for axes, label in zip(panels, figure.y_labels, strict=True):
            axes.set_ylabel(_plain(wrapped(label, "\n", letters[1])))
        if figure.heat is not None:
            _heat(canvas, panels[0], figure)
        handles = [
            _draw_trace(panels[trace.panel], figure, trace, order)
            for order, trace in enumerate(figure.traces)
        ]
        for number, axes in enumerate(panels):
            _finish(axes, figure, number)
        _events(panels, figure, style.font, letters[1])
        _legend(canvas, figure, handles, _legend_columns(figure, width, style.font), style.font - 1)
        stream = io.BytesIO()
        canvas.savefig(
            stream, dpi=160 if style.has_title else 300, metadata=_metadata(figure, form), format=form
        )
        return stream.getvalue()


def _plain(text: str) -> str:
    """A text as it is: matplotlib takes what is between two dollars for a formula."""
    return text.replace("$", r"\$")


def _metadata(figure: Figure, form: str) -> dict[str, Any]:
    """Title and description, for those who do not see the picture; no date, so that files stay the same."""
    about = {"svg": "Description", "png": "Description", "pdf": "Subject"}[form]
    date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form]
    return {"Title": figure.title, about: in_words(figure), **date}


def _finish(axes: Any, figure: Figure, number: int) -> None:
    """Scales, ends and ticks of one panel."""
    if figure.x_log:
        axes.set_xscale("log")
        _set_powers(axes.xaxis)
    if figure.y_log and any((value or 0.0) > 0 for value in _heights(figure, number)):
        axes.set_yscale("log")
        _set_powers(axes.yaxis)
    if figure.ticks is not None:
        _set_ticks(axes.xaxis, figure.ticks)
        if figure.kind in SIDE_BY_SIDE and sum(len(name) for _, name in figure.ticks) > _NAMES_WIDTH_MAX:
            axes.tick_params(axis="x", labelrotation=30)
            for text in axes.get_xticklabels():
                text.set_horizontalalignment("right")
    if figure.y_ticks is not None and not figure.panels:
        _set_ticks(axes.yaxis, figure.y_ticks)
    if figure.x_range is not None:
        axes.set_xlim(figure.x_range)
    if figure.y_range is not None:
        axes.set_ylim(figure.y_range)
    elif figure.heat is None and not figure.y_log:
        axes.set_ylim(bottom=min(0.0, 1.05 * min(_heights(figure, number), default=0.0)))


def _heights(figure: Figure, number: int) -> list[float]:
    found = [value for trace in figure.traces if trace.panel == number for value in trace.y]
    found += [
        value for trace in figure.traces if trace.panel == number
        for values in trace.samples or () for value in values
    ]  # fmt: skip
    return [value for value in found if value is not None]


def _events(panels: Any, figure: Figure, font: float, letters: int) -> None:
    """A line through all panels for each; what it is stands along it, while there are few short ones."""
    for event in figure.events:
        for axes in panels:
            axes.axvline(event.at_s, color="#777777", linewidth=0.8, linestyle=(0, (2, 3)), zorder=1)
        if len(figure.events) <= _EVENTS_NAMED_MAX and len(event.label) <= letters:
            panels[0].annotate(
                _plain(event.label), (event.at_s, 1.0), (-2, -2), ("data", "axes fraction"), "offset points",
                rotation=90, fontsize=font - 3, color="#555555", ha="right", va="top", zorder=6,
            )  # fmt: skip


def _set_powers(axis: Any) -> None:
    """Numbers at a logarithmic axis: 0.2 and 60, where matplotlib has 2 times and 6 times a power of ten."""
    from matplotlib.ticker import LogFormatterSciNotation

    class Plain(LogFormatterSciNotation):
        def __call__(self, value: float, place: int | None = None) -> str:
            text = super().__call__(value, place)
            return f"{value:g}" if text and 1e-3 <= value < 1e5 else text

    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain())


def _set_ticks(axis: Any, ticks: list[tuple[float, str]]) -> None:
    axis.set_ticks([place for place, _ in ticks], [_plain(name) for _, name in ticks])
    axis.set_ticks([], minor=True)


def _draw_trace(axes: Any, figure: Figure, trace: Trace, order: int) -> Any:
    """Draw it; what stands for it in a legend comes back."""
    y = [float("nan") if value is None else value for value in trace.y]
    if trace.samples is not None:
        return _spreads(axes, figure, trace)
    if figure.kind == "bars" and not trace.is_reference:
        axes.grid(visible=False, axis="x")
        error = None if trace.high is None else trace.whiskers()
        return axes.bar(
            trace.x, y, trace.width, yerr=error, color=trace.colour, capsize=2,
            error_kw={"elinewidth": 1, "ecolor": "#333333"},
            hatch=_PATTERNS[trace.dash % len(_PATTERNS)], edgecolor="white", linewidth=0,
        )  # fmt: skip
    if trace.is_reference and not trace.is_line:
        marker = _REFERENCE_MARKERS[figure.reference_number(trace) % len(_REFERENCE_MARKERS)]
        return axes.plot(
            trace.x, y, marker, color="white", markeredgecolor="#222222", markeredgewidth=1.3, markersize=5.5,
            zorder=5,
        )[0]  # fmt: skip
    if figure.kind == "cdf" and not trace.is_reference:
        return axes.step(
            trace.x, y, where="post", color=trace.colour, linestyle=_DASHES[trace.dash % 4]
        )[0]  # fmt: skip
    few = len(trace.x) <= _MARKED_POINTS_MAX and not trace.is_reference and figure.kind == "lines"
    line = axes.plot(
        trace.x, y, linestyle=_DASHES[trace.dash % 4], color=trace.colour,
        linewidth=1.3 if trace.is_reference or figure.kind == "series" else 1.8,
        marker=_MARKERS[order % len(_MARKERS)] if few else None, markersize=4,
    )[0]  # fmt: skip
    if trace.low is not None and trace.high is not None:
        low = [float("nan") if value is None else value for value in trace.low]
        high = [float("nan") if value is None else value for value in trace.high]
        axes.fill_between(trace.x, low, high, color=trace.colour, alpha=0.18, linewidth=0)
    return line


def _spreads(axes: Any, figure: Figure, trace: Trace) -> Any:
    """Boxes or outlines of all values at each place, and their colour for the legend."""
    there = [(x, values) for x, values in zip(trace.x, trace.samples or (), strict=True) if values]
    axes.grid(visible=False, axis="x")
    places, widths = [x for x, _ in there], [trace.width] * len(there)
    fill = {"facecolor": trace.colour, "alpha": 0.35, "edgecolor": trace.colour}
    if figure.kind == "violin":
        outlines = []
        for _, values in there:
            coordinates, heights = stats.density(values)
            middle = stats.quantile(values, 0.5)
            outlines.append(
                {"coords": coordinates, "vals": heights, "mean": middle, "median": middle,
                 "min": values[0], "max": values[-1]}
            )  # fmt: skip
        drawn = axes.violin(outlines, places, widths=widths, showmedians=True, showextrema=False)
        for body in drawn["bodies"]:
            body.set(**fill)
        drawn["cmedians"].set_color(trace.colour)
    else:
        boxes = [
            dict(zip(("whislo", "q1", "med", "q3", "whishi", "fliers"), stats.spread(values), strict=True))
            for _, values in there
        ]
        line = {"color": trace.colour}
        axes.bxp(
            boxes, positions=places, widths=widths, patch_artist=True, manage_ticks=False, boxprops=fill,
            medianprops=line | {"linewidth": 2}, whiskerprops=line, capprops=line,
            flierprops={"marker": "o", "markersize": 3, "markeredgecolor": trace.colour},
        )  # fmt: skip
    return axes.plot([], [], "s", color=trace.colour)[0]


def _heat(canvas: Any, axes: Any, figure: Figure) -> None:
    rows = [[float("nan") if value is None else value for value in row] for row in figure.heat or ()]
    image = axes.imshow(rows, aspect="auto", origin="lower", cmap="viridis")
    axes.grid(visible=False)
    canvas.colorbar(image, ax=axes, label=_plain(figure.note))


def _legend_columns(figure: Figure, width: float, font: float) -> int:
    """How many names stand beside each other in `width` inches."""
    longest = max((len(trace.label) for trace in figure.traces), default=0)
    return max(1, min(len(figure.traces), int(1.75 * width * _POINTS / font) // (longest + 6)))


def _legend(canvas: Any, figure: Figure, drawn: Sequence[Any], columns: int, font: float) -> None:
    """Below the axes, where it covers no data."""
    if not figure.has_legend:
        return
    # What several references share is named once.
    references = {trace.label for trace in figure.traces if trace.is_reference}
    named: list[tuple[Any, str]] = []
    pairs = zip(drawn, figure.traces, strict=True)
    # Panel by panel; bars have their names behind those of marks.
    for handle, trace in sorted(
        pairs, key=lambda pair: (pair[1].panel, figure.kind == "bars" and not pair[1].is_reference)
    ):
        if trace.label not in references or trace.label not in [name for _, name in named]:
            named.append((handle, trace.label))
    handles, names = zip(*named, strict=True)
    # A name that begins with an underline would be left out: it is set afterwards.
    legend = canvas.legend(
        handles, [str(number) for number in range(len(names))], loc="outside lower center", ncols=columns,
        fontsize=font,
    )  # fmt: skip
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(_plain(name))
