"""The search: trials are asked of an optimizer in batches, run seed by seed, and told in their order.

A batch has a fixed size, whatever makes its runs, and nothing is told before all of it is there: so the same
file gives the same trials for any number of workers. After each round of seeds, trials of the batch that are
clearly worse than those before it are stopped; what they gave until then is told as well, so that the
optimizer learns where not to look. They are never among the best.
"""

import contextlib
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate import _core, parallel, progress, store
from tidegate.errors import MissingExtraError, TidegateError
from tidegate.experiment import Place, Task, place_of
from tidegate.tuning import networks, trials
from tidegate.tuning.declared import Tuning
from tidegate.tuning.networks import Wanted
from tidegate.tuning.runs import Measured, Runs
from tidegate.tuning.space import overrides_of, texts_of
from tidegate.tuning.trials import FAILED, STOPPED, WHOLE, Trial, Values

JOURNAL = "study.journal"


@dataclass
class Search:
    """A search under way."""

    tuning: Tuning
    wanted: Wanted
    runs: Runs
    count: int  # of trials
    seeds: int
    pool: parallel.Pool
    bar: progress.Progress

    def __post_init__(self) -> None:
        self.trials: list[Trial] = []
        self.base: dict[tuple[Place, int], Values] = {}  # what the defaults give
        self._storage, self._study = _study(self.tuning)
        self._points = len(networks.tasks_of(self.tuning.seen, self.wanted, (), 1))

    def go(self) -> None:
        """Make all trials."""
        space = {each.name: each.of.distribution() for each in self.tuning.parameters}
        defaults = {each.name: each.of.native(each.default) for each in self.tuning.parameters}
        self._study.enqueue_trial(defaults)
        self._batch([self._study.ask(space)])
        while len(self.trials) < self.count:
            size = min(self.tuning.batch, self.count - len(self.trials))
            self._batch([self._study.ask(space) for _ in range(size)])

    def _batch(self, asked: Sequence[Any]) -> None:
        batch = [Trial(each.number, texts_of(self.tuning.parameters, each.params)) for each in asked]
        if not self.trials:
            # As they are written: no digits of theirs are lost.
            batch[0].texts = {each.name: each.default for each in self.tuning.parameters}
        best = trials.front(self.trials, self.tuning)
        tasks = {trial.number: self._tasks(trial) for trial in batch}
        alive = [trial for trial in batch if trial.state == WHOLE]
        begin = 0
        for end in self._rounds():
            self._round(alive, tasks, begin, end)
            if end < self.seeds:
                for trial in alive:
                    reason = "" if trial.state == FAILED else trials.clearly_worse(trial, best, self.tuning)
                    if reason:
                        trial.state, trial.reason = STOPPED, reason
            still = [trial for trial in alive if trial.state == WHOLE]
            self.bar.expect(-(len(alive) - len(still)) * self._points * (self.seeds - end))
            alive, begin = still, end
        for each, trial in zip(asked, batch, strict=True):
            self._tell(each, trial)
        self.trials += batch

    def _tasks(self, trial: Trial) -> list[Task]:
        """Its runs; none where the experiment cannot be built with its values."""
        values = overrides_of(self.tuning.parameters, trial.texts)
        try:
            return networks.tasks_of(self.tuning.seen, self.wanted, values, self.seeds)
        except _core.ConfigError as error:
            trial.state, trial.reason = FAILED, str(error)
            self.bar.expect(-self._points * self.seeds)
            return []

    def _rounds(self) -> list[int]:
        """After how many seeds it is looked at trials."""
        first = self.tuning.prune
        if first == 0 or first >= self.seeds or not self.trials:
            return [self.seeds]
        return list(range(first, self.seeds + 1))

    def _round(self, alive: Sequence[Trial], tasks: dict[int, list[Task]], begin: int, end: int) -> None:
        """The seeds after `begin` up to `end` of some trials, all at once."""
        parts = [[task for task in tasks[trial.number] if begin < task.seed <= end] for trial in alive]
        measured = iter(self.runs.measure([task for part in parts for task in part], self.pool, self.bar))
        for trial, part in zip(alive, parts, strict=True):
            found = [next(measured) for _ in part]
            if trial.number == trials.DEFAULTS:
                self._take_base(part, found)
            trials.add_seeds(trial, self.tuning, part, found, self.base)

    def _take_base(self, part: Sequence[Task], found: Sequence[Measured]) -> None:
        """What the defaults give, which all else is compared with."""
        for task, values in zip(part, found, strict=True):
            if isinstance(values, str):
                raise TidegateError(f"the defaults have no value, so nothing can be compared: {values}")
            self.base[place_of(task), task.seed] = values

    def _tell(self, asked: Any, trial: Trial) -> None:
        from optuna.trial import TrialState

        asked.set_user_attr("state", trial.state)
        asked.set_user_attr("values", trial.texts)
        if trial.reason:
            asked.set_user_attr("reason", trial.reason)
        if trial.state == FAILED:
            self._study.tell(asked, state=TrialState.FAIL)
            return
        asked.set_user_attr("seeds", trial.seeds)
        for limit in self.tuning.limits:
            asked.set_constraint(limit.name, limit.excess(trial.value(limit.name)))
        self._study.tell(asked, [trial.value(each.name) for each in self.tuning.objectives])

    def importance(self) -> dict[str, dict[str, float]]:
        """How much of what each objective is follows from each parameter, by PED-ANOVA; empty where too few.

        Of each objective: which parameters set the best tenth of the trials apart. Source: Watanabe, Bansal
        and Hutter, PED-ANOVA, IJCAI 2023.
        """
        import optuna

        told = [trial for trial in self.trials if trial.state != FAILED]
        if len(told) < _IMPORTANCE_TRIALS or len(self.tuning.parameters) < 2:
            return {}
        found = {}
        for index, objective in enumerate(self.tuning.objectives):
            with _quiet():
                evaluator = optuna.importance.PedAnovaImportanceEvaluator()
                shares = optuna.importance.get_param_importances(
                    self._study,
                    evaluator=evaluator,
                    target=lambda trial, i=index, sign=objective.sign: sign * trial.values[i],  # type: ignore[misc]
                )
            found[objective.name] = {each.name: float(shares[each.name]) for each in self.tuning.parameters}
        return found

    def keep_study(self, folder: Path) -> None:
        """Write the study for optuna's own tools, as the journal that its dashboard reads."""
        import optuna
        from optuna.storages.journal import JournalFileBackend

        with tempfile.TemporaryDirectory() as scratch, _quiet():
            path = Path(scratch) / JOURNAL
            optuna.copy_study(
                from_study_name=self._study.study_name,
                from_storage=self._storage,
                to_storage=optuna.storages.JournalStorage(JournalFileBackend(str(path))),
            )
            store.write_atomic(folder / JOURNAL, path.read_bytes())


# Fewer trials than this say nothing of what is important.
_IMPORTANCE_TRIALS = 20


def require_optuna() -> str:
    """Its version; `MissingExtraError` with what to install where it is not there."""
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("tidegate tune needs optuna: pip install 'tidegate[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return str(optuna.__version__)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without optuna's warnings of what is experimental, and of what we mean."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _study(tuning: Tuning) -> tuple[Any, Any]:
    """An optimizer that has been told nothing, and where it keeps what it is told."""
    import optuna

    if tuning.sampler == "tpe":
        sampler: Any = optuna.samplers.TPESampler(seed=tuning.seed)
    elif tuning.sampler == "nsga2":
        # A batch is a generation: whoever is asked for together has the same parents.
        sampler = optuna.samplers.NSGAIISampler(seed=tuning.seed, population_size=max(tuning.batch, 2))
    else:
        sampler = optuna.samplers.RandomSampler(seed=tuning.seed)
    directions = ["minimize" if each.goal == "min" else "maximize" for each in tuning.objectives]
    storage = optuna.storages.InMemoryStorage()
    return storage, optuna.create_study(
        storage=storage, sampler=sampler, directions=directions, study_name=tuning.name
    )
