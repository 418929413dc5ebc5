"""The study of a search, which Optuna stores in a file of the outputs, so that a killed search resumes.

Every trial's sampler is seeded by the trial's number, so it resumes as an unbroken one.
"""

import contextlib
import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, Trial, TrialState

from openended.harness import core
from openended.harness.app.hydra.search_space import Objective, Space
from openended.harness.core import HarnessError, SpecError, StoreError
from openended.harness.results import SearchObjective, SearchResult, SearchTrial
from openended.harness.storage import check_writable, read_record

log = logging.getLogger(__name__)
optuna.logging.set_verbosity(optuna.logging.ERROR)

Values = tuple[float, ...]
AUTO = "auto"
SAMPLERS = {"tpe": "TPE", "random": "Random", "nsgaii": "NSGAII", "nsgaiii": "NSGAIII", "qmc": "QMC", "gp": "GP"}
SEVERAL = ("tpe", "random", "nsgaii", "nsgaiii", "qmc")  # for more than one objective
# Names of the attributes of a trial.
OWNER, CHOSEN, ERROR, MADE, AGAIN, FRESH = "owner", "chosen", "error", "made", "again", "fresh"


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Everything that decides which settings a search tries."""

    name: str
    space: Space
    objectives: tuple[Objective, ...]
    sampler: str = AUTO
    options: Mapping[str, Any] = field(default_factory=dict)  # of the sampler, as Optuna names them
    seed: int = 0

    @property
    def method(self) -> str:
        """The sampler's name, `auto` resolved."""
        return self.sampler if self.sampler != AUTO else "tpe" if len(self.objectives) == 1 else "nsgaii"

    def check(self) -> None:
        accepted = (AUTO, *SAMPLERS)
        if self.sampler not in accepted:
            raise SpecError(f"sampler: no {self.sampler!r}{core.suggest(self.sampler, accepted)}")
        if len(self.objectives) > 1 and self.method not in SEVERAL:
            raise SpecError(f"sampler: {self.method} is for one objective; for several: {', '.join(SEVERAL)}")
        self.make_sampler(0)

    def read_values(self, folder: str) -> Values:
        """Return the value of each objective by the record of a run."""
        record = read_record(Path(folder))
        return tuple(objective.value(record) for objective in self.objectives)

    def make_sampler(self, number: int) -> BaseSampler:
        """Return the sampler for the trial of this number."""
        seed = core.derive_seed(self.seed, "search", number) % 2**32
        options = {str(k): v for k, v in self.options.items()} | {"seed": seed}
        if self.method == "qmc":  # one sequence for all trials; parameters that it does not cover are drawn at random
            fallback = RandomSampler(seed=seed)
            options |= {"seed": self.seed, "independent_sampler": fallback, "warn_independent_sampling": False}
        try:
            with warnings.catch_warnings(action="ignore"):  # some samplers are marked experimental
                sampler: BaseSampler = getattr(optuna.samplers, f"{SAMPLERS[self.method]}Sampler")(**options)
        except (TypeError, ValueError, ImportError) as err:
            raise SpecError(f"sampler_options of {self.method}: {core.shorten_error(err)}") from err
        return sampler


