"""From run folders to one tidy frame: one row a value, with every axis, metric, spread, count and signature."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from openended.harness.core import DataError, csv_cell, parse_signature, plain, replacing
from openended.harness.results.axes import axis_text, in_order, of_human
from openended.harness.results.runs import Run, read_run
from openended.harness.results.stored import contradiction, stored_file
from openended.harness.results.tidy import FIXED, INTERNAL, canonical_axes, rows_of, to_frame
from openended.harness.storage import RECORD, direction_text

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)
T = TypeVar("T")


ARRAYS = "arrays.safetensors"


@dataclass(frozen=True, slots=True)
class Results:
    """All values of a set of runs, and where they came from."""

    frame: pd.DataFrame
    """One row a value; columns `FIXED`, then the axes."""
    runs: tuple[Run, ...]
    axes: tuple[str, ...]
    """The axes among the frame's columns."""
    unfinished: int
    """Run folders that hold no record (yet)."""
    superseded: int
    """Values passed over because a newer run of the same axes and signature has them."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Artefact → what is wrong with it; such are passed over, and the page says how many."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Run folder → what is wrong with its record; page and tables say so."""
    _arrays: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _memo: dict[str, Any] = field(default_factory=dict)

    def select(self, frame: pd.DataFrame) -> Results:
        """Return the same runs with fewer values."""
        return replace(self, frame=frame, _memo={})

    def remarks(self) -> tuple[str, ...]:
        """Say which runs were left out, and why; nothing where none was."""
        if not self.left_out:
            return ()
        names = [Path(folder).name for folder in self.left_out]
        some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        what = "1 run with a damaged record" if len(names) == 1 else f"{len(names)} runs with damaged records"
        return (f"Left out: {what} ({some}); the same command writes them again.",)

    def memo(self, name: str, make: Callable[[], T]) -> T:
        """Return what was made of these results under a name; it is made once."""
        if name not in self._memo:
            self._memo[name] = make()
        made: T = self._memo[name]
        return made

    def arrays(self, at: int, artefact: str | None) -> Mapping[str, Any]:
        """Return what a metric left in the store (`arrays/<name>`, `per_example/<name>`); nothing if it is gone."""
        store = self.runs[at].store
        key = f"{store}/{artefact}"
        if key not in self._arrays:
            path = stored_file(store, artefact, ARRAYS, self.damaged)
            self._arrays[key] = _load_arrays(path) if path is not None else {}
        return self._arrays[key]


