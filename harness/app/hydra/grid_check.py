"""Check every job of a grid before the first one starts, so that what is missing is reported once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from openended.harness.app.hydra.compose import JobComposer
from openended.harness.app.hydra.job_output import explain
from openended.harness.app.hydra.plan import list_commands, plan_job
from openended.harness.core import (
    DataError,
    ExtraNotInstalled,
    HarnessError,
    SpecError,
    Task,
    canonicalize,
    digest,
    format_error,
)

if TYPE_CHECKING:
    from openended.harness.run import Forecast

_ELSEWHERE = ("submitit", "ray")  # launchers whose jobs may run on machines with other files


def check_grid(config: DictConfig, jobs: Sequence[Sequence[str]]) -> None:
    """Refuse a grid that lacks files, models, judgments or packages, or of which no job can run.

    A wrong option of some jobs is left to these jobs: the others run.
    """
    if config.hydra.runtime.choices.get("hydra/launcher") in _ELSEWHERE:
        return
    check = _JobCheck(Path(str(config.outputs_dir)))
    errors = [error for error in map(check.find_error, jobs) if error is not None]
    _refuse(errors, len(jobs), check.total)


class _JobCheck:
    """Plans jobs; what several of them share is fetched and planned once."""

    def __init__(self, outputs_dir: Path) -> None:
        from openended.harness.run import Forecast, Session
        from openended.harness.storage import Store

        self.total = Forecast()
        self._session, self._composer = Session(Store(outputs_dir / "store")), JobComposer()
        self._fetched: dict[str, DataError | None] = {}
        self._checked: dict[str, HarnessError | None] = {}

    def find_error(self, words: Sequence[str]) -> HarnessError | None:
        """Return why the job with these overrides cannot run; None if it can."""
        try:
            settings = self._composer.compose_job(words)
        except (HydraException, OmegaConfBaseException) as err:
            return SpecError(explain(err))
        except HarnessError as err:
            return err
        key = digest([replace(settings, seed=0).spec(), asdict(settings.runtime)])
        if key in self._checked:
            return self._checked[key]
        not_fetched = self._fetch(settings.task)
        error: HarnessError | None
        try:
            job, outcome = plan_job(settings, words, self._session)
        except HarnessError as err:
            error = err
        else:
            error = outcome.missing[0] if outcome.missing else not_fetched
            if error is not None:
                self.total.add(job, outcome)
        self._checked[key] = error
        return error

    def _fetch(self, task: Task) -> DataError | None:
        """Download the files of a task, once; return the error if that fails, else None."""
        key = digest([task.name, canonicalize(task)])
        if key not in self._fetched:
            try:
                task.fetch()
            except DataError as err:
                self._fetched[key] = err
            else:
                self._fetched[key] = None
        return self._fetched[key]


def _refuse(errors: Sequence[HarnessError], num_jobs: int, total: Forecast) -> None:
    """Raise one error for all jobs, unless the jobs without an error can run."""
    blocking = [err for err in errors if isinstance(err, DataError | ExtraNotInstalled)]
    if not blocking and (len(errors) < num_jobs or not errors):
        return
    chosen = blocking or errors
    reasons = list(dict.fromkeys(format_error(err) for err in chosen))
    reason = reasons[0] if len(reasons) == 1 else f"{len(reasons)} reasons, the first: {reasons[0]}"
    commands = [command for command in list_commands(total) if command not in reason]
    fetch = f"; fetch what is missing with: {' && '.join(commands)}" if commands else ""
    message = f"{len(chosen)} of {num_jobs} jobs cannot run, so none was started: {reason}{fetch}"
    raise DataError(message)
