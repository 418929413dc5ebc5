"""Run what a command line of options asks for: a run, a grid, a search, or a plan of one of them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence

from hydra.types import RunMode

from openended.harness.app.hydra.command_line import parse_command_line
from openended.harness.app.hydra.compose import CONFIG, OPTUNA, SWEEPER, Composer, JobWork, refuse_unused_options
from openended.harness.app.hydra.errors import run_configured
from openended.harness.app.hydra.grid_run import run_grid
from openended.harness.app.hydra.jobs import JobRunner, LogOptions, show_report
from openended.harness.app.hydra.plan import plan_jobs
from openended.harness.app.hydra.simulation import refuse_single_run
from openended.harness.core import FAILED, SpecError, show_progress, terminal
from openended.harness.report import require_tracker, track_report, track_runs

log = logging.getLogger(__name__)


def run_hydra(command: str, words: Sequence[str], work: Callable[[Composer], None], config: str = CONFIG) -> None:
    """Compose a configuration from a command line and run what it configures."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    terminal.set_up()

    def compose_and_work() -> None:
        line = parse_command_line(words)
        composer = Composer(line, config)
        if line.print_flags:
            _print_from_hydra(composer)
        else:
            work(composer)

    run_configured(command, compose_and_work)


def _print_from_hydra(composer: Composer) -> None:
    """Let Hydra print a configuration, its sources, or what completes a command line."""
    from hydra._internal.hydra import Hydra
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    args = parser.parse_args([*composer.line.print_flags, *composer.line.words])
    hydra, root = Hydra("openended", composer.loader), composer.root
    with composer.loader.explain_composition():
        if args.help:
            hydra.app_help(config_name=root, args_parser=parser, args=args)
        elif args.hydra_help:
            hydra.hydra_help(config_name=root, args_parser=parser, args=args)
        elif args.cfg:
            hydra.show_cfg(root, args.overrides, args.cfg, package=args.package, resolve=args.resolve)
        elif args.info:
            hydra.show_info(args.info, root, args.overrides)
        elif args.shell_completion:
            hydra.shell_completion(root, args.overrides)
        else:
            raise SpecError(f"{' '.join(composer.line.print_flags)}: add --cfg job, whose output it changes")


def run_options(composer: Composer) -> None:
    """Run `openended OPTION=VALUE …`."""
    config = composer.compose_command()
    words = list(config.hydra.overrides.task)
    refuse_unused_options(words)
    LogOptions.read(config).apply()
    if config.hydra.mode == RunMode.MULTIRUN and config.hydra.runtime.choices.get(SWEEPER) == OPTUNA:
        from openended.harness.app.hydra.search import run_search

        run_search(composer, config)
    elif config.hydra.mode == RunMode.MULTIRUN:
        run_grid(composer, config)
    elif config.plan_only:
        plan_jobs(composer, config, [words], single=True)
    else:
        _run_single(composer.compose_job(words), words, LogOptions.read(config))


def _run_single(job: JobWork, words: Sequence[str], detail: LogOptions) -> None:
    settings, tracker = job.settings, job.tracker
    require_tracker(tracker)
    refuse_single_run(settings.judgments)
    with show_progress(settings.experiment, enabled=settings.runtime.progress):
        outcome, message = JobRunner().execute(settings, words)
    log.info("run        %s  (%s)", outcome.folder, message)
    report = outcome.folder / "report"
    show_report([outcome.folder], report, settings.report, detail)
    track_runs([outcome.folder], tracker, settings.outputs_dir)
    track_report(report, tracker, settings.outputs_dir)
    if outcome.failed:
        raise SystemExit(FAILED)
