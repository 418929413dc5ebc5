"""Print the progress, reports and errors of a command."""

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

from openended.harness.app.hydra.choices import find_matching_options
from openended.harness.app.hydra.command_line import explain_missing_choice, find_owners
from openended.harness.core import (
    BAD_INPUT,
    FAILED,
    HarnessError,
    SpecError,
    format_error,
    print_error,
    run_command,
    suggest,
    write_text,
)

if TYPE_CHECKING:
    from openended.harness.run import Outcome

log = logging.getLogger(__name__)

_SEVERAL = re.compile(r"Ambiguous value for argument '(.*?)'\n")
_MISSING = re.compile(r"Could not (?:load|find) '([\w/-]+)'")
_SHOWN_TITLES = 3  # titles shown of jobs that failed with one error or share a run
_NOT_DELETED = re.compile(r"Could not delete '([\w/.-]+)'")
KEPT = "finished work is kept: the same command resumes here"


def leave_with_code(command: str, work: Callable[[], object]) -> None:
    """Run a command and print any error as one line, before Hydra prints its own report."""

    def run_translated() -> None:
        with translate_config_errors():
            work()

    if code := run_command(command, run_translated, after_interrupt=KEPT):
        raise SystemExit(code) from None


Detail = Literal["quiet", "usual", "verbose"]


def read_detail(hydra: Any) -> Detail:  # noqa: ANN401 - Hydra's own node
    """Return the level of detail of a command: `-q`, neither or `-v`."""
    if hydra.runtime.choices.get("hydra/job_logging") == "quiet":
        return "quiet"
    return "verbose" if hydra.verbose else "usual"


def set_detail(*, verbose: bool, quiet: bool = False) -> None:
    """Show all log lines of this package (one per artifact, and tracebacks of failed jobs), but not those of libraries.

    With `quiet`, show only warnings and errors.
    """
    if quiet:
        logging.getLogger("openended").setLevel(logging.WARNING)
    if verbose:
        logging.getLogger().setLevel(logging.WARNING)  # hydra.verbose=true has set it to DEBUG
        for name in ("openended", "openended.harness.run", "openended.harness.models.model_cache"):
            logging.getLogger(name).setLevel(logging.DEBUG)


class TitleFilter(logging.Filter):
    """Add the job's title to log lines, because several processes share the terminal."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the title to a record; no record is dropped."""
        if not record.name.startswith("openended.harness.app.hydra"):
            record.msg, record.args = f"[{self.title}] {record.getMessage()}", ()
        return True


def name_lines(title: str) -> None:
    """Prefix all further log lines with a job's title."""
    for handler in logging.getLogger().handlers:
        handler.filters = [item for item in handler.filters if not isinstance(item, TitleFilter)]
        handler.addFilter(TitleFilter(title))


@contextmanager
def translate_config_errors() -> Iterator[None]:
    """Turn configuration errors of Hydra and OmegaConf into `SpecError`."""
    try:
        yield
    except (HydraException, OmegaConfBaseException) as err:
        raise SpecError(explain(err)) from err


def explain(err: BaseException) -> str:
    """Turn a composition error into one line, with the nearest name where an option or a choice is misspelt."""
    if isinstance(err, MissingMandatoryValue) and err.full_key:
        return f"option {err.full_key!r} has no default: give it as {err.full_key}=…"
    if explained := _explain_unknown_option(err):
        return explained
    if several := _SEVERAL.match(str(err)):
        group, _, names = several[1].partition("=")
        if group == "metric":
            return f"{several[1]}: the metrics of a run are a list; type metric=[{names}]"
        return f"{several[1]}: several values are a grid: add -m, as in openended -m {several[1]}"
    if missing := _MISSING.search(str(err)):
        return explain_missing_choice(missing[1], str(err)) or format_error(err)
    if deleted := _NOT_DELETED.search(str(err)):
        return f"~{deleted[1]}: this run has no {deleted[1]} to leave out; for another choice type {deleted[1]}=NAME"
    if isinstance(err, MissingConfigException) and err.missing_cfg_file and err.options:
        group, _, choice = str(err.missing_cfg_file).rpartition("/")
        return f"no {group or 'config'} {choice!r}{suggest(choice, err.options)}"
    return format_error(err)


