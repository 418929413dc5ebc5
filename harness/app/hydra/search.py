"""`hydra/sweeper=optuna`: a grid whose jobs a study of Optuna chooses, batch by batch, run by any launcher.

A setting's value is the mean over its seeds.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from optuna.trial import Trial

from openended.harness.app.hydra.compose import Composer, choose_name
from openended.harness.app.hydra.grid import share_tokens
from openended.harness.app.hydra.grid_run import GridRun
from openended.harness.app.hydra.grid_state import has_failed_job
from openended.harness.app.hydra.plan import plan_jobs
from openended.harness.app.hydra.search_space import add_integer_hint, parse_objectives, parse_space
from openended.harness.app.hydra.study import (
    AUTO,
    SearchPlan,
    StudyRunner,
    Values,
    average,
    count_finished,
    describe_study_errors,
)
from openended.harness.core import DataError, HarnessError, SpecError, canonicalize, digest, format_error
from openended.harness.results import SearchResult, save_search

log = logging.getLogger(__name__)

Setting = tuple[Trial, dict[str, str]]
# Options that change neither texts nor numbers.
_IRRELEVANT_OPTIONS = ("runtime.", "outputs_dir=", "name=", "plan_only=")


def digest_plan(plan: SearchPlan) -> str:
    """Return a digest of everything that affects which settings are tried or their values."""
    space = plan.space
    fixed = sorted(word for word in space.fixed if not word.startswith(_IRRELEVANT_OPTIONS))
    extra = [f"{choice}: {words}" for choice, words in sorted(space.extra_words.items())]
    # The digest thus depends on the field names of `Parameter`.
    searched = [*map(repr, space.parameters), *extra, *space.seeds]
    parts = [fixed, searched, sorted(map(repr, plan.objectives)), plan.method]
    return digest([*parts, canonicalize(dict(plan.options)), plan.seed])[:8]


def _read_mapping(node: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = node.get(name) or {}
    if not isinstance(value, dict):
        raise SpecError(f"{name}: expected names with their values, got {value!r:.60}")
    return {str(k): v for k, v in value.items()}


def _read_integer(node: Mapping[str, Any], name: str, least: int) -> int:
    value = node[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SpecError(f"{name}: expected a whole number of {least} or more, got {value!r:.40}")
    return value


def _read_integers(node: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = node.get(name) or []
    numbers: Sequence[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(v, int) and not isinstance(v, bool) for v in numbers):
        raise SpecError(f"{name}: expected a list of whole numbers, as in {name}=[50,150], got {value!r:.60}")
    return tuple(numbers)


class Search:
    """Fills a study by jobs of a grid."""

    def __init__(self, grid: GridRun) -> None:
        self.grid, self.composer = grid, grid.composer
        config = grid.config
        # Unresolved, because a space may refer to an option of the job (`${model.label}`).
        raw = OmegaConf.to_container(config.hydra.sweeper, resolve=False)
        node: dict[str, Any] = {str(k): v for k, v in raw.items()} if isinstance(raw, dict) else {}
        words = list(config.hydra.overrides.task)
        self.space = parse_space(_read_mapping(node, "params"), _read_mapping(node, "spaces"), words)
        corners = [self.space.words(corner, self.space.seeds[0]) for corner in self.space.corners()]
        shared_words = share_tokens(self.composer, corners)[0][len(corners[0]) :] if corners else []
        self.space = replace(self.space, fixed=(*self.space.fixed, *shared_words))
        sampler_options = _read_mapping(node, "sampler_options")
        # The name depends only on the command.
        name = choose_name(config, config.hydra.runtime.choices) or "search"
        objectives, seed = parse_objectives(node), _read_integer(node, "sampler_seed", 0)
        plan = SearchPlan(name, self.space, objectives, str(node["sampler"]), sampler_options, seed)
        plan.check()
        self.plan = replace(plan, name=f"{name}-{digest_plan(plan)}")
        self.total = _read_integer(node, "trials", 1)
        """Number of settings in the complete study."""
        processes = int(config.hydra.launcher.get("processes") or 1)
        self.batch = processes if node["batch"] == AUTO else _read_integer(node, "batch", 1)
        self.confirm_seeds = tuple(map(str, _read_integers(node, "confirm_seeds")))
        seeds = self.space.seeds if self.space.seeds != ("",) else (str(config.seed),)
        if shared := set(self.confirm_seeds) & set(seeds):
            raise SpecError(
                f"confirm_seeds: {min(shared)} is a seed of the search itself; type others than {', '.join(seeds)}"
            )
        self.storage = Path(str(config.hydra.sweeper.storage))

    def describe_remaining(self, left: int) -> str:
        seeds = f", each with {len(self.space.seeds)} seeds" if len(self.space.seeds) > 1 else ""
        return f"{left} of {self.total} settings to try by {self.plan.method}{seeds}"

    def check(self) -> None:
        """Check, before any model is loaded, that the bounds of every space give valid runs with every objective."""
        space, plan = self.space, self.plan
        try:
            for corner in space.corners():
                settings = self.composer.compose_job(space.words(corner, space.seeds[0])).settings
                for objective in plan.objectives:
                    objective.check(settings.metrics)
        except SpecError as err:
            raise SpecError(add_integer_hint(str(err), space.parameters)) from err

    def run(self, _: object) -> None:
        """Try the requested number of settings, and write what was found."""
        self.grid.write_facts([], {}, 0)
        plan, space, storage = self.plan, self.space, self.storage
        with describe_study_errors(storage):
            study = StudyRunner(plan, storage)
            left = self.total - study.start()
        remaining = self.describe_remaining(max(left, 0))
        log.info("search     %s: %s in %s", plan.name, remaining, storage)
        # The options in the titles of the jobs, and the maximum number of jobs.
        self._axes = dict.fromkeys((*(p.key for p in space.parameters), "seed"), 2)
        jobs = left * len(space.seeds) + len(self.confirm_seeds)
        self._total = max(jobs, 0)
        self.grid.write_facts([], self._axes, self._total)
        stop = str(self.grid.config.runtime.on_error) == "stop"
        while left > 0 and not (stop and has_failed_job(self.grid.folder)):
            with describe_study_errors(storage):
                batch = study.ask(min(self.batch, left))
            left -= len(batch)
            self._try_batch(study, batch)
        with describe_study_errors(storage):
            searched = study.summarize()
        self._confirm(study, searched)
        with describe_study_errors(storage):
            searched = study.summarize() if self.confirm_seeds else searched
        self._write_report(searched)

    def _try_batch(self, study: StudyRunner, batch: Sequence[Setting]) -> None:
        """Run a batch, and report the results to the study."""
        seeds = self.space.seeds
        words = [self.space.words(chosen, seed) for _, chosen in batch for seed in seeds]
        rows = self.grid.launch_words(words, self._axes, self._total)
        for at, setting in enumerate(batch):
            self._report_setting(study, setting, rows[at * len(seeds) : (at + 1) * len(seeds)])

    def _report_setting(self, study: StudyRunner, setting: Setting, rows: Sequence[Mapping[str, Any]]) -> None:
        """Report the result of one setting to the study."""
        trial, chosen = setting
        plan = self.plan
        title = f"search     trial {trial.number}: {' '.join(f'{k}={v}' for k, v in chosen.items())}"
        try:
            means = average([self._read_values(row) for row in rows])
        except DataError as err:
            study.record_failure(trial, format_error(err))
            log.info("%s: failed: %s", title, format_error(err))
            return
        folders = (str(row["folder"]) for row in rows)
        study.record_runs(trial, dict(zip(plan.space.seeds, folders, strict=True)))
        study.study.tell(trial, means)
        names = zip(plan.objectives, means, strict=True)
        log.info("%s: %s", title, ", ".join(f"{objective.title} {mean:.4g}" for objective, mean in names))

    def _read_values(self, row: Mapping[str, Any]) -> Values:
        if row["state"] != "done":
            raise DataError(str(row.get("error") or f"its job is {row['state']}"))
        return self.plan.read_values(str(row["folder"]))

    def _confirm(self, study: StudyRunner, searched: SearchResult) -> None:
        """Run the best settings with fresh seeds, because the best of many values is partly luck."""
        best = searched.front() if self.confirm_seeds else []
        for tried in best if len(self.plan.objectives) > 1 else best[:1]:
            missing = [seed for seed in self.confirm_seeds if seed not in tried.fresh]
            jobs = [self.space.words(tried.setting, seed) for seed in missing]
            rows = self.grid.launch_words(jobs, self._axes, self._total)
            for seed, row in zip(missing, rows, strict=True):
                try:
                    self._read_values(row)
                    study.record_confirmation(tried.number, seed, str(row["folder"]))
                except HarnessError as err:
                    log.warning("search     trial %d with seed %s: %s", tried.number, seed, format_error(err))

    def _write_report(self, searched: SearchResult) -> None:
        """Write tables and figures of the search into its grid's folder, and print what it found."""
        from openended.harness import report

        folder = self.grid.folder
        save_search(folder, searched)
        self.grid.searched = searched
        tables = report.build_search_tables(searched)
        for table in tables:
            report.write_table(table, folder / "tables")
        report.draw_search(searched, folder / "figures")
        if not self.grid.detail.quiet:
            out = report.make_console()
            for table in tables[:-1]:  # the last is every trial
                report.print_table(table, out)
                out.print()
        log.info("search     tables and figures in %s", folder)


def run_search(composer: Composer, config: DictConfig) -> None:
    """Plan or run a search; its plan is of random settings, since the real ones depend on the first results."""
    search = Search(GridRun(composer, config))
    search.check()
    if not config.plan_only:
        search.grid.run([], search.run)
        return
    plan = search.plan
    with describe_study_errors(search.storage):
        done = count_finished(search.storage, plan.name)
    left = max(search.total - done, 0)
    runner = StudyRunner(SearchPlan("plan", plan.space, plan.objectives, "random"), None)
    runner.start()
    jobs = [plan.space.words(chosen, seed) for _, chosen in runner.ask(left) for seed in plan.space.seeds]
    if config.plan_only != "json":
        remaining = search.describe_remaining(left)
        log.info("search     %s: %s; the plan is of settings drawn at random", plan.name, remaining)
    if jobs:
        plan_jobs(composer, config, jobs)
