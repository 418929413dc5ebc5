"""What a command says: the plan, one line a job, the report, and what was wrong."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

from openended.harness.errors import HarnessError, SpecError, suggest
from openended.harness.exitcodes import BAD_INPUT, FAILED, code_of, complain, one_line
from openended.harness.io import write_text
from openended.harness.text import plain_line

if TYPE_CHECKING:
    from openended.harness.run.pipeline import Outcome
    from openended.harness.run.settings import Settings

log = logging.getLogger(__name__)

KEPT = "everything finished is kept: the same command goes on from here"


def leave_with_code(command: str, work: Callable[[], object]) -> None:
    """Do a command's work; what is wrong becomes one line here, before Hydra writes its own.

    Raises:
        SystemExit: With one of `exitcodes`, unless all went well.
    """

    def composed() -> None:
        with composing():
            work()

    if code := code_of(command, composed, kept=KEPT):
        raise SystemExit(code) from None


def set_detail(*, verbose: bool) -> None:
    """Let every line of ours through: one an artefact, and the tracebacks of failed jobs; not those of libraries."""
    if verbose:
        logging.getLogger().setLevel(logging.WARNING)  # of which hydra.verbose=true has made DEBUG
        for name in ("openended", "openended.harness.run"):
            logging.getLogger(name).setLevel(logging.DEBUG)


@contextmanager
def composing() -> Iterator[None]:
    """Turn errors of Hydra and OmegaConf about the configuration into ours.

    Raises:
        SpecError: In their place.
    """
    try:
        yield
    except (HydraException, OmegaConfBaseException) as err:
        raise SpecError(explain(err)) from err


def explain(err: BaseException) -> str:
    """Turn a composition error into one line, with the nearest name where an option or a choice is misspelt."""
    if isinstance(err, MissingMandatoryValue) and err.full_key:
        return f"option {err.full_key!r} has no default: give it as {err.full_key}=…"
    cause: Any = err
    while cause is not None:
        parent = getattr(cause, "parent_node", None)
        unknown = isinstance(cause, (ConfigAttributeError, ConfigKeyError)) and getattr(cause, "full_key", None)
        if unknown and parent is not None and hasattr(parent, "keys"):
            # The key may hold dots of its own; what is unknown is its last part.
            return f"no option {cause.full_key!r}{suggest(str(cause.key), [str(k) for k in parent])}"
        cause = cause.__cause__
    if isinstance(err, MissingConfigException) and err.missing_cfg_file and err.options:
        group, _, choice = str(err.missing_cfg_file).rpartition("/")
        return f"no {group or 'config'} {choice!r}{suggest(choice, err.options)}"
    return one_line(err)


@contextmanager
def ending(grid: Path) -> Iterator[None]:
    """Leave a grid with an exit code: of a callback's exceptions Hydra makes warnings, but not of `SystemExit`.

    Raises:
        SystemExit: With 2 for the user's errors, with 1 for anything unforeseen.
    """
    try:
        with composing():
            yield
    except HarnessError as err:
        complain("openended", one_line(err))
        raise SystemExit(BAD_INPUT) from None
    except Exception as err:
        trace = grid / "error.txt"
        what = f"the grid's end failed: {type(err).__name__}: {one_line(err)}"
        complain("openended", f"{what}; its traceback is in {trace}; the runs are kept: openended-report reads them")
        with suppress(HarnessError):  # the folder itself may be what fails
            write_text(trace, traceback.format_exc())
        raise SystemExit(FAILED) from None


def show_failed(jobs: Sequence[Mapping[str, Any]]) -> int:
    """Say which jobs of a grid failed or were skipped, and why; returns how many."""
    failed = [job for job in jobs if job["state"] != "done"]
    for job in failed:
        log.error("%s: %s: %s", job["state"], job["job"], job.get("error", "it never ended"))
    if failed:
        counts = f"{len(failed)} of {len(jobs)} jobs failed or were skipped"
        log.error("%s; the same command tries them again", counts)
    return len(failed)


def summary(outcome: Outcome, seconds: float) -> str:
    """Return what a run came to, for its line."""
    return f"{outcome.made} made, {len(outcome.plan) - outcome.made} found in {seconds:.1f} s"


def show_plan(settings: Settings, outcome: Outcome) -> None:
    """Print the plan: stage, what, hit or make, key; and the files that the task still needs."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    title = Text(plain_line(f"{settings.experiment}: seed {settings.seed}"))
    table = Table(title=title, title_justify="left", box=None)
    for name in ("stage", "what", "state", "key"):
        table.add_column(name)
    for step in outcome.plan:
        key = step.key[:16] if step.key else "after the above"
        table.add_row(step.stage, Text(plain_line(step.what)), step.state, key)
    console = Console(width=110, soft_wrap=True, highlight=False)
    console.print(table)
    for source in settings.task.files():
        state = "present" if source.present else "missing"
        where = f"file {source.name}: {state} at {source.path}" + (f", from {source.url}" if source.url else "")
        console.print(Text(plain_line(where)))
    for reason in outcome.missing:
        console.print(Text(plain_line(f"missing: {reason}")))


def write_report(folders: list[Path], target: Path, options: Mapping[str, Any]) -> None:
    """Build the report of one experiment of a series; says where it is, and what is wrong if it cannot be made."""
    from openended.harness.report import build_report

    try:
        build_report(folders, target, **options)
    except HarnessError as err:
        log.error("report     %s: %s", target.name, one_line(err))
    else:
        log.info("report     %s", target / "report.html")


def show_report(folders: list[Path], target: Path, options: Mapping[str, Any], verbose: bool) -> None:
    """Build the report of some runs and print its tables and where its files are; `verbose`: with signatures."""
    from openended.harness.report import build_report

    build_report(folders, target, **options).show(signatures=verbose)
