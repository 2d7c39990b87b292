"""A tuning from a program or a notebook: what the command does, and what came of it as tables."""

import contextlib
import tempfile
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from tidegate import notebook, parallel, reach
from tidegate.api import _override_text
from tidegate.tidy import Frame
from tidegate.tuning import outcome
from tidegate.tuning.outcome import Outcome
from tidegate.tuning.space import overrides_of
from tidegate.tuning.trials import FAILED

Place = str | PathLike[str]


class TuningResult:
    """What a search found: the chosen values, all trials, and the defaults beside what was chosen."""

    def __init__(self, found: Outcome, folder: Path | None = None):
        self.outcome = found
        self.folder = folder

    @property
    def title(self) -> str:
        """The line that names it."""
        return self.outcome.tuning.title

    @property
    def chosen(self) -> dict[str, str] | None:
        """The chosen values by name of the parameter; None where no trial keeps the limits."""
        return dict(self.outcome.chosen.texts) if self.outcome.chosen else None

    @property
    def settings(self) -> dict[str, str]:
        """The same by path, as `load` and `sweep` take them: `tidegate.load(file, **result.settings)`."""
        chosen = self.outcome.chosen
        return dict(overrides_of(self.outcome.tuning.parameters, chosen.texts)) if chosen else {}

    @property
    def importance(self) -> dict[str, dict[str, float]]:
        """By objective and parameter: the share of what sets the best tenth of the trials apart."""
        return self.outcome.importance

    @property
    def trials(self) -> Frame:
        """A row per trial: `state`, values, the mean of each objective and limit, `on_front`, `chosen`."""
        tuning = self.outcome.tuning
        front = {trial.number for trial in self.outcome.front}
        columns: dict[str, list[Any]] = {"trial": [], "state": [], "reason": [], "seeds": []}
        columns |= {each.name: [] for each in (*tuning.parameters, *tuning.quantities)}
        columns |= {"on_front": [], "chosen": []}
        for trial in self.outcome.trials:
            measured = [
                None if trial.state == FAILED else trial.value(each.name) for each in tuning.quantities
            ]
            about = [trial.number, trial.state, trial.reason, trial.seeds]
            ends = [trial.number in front, trial is self.outcome.chosen]
            for column, value in zip(
                columns.values(), [*about, *trial.texts.values(), *measured, *ends], strict=True
            ):
                column.append(value)
        return Frame(columns)

    @property
    def comparison(self) -> Frame:
        """A row per quantity and networks: `default`, `tuned`, `difference`, each with `_low` and `_high`."""
        names = [
            f"{what}{end}" for what in ("default", "tuned", "difference") for end in ("", "_low", "_high")
        ]
        columns: dict[str, list[Any]] = {
            name: [] for name in ("networks", "point", "quantity", *names, "verdict")
        }
        for row in self.outcome.comparison.rows if self.outcome.comparison else ():
            ends = [end for value in outcome.values_of(row) for end in (value.mean, value.low, value.high)]
            told = [row.networks, row.point, row.quantity.name, *ends, row.verdict]
            for column, value in zip(columns.values(), told, strict=True):
                column.append(value)
        return Frame(columns)

    def __str__(self) -> str:
        return outcome.text(self.outcome)

    def __repr__(self) -> str:
        return f"<TuningResult {self.title!r}: {len(self.outcome.trials)} trials, chosen {self.chosen}>"

    def _repr_html_(self) -> str:
        return notebook.heading(self.title) + notebook.text(str(self))


def tune(
    name: Place,
    *,
    out: Place | None = None,
    trials: int | None = None,
    quick: bool = False,
    workers: int | None = None,
    cluster: str | None = None,
    resume: bool = False,
    fresh: bool = False,
    allow: Sequence[Place] = (),
    **overrides: Any,
) -> TuningResult:
    """Find parameters for a stated goal: a file with a table `[tune]`, or the name of a tuning that ships.

    With `out` a folder is kept as the command keeps it, and interruptions cost nothing that is finished;
    without it nothing stays. Keywords override values by path, as in `load`, `cluster` is as in `sweep`.
    """
    from tidegate.commands import tune as command

    made_by = parallel.Workers(workers, cluster)
    texts = [f"{key.replace('__', '.')}={_override_text(value)}" for key, value in overrides.items()]
    with contextlib.ExitStack() as left:
        left.enter_context(reach.allowing(allow))
        scratch = "" if out is not None else left.enter_context(tempfile.TemporaryDirectory())
        target = Path(out) if out is not None else Path(scratch) / "tuning"
        found = command.made(fspath(name), quick, trials, target, made_by, resume, fresh, texts)
    return TuningResult(found, None if out is None else target)