def _explain_unknown_option(err: BaseException) -> str | None:
    """Return the line for an option that the configuration does not have; None for other errors."""
    cause: Any = err
    while cause is not None:
        parent = getattr(cause, "parent_node", None)
        unknown = isinstance(cause, (ConfigAttributeError, ConfigKeyError)) and getattr(cause, "full_key", None)
        if unknown and parent is not None and hasattr(parent, "keys"):
            if matches := find_matching_options(str(cause.full_key), parent._get_root(), str(err)):
                return f"no option {cause.full_key!r}; did you mean {matches}?"
            # The key may contain dots; only its last part is unknown.
            names = [str(key) for key in parent if key != "hydra"]
            return f"no option {cause.full_key!r}{find_owners(str(cause.full_key))}{suggest(str(cause.key), names)}"
        cause = cause.__cause__
    return None


@contextmanager
def exit_on_error(config: Any) -> Iterator[Path]:  # noqa: ANN401 - Hydra's own node
    """Yield a grid's folder; exit with a code if its callback fails, because Hydra turns exceptions into warnings."""
    grid = Path()
    try:
        with translate_config_errors():
            grid = Path(config.hydra.sweep.dir)
            yield grid
    except HarnessError as err:
        print_error("openended", format_error(err))
        raise SystemExit(BAD_INPUT) from None
    except Exception as err:
        trace = grid / "error.txt"
        what = f"the grid's end failed: {type(err).__name__}: {format_error(err)}"
        print_error("openended", f"{what}; its traceback is in {trace}; the runs are kept: openended report reads them")
        with suppress(HarnessError):  # the folder itself may be the cause
            write_text(trace, traceback.format_exc())
        raise SystemExit(FAILED) from None


def show_failed(jobs: Sequence[Mapping[str, Any]]) -> int:
    """Print the jobs of a grid that failed or were skipped, with reasons; return their number."""
    failed = [job for job in jobs if job["state"] != "done"]
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for job in failed:
        reasons[str(job["state"]), str(job.get("error", "it did not finish"))].append(str(job["job"]))
    for (state, reason), titles in reasons.items():
        which = titles[0] if len(titles) == 1 else f"{len(titles)} jobs for the same reason ({_shorten_list(titles)})"
        log.error("%s: %s: %s", state, which, reason)
    if failed:
        counts = f"{len(failed)} of {len(jobs)} jobs failed or were skipped"
        log.error("%s; the same command retries them", counts)
    return len(failed)


def _shorten_list(titles: Sequence[str]) -> str:
    """Join the first titles of jobs."""
    return "; ".join(titles[:_SHOWN_TITLES]) + ("; …" if len(titles) > _SHOWN_TITLES else "")


def summarize_outcome(outcome: Outcome, seconds: float) -> str:
    """Summarize a finished run in a few words."""
    return f"{outcome.num_computed} computed, {len(outcome.plan) - outcome.num_computed} cached in {seconds:.1f} s"


def write_report(folders: list[Path], target: Path, options: Mapping[str, Any]) -> None:
    """Build the report of one experiment of a series, and print its path or the error."""
    from openended.harness.report import build_report

    try:
        build_report(folders, target, **options)
    except HarnessError as err:
        log.error("report     %s: %s", target.name, format_error(err))
    else:
        log.info("report     %s", target / "report.html")


def show_report(folders: list[Path], target: Path, options: Mapping[str, Any], detail: Detail) -> None:
    """Build the report of some runs and print its tables and where its files are."""
    from openended.harness.report import build_report

    report = build_report(folders, target, **options)
    if detail == "quiet":
        sys.stdout.write(f"{report.folder}\n")
    else:
        report.show(verbose=detail == "verbose")


def show_shared_runs(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Print which jobs share a run, and why there are fewer runs than jobs."""
    titles: dict[str, list[str]] = defaultdict(list)
    for job in jobs:
        if job.get("folder"):
            titles[str(job["folder"])].append(str(job["job"]))
    twins = [same for same in titles.values() if len(same) > 1]
    if not twins:
        return
    alike = [{" ".join(w for w in title.split() if not w.startswith("seed=")) for title in same} for same in twins]
    done = sum(len(same) for same in titles.values())
    which = _shorten_list([" and ".join(same) for same in twins])
    why = (
        " (the decoder is deterministic, so the seed has no effect)"
        if all(len(titles_without_seed) == 1 for titles_without_seed in alike)
        else ""
    )
    log.info("grid       %d jobs, %d distinct runs; these share one run: %s%s", done, len(titles), which, why)
