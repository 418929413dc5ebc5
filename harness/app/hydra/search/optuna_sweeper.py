"""`hydra/sweeper=optuna`: a grid whose jobs a study of Optuna chooses, batch by batch, run by any launcher.

The jobs of a batch are the settings of the batch times the seeds; a setting's value is the mean over its seeds. With
`rungs` a batch runs at the smaller sizes first, and only what asynchronous successive halving promotes goes on.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from openended.harness.app.hydra.jobfile import read_grid, read_jobs
from openended.harness.app.hydra.plan import plan_jobs
from openended.harness.app.hydra.search.options import SearchOptions, check_search, parse_search_options
from openended.harness.app.hydra.search.study import StudyRunner, count_finished
from openended.harness.app.hydra.search.summary import summarize_study, write_search
from openended.harness.app.hydra.search.verification import describe_study_errors, reject_false_trials
from openended.harness.app.hydra.sweeper import Jobs, LaunchingSweeper
from openended.harness.app.hydra.using import PLUGINS
from openended.harness.core import DataError, HarnessError, StoreError, format_error, write_json
from openended.harness.storage import GRID, read_record

if TYPE_CHECKING:
    from optuna.trial import Trial

log = logging.getLogger(__name__)

Setting = tuple["Trial", dict[str, str]]
Values = tuple[float, ...]


class OptunaSweeper(LaunchingSweeper):
    """Searches for the best settings; Hydra makes it of `conf/hydra/sweeper/optuna.yaml`."""

    __module__ = PLUGINS

    def __init__(self, **_: Any) -> None:  # noqa: ANN401
        # `parse_search_options` reads the options.
        super().__init__()
        self._jobs = 0

    @classmethod
    def prepare_jobs(cls, config: DictConfig) -> Jobs:
        """Check the bounds of every space; return no jobs, because the search chooses them later.

        Raises:
            SpecError: Says what is wrong in one line.
        """
        check_search(config)
        return []

    def sweep(self, arguments: list[str]) -> Any:  # noqa: ANN401, ARG002 - the arguments are in the configuration too
        """Try the requested number of settings; with `plan_only` only print the plan.

        Raises:
            HarnessError: If the study cannot be filled, or an objective is no value of its metric.
        """
        options = parse_search_options(self._config)
        if self._config.plan_only:
            plan_search(self._config, options)
            return []
        reject_false_trials(options.plan, options.storage)
        searching = StudyRunner(options.plan, options.storage)
        left = options.total - searching.start()
        log.info(
            "search     %s: %s in %s", options.plan.name, options.describe_remaining(max(left, 0)), options.storage
        )
        self._announce(options, left)
        while left > 0 and not self._should_stop():
            batch = searching.ask(min(options.batch, left))
            left -= len(batch)
            self._try(searching, options, batch)
        self._confirm(searching, options)
        write_search(Path(self._config.hydra.sweep.dir), summarize_study(searching), self._config)
        return []

    def _announce(self, options: SearchOptions, left: int) -> None:
        """Write the maximum number of jobs and the axes of their titles to the grid folder."""
        grid = Path(self._config.hydra.sweep.dir)
        keys = [p.key for p in options.plan.space.parameters]
        axes = dict.fromkeys((*keys, "seed", *(["num_examples"] if options.plan.rungs else [])), 2)
        jobs = left * len(options.plan.space.seeds) * (1 + len(options.plan.rungs)) + len(options.confirm_seeds)
        write_json(grid / GRID, {**read_grid(grid), "axes": axes, "total": max(jobs, 0)})

    def _should_stop(self) -> bool:
        failed = (job["state"] == "failed" for job in read_jobs(Path(self._config.hydra.sweep.dir)))
        return str(self._config.runtime.on_error) == "stop" and any(failed)

    def _try(self, searching: StudyRunner, options: SearchOptions, batch: Sequence[Setting]) -> None:
        """Run a batch, smaller sizes first, and report the results to the study."""
        space, alive = options.plan.space, list(batch)
        for rung, size in enumerate((*options.plan.rungs, None)):
            more = [] if size is None else [f"num_examples={size}"]
            jobs = [space.words(chosen, seed, *more) for _, chosen in alive for seed in space.seeds]
            results = self._run(jobs)
            going = []
            for at, setting in enumerate(alive):
                setting_jobs = results[at * len(space.seeds) : (at + 1) * len(space.seeds)]
                if self._report_setting(searching, options, setting, setting_jobs, rung if size is not None else None):
                    going.append(setting)
            alive = going

    def _report_setting(
        self,
        searching: StudyRunner,
        options: SearchOptions,
        setting: Setting,
        jobs: Sequence[Mapping[str, Any]],
        rung: int | None,
    ) -> bool:
        """Report the result of one setting to the study; return whether it continues to the next size."""
        trial, chosen = setting
        title = f"search     trial {trial.number}: {' '.join(f'{k}={v}' for k, v in chosen.items())}"
        try:
            values = [self._read_values(options, job) for job in jobs]
        except DataError as err:
            searching.fail(trial, format_error(err))
            log.info("%s: failed: %s", title, format_error(err))
            return False
        means = [math.fsum(column) / len(values) for column in zip(*values, strict=True)]
        names = zip(options.plan.objectives, means, strict=True)
        values_text = ", ".join(f"{objective.title} {mean:.4g}" for objective, mean in names)
        if rung is not None:
            ends = searching.report_rung(trial, means[0], rung)
            where = f"at {options.plan.rungs[rung]} examples, {'ends here' if ends else 'goes on'}"
            log.info("%s: %s %s", title, values_text, where)
            return not ends
        by_seed = dict(zip(options.plan.space.seeds, values, strict=True))
        searching.record_values(trial, by_seed, [str(job["folder"]) for job in jobs])
        searching.tell(trial, means)
        log.info("%s: %s", title, values_text)
        return False

    def _read_values(self, options: SearchOptions, job: Mapping[str, Any]) -> Values:
        if job["state"] != "done":
            raise DataError(str(job.get("error") or f"its job is {job['state']}"))
        record = read_record(Path(str(job["folder"])))
        return tuple(objective.value(record) for objective in options.plan.objectives)

    def _run(self, jobs: list[list[str]]) -> list[Mapping[str, Any]]:
        """Launch jobs; return the content of their job files, in their order."""
        if not jobs:
            return []
        first, self._jobs = self._jobs, self._jobs + len(jobs)
        self.launch_jobs(jobs, first)
        states = read_jobs(Path(self._config.hydra.sweep.dir))
        if len(states) != self._jobs:
            raise StoreError(f"{self._config.hydra.sweep.dir}/jobs: expected {self._jobs} files, found {len(states)}")
        return list(states[first:])

    def _confirm(self, searching: StudyRunner, options: SearchOptions) -> None:
        """Run the best settings with fresh seeds, because the best of many values is partly luck."""
        if not options.confirm_seeds:
            return
        best = summarize_study(searching).front()
        for tried in best if len(options.plan.objectives) > 1 else best[:1]:
            missing = [seed for seed in options.confirm_seeds if seed not in tried.fresh]
            jobs = self._run([options.plan.space.words(tried.setting, seed) for seed in missing])
            for seed, job in zip(missing, jobs, strict=True):
                try:
                    values = self._read_values(options, job)
                    searching.record_confirmation(tried.number, seed, values, tried.setting, str(job["folder"]))
                except HarnessError as err:
                    log.warning("search     trial %d with seed %s: %s", tried.number, seed, format_error(err))


def plan_search(config: DictConfig, options: SearchOptions) -> None:
    """Print the plan of a search, with random settings: the real ones depend on the first results."""
    with describe_study_errors(options.storage):
        done = count_finished(options.storage, options.plan.name)
    left = max(options.total - done, 0)
    jobs = [
        options.plan.space.words(chosen, seed) for chosen in options.examples(left) for seed in options.plan.space.seeds
    ]
    if config.plan_only != "json":
        rungs = f"; all as if run to the end, {options.plan.rungs} come first" if options.plan.rungs else ""
        log.info(
            "search     %s: %s; the plan is of settings drawn at random%s",
            options.plan.name,
            options.describe_remaining(left),
            rungs,
        )
    if jobs:
        plan_jobs(config, jobs)
