"""The values of a set of runs (one row per value, without duplicates), their files, arrays and intervals."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness import core
from openended.harness.core import DataError, SpecError, escape_controls, escape_csv_cell, parse_signature, suggest
from openended.harness.results import systems
from openended.harness.results.axes import CREATED, describes_human_side, format_axis_value, order_axes
from openended.harness.results.runs import Run, locate_verified_file, read_runs, serialize_axes
from openended.harness.results.systems import FIXED, RunValue, SystemValue
from openended.harness.storage import RowFile

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ARRAYS = "arrays.safetensors"
# Columns that are fields of a result.
_OF_RESULT = tuple("system metric status n_human n_model signature family resampling invented artifact".split())
_DIGEST = b"openended.digest"  # in the metadata of a Parquet file
_DTYPES: Mapping[type, Any] = {int: "Int64", float: "float64", bool: "boolean", str: object}  # of pandas; with nulls


@dataclass(frozen=True)
class Results:
    """All values of a set of runs and the records they come from."""

    rows: tuple[RunValue, ...]
    runs: tuple[Run, ...]
    axes: Mapping[str, type]  # name, in the order of columns → type of the values of all runs
    superseded: int  # number of values skipped because a newer run has the same axes and signature
    damaged: dict[str, str] = field(default_factory=dict)  # skipped artifact → what is wrong with it
    left_out: Mapping[str, str] = field(default_factory=dict)  # run folder → what is wrong with its record, or lost
    spaces: dict[tuple[str, str], Any] = field(default_factory=dict, init=False)
    """Metric and signature → the `JointSpace` of their values, where one was asked for."""
    _arrays: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row per value; columns `FIXED`, then the axes."""
        import pandas as pd

        types = {**FIXED, **self.axes}
        cells = {name: [row.get(name) for row in self.rows] for name in types}
        return pd.DataFrame({name: pd.Series(cells[name], dtype=_DTYPES[kind]) for name, kind in types.items()})

    @cached_property
    def values(self) -> list[SystemValue]:
        """All values, aggregated over seeds, in the order of the rows."""
        newest = sorted(self.runs, key=lambda run: run.created, reverse=True)
        typed = systems.rank_typed_values(dict.fromkeys(run.command for run in newest))
        return systems.fold_seeds(self.rows, self.axes, typed)

    def remarks(self) -> tuple[str, ...]:
        """Return the remark on runs that were left out; empty if there are none."""
        if not self.left_out:
            return ()
        names = [Path(folder).name for folder in self.left_out]
        some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        what = "1 run whose record is" if len(names) == 1 else f"{len(names)} runs whose records are"
        return (f"Left out: {what} lost or damaged ({some}); the same command writes them again.",)

    def arrays(self, run: Run, artifact: str | None) -> Mapping[str, Any]:
        """Load the arrays that a metric stored (`arrays/<name>`, `per_example/<name>`); empty if they are missing."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        key = f"{run.store}/{artifact}"
        if key not in self._arrays:
            path = locate_verified_file(run.store, artifact, ARRAYS, self.damaged)
            try:
                self._arrays[key] = load_file(path) if path is not None else {}
            except (OSError, SafetensorError) as err:
                raise DataError(f"{path}: cannot be read ({err})") from err
        return self._arrays[key]

    def list_arrays(self, value: SystemValue | None) -> list[dict[str, Any]]:
        """Load what a metric stored for each seed of a value, name → array; nothing where it is missing."""
        stored = [self.arrays(*source) for source in value.sources] if value is not None else []
        return [{n.removeprefix("arrays/"): a for n, a in of.items() if n.startswith("arrays/")} for of in stored]


def read_results(
    paths: Iterable[Path | str], where: Mapping[str, str] | None = None, *, by_day: bool = False
) -> Results:
    """Read every run under the given paths.

    Args:
        paths: Run folders, folders that hold them at any depth, or `record.json` files.
        where: Axis (or `system`, `metric`, `experiment`, …) → accepted value as text, several joined by `|`.
        by_day: Whether the day of a run is its axis `created`, so that runs of several days are several systems.

    Raises:
        DataError: If a path is missing, no run is found, a record is broken or no value matches `where`.
    """
    runs, left_out = read_runs([Path(path) for path in paths])
    experiments = str((where or {}).get("experiment", "")).split("|")  # a run of another one replaces none of these
    runs = [run for run in runs if run.experiment in experiments] or runs
    if by_day:
        runs = [replace(run, axes={**run.axes, CREATED: run.created[:10]}) for run in runs]
    names = order_axes(name for run in runs for name in run.axes)
    axes = {name: find_common_type(run.axes.get(name) for run in runs) for name in names}
    rows, superseded = list_rows(runs, axes)
    results = Results(tuple(rows), tuple(runs), axes, superseded, left_out=left_out)
    return filter_results(results, where) if where else results


def find_common_type(values: Iterable[Any]) -> type:
    """Return the type of a column: whole numbers with others become floats, other mixed types text.

    >>> find_common_type([1, None]), find_common_type([1, 0.5]), find_common_type([1, "none"])
    (<class 'int'>, <class 'float'>, <class 'str'>)
    """
    kinds = {type(value) for value in values if value is not None}
    if kinds in ({int}, {bool}):
        return kinds.pop()
    return float if kinds and kinds <= {int, float} else str


def list_rows(runs: Sequence[Run], axes: Mapping[str, type]) -> tuple[list[RunValue], int]:
    """Return one row per value, and the number of older values that were skipped.

    Among runs with the same axes and signature, the newest counts. Human values appear once per human side and
    signature: the newest values, of this machine before those of archives, attributed to the first run (by axes) that
    has them, so that the order in which the jobs of a grid finish does not matter.
    """

    def get_rank(run: Run) -> tuple[bool, str, str]:
        return not run.archive, run.created, run.folder.name

    newest: set[tuple[str, ...]] = set()
    superseded: set[tuple[Run, str]] = set()
    for run in sorted(runs, key=get_rank, reverse=True):
        for result in (r for r in run.results if r.system == "model"):
            key = serialize_axes(run.axes), result.metric, result.signature
            if key in newest:
                superseded.add((run, result.metric))
            newest.add(key)
    rows: list[RunValue] = []
    humans: dict[tuple[str, ...], list[tuple[Run, core.MetricResult, str]]] = {}
    for run in runs:
        for result in (r for r in run.results if (run, r.metric) not in superseded):  # skips its human values too
            if result.system == "model":
                rows += _iterate_rows(run, result, axes)
                continue
            side = serialize_axes({k: v for k, v in run.axes.items() if describes_human_side(k)})
            values = json.dumps(dict(result.values), sort_keys=True)  # as text, NaN equals NaN
            identity = (side, result.system, result.metric, result.signature)
            humans.setdefault(identity, []).append((run, result, values))
    count = len(superseded)
    for shared in humans.values():
        _, _, current = max(shared, key=lambda entry: get_rank(entry[0]))
        run, result, _ = next(entry for entry in shared if entry[2] == current)
        rows += _iterate_rows(run, result, axes)
        count += sum(entry[2] != current for entry in shared)
    return rows, count


def _iterate_rows(run: Run, result: core.MetricResult, types: Mapping[str, type]) -> Iterator[RunValue]:
    is_model = result.system == "model"
    axes = {k: v for k, v in run.axes.items() if is_model or describes_human_side(k)}
    setting = serialize_axes({k: v for k, v in axes.items() if k != "seed"})
    shared: dict[str, Any] = {name: getattr(result, name) for name in _OF_RESULT}
    shared |= {"source": run, "run": run.name, "experiment": run.experiment, "reason": "; ".join(result.notes)}
    for role in ("model", "decoder"):
        shared[f"{role}_title"] = (run.titles[role] or str(axes.get(role) or "")) if is_model else ""
    shared["setting"] = hashlib.sha256(setting.encode()).hexdigest()[:12]
    shared["axes"] = {name: types[name](value) for name, value in axes.items() if value is not None}
    raters = parse_signature(result.signature).get("raters")  # in every column title: LLM judge or simulated raters
    suffix = f" ({raters})" if raters else ""
    for key, value in (result.values or {result.primary: math.nan}).items():
        interval = result.intervals.get(key, {})
        low, high = (math.nan if (end := interval.get(name)) is None else end for name in ("low", "high"))
        title, sd = (result.titles.get(key) or key) + suffix, result.sd.get(key, math.nan)
        numbers: dict[str, Any] = {"value": value, "sd": sd, "low": low, "high": high, "primary": key == result.primary}
        direction = result.directions.get(key) or result.direction
        yield RunValue(**shared, **numbers, key=key, title=title, direction=direction)


def check_axes(results: Results, names: Iterable[str]) -> None:
    """Raise `DataError` if the runs have no axis and no column of one of these names."""
    columns = [*results.axes, *FIXED]
    for name in names:
        if name not in columns:
            raise DataError(f"no axis {name!r} in these runs{suggest(name, columns)}")


def filter_results(results: Results, where: Mapping[str, str], *, every: bool = False) -> Results:
    """Keep rows whose columns have accepted values; filters on the model keep all human rows.

    Raises:
        DataError: If a column or an option of a metric is unknown or no value matches; with `every`, if one of several
            accepted values matches none.
    """
    rows = list(results.rows)
    for name, accepted in where.items():
        values = set(str(accepted).split("|"))
        metric, _, option = name.partition(".")
        if name not in results.axes and option and any(row.metric == metric for row in rows):
            fields = {row.signature: parse_signature(row.signature) for row in rows if row.metric == metric}
            names = set().union(*fields.values()) - {"metric"}
            if option not in names:
                raise DataError(f"no option {option!r} of {metric} in these runs{suggest(option, names)}")
            rows = [row for row in rows if row.metric != metric or fields[row.signature].get(option) in values]
            continue
        check_axes(results, [name])
        cells = {format_axis_value(row.get(name)) for row in results.rows}
        if every and len(values) > 1 and (absent := values - cells):
            raise DataError(f"no value matches {name}={min(absent)}; {name} is {', '.join(sorted(cells - {''}))}")
        exempt = ("human", "ceiling") if name in results.axes and not describes_human_side(name) else ()
        rows = [row for row in rows if row.system in exempt or format_axis_value(row.get(name)) in values]
    if not any(row.system == "model" for row in rows):
        models = [row for row in results.rows if row.system == "model"]
        columns = [name for name in where if name in results.axes or name in FIXED]
        choices = {name: sorted({format_axis_value(row.get(name)) for row in models} - {""}) for name in columns}
        present = (f"{k} is {', '.join(values) or 'not set'}" for k, values in choices.items())
        requested = ", ".join(f"{k}={v}" for k, v in where.items())
        raise DataError(f"no value matches {requested}; {'; '.join(present) or 'its metrics have other options'}")
    return replace(results, rows=tuple(rows))


def parse_filters(texts: Iterable[str]) -> dict[str, str]:
    """Parse each `AXIS=VALUE` of the option `--where`."""
    where: dict[str, str] = {}
    for text in texts:
        axis, sign, value = text.partition("=")
        if not sign or not axis:
            raise SpecError(f"--where: expected AXIS=VALUE, got {text!r}")
        if axis in where:
            both = f"--where '{axis}={where[axis]}|{value}'"
            raise SpecError(f"--where: {axis} is given twice; type {both} for both")
        where[axis] = value
    return where


def join_results(first: Results, second: Results) -> Results:
    """Return the results with the runs of both."""
    axes = {**first.axes, **second.axes}
    axes = {name: axes[name] for name in order_axes(axes)}
    superseded, left_out = first.superseded + second.superseded, {**first.left_out, **second.left_out}
    rows, runs = (*first.rows, *second.rows), (*first.runs, *second.runs)
    return Results(rows, runs, axes, superseded, first.damaged | second.damaged, left_out)


def write_frame(results: Results, folder: Path) -> list[Path]:
    """Write the values as Parquet, with a digest of them, and as CSV; equal runs give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [folder / "results.parquet", folder / "results.csv"]
    kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in {**FIXED, **results.axes}.items()])
    table = pa.Table.from_pandas(results.frame, schema, preserve_index=False)
    with core.open_for_replacement(paths[0], "wb") as handle:
        pq.write_table(table.replace_schema_metadata({**table.schema.metadata, _DIGEST: _digest_table(table)}), handle)
    frame = results.frame.copy()
    for name in frame.columns:
        if any(isinstance(v, str) for v in frame[name]):
            frame[name] = [escape_csv_cell(escape_controls(v)) if isinstance(v, str) else v for v in frame[name]]
    with core.open_for_replacement(paths[1]) as handle:
        frame.rename(columns=escape_csv_cell).to_csv(handle, index=False, lineterminator="\n")
    return paths


