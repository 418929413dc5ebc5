"""A grid of jobs: their launch, the metrics that wait for all of them, the report, and what failed."""

from __future__ import annotations

import logging
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from openended.harness.app.hydra.compose import Composer, JobWork, choose_name, to_plain
from openended.harness.app.hydra.experiments import CHOICE
from openended.harness.app.hydra.grid import Jobs, compose_series, find_axes, get_option_name, list_jobs
from openended.harness.app.hydra.grid_state import mark_interrupted, read_jobs
from openended.harness.app.hydra.jobs import (
    Job,
    JobRunner,
    LogOptions,
    is_report_complete,
    show_report,
    write_experiment_report,
)
from openended.harness.app.hydra.launchers import make_launcher
from openended.harness.app.hydra.plan import check_series, plan_jobs
from openended.harness.app.hydra.simulation import simulate_judgments
from openended.harness.core import (
    FAILED,
    HarnessError,
    digest,
    format_error,
    print_error,
    temporary_files,
    write_json,
    write_text,
)
from openended.harness.report import require_tracker, track_report, track_runs
from openended.harness.results import read_search
from openended.harness.storage import GRID, create_unique_folder

log = logging.getLogger(__name__)

_SHOWN_TITLES = 3  # titles shown of jobs that failed with one error or share a run


