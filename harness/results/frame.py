"""Read run folders into one tidy data frame with one row per value."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness.core import DataError, escape_controls, escape_csv_cell, open_for_replacement, parse_signature
from openended.harness.results.axes import describes_human_side, format_axis_value, order_axes
from openended.harness.results.fold import SystemValue, fold_seeds
from openended.harness.results.runs import Run, read_run, unify_model_paths
from openended.harness.results.store_files import describe_contradiction, locate_verified_file
from openended.harness.results.tidy import FIXED, INTERNAL, rows_of, serialize_axes, to_frame
from openended.harness.storage import RECORD, format_direction

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)
ARRAYS = "arrays.safetensors"


@dataclass(frozen=True)
class Results:
    """All values of a set of runs and the records they come from."""

    frame: pd.DataFrame
    """One row per value; columns `FIXED`, then the axes."""
    runs: tuple[Run, ...]
    axes: tuple[str, ...]
    """The columns of the frame that are axes."""
    unfinished: int
    """Number of run folders without a record."""
    superseded: int
    """Number of values skipped because a newer run has the same axes and signature."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Artifact → what is wrong with it; damaged artifacts are skipped, and the page shows their number."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Run folder → what is wrong with its record; shown on the page and under the tables."""
    _arrays: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def values(self) -> list[SystemValue]:
        """All values, aggregated over seeds, in the order of the frame."""
        return fold_seeds(self.frame, self.axes)

    def select(self, frame: pd.DataFrame) -> Results:
        """Return the same runs with the values of `frame` only."""
        return replace(self, frame=frame)

    def remarks(self) -> tuple[str, ...]:
        """Return the remark on runs that were left out; empty if there are none."""
        if not self.left_out:
            return ()
        names = [Path(folder).name for folder in self.left_out]
        some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        what = "1 run with a damaged record" if len(names) == 1 else f"{len(names)} runs with damaged records"
        return (f"Left out: {what} ({some}); the same command writes them again.",)

    def arrays(self, at: int, artefact: str | None) -> Mapping[str, Any]:
        """Load the arrays that a metric stored (`arrays/<name>`, `per_example/<name>`); empty if they are missing."""
        store = self.runs[at].store
        key = f"{store}/{artefact}"
        if key not in self._arrays:
            path = locate_verified_file(store, artefact, ARRAYS, self.damaged)
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
        DataError: If a path is missing, no run is found, a record is broken or no value matches `where`.
    """
    folders = [Path(p) for p in paths]
    records, unfinished = find_records(folders)
    if not records:
        waiting = f" ({unfinished} unfinished)" if unfinished else ""
        raise DataError(
            f"no finished run under {', '.join(map(str, folders)) or 'no path'}{waiting}: no {RECORD} found"
        )
    damaged: dict[str, str] = {}
    runs, left_out = _read_records(records, damaged)
    rows, superseded = rows_of(runs)
    axes = order_axes(name for run in runs for name in run.axes)
    frame = to_frame(rows, axes)
    results = Results(frame, tuple(runs), axes, unfinished, superseded, damaged, left_out)
    return filter_results(results, where) if where else results


def find_records(paths: Sequence[Path]) -> tuple[list[Path], int]:
    """Return the record files under paths without duplicates, and the number of run folders without a record."""
    records: dict[Path, None] = {}
    unfinished = 0
    for path in paths:
        if path.is_file():
            records[path.resolve()] = None
            continue
        if not path.is_dir():
            raise DataError(f"no such run folder: {path}")
        for record in _walk(path):
            if record.name == RECORD:
                records[record.resolve()] = None
            else:
                unfinished += 1
    return list(records), unfinished


def _walk(folder: Path) -> Iterator[Path]:
    """Yield record files, and run folders without one (leaf folders named like a run)."""
    record = folder / RECORD
    if record.is_file():
        yield record
        return
    children = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not children and _is_run_name(folder.name):
        yield folder
    for child in children:
        yield from _walk(child)