def read_frame(path: Path) -> Results:
    """Read the values and intervals of a `results.parquet` that `write_frame` wrote; arrays are not in such a file."""
    import pyarrow.parquet as pq

    core.check_regular_file(path)
    try:
        table = pq.read_table(path, memory_map=False)
        is_sound = (table.schema.metadata or {}).get(_DIGEST) == _digest_table(table)
        cells = table.to_pylist()
    except Exception as err:  # a damaged file raises anything
        raise DataError(f"{path}: cannot be read ({core.format_error(err)}); build its report again") from err
    if missing := [name for name in FIXED if name not in table.column_names]:
        raise DataError(
            f"{path}: expected the results.parquet of a report or an export, got no column {missing[0]!r}; one of an "
            "earlier version is written again by openended report NAME"
        )
    if not is_sound:
        raise DataError(
            f"{path}: damaged or changed: its values do not match its digest; build its report again, as "
            "openended report NAME"
        )
    kinds = {"int64": int, "double": float, "bool": bool}
    types = {name: kinds.get(str(table.field(name).type), str) for name in table.column_names}
    axes = {name: kind for name, kind in types.items() if name not in FIXED}
    run = Run(
        folder=path,
        created="",
        name=path.name,
        experiment=path.stem,
        axes={},
        titles={"model": "", "decoder": ""},
        store=None,
        inputs=(),
        results=(),
        notes=(),
    )
    rows: list[RunValue] = []
    for row in cells:
        row |= {name: math.nan for name, kind in FIXED.items() if kind is float and row[name] is None}
        own_axes = {name: row.pop(name) for name in axes}
        rows.append(RunValue(**row, axes=own_axes, source=run))
    return Results(tuple(rows), (run,), axes, 0)