def _load_arrays(path: Path) -> Mapping[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays: Mapping[str, Any] = load_file(path)
    except (OSError, SafetensorError) as err:
        raise DataError(f"{path}: cannot be read ({err})") from err
    return arrays


def read_results(paths: Iterable[Path | str], where: Mapping[str, str] | None = None) -> Results:
    """Read every run under the given paths.

    Args:
        paths: Run folders, folders that hold them at any depth, or `record.json` files.
        where: Axis (or `system`, `metric`, `experiment`, …) → accepted value as text, several joined by `|`.

    Raises:
        DataError: If a path is missing, no run is found, a record is broken or nothing is left by `where`.
    """
    places = [Path(p) for p in paths]
    records, unfinished = find_records(places)
    if not records:
        waiting = f" ({unfinished} unfinished)" if unfinished else ""
        raise DataError(f"no finished run under {', '.join(map(str, places)) or 'no path'}{waiting}: no {RECORD} there")
    damaged: dict[str, str] = {}
    runs, left_out = _readable(records, damaged)
    rows, superseded = rows_of(runs)
    axes = in_order(name for run in runs for name in run.axes)
    frame = to_frame(rows, axes)
    results = Results(frame, tuple(runs), axes, unfinished, superseded, damaged, left_out)
    return filtered(results, where) if where else results


def find_records(paths: Sequence[Path]) -> tuple[list[Path], int]:
    """Return the record files under paths, each once, and the number of run folders that have none."""
    found: dict[Path, None] = {}
    unfinished = 0
    for path in paths:
        if path.is_file():
            found[path.resolve()] = None
            continue
        if not path.is_dir():
            raise DataError(f"no such run folder: {path}")
        for record in _walk(path):
            if record.name == RECORD:
                found[record.resolve()] = None
            else:
                unfinished += 1
    return list(found), unfinished


def _walk(folder: Path) -> Iterator[Path]:
    """Yield record files, and the run folders without one (a leaf folder that is named like a run)."""
    record = folder / RECORD
    if record.is_file():
        yield record
        return
    children = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not children and _looks_like_a_run(folder.name):
        yield folder
    for child in children:
        yield from _walk(child)


def _looks_like_a_run(name: str) -> bool:
    stamp, _, key = name.rpartition("-")
    return bool(stamp) and len(key) == 8 and all(c in "0123456789abcdef" for c in key)


def _readable(records: Sequence[Path], damaged: MutableMapping[str, str]) -> tuple[list[Run], dict[str, str]]:
    """Read records; those that are damaged, or say another thing than their artefacts, are left out, each in a line.

    Raises:
        DataError: If none is left: what is wrong with the first.
    """
    runs: list[Run] = []
    wrong: dict[str, str] = {}
    for path in records:
        try:
            run = read_run(path)
            for row in run.results:
                if why := contradiction(run.store, row, damaged):
                    raise DataError(f"{path}: {row.metric} of {row.system}: {why}")
            runs.append(run)
        except DataError as err:
            wrong[str(path.parent)] = str(err)
    if not runs:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise DataError(f"{next(iter(wrong.values()))}{more}")
    for said in wrong.values():
        log.warning("%s: left out of the report", said)
    return sorted(runs, key=_run_order), wrong


def _run_order(run: Run) -> tuple[str, str]:
    """Order by content, so that neither time nor the order of paths moves a row."""
    return canonical_axes(run.axes), run.created


def filtered(results: Results, where: Mapping[str, str]) -> Results:
    """Keep the rows whose columns have one of the accepted values; the human side passes filters on the model.

    Raises:
        DataError: If a column is unknown or nothing is left.
    """
    from openended.harness.core import suggest

    frame = results.frame
    for name, accepted in where.items():
        options = set(str(accepted).split("|"))
        metric, _, option = name.partition(".")
        if name not in frame.columns and option and (frame["metric"] == metric).any():
            frame = frame[_of_option(frame, metric, option, options)]
            continue
        if name not in frame.columns:
            raise DataError(f"no axis {name!r} in these runs{suggest(name, [*results.axes, *FIXED])}")
        text = frame[name].map(axis_text)
        keep = text.isin(options)
        if name in results.axes and not of_human(name):
            keep |= frame["system"] != "model"
        frame = frame[keep]
    if not (frame["system"] == "model").any():
        raise DataError(f"no value is left by {', '.join(f'{k}={v}' for k, v in where.items())}")
    return results.select(frame)


def _of_option(frame: pd.DataFrame, metric: str, option: str, accepted: set[str]) -> pd.Series[bool]:
    """Say of every row whether its metric is another one, or has one of the accepted values of an option.

    Raises:
        DataError: If the metric has no such option.
    """
    from openended.harness.core import suggest

    own = frame["metric"] == metric
    fields = frame["signature"].map(parse_signature)
    known = {field for one in fields[own] for field in one} - {"metric"}
    if option not in known:
        raise DataError(f"no option {option!r} of {metric} in these runs{suggest(option, known)}")
    return ~own | fields.map(lambda one: one.get(option) in accepted)


def write_frame(results: Results, folder: Path) -> list[Path]:
    """Write the tidy frame as Parquet and CSV; the same runs give the same bytes."""
    frame = results.frame.drop(columns=[INTERNAL, "target"]).reset_index(drop=True)
    pairs = zip(results.frame["direction"], results.frame["target"], strict=True)
    frame["direction"] = [direction_text(direction, target) for direction, target in pairs]
    paths = [folder / "results.parquet", folder / "results.csv"]
    with replacing(paths[0], "wb") as handle:
        frame.to_parquet(handle, index=False)
    for name in frame.select_dtypes("object").columns:
        frame[name] = [csv_cell(plain(v)) if isinstance(v, str) else v for v in frame[name]]
    with replacing(paths[1]) as handle:
        frame.rename(columns=csv_cell).to_csv(handle, index=False, lineterminator="\n")
    return paths
