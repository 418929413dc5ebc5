"""Check a study against the records of its runs: its file may be damaged, or come from somebody else.

A finished trial keeps its values only if the records of its runs give them again. Otherwise it is marked as failed, and
the same command tries its setting again, with cached artifacts. Values at the smaller sizes of `rungs`, which no record
holds, decide only where a setting ends.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness.app.hydra.search.study import CHOSEN, FRESH, MADE, SearchPlan, load_trials
from openended.harness.core import DataError, HarnessError, StoreError, shorten_error
from openended.harness.storage import read_record

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

log = logging.getLogger(__name__)

Values = tuple[float, ...]


def reject_false_trials(plan: SearchPlan, path: Path) -> int:
    """Mark finished trials as failed if the records of their runs do not give their values; return how many."""
    if not path.is_file():
        return 0
    with describe_study_errors(path):
        trials, attributes = load_trials(path, plan.name)
        false = [t for t in trials if t.state.name == "COMPLETE" and not _is_confirmed_by_records(plan, t)]
        settings = {trial.number: trial.user_attrs.get(CHOSEN) for trial in trials}
        fresh = {key: noted for key, noted in attributes.items() if key.startswith(f"{FRESH}:")}
        stale = [key for key, noted in fresh.items() if not _is_fresh(plan, key, noted, settings)]
        _reject(path, plan.name, [t._trial_id for t in false], stale)
    for trial in false:
        log.warning("search     trial %d: its runs do not give its values; it is tried again", trial.number)
    return len(false)


@contextlib.contextmanager
def describe_study_errors(path: Path) -> Iterator[None]:
    """Turn Optuna's errors about a damaged study file into a one-line error."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as err:  # SQLAlchemy's errors, and any that Optuna raises on values that it did not write
        reason = f"{type(err).__name__}: {shorten_error(err)}"
        raise StoreError(f"{path}: cannot be read as Optuna's studies ({reason}); move it away") from err


def read_values(plan: SearchPlan, words: Sequence[str], folder: object) -> Values:
    """Return the objectives' values from a run's record, after checking that the run had these overrides."""
    if not isinstance(folder, str) or not folder:
        raise DataError(f"expected a run folder, got {folder!r:.60}")
    record = read_record(Path(folder))
    if missing := sorted(set(words) - set(record.overrides)):
        raise DataError(f"{folder}: is the run of another setting: it lacks {missing[0]}")
    return tuple(objective.value(record) for objective in plan.objectives)


def _is_confirmed_by_records(plan: SearchPlan, trial: FrozenTrial) -> bool:
    """Check the setting, the values per seed and their means."""
    noted: Any = trial.user_attrs.get(MADE)
    chosen: Any = trial.user_attrs.get(CHOSEN)
    try:
        if not _is_setting(plan, trial, chosen) or set(noted["seeds"]) != set(plan.space.seeds):
            return False
        values = [
            read_values(plan, _list_words(chosen, seed), run)
            for seed, run in zip(plan.space.seeds, noted["runs"], strict=True)
        ]
        per_seed = zip(plan.space.seeds, values, strict=True)
        means = [math.fsum(column) / len(values) for column in zip(*values, strict=True)]
        return _are_equal(trial.values, means) and all(_are_equal(noted["seeds"][seed], v) for seed, v in per_seed)
    except (HarnessError, AttributeError, KeyError, TypeError, ValueError):
        return False


def _is_setting(plan: SearchPlan, trial: FrozenTrial, chosen: object) -> bool:
    """Check that the stored setting is that of the trial's parameters."""
    from optuna.trial import FixedTrial

    return isinstance(chosen, dict) and bool(plan.space.suggest(FixedTrial(trial.params)) == chosen)


def _is_fresh(plan: SearchPlan, key: str, noted: Any, settings: Mapping[int, object]) -> bool:  # noqa: ANN401
    """Check the values of a confirmation."""
    try:
        _, number, seed = key.split(":")
        if noted["setting"] != settings[int(number)]:
            return False
        return _are_equal(noted["values"], read_values(plan, _list_words(noted["setting"], seed), noted["run"]))
    except (HarnessError, AttributeError, KeyError, TypeError, ValueError):
        return False


def _list_words(setting: dict[str, str], seed: str) -> list[str]:
    return [*(f"{key}={value}" for key, value in setting.items()), *([f"seed={seed}"] if seed else [])]


def _are_equal(noted: Sequence[float], values: Sequence[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(noted, values, strict=True))


def _reject(path: Path, name: str, trials: Sequence[int], attributes: Sequence[str]) -> None:
    """Mark trials as failed and remove attributes of the study; Optuna changes no finished trial itself."""
    if not trials and not attributes:
        return
    with contextlib.closing(sqlite3.connect(path, timeout=60)) as base, base:
        base.executemany("UPDATE trials SET state = 'FAIL' WHERE trial_id = ?", [(number,) for number in trials])
        base.executemany("DELETE FROM trial_values WHERE trial_id = ?", [(number,) for number in trials])
        base.executemany(
            "DELETE FROM study_user_attributes WHERE key = ? "
            "AND study_id = (SELECT study_id FROM studies WHERE study_name = ?)",
            [(key, name) for key in attributes],
        )