def _digest_table(table: "pa.Table") -> bytes:
    columns = {name: [str(table.field(name).type), table[name].to_pylist()] for name in table.column_names}
    return core.digest([table.column_names, columns]).encode()


def read_rows_of_run(results: Results, run: Run, role: str) -> RowFile | None:
    """Return the human texts of a run or its system's; None where they are not in the store, or damaged."""
    path = locate_verified_file(run.store, *run.find_rows(role), results.damaged)
    return RowFile(path) if path is not None else None


# Intervals ------------------------------------------------------------------------------------------------------------


def load_replicates(results: Results, item: SystemValue) -> core.Replicates | None:
    """Load the replicates of a value, averaged over its seeds; None if a seed has none or the store is missing."""
    parts = []
    for source, value in zip(item.sources, item.values.values(), strict=True):
        if not math.isfinite(value):
            continue
        part = read_replicates(results.arrays(*source), item.key, count_prompts(item))
        if part is None:
            return None
        parts.append(part)
    return core.combine_replicates([1 / len(parts)] * len(parts), parts) if parts else None


def count_prompts(item: SystemValue) -> int:
    """Return the number of prompts behind a value, from its signature; 0 if it does not say."""
    sizes = systems.parse_sizes(item.signature)
    samples = str(item.axes.get("samples", "")) if len(sizes) == 1 else ""  # a single count is that of all texts
    return min(sizes, default=0) // (max(int(samples), 1) if samples.isdigit() else 1)


