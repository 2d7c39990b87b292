"""What came of a tuning, as text, as JSON with stable keys, and as files of TOML."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate import display, quantities
from tidegate.stats import Estimate
from tidegate.tuning import networks, trials
from tidegate.tuning.choice import settings_toml
from tidegate.tuning.compared import Comparison, Row
from tidegate.tuning.declared import Limit, Objective, Quantity, Tuning
from tidegate.tuning.space import overrides_of
from tidegate.tuning.trials import FAILED, STOPPED, WHOLE, Trial

SCHEMA_VERSION = 1
CHOSEN, EXPERIMENT = "chosen.toml", "tuned.toml"


@dataclass(frozen=True)
class Provenance:
    """What made it."""

    version: str
    optuna_version: str
    command: str
    overridden: tuple[str, ...]


@dataclass
class Outcome:
    """A tuning that has been run."""

    tuning: Tuning
    trials: Sequence[Trial]
    front: Sequence[Trial]
    chosen: Trial | None
    shortfalls: dict[int, float]  # of the front, by number: what the choice was made by
    importance: dict[str, dict[str, float]]
    comparison: Comparison | None
    seeds: int
    compare_seeds: int
    points: int
    runs_made: int
    runs_kept: int
    quick: bool
    about: Provenance

    @property
    def runs_saved(self) -> int:
        """How many runs of the search were spared by stopping trials."""
        stopped = [trial for trial in self.trials if trial.state == STOPPED]
        return sum(self.points * self.seeds - trial.runs for trial in stopped)

    @property
    def is_default(self) -> bool:
        """Whether nothing better than the defaults was found."""
        return self.chosen is not None and self.chosen.number == trials.DEFAULTS

    def count(self, state: str) -> int:
        """How many trials ended so."""
        return sum(trial.state == state for trial in self.trials)


def rule(tuning: Tuning) -> str:
    """By what rule one trial is chosen, in a sentence."""
    kept = " Only trials that keep the limits take part." if tuning.limits else ""
    if len(tuning.objectives) == 1:
        goal = "least" if tuning.objectives[0].goal == "min" else "greatest"
        return f"The trial with the {goal} mean of {tuning.objectives[0].label} over seeds.{kept}"
    weights = ", ".join(f"{each.label} {each.weight:g}" for each in tuning.objectives)
    return (
        "Of the Pareto front, the trial with the least sum over objectives of weight times distance from the "
        f"best, counted in distances from best to worst of the front. Weights: {weights}.{kept}"
    )


def goals(tuning: Tuning) -> list[str]:
    """What is asked, a line for each objective and limit."""
    lines = []
    for each in tuning.quantities:
        over = {"mean": "mean over the points", "min": "least of the points", "max": "greatest of the points"}
        what = f"{each.title}, {over[each.reduce]}"
        if isinstance(each, Objective):
            lines.append(f"{'least' if each.goal == 'min' else 'greatest'} {what}")
        elif isinstance(each, Limit):
            lines.append(f"{what}: {each.words}")
    return lines


def estimate_text(value: Estimate) -> str:
    """A mean with half of its interval."""
    half = quantities.half_width(value.low, value.high, value.count)
    return quantities.number(float(f"{value.mean:.4g}")) + half


def state_words(trial: Trial, tuning: Tuning) -> str:
    """What became of a trial."""
    if trial.state == STOPPED:
        return f"stopped after {trial.seeds} seeds: {trial.reason}"
    if trial.state == FAILED:
        return f"no result: {trial.reason}"
    return "" if trial.keeps(tuning.limits) else "breaks a limit"


def text(outcome: Outcome) -> str:
    """For the terminal."""
    tuning = outcome.tuning
    parts = [display.coloured(tuning.title, "title")]
    parts += [display.wrapped(line, "  ") for line in goals(tuning)]
    whole, stopped, failed = (outcome.count(state) for state in (WHOLE, STOPPED, FAILED))
    made = f"{outcome.runs_made} runs now"
    made += f", {outcome.runs_kept} from before" if outcome.runs_kept else ""
    saved = f", {outcome.runs_saved} spared" if outcome.runs_saved else ""
    told = f"{whole} trials whole, {stopped} stopped, {failed} without a result; {made}{saved}"
    parts += ["", display.wrapped(told), ""]
    if failures := [trial for trial in outcome.trials if trial.state == FAILED]:
        parts += [display.wrapped(f"the first without a result: {failures[0].reason}"), ""]
    if outcome.chosen is None:
        parts.append(display.wrapped(nothing(outcome)))
        return "\n".join(parts)
    rows = [
        [each.label, each.default, outcome.chosen.texts[each.name], each.of.words]
        for each in tuning.parameters
    ]
    header = ["parameter", "default", "chosen", "among"]
    parts.append(display.table(header, rows, [False, True, True, False], fit=True))
    unknown = "no other has a result" if failed and whole + stopped <= 1 else "no trial is better"
    own = f"the defaults: {unknown}" if outcome.is_default else f"trial {outcome.chosen.number}"
    parts += [display.wrapped(f"chosen: {own}. {rule(tuning)}"), ""]
    if outcome.comparison is not None:
        parts.append(comparison_table(outcome.comparison))
        parts += [display.wrapped(problem) for problem in outcome.comparison.problems]
        if tuning.unseen is None:
            parts.append(
                display.wrapped(
                    "No networks were kept apart ([tune.unseen]): what it does on others is not known."
                )
            )
    return "\n".join(parts)


def nothing(outcome: Outcome) -> str:
    """Why nothing is chosen."""
    limits = ", ".join(f"{each.label} {each.words}" for each in outcome.tuning.limits)
    return f"No trial keeps the limits ({limits}), the defaults neither: nothing is chosen."


def comparison_table(comparison: Comparison) -> str:
    """Defaults beside chosen values, over all points of seen and unseen networks."""
    rows = [
        [row.networks, row.quantity.title, *(estimate_text(value) for value in values_of(row)), row.verdict]
        for row in comparison.rows
        if not row.point
    ]
    header = ["networks", "what", "default", "tuned", "difference", ""]
    first, last = comparison.seeds
    title = f"Seeds {first} to {last}, which the search has not used; ± is half of a 95 % interval"
    return f"{title}\n{display.table(header, rows, [False, False, True, True, True, False])}"


def values_of(row: Row) -> tuple[Estimate, Estimate, Estimate]:
    """Of the defaults, of the chosen values, and the difference."""
    return row.default, row.tuned, row.difference


def settings(outcome: Outcome) -> str:
    """The chosen values, a line for each key."""
    assert outcome.chosen is not None
    return settings_toml(overrides_of(outcome.tuning.parameters, outcome.chosen.texts))


def files(outcome: Outcome, folder: Path) -> dict[str, str]:
    """The texts of the chosen file, and of the experiment with it; empty where nothing is chosen."""
    if outcome.chosen is None:
        return {}
    tuning, number = outcome.tuning, outcome.chosen.number
    what = "the defaults" if outcome.is_default else f"trial {number} of {len(outcome.trials)}"
    by = f"Tidegate {outcome.about.version}, optuna {outcome.about.optuna_version}"
    head = f"# {tuning.title}: {what}, by {outcome.about.command}\n"
    head += f"# {by}. Fitted to the networks of the search.\n"
    below = f'# To lie under an experiment that does not set them itself: include = "{CHOSEN}"\n'
    above = (
        f"# The experiment with them: tidegate sweep {EXPERIMENT} --allow FOLDER, that of the experiment.\n"
    )
    values = overrides_of(tuning.parameters, outcome.chosen.texts)
    return {
        CHOSEN: head + below + settings(outcome),
        EXPERIMENT: head + above + networks.tuned_toml(tuning.seen, values, folder),
    }


def to_json(outcome: Outcome) -> dict[str, Any]:
    """With stable keys."""
    tuning = outcome.tuning
    return {
        "schema_version": SCHEMA_VERSION,
        "tuning": tuning.name,
        "title": tuning.title,
        "tidegate_version": outcome.about.version,
        "optuna_version": outcome.about.optuna_version,
        "command": outcome.about.command,
        "quick": outcome.quick,
        "sampler": tuning.sampler,
        "seed": tuning.seed,
        "batch": tuning.batch,
        "seeds": outcome.seeds,
        "points": outcome.points,
        "runs": outcome.runs_made + outcome.runs_kept,
        "runs_spared": outcome.runs_saved,
        "parameters": [
            {
                "name": each.name,
                "paths": list(each.paths),
                "default": each.default,
                "chosen": outcome.chosen.texts[each.name] if outcome.chosen else None,
                "among": each.of.words,
            }
            for each in tuning.parameters
        ],
        "objectives": [
            _quantity(each) | {"goal": each.goal, "weight": each.weight} for each in tuning.objectives
        ],
        "limits": [
            _quantity(each) | {"at_least": each.at_least, "at_most": each.at_most} for each in tuning.limits
        ],
        "rule": rule(tuning),
        "chosen": outcome.chosen.number if outcome.chosen else None,
        "front": [trial.number for trial in outcome.front],
        "importance": outcome.importance,
        "trials": [_trial(trial, tuning) for trial in outcome.trials],
        "comparison": _comparison(outcome.comparison),
    }


def _quantity(each: Quantity) -> dict[str, Any]:
    about = {"name": each.name, "measure": each.measure, "relative": each.relative}
    return about | {"reduce": each.reduce, "unit": each.unit}


def _trial(trial: Trial, tuning: Tuning) -> dict[str, Any]:
    return {
        "number": trial.number,
        "state": trial.state,
        "reason": trial.reason,
        "seeds": trial.seeds,
        "values": trial.texts,
        "measured": {name: trial.value(name) for name in trial.per_seed} if trial.state != FAILED else {},
        "keeps_limits": trial.keeps(tuning.limits) if trial.state != FAILED else None,
    }


def _comparison(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {
        "first_seed": comparison.seeds[0],
        "last_seed": comparison.seeds[1],
        "problems": list(comparison.problems),
        "rows": [
            {
                "networks": row.networks,
                "point": row.point,
                "quantity": row.quantity.name,
                "default": row.default._asdict(),
                "tuned": row.tuned._asdict(),
                "difference": row.difference._asdict(),
                "verdict": row.verdict,
            }
            for row in comparison.rows
        ],
    }


def json_text(outcome: Outcome) -> str:
    """As it is printed and written."""
    return json.dumps(to_json(outcome), indent=1, ensure_ascii=False)