def _is_run_name(name: str) -> bool:
    stamp, _, key = name.rpartition("-")
    return bool(stamp) and len(key) == 8 and all(c in "0123456789abcdef" for c in key)


def _read_records(records: Sequence[Path], damaged: MutableMapping[str, str]) -> tuple[list[Run], dict[str, str]]:
    """Read records; warn about and leave out those that are damaged or contradict their artifacts."""
    runs: list[Run] = []
    wrong: dict[str, str] = {}
    for path in records:
        try:
            run = read_run(path)
            for row in run.results:
                if why := describe_contradiction(run.store, row, damaged):
                    raise DataError(f"{path}: {row.metric} of {row.system}: {why}")
            runs.append(run)
        except DataError as err:
            wrong[str(path.parent)] = str(err)
    if not runs:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise DataError(f"{next(iter(wrong.values()))}{more}")
    for message in wrong.values():
        log.warning("%s: left out of the report", message)
    return sorted(unify_model_paths(runs), key=_run_order), wrong


def _run_order(run: Run) -> tuple[str, str]:
    """Return a sort key by content, so that row order does not depend on time or the order of paths."""
    return serialize_axes(run.axes), run.created


def check_axes(results: Results, names: Iterable[str]) -> None:
    """Raise `DataError` if the runs have no axis and no column of one of these names."""
    from openended.harness.core import suggest

    for name in names:
        if name not in results.frame.columns:
            raise DataError(f"no axis {name!r} in these runs{suggest(name, [*results.axes, *FIXED])}")


def filter_results(results: Results, where: Mapping[str, str]) -> Results:
    """Keep rows whose columns have accepted values; filters on the model keep all human rows.

    Raises:
        DataError: If a column is unknown or no value matches.
    """
    frame = results.frame
    for name, accepted in where.items():
        options = set(str(accepted).split("|"))
        metric, _, option = name.partition(".")
        if name not in frame.columns and option and (frame["metric"] == metric).any():
            frame = frame[_mask_option(frame, metric, option, options)]
            continue
        check_axes(results, [name])
        text = frame[name].map(format_axis_value)
        keep = text.isin(options)
        if name in results.axes and not describes_human_side(name):
            keep |= frame["system"] != "model"
        frame = frame[keep]
    if not (frame["system"] == "model").any():
        raise DataError(f"no value matches {', '.join(f'{k}={v}' for k, v in where.items())}")
    return results.select(frame)


def _mask_option(frame: pd.DataFrame, metric: str, option: str, accepted: set[str]) -> pd.Series[bool]:
    """Return a mask of rows of other metrics and rows whose option has an accepted value."""
    from openended.harness.core import suggest

    is_metric = frame["metric"] == metric
    fields = frame["signature"].map(parse_signature)
    names = {field for signature_fields in fields[is_metric] for field in signature_fields} - {"metric"}
    if option not in names:
        raise DataError(f"no option {option!r} of {metric} in these runs{suggest(option, names)}")
    return ~is_metric | fields.map(lambda signature_fields: signature_fields.get(option) in accepted)


def write_frame(results: Results, folder: Path) -> list[Path]:
    """Write the tidy frame as Parquet and CSV; equal runs give equal bytes."""
    frame = results.frame.drop(columns=[INTERNAL, "target"]).reset_index(drop=True)
    pairs = zip(results.frame["direction"], results.frame["target"], strict=True)
    frame["direction"] = [format_direction(direction, target) for direction, target in pairs]
    paths = [folder / "results.parquet", folder / "results.csv"]
    with open_for_replacement(paths[0], "wb") as handle:
        frame.to_parquet(handle, index=False)
    for name in frame.columns:
        if any(isinstance(v, str) for v in frame[name]):
            frame[name] = [escape_csv_cell(escape_controls(v)) if isinstance(v, str) else v for v in frame[name]]
    with open_for_replacement(paths[1]) as handle:
        frame.rename(columns=escape_csv_cell).to_csv(handle, index=False, lineterminator="\n")
    return paths
