"""The report of a tuning as one page of HTML that needs nothing else, in the style of that of experiments."""

from typing import Any

from tidegate import quantities, report, report_figures
from tidegate.figure import Figure
from tidegate.tuning import figures, outcome
from tidegate.tuning.compared import SEEN, Comparison, Row
from tidegate.tuning.outcome import Outcome
from tidegate.tuning.trials import FAILED, STOPPED, WHOLE, Trial

_TRIALS_MAX = 1000  # rows of the table of all trials
_VERDICTS = {
    "better": "pass", "kept": "pass", "worse": "fail", "broken": "fail", "not told apart": "",
    "kept, within its noise": "differs", "broken, within its noise": "differs",
}  # fmt: skip


def render(found: Outcome) -> str:
    """The page."""
    tuning = found.tuning
    return (
        report.environment()
        .get_template("tuning.html.j2")
        .render(
            title=tuning.title,
            tuning=tuning,
            found=found,
            goals=outcome.goals(tuning),
            rule=outcome.rule(tuning),
            nothing=outcome.nothing(found) if found.chosen is None else "",
            parameters=_parameters(found),
            chosen=_settings(found),
            comparison=_comparison(found.comparison),
            points=_points(found.comparison),
            figures=[_drawn(figure) for figure in figures.all_of(found)],
            slices=[_drawn(figure) for figure in figures.slices(found)],
            trials=_trials(found),
            numbered=report.numbered,
            facts=_facts(found),
        )
    )


def _drawn(figure: Figure) -> dict[str, Any]:
    return report_figures.drawn(figure, "".join(letter if letter.isalnum() else "-" for letter in figure.id))


def _parameters(found: Outcome) -> list[dict[str, str]]:
    return [
        {
            "label": each.label,
            "paths": ", ".join(each.paths),
            "default": each.default,
            "chosen": found.chosen.texts[each.name] if found.chosen else "–",
            "among": each.of.words,
            "why": each.why,
        }
        for each in found.tuning.parameters
    ]


def _settings(found: Outcome) -> str:
    """The chosen file without its remarks."""
    if found.chosen is None:
        return ""
    return outcome.settings(found)


def _comparison(comparison: Comparison | None) -> list[dict[str, Any]]:
    """A row for each quantity over all points, seen and unseen."""
    if comparison is None:
        return []
    return [_row(row) for row in comparison.rows if not row.point]


def _row(row: Row) -> dict[str, Any]:
    default, tuned, difference = (outcome.estimate_text(value) for value in outcome.values_of(row))
    return {
        "networks": row.networks,
        "is_seen": row.networks == SEEN,
        "point": row.point,
        "what": row.quantity.title if not row.point else _plain_title(row),
        "default": default,
        "tuned": tuned,
        "difference": difference,
        "verdict": row.verdict,
        "status": _VERDICTS.get(row.verdict, ""),
    }


def _plain_title(row: Row) -> str:
    """At one point values stand as they were measured."""
    quantity = row.quantity
    return f"{quantity.label} ({quantity.unit})" if quantity.unit else quantity.label


def _points(comparison: Comparison | None) -> dict[str, Any] | None:
    """The same at each point, as a table."""
    rows = [_row(row) for row in comparison.rows if row.point] if comparison is not None else []
    if not rows:
        return None
    keys = ("what", "default", "tuned", "difference", "verdict")
    names = ("Point", "What", "Default", "Tuned", "Difference", "Verdict")
    return {
        "columns": [
            report.column(name, number=2 <= index <= 4, wide=index == 1) for index, name in enumerate(names)
        ],
        "rows": [[f"{row['point']} ({row['networks']})", *(row[key] for key in keys)] for row in rows],
    }


def _trials(found: Outcome) -> dict[str, Any]:
    tuning = found.tuning
    front = {trial.number for trial in found.front}
    names = [
        "Trial",
        *(each.label for each in tuning.parameters),
        *(each.title for each in tuning.quantities),
    ]
    rows = []
    for trial in found.trials[:_TRIALS_MAX]:
        values = [
            "–" if trial.state == FAILED else quantities.number(float(f"{trial.value(each.name):.4g}"))
            for each in tuning.quantities
        ]
        remark = outcome.state_words(trial, tuning) or _remark(trial, found, front)
        rows.append([str(trial.number), *trial.texts.values(), *values, remark])
    columns = [report.column(name, number=True) for name in names]
    return {"columns": [*columns, report.column("Remark", wide=True)], "rows": rows}


def _remark(trial: Trial, found: Outcome, front: set[int]) -> str:
    parts = ["the defaults"] if trial.number == 0 else []
    parts += ["on the front"] if trial.number in front and len(found.tuning.objectives) > 1 else []
    parts += ["chosen"] if found.chosen is trial else []
    return ", ".join(parts)


def _facts(found: Outcome) -> list[tuple[str, list[str]]]:
    """How it was made."""
    tuning = found.tuning
    whole, stopped, failed = (found.count(state) for state in (WHOLE, STOPPED, FAILED))
    search = f"{len(found.trials)} trials: {whole} whole, {stopped} stopped early, {failed} without a result"
    facts = [
        ("Search", [search, f"{tuning.sampler} of optuna {found.about.optuna_version}, seed {tuning.seed}, "
                    f"batches of {tuning.batch}"]),
        ("Runs", [f"{found.runs_made + found.runs_kept} runs; stopping spared {found.runs_saved}",
                  f"each trial: {_counted(found.points, 'point')}, {_counted(found.seeds, 'seed')}"]),
        ("Tuned on", [_networks_words(found, True)]),
        ("Kept apart", [_networks_words(found, False)]),
    ]  # fmt: skip
    if found.about.overridden:
        facts.append(("Set besides", found.about.overridden))
    return facts


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _networks_words(found: Outcome, is_seen: bool) -> str:
    networks = found.tuning.seen if is_seen else found.tuning.unseen
    if networks is None:
        return "nothing: how the values do on other networks is not known"
    parts = [f"{name}: {_values_words(wanted)}" for name, wanted in networks.where.items()]
    return f"{networks.experiment}, {'; '.join(parts) if parts else 'all points'}"


def _values_words(wanted: Any) -> str:
    if isinstance(wanted, dict):
        return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in wanted.items())
    return ", ".join(map(str, wanted)) if isinstance(wanted, list) else str(wanted)