class StudyRunner:
    """A study that only this process writes to."""

    def __init__(self, plan: SearchPlan, storage: Path | None) -> None:
        self.plan, self._place = plan, storage
        database = _open_database(storage) if storage is not None else None
        signs, sampler = [objective.direction for objective in plan.objectives], plan.make_sampler(0)
        self.study = optuna.create_study(
            storage=database, study_name=plan.name, load_if_exists=True, sampler=sampler, directions=signs
        )
        self._left: list[FrozenTrial] = []
        self._me = core.temporary_files.create_temporary_name("search")

    def start(self) -> int:
        """Resume what earlier processes left; return the number of trials that finished without an error."""
        trials = self.study.get_trials(deepcopy=False)
        self._left = [t for t in trials if t.state == TrialState.RUNNING]
        for trial in self._left:
            if core.temporary_files.is_in_use(Path(str(trial.user_attrs.get(OWNER, "")))):
                raise StoreError(f"the search {self.plan.name} is being run by another process: wait for it, or end it")
        if self._left:
            log.info("search     resuming the %d trials of an interrupted search", len(self._left))
        tried_again = {t.user_attrs.get(AGAIN) for t in trials}
        for trial in trials:
            if trial.state == TrialState.FAIL and trial.number not in tried_again:
                self.study.enqueue_trial(trial.params, {AGAIN: trial.number})
        return sum(t.state == TrialState.COMPLETE for t in trials)

    def ask(self, count: int) -> list[tuple[Trial, dict[str, str]]]:
        """Return the next batch of at most `count` trials with their settings; those that were left come first.

        Batches begin at multiples of `count`: one that was interrupted is filled up to what it was.
        """
        num_trials = len(self.study.get_trials(deepcopy=False))
        batch = []
        for _ in range(len(self._left) + -num_trials % count or count):
            if self._left:
                frozen = self._left.pop(0)
                self.study.sampler = self.plan.make_sampler(frozen.number)
                trial = Trial(self.study, frozen._trial_id)
            else:
                self.study.sampler = self.plan.make_sampler(len(self.study.get_trials(deepcopy=False)))
                trial = self.study.ask()
            trial.set_user_attr(OWNER, self._me)
            chosen = self.plan.space.suggest(trial)
            trial.set_user_attr(CHOSEN, chosen)
            batch.append((trial, chosen))
        return batch

    def record_failure(self, trial: Trial, error: str) -> None:
        trial.set_user_attr(ERROR, error)
        self.study.tell(trial, state=TrialState.FAIL)

    def record_runs(self, trial: Trial, runs: Mapping[str, str]) -> None:
        """Note the run of every seed; its record has the values."""
        trial.set_user_attr(MADE, dict(runs))

    def record_confirmation(self, number: int, seed: str, run: str) -> None:
        """Note the run of a finished trial with a seed that the search did not use."""
        self.study.set_user_attr(f"{FRESH}:{number}:{seed}", run)

    def importance(self, index: int) -> dict[str, float]:
        """Return parameter → importance for an objective (Optuna's PED-ANOVA); empty if it cannot be computed.

        Source: Watanabe et al. 2023; of parameters that not every trial has, its conditional form.
        """
        done = [t for t in self.study.get_trials(deepcopy=False) if t.state == TrialState.COMPLETE]
        if len(done) < 4 or len({t.values[index] for t in done}) < 2:  # two settings on either side, at least
            return {}
        try:
            with warnings.catch_warnings(action="ignore"):  # warnings about few trials; the table shows the number
                shares = optuna.importance.get_param_importances(self.study, target=lambda t: t.values[index])
        except (ValueError, RuntimeError) as err:
            log.warning("search     the importance of the parameters cannot be estimated: %s", core.shorten_error(err))
            return {}
        return {str(k): float(v) for k, v in shares.items() if math.isfinite(v)}

    def summarize(self) -> SearchResult:
        """Return the trials, values and parameter importance of a study."""
        plan = self.plan
        sought = tuple(SearchObjective(objective.title, objective.direction) for objective in plan.objectives)
        trials = []
        for frozen in self.study.get_trials(deepcopy=False):
            if not frozen.state.is_finished():
                continue
            attrs = frozen.user_attrs
            state = "complete" if frozen.state == TrialState.COMPLETE else "failed"
            runs = attrs.get(MADE, {})
            prefix = f"{FRESH}:{frozen.number}:"
            fresh = {
                key.removeprefix(prefix): run for key, run in self.study.user_attrs.items() if key.startswith(prefix)
            }
            values, chosen, error = tuple(frozen.values or ()), attrs.get(CHOSEN, {}), attrs.get(ERROR, "")
            seeds = _read_seeds(plan, runs), _read_seeds(plan, fresh)
            trials.append(SearchTrial(frozen.number, state, chosen, values, *seeds, error, tuple(runs.values())))
        shares = tuple(self.importance(index) for index in range(len(sought)))
        return SearchResult(plan.name, plan.method, sought, tuple(trials), shares)


def count_finished(storage: Path, name: str) -> int:
    """Count the trials of a study that finished without an error; nothing is written."""
    if not storage.is_file():
        return 0
    try:
        study = optuna.load_study(study_name=name, storage=_open_database(storage))
    except KeyError:  # no search of this name yet
        return 0
    return sum(t.state == TrialState.COMPLETE for t in study.get_trials(deepcopy=False))


def _open_database(path: Path) -> Any:  # noqa: ANN401 - Optuna's storage
    """Open the file of the studies; several searches may write it at once."""
    check_writable(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"connect_args": {"timeout": 60}}
    return optuna.storages.RDBStorage(f"sqlite:///{path.resolve()}", engine_kwargs=options)


@contextlib.contextmanager
def describe_study_errors(path: Path) -> Iterator[None]:
    """Turn Optuna's errors about a damaged study file into a one-line error."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as err:  # SQLAlchemy's errors, and any that Optuna raises on values that it did not write
        reason = f"{type(err).__name__}: {core.shorten_error(err)}"
        raise StoreError(f"{path}: cannot be read as Optuna's studies ({reason}); move it away") from err


def _read_seeds(plan: SearchPlan, runs: Mapping[str, str]) -> dict[str, Values]:
    """Return seed → values of the runs that still exist."""
    values: dict[str, Values] = {}
    for seed, folder in runs.items():
        with contextlib.suppress(HarnessError):
            values[seed] = plan.read_values(folder)
    return values


def average(values: Sequence[Values]) -> list[float]:
    """Return the mean of each objective over the seeds."""
    return [math.fsum(column) / len(values) for column in zip(*values, strict=True)]
