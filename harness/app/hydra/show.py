"""What a command says: the plan, one line a job, the report, and what was wrong."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

from openended.harness.app.hydra.command_line import no_choice
from openended.harness.core import (
    BAD_INPUT,
    FAILED,
    HarnessError,
    SpecError,
    code_of,
    complain,
    one_line,
    suggest,
    write_text,
)

if TYPE_CHECKING:
    from openended.harness.run import Outcome

log = logging.getLogger(__name__)

_SEVERAL = re.compile(r"Ambiguous value for argument '(.*?)'\n")
_MISSING = re.compile(r"Could not (?:load|find) '([\w/-]+)'")
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


Detail = Literal["quiet", "usual", "verbose"]


def detail(hydra: Any) -> Detail:  # noqa: ANN401 - Hydra's own node
    """Return how much a command is to say: `-q`, neither, `-v`."""
    if hydra.runtime.choices.get("hydra/job_logging") == "quiet":
        return "quiet"
    return "verbose" if hydra.verbose else "usual"


def set_detail(*, verbose: bool, quiet: bool = False) -> None:
    """Let every line of ours through: one an artefact, and the tracebacks of failed jobs; not those of libraries.

    With `quiet` only what went wrong.
    """
    if quiet:
        logging.getLogger("openended").setLevel(logging.WARNING)
    if verbose:
        logging.getLogger().setLevel(logging.WARNING)  # of which hydra.verbose=true has made DEBUG
        for name in ("openended", "openended.harness.run", "openended.harness.models.loaded"):
            logging.getLogger(name).setLevel(logging.DEBUG)


class Named(logging.Filter):
    """Puts a job's title before the lines of a process that shares the terminal with others; the grid's have it."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the title; lets every line through."""
        if not record.name.startswith("openended.harness.app.hydra"):
            record.msg, record.args = f"[{self.title}] {record.getMessage()}", ()
        return True


def name_lines(title: str) -> None:
    """Let every line that is logged from now on say which job it is of."""
    for handler in logging.getLogger().handlers:
        handler.filters = [one for one in handler.filters if not isinstance(one, Named)]
        handler.addFilter(Named(title))


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
    if several := _SEVERAL.match(str(err)):
        return f"{several[1]}: several values are a grid: add -m, as in openended -m {several[1]}"
    if missing := _MISSING.search(str(err)):
        return no_choice(missing[1]) or one_line(err)
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
        complain("openended", f"{what}; its traceback is in {trace}; the runs are kept: openended report reads them")
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


def write_report(folders: list[Path], target: Path, options: Mapping[str, Any]) -> None:
    """Build the report of one experiment of a series; says where it is, and what is wrong if it cannot be made."""
    from openended.harness.report import build_report

    try:
        build_report(folders, target, **options)
    except HarnessError as err:
        log.error("report     %s: %s", target.name, one_line(err))
    else:
        log.info("report     %s", target / "report.html")


def show_report(folders: list[Path], target: Path, options: Mapping[str, Any], told: Detail) -> None:
    """Build the report of some runs and print its tables and where its files are."""
    from openended.harness.report import build_report

    report = build_report(folders, target, **options)
    if told == "quiet":
        sys.stdout.write(f"{report.folder}\n")
    else:
        report.show(signatures=told == "verbose")


def show_twins(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Say which jobs came to one run, and why: else nobody understands why there are fewer runs than jobs."""
    titles: dict[str, list[str]] = defaultdict(list)
    for job in jobs:
        if job.get("folder"):
            titles[str(job["folder"])].append(str(job["job"]))
    twins = [same for same in titles.values() if len(same) > 1]
    if not twins:
        return
    alike = [{" ".join(w for w in title.split() if not w.startswith("seed=")) for title in same} for same in twins]
    done = sum(len(same) for same in titles.values())
    which = "; ".join(" and ".join(same) for same in twins[:3]) + ("; …" if len(twins) > 3 else "")
    why = " (the decoder draws nothing, so the seed is not read)" if all(len(one) == 1 for one in alike) else ""
    log.info("grid       %d jobs are %d runs, because these are one run each: %s%s", done, len(titles), which, why)
