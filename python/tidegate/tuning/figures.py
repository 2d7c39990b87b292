"""The figures of a tuning's report: front, history, importance, and each parameter beside each objective.

In: an `outcome.Outcome`. Out: `figure.Figure`s, which the page draws.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

from tidegate import labels, stats
from tidegate.figure import PALETTE, Figure, Trace
from tidegate.tuning import trials
from tidegate.tuning.declared import Objective
from tidegate.tuning.outcome import Outcome
from tidegate.tuning.space import Parameter, Range
from tidegate.tuning.trials import STOPPED, WHOLE, Trial

# Colour and shape (see `page_marks`) say the same in all figures.
_WHOLE, _STOPPED, _BROKEN = (PALETTE[4], 1), (PALETTE[6], 0), (PALETTE[3], 2)
_FRONT, _DEFAULT, _CHOSEN = (PALETTE[0], 1), (PALETTE[1], 3), (PALETTE[2], 0)
_MARK_PX = 5.5
# Of axes that are drawn: more would be nothing to look at.
_SLICES_MAX = 24
# What lies far out, a twentieth of the trials at most, is drawn at the edge: the others would be one spot.
_INSIDE = 0.95
# An axis is logarithmic from this factor on.
_DECADES = 30.0


def all_of(outcome: Outcome) -> list[Figure]:
    """Front, history and importance."""
    objectives = outcome.tuning.objectives
    found = [_front(outcome, one, other) for one, other in combinations(objectives, 2)]
    found += [_history(outcome, objective) for objective in objectives]
    if outcome.importance:
        found.append(_importance(outcome))
    return found


def slices(outcome: Outcome) -> list[Figure]:
    """What each objective is over each parameter that has a range."""
    pairs = [
        (parameter, objective)
        for parameter in outcome.tuning.parameters
        if isinstance(parameter.of, Range)
        for objective in outcome.tuning.objectives
    ]
    return [_slice(outcome, parameter, objective) for parameter, objective in pairs[:_SLICES_MAX]]


def _front(outcome: Outcome, one: Objective, other: Objective) -> Figure:
    figure = Figure(
        f"front-{one.name}-{other.name}",
        f"Pareto front: {one.label} and {other.label}",
        "scatter",
        x_label=_aimed(one),
        y_label=_aimed(other),
    )
    at = _values(one), _values(other)
    _clouds(figure, outcome, *at)
    best = sorted(((at[0](trial), at[1](trial)) for trial in outcome.front), reverse=one.sign < 0)
    is_plane = len(outcome.tuning.objectives) == 2
    if is_plane:
        # Steps: between two trials of the front nothing better than either was found.
        corners = [
            corner
            for here, after in zip(best, best[1:], strict=False)
            for corner in (here, (after[0], here[1]))
        ]
        best = [*corners, *best[-1:]]
    label = "Pareto front" if is_plane else "Pareto front of all objectives"
    _add(figure, label, best, _FRONT, is_line=is_plane)
    _marks(figure, outcome, *at)
    _frame(figure)
    return figure


def _history(outcome: Outcome, objective: Objective) -> Figure:
    figure = Figure(
        f"history-{objective.name}",
        f"{objective.label}, trial by trial",
        "scatter",
        x_label="trial",
        y_label=_aimed(objective),
    )
    at: tuple[Callable[[Trial], float], Callable[[Trial], float]] = (_number, _values(objective))
    _clouds(figure, outcome, *at)
    best: list[tuple[float, float]] = []
    for trial in outcome.trials:
        if trial.state == WHOLE and trial.keeps(outcome.tuning.limits):
            value = at[1](trial)
            if not best or objective.sign * value < objective.sign * best[-1][1]:
                best += [(_number(trial), best[-1][1])] if best else []
                best.append((_number(trial), value))
    if best:
        best.append((float(outcome.trials[-1].number), best[-1][1]))
    _add(figure, "best so far", best, _FRONT, is_line=True)
    _marks(figure, outcome, *at)
    _frame(figure)
    return figure


def _slice(outcome: Outcome, parameter: Parameter, objective: Objective) -> Figure:
    assert isinstance(parameter.of, Range)
    of = parameter.of
    unit = f" ({of.unit})" if of.unit else ""
    figure = Figure(
        f"{parameter.name}-{objective.name}",
        f"{objective.label} over {parameter.label}",
        "scatter",
        x_label=f"{parameter.label}{unit}",
        y_label=_aimed(objective),
        x_log=of.log,
    )

    def place(trial: Trial) -> float:
        return of.position(trial.texts[parameter.name])

    _clouds(figure, outcome, place, _values(objective))
    _marks(figure, outcome, place, _values(objective))
    _frame(figure)
    return figure


def _importance(outcome: Outcome) -> Figure:
    parameters = outcome.tuning.parameters
    figure = Figure(
        "importance",
        "Importance of the parameters",
        "bars",
        x_label="parameter",
        y_label="share of what sets the best tenth of trials apart",
        ticks=[(float(index), each.label) for index, each in enumerate(parameters)],
    )
    width = 0.8 / len(outcome.importance)
    for number, objective in enumerate(outcome.tuning.objectives):
        shares = outcome.importance[objective.name]
        shift = (number - (len(outcome.importance) - 1) / 2) * width
        figure.traces.append(
            Trace(
                objective.label,
                [index + shift for index in range(len(parameters))],
                [shares[each.name] for each in parameters],
                colour=PALETTE[number],
                is_line=False,
                width=width * 0.92,
            )
        )
    return figure


def _clouds(
    figure: Figure, outcome: Outcome, x: Callable[[Trial], float], y: Callable[[Trial], float]
) -> None:
    """All trials, by what became of them."""
    limits = outcome.tuning.limits
    whole = [trial for trial in outcome.trials if trial.state == WHOLE]
    groups = [
        ("stopped early", [trial for trial in outcome.trials if trial.state == STOPPED], _STOPPED),
        ("breaks a limit", [trial for trial in whole if not trial.keeps(limits)], _BROKEN),
        ("trials", [trial for trial in whole if trial.keeps(limits)], _WHOLE),
    ]
    for label, members, style in groups:
        if members:
            _add(figure, label, [(x(trial), y(trial)) for trial in members], style)


def _marks(
    figure: Figure, outcome: Outcome, x: Callable[[Trial], float], y: Callable[[Trial], float]
) -> None:
    """Where the defaults are, and what was chosen."""
    default = outcome.trials[trials.DEFAULTS]
    _add(figure, "default", [(x(default), y(default))], _DEFAULT, width=_MARK_PX)
    if outcome.chosen is not None and not outcome.is_default:
        _add(figure, "chosen", [(x(outcome.chosen), y(outcome.chosen))], _CHOSEN, width=_MARK_PX)


def _add(
    figure: Figure,
    label: str,
    points: Sequence[tuple[float, float]],
    style: tuple[str, int],
    is_line: bool = False,
    width: float = 0.0,
) -> None:
    x, y = [place for place, _ in points], [value for _, value in points]
    colour, shape = style
    dash = 0 if is_line else shape
    figure.traces.append(Trace(label, x, [*y], colour=colour, dash=dash, is_line=is_line, width=width))


def _frame(figure: Figure) -> None:
    """Ends of the axes by what is drawn; the little that lies far out is drawn at the edge."""
    marks = [trace for trace in figure.traces if trace.width]
    x, y = [place for trace in figure.traces for place in trace.x], _known(figure.traces)
    figure.x_log = figure.x_log or _spans_decades(x)
    figure.y_log = _spans_decades(y)
    figure.x_range = _ends(x, [place for trace in marks for place in trace.x], figure.x_log)
    figure.y_range = _ends(y, _known(marks), figure.y_log)
    if figure.x_log:
        figure.ticks = labels.log_ticks(*figure.x_range)
    for trace in figure.traces:
        trace.x = [_inside(place, figure.x_range, figure.x_log) for place in trace.x]
        trace.y = [_inside(value, figure.y_range, figure.y_log) for value in trace.y if value is not None]


def _known(traces: Sequence[Trace]) -> list[float]:
    return [value for trace in traces for value in trace.y if value is not None]


def _spans_decades(values: Sequence[float]) -> bool:
    """Whether a linear axis would show most of these as nothing."""
    low, high = stats.quantile(values, 1 - _INSIDE), stats.quantile(values, _INSIDE)
    return min(values) > 0 and high > _DECADES * low


def _ends(values: Sequence[float], marked: Sequence[float], is_log: bool) -> tuple[float, float]:
    """Around the bulk of values and all that is marked, with a margin."""
    if is_log:
        low, high = _ends([math.log(value) for value in values], [math.log(value) for value in marked], False)
        return math.exp(low), math.exp(high)
    low, high = min(values), max(values)
    spread = stats.quantile(values, _INSIDE) - stats.quantile(values, 1 - _INSIDE)
    if spread > 0:
        middle = stats.quantile(values, 0.5)
        low, high = max(low, middle - 4 * spread), min(high, middle + 4 * spread)
    low, high = min(low, *marked), max(high, *marked)
    margin = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def _inside(value: float, ends: tuple[float, float], is_log: bool) -> float:
    if is_log:
        return math.exp(_inside(math.log(value), (math.log(ends[0]), math.log(ends[1])), False))
    margin = 0.02 * (ends[1] - ends[0])
    return min(max(value, ends[0] + margin), ends[1] - margin)


def _values(objective: Objective) -> Callable[[Trial], float]:
    return lambda trial: trial.value(objective.name)


def _number(trial: Trial) -> float:
    return float(trial.number)


def _aimed(objective: Objective) -> str:
    """Its title with the way that is better."""
    return f"{objective.title}, {'less' if objective.goal == 'min' else 'more'} is better"