def read_replicates(arrays: Mapping[str, Any], key: str, prompts: int) -> core.Replicates | None:
    """Return the replicates of a value from the arrays of a result; None if it has none."""
    if f"draws/{key}" not in arrays:
        return None
    repeats = np.asarray(arrays.get(f"draws/repeats/{key}", ()), dtype=np.float64)
    share = float(arrays.get(f"draws/share/{key}", np.ones(1))[0])
    return core.Replicates(np.asarray(arrays[f"draws/{key}"], dtype=np.float64), repeats, share, prompts)


def find_results(item: SystemValue) -> list[core.MetricResult]:
    """Return the recorded results behind a value, one per seed; empty for values that were read from a table."""
    identity = (item.system, item.metric, item.signature)
    rows = []
    for run, artifact in item.sources:
        candidates = (row for row in run.results if row.artifact == artifact)
        rows += [row for row in candidates if (row.system, row.metric, row.signature) == identity][:1]
    return rows


def find_interval(results: Results, item: SystemValue) -> core.Interval | None:
    """Return the interval of a value over examples: the recorded one for one seed, else that of the mean over seeds."""
    rows = find_results(item)
    if len(rows) == 1:
        interval = rows[0].intervals.get(item.key)
        return core.Interval(**interval) if interval else None
    replicates = load_replicates(results, item)
    if replicates is None or not any(item.key in row.intervals for row in rows):
        return None
    arrays = [results.arrays(*source) for source in item.sources]
    if not all(f"per_example/{item.key}" in a for a in arrays):
        return core.estimate_interval(replicates, item.mean, rows[0].bounds[item.key])
    per_example = [np.asarray(a[f"per_example/{item.key}"], dtype=np.float64) for a in arrays]
    # Seeds share their prompts.
    prompts = [a.get("arrays/prompts", np.arange(len(part))) for a, part in zip(arrays, per_example, strict=True)]
    examples = np.concatenate(per_example), np.concatenate(prompts).astype(np.int64)
    is_share = any(row.intervals.get(item.key, {}).get("method") == core.WILSON for row in rows)
    return core.estimate_interval(replicates, item.mean, rows[0].bounds[item.key], *examples, is_share=is_share)