class GridRun:
    """A grid of jobs, known before it starts or chosen by a search."""

    def __init__(self, composer: Composer, config: DictConfig) -> None:
        self.composer, self.config = composer, config
        self.detail = LogOptions.read(config)
        self.typed_name = choose_name(config, config.hydra.runtime.choices)  # refused before there is a folder
        self.folder = Path()
        self.jobs: list[Job] = []
        """The jobs that were launched."""
        self.tracker = composer.compose_tracker(config)

    @property
    def name(self) -> str:
        """Name of the runs and of the report: the configured one, else the grid's time."""
        return self.typed_name or self.folder.name

    def run(self, jobs: Jobs, work: Callable[[Jobs, Sequence[JobWork]], None]) -> None:
        """Check the jobs, create the grid's folder, do the work, build the report and list the jobs that failed."""
        require_tracker(self.tracker)
        self.launcher = make_launcher(self.config)
        jobs, composed = check_series(self.composer, self.config, jobs)
        self.folder = create_unique_folder(Path(self.config.hydra.sweep.dir))
        try:
            work(jobs, composed)
        except KeyboardInterrupt:
            mark_interrupted(self.folder)
            raise
        self._finish()

    def launch(self, jobs: Jobs, composed: Sequence[JobWork], axes: Mapping[str, int], total: int) -> None:
        """Run jobs, numbered from where the last launch ended."""
        stop = str(self.config.runtime.on_error) == "stop"
        first = len(self.jobs)
        for number, (words, work) in enumerate(zip(jobs, composed, strict=True), first):
            name = work.settings.experiment or self.name
            settings = replace(work.settings, experiment=name)
            if not self.launcher.in_process:  # workers would overwrite each other's bars
                settings = replace(settings, runtime=replace(settings.runtime, progress=False))
            work = replace(work, settings=settings)
            title = " ".join(word for word in words if word.split("=", 1)[0] in axes)
            position = f"job {number + 1} of {total}"
            self.jobs.append(Job(number, tuple(words), work, self.folder, name, title, position, stop))
        self.launcher.run(self.jobs[first:], self.detail)

    def write_facts(self, jobs: Jobs, axes: Mapping[str, int], total: int) -> None:
        """Write what `openended status`, `openended report` and the jobs need to know about the grid."""
        series = compose_series(self.composer, self.config)
        chosen = [next((w.split("=", 1)[1] for w in job if w.startswith(f"{CHOICE}=")), "") for job in jobs]
        facts = {
            "name": self.name,
            "started": time.time(),
            "process": temporary_files.create_temporary_name(GRID),
            "command": digest(list(self.config.hydra.overrides.task)),
            "total": total,
            "axes": axes,
            "titles": [" ".join(word for word in job if get_option_name(word) in axes) for job in jobs],
            "series": [series[choice].name for choice in chosen] if series else [],
            "reports": {
                **{experiment.name: experiment.report for experiment in series.values()},
                self.name: to_plain(self.config.get("report")),
            },
        }
        write_json(self.folder / GRID, facts)

    def _finish(self) -> None:
        """Build the report of all finished jobs and list the failed ones."""
        jobs = read_jobs(self.folder)
        failed = 0
        try:
            self._write_reports(jobs)
        except HarnessError:
            raise
        except Exception as err:
            trace = self.folder / "error.txt"
            what = f"the grid's end failed: {type(err).__name__}: {format_error(err)}"
            print_error(
                "openended", f"{what}; its traceback is in {trace}; the runs are kept: openended report reads them"
            )
            with suppress(HarnessError):  # the folder itself may be the cause
                write_text(trace, traceback.format_exc())
            raise SystemExit(FAILED) from None
        finally:
            failed = show_failed(jobs)
        if failed:
            raise SystemExit(FAILED)

    def _write_reports(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Build the report of the finished jobs; first the metrics that had to wait for all of them."""
        folders = {Path(row["folder"]) for row in rows if row.get("folder")}
        search = read_search(self.folder)
        if search is not None:  # a resumed search also has runs of its earlier jobs
            folders |= {Path(run) for trial in search.trials for run in trial.runs if Path(run).is_dir()}
        waiting = {row["number"] for row in rows if row.get("waits")}
        folders |= measure_grid([job for job in self.jobs if job.number in waiting])
        outputs = Path(str(self.config.outputs_dir))
        for experiment in compose_series(self.composer, self.config).values():
            own_folders = [folder for folder in sorted(folders) if folder.parent.name == experiment.name]
            if own_folders and not is_report_complete(self.folder, experiment.name):
                write_experiment_report(own_folders, outputs / "reports" / experiment.name, experiment.report)
        show_shared_runs(rows)
        if folders:
            target = outputs / "reports" / self.name
            show_report(sorted(folders), target, to_plain(self.config.get("report")), self.detail)
            track_runs(sorted(folders), self.tracker, outputs)  # also those that could not be logged before
            track_report(target, self.tracker, outputs)


def run_grid(composer: Composer, config: DictConfig) -> None:
    """Plan or run a grid whose jobs are known before it starts."""
    grid = GridRun(composer, config)
    jobs = list_jobs(composer, config)
    if config.plan_only:
        plan_jobs(composer, config, jobs)
        return

    def launch(chosen: Jobs, composed: Sequence[JobWork]) -> None:
        axes = find_axes(chosen)
        grid.write_facts(chosen, axes, len(chosen))
        grid.launch(chosen, composed, axes, len(chosen))

    grid.run(jobs, launch)


def measure_grid(jobs: Sequence[Job]) -> set[Path]:
    """Run the jobs whose metrics read all systems of the grid after all texts exist; return their folders."""
    from openended.harness.run import compute_texts, run

    runner = JobRunner()
    works = [(job, job.work.settings) for job in jobs]
    prepared = [(job, settings, compute_texts(settings, runner.get_session(settings))) for job, settings in works]
    # A system is in the pool once, even if several jobs lead to it (a greedy decoder with several seeds).
    pool = {texts.model_rows.digest: texts.model_rows for _, _, texts in prepared}
    judged = simulate_judgments([texts for _, _, texts in prepared])
    folders = set()
    for job, settings, _ in prepared:
        settings = replace(settings, judgments=judged.get(str(settings.judgments), settings.judgments))
        outcome = run(settings, runner.get_session(settings), job.overrides, tuple(pool.values()))
        folders.add(outcome.folder)
    return folders


def show_failed(rows: Sequence[Mapping[str, Any]]) -> int:
    """Print the jobs of a grid that failed or were skipped, with reasons; return their number."""
    failed = [row for row in rows if row["state"] != "done"]
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in failed:
        reasons[str(row["state"]), str(row.get("error", "it did not finish"))].append(str(row["job"]))
    for (state, reason), titles in reasons.items():
        which = titles[0] if len(titles) == 1 else f"{len(titles)} jobs for the same reason ({_shorten_list(titles)})"
        log.error("%s: %s: %s", state, which, reason)
    if failed:
        counts = f"{len(failed)} of {len(rows)} jobs failed or were skipped"
        log.error("%s; the same command retries them", counts)
    return len(failed)


def _shorten_list(titles: Sequence[str]) -> str:
    return "; ".join(titles[:_SHOWN_TITLES]) + ("; …" if len(titles) > _SHOWN_TITLES else "")


def show_shared_runs(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print which jobs share a run, and why there are fewer runs than jobs."""
    titles: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.get("folder"):
            titles[str(row["folder"])].append(str(row["job"]))
    twins = [same for same in titles.values() if len(same) > 1]
    if not twins:
        return
    alike = [{" ".join(w for w in title.split() if not w.startswith("seed=")) for title in same} for same in twins]
    which = _shorten_list([" and ".join(same) for same in twins])
    why = ""
    if all(len(titles_without_seed) == 1 for titles_without_seed in alike):
        why = " (the decoder is deterministic, so the seed has no effect)"
    num_jobs = sum(len(same) for same in titles.values())
    log.info("grid       %d jobs, %d distinct runs; these share one run: %s%s", num_jobs, len(titles), which, why)
