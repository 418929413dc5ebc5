"""The folder of a report: replaced once its new content is complete, which may lack parts that fail."""

import logging
import shutil
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from openended.harness.core import StoreError, format_last_frame, shorten_error, temporary_files

log = logging.getLogger(__name__)


@contextmanager
def replace_folder(target: Path, names: Sequence[str], retained: Sequence[str] = ()) -> Iterator[Path]:
    """Yield an empty folder whose content replaces that of `target` if the block succeeds.

    A folder that holds nothing but `names` and `retained` is exchanged as a whole, with these. In another folder the
    names are replaced one by one.
    """
    real_target = target.resolve()
    work = real_target.with_name(temporary_files.create_temporary_name(f".{real_target.name}"))
    try:
        real_target.parent.mkdir(parents=True, exist_ok=True)
        temporary_files.delete_abandoned_once(real_target.parent)
        fresh = work / "new"
        fresh.mkdir(parents=True)
        yield fresh
        here = {path.name for path in real_target.iterdir()} if real_target.exists() else set()
        if here <= {*names, *retained}:
            for name in sorted(here & set(retained)):
                copy = shutil.copytree if (real_target / name).is_dir() else shutil.copy2
                copy(real_target / name, fresh / name)
            _exchange(fresh, real_target, work / "old")
        else:
            (work / "old").mkdir()
            for name in names:
                _exchange(fresh / name, real_target / name, work / "old" / name)
    except OSError as err:
        raise StoreError(f"cannot write {target}: {err.strerror or err}") from err
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _exchange(fresh: Path, target: Path, old: Path) -> None:
    """Put `fresh` in the place of `target`, which moves to `old`; `target` goes if there is no `fresh`."""
    if target.exists():
        target.rename(old)
    if fresh.exists():
        fresh.rename(target)


@contextmanager
def warn_of_failure(what: str, failures: list[str]) -> Iterator[None]:
    """Go on without a part of a report that fails; log why, and add it to `failures`."""
    try:
        yield
    except Exception as err:
        failures.append(f"{what}: {type(err).__name__}: {shorten_error(err)}")
        log.error("report     %s%s", failures[-1], format_last_frame(err))
        log.debug("%s", "".join(traceback.format_exception(err)))
