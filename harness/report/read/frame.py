"""From run folders to one tidy frame: one row a value, with every axis, metric, spread, count and signature."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from openended.harness.errors import DataError
from openended.harness.io import read_json, replacing
from openended.harness.report.read.stored import stored_file
from openended.harness.signature import parse_signature
from openended.harness.text import csv_cell, plain

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)
T = TypeVar("T")

RECORD, ARRAYS = "record.json", "arrays.safetensors"
SCHEMA = 1
# Columns of the frame that are not axes, in the order of the exported files.
FIXED = (
    *(
        "run",
        "experiment",
        "system",
        "model_title",
        "decoder_title",
        "setting",
        "metric",
        "key",
        "title",
        "value",
        "sd",
    ),
    *(
        "primary",
        "status",
        "reason",
        "n_human",
        "n_model",
        "signature",
        "family",
        "direction",
        "resampling",
        "artefact",
    ),
)
INTERNAL = "at"  # index into `Results.runs`; not exported


@dataclass(frozen=True, slots=True)
class Run:
    """One run folder as far as the report reads it."""

    folder: Path
    created: str
    name: str
    """`experiment/key8`: the same for a run that was repeated."""
    experiment: str
    axes: Mapping[str, Any]
    titles: Mapping[str, str]
    """Display names of `model` and `decoder`."""
    store: Path | None
    inputs: Mapping[str, str]
    """Name of a stage's artefact → `stage/ab/key` in the store."""
    results: Sequence[Mapping[str, Any]]
    notes: tuple[str, ...]
    """What the reader must know about its texts."""


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
    _arrays: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _memo: dict[str, Any] = field(default_factory=dict)

    def select(self, frame: pd.DataFrame) -> Results:
        """Return the same runs with fewer values."""
        return Results(frame, self.runs, self.axes, self.unfinished, self.superseded, self.damaged, self._arrays)

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
    runs = sorted((_read_run(path) for path in records), key=_run_order)
    rows, superseded = _rows(runs)
    axes = _axis_names(runs)
    frame = _to_frame(rows, axes)
    results = Results(frame, tuple(runs), axes, unfinished, superseded)
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


def _read_run(path: Path) -> Run:
    record = read_json(path)
    try:
        if record["schema"] != SCHEMA:
            raise DataError(f"{path}: expected record schema {SCHEMA}, got {record['schema']!r}")
        spec, folder = record["spec"], path.parent
        experiment = str(spec.get("experiment") or folder.parent.name)
        titles = {role: str((spec.get(role) or {}).get("title") or "") for role in ("model", "decoder")}
        store = record.get("store")
        return Run(
            folder=folder,
            created=str(record["created"]),
            name=f"{experiment}/{folder.name.rpartition('-')[2]}",
            experiment=experiment,
            axes={str(k): _plain(v) for k, v in record["axes"].items()},
            titles=titles,
            store=(folder / store).resolve() if store else None,
            inputs=record.get("inputs") or {},
            results=[_checked(r) for r in record["results"]],
            notes=tuple(map(str, record.get("notes") or ())),
        )
    except (KeyError, TypeError, AttributeError) as err:
        raise DataError(f"{path}: not a run record ({type(err).__name__}: {err})") from err


def _checked(result: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in ("system", "metric", "signature", "primary", "values", "status"):
        if name not in result:
            raise KeyError(name)
    return result


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return an axis value that can stand in a cell: lists and objects become compact JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")) if isinstance(value, (list, dict)) else value


def _run_order(run: Run) -> tuple[str, str]:
    """Order by content, so that neither time nor the order of paths moves a row."""
    return _canonical(run.axes), run.created


def _canonical(axes: Mapping[str, Any]) -> str:
    return json.dumps(axes, sort_keys=True, default=str)


def _axis_names(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return axes in a fixed order: task, model, decoder, its parameters, seed, the rest."""
    first = ("task", "model", "decoder")
    names = {name for run in runs for name in run.axes}
    options = sorted(n for n in names if n.startswith("decoder."))
    rest = sorted(names - set(first) - set(options) - {"seed"})
    return (*(n for n in first if n in names), *options, *(["seed"] if "seed" in names else []), *rest)


def of_human(axis: str) -> bool:
    """Say whether an axis also describes the human side (it is not about the model that generates)."""
    return axis not in {"model", "decoder", "seed"} and not axis.startswith(("decoder.", "model."))


def _rows(runs: Sequence[Run]) -> tuple[list[dict[str, Any]], int]:
    """One row a value; of runs with the same axes and signature the newest counts, human sides count once.

    A human side that several runs share is shown as the first one's, in the order of their axes: which job of a grid
    ended first must not move a row.
    """
    old = _superseded(runs)
    humans: set[tuple[str, ...]] = set()
    rows: list[dict[str, Any]] = []
    for at, run in enumerate(runs):
        human = _canonical({k: v for k, v in run.axes.items() if of_human(k)})
        for result in run.results:
            metric, system = str(result["metric"]), str(result["system"])
            if (at, metric) in old:  # its human side does not count either
                continue
            if system != "model":
                key = (system, human, metric, str(result["signature"]), json.dumps(result["values"], sort_keys=True))
                if key in humans:
                    continue
                humans.add(key)
            rows += _result_rows(run, at, result)
    return rows, len(old)


def _superseded(runs: Sequence[Run]) -> set[tuple[int, str]]:
    """Return (index of a run, metric) where a newer run of the same axes and signature has the value."""
    seen: set[tuple[str, ...]] = set()
    old: set[tuple[int, str]] = set()
    for at in sorted(range(len(runs)), key=lambda i: (runs[i].created, runs[i].folder.name), reverse=True):
        own = _canonical(runs[at].axes)
        for result in (r for r in runs[at].results if r["system"] == "model"):
            key = (own, str(result["metric"]), str(result["signature"]))
            if key in seen:
                old.add((at, key[1]))
            seen.add(key)
    return old


def _result_rows(run: Run, at: int, result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    system, primary, signature = str(result["system"]), str(result["primary"]), str(result["signature"])
    axes = run.axes if system == "model" else {k: v for k, v in run.axes.items() if of_human(k)}
    setting = _canonical({k: v for k, v in axes.items() if k != "seed"})
    shared = {
        INTERNAL: at,
        "run": run.name,
        "experiment": run.experiment,
        "system": system,
        "model_title": run.titles["model"] or str(axes.get("model") or ""),
        "decoder_title": run.titles["decoder"] or str(axes.get("decoder") or ""),
        "setting": hashlib.sha256(setting.encode()).hexdigest()[:12],
        "metric": str(result["metric"]),
        "status": str(result["status"]),
        "reason": "; ".join(map(str, result.get("notes") or ())),
        "n_human": result.get("n_human"),
        "n_model": result.get("n_model"),
        "signature": signature,
        "family": str(result.get("family") or ""),
        "resampling": str(result.get("resampling") or "none"),
        "artefact": result.get("artefact"),
        **axes,
    }
    if system != "model":
        shared |= {"model_title": "", "decoder_title": ""}
    directions, titles, spread = (result.get(name) or {} for name in ("directions", "titles", "sd"))
    for key, value in (result["values"] or {primary: None}).items():
        yield shared | {
            "key": key,
            "title": str(titles.get(key) or key),
            "value": float("nan") if value is None else float(value),
            "sd": float("nan") if spread.get(key) is None else float(spread[key]),
            "primary": key == primary,
            "direction": str(directions.get(key) or result.get("direction") or "none"),
        }


def _to_frame(rows: Sequence[Mapping[str, Any]], axes: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    names = (*FIXED, *axes, INTERNAL)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pd.DataFrame({name: _series(pd, values) for name, values in columns.items()})


def _series(pd: Any, values: Sequence[Any]) -> Any:  # noqa: ANN401
    """Keep whole numbers whole beside missing ones; a mixture of kinds becomes text: one type a column."""
    kinds = {type(v) for v in values if v is not None}
    if kinds == {int}:
        return pd.Series(values, dtype="Int64")
    if kinds and kinds <= {int, float}:
        return pd.Series([float("nan") if v is None else float(v) for v in values])
    if kinds == {bool}:
        return pd.Series(values, dtype="boolean")
    return pd.Series([None if v is None else str(v) for v in values], dtype=object)


def filtered(results: Results, where: Mapping[str, str]) -> Results:
    """Keep the rows whose columns have one of the accepted values; the human side passes filters on the model.

    Raises:
        DataError: If a column is unknown or nothing is left.
    """
    from openended.harness.errors import suggest

    frame = results.frame
    for name, accepted in where.items():
        if name not in frame.columns:
            raise DataError(f"no axis {name!r} in these runs{suggest(name, [*results.axes, *FIXED])}")
        options = set(str(accepted).split("|"))
        text = frame[name].map(axis_text)
        keep = text.isin(options)
        if name in results.axes and not of_human(name):
            keep |= frame["system"] != "model"
        frame = frame[keep]
    if not (frame["system"] == "model").any():
        raise DataError(f"no value is left by {', '.join(f'{k}={v}' for k, v in where.items())}")
    return results.select(frame)


def axis_text(value: Any) -> str:  # noqa: ANN401
    """Write an axis value as a user writes it: 0.95, not 0.9500000001; nothing for a missing one."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.12g}" if math.isfinite(value) else ""
    text = str(value)
    return "" if text == "<NA>" else text  # pandas' missing whole number


def with_options(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return one metric's values with its signature's fields as columns `option.<field>`."""
    import pandas as pd

    part = frame[frame["metric"] == metric]
    fields = [parse_signature(s) for s in part["signature"]]
    names = sorted({name for f in fields for name in f} - {"metric"})
    options = pd.DataFrame({f"option.{n}": [f.get(n) for f in fields] for n in names}, index=part.index)
    return pd.concat([part, options], axis=1)


def write_frame(results: Results, folder: Path) -> list[Path]:
    """Write the tidy frame as Parquet and CSV; the same runs give the same bytes."""
    frame = results.frame.drop(columns=[INTERNAL]).reset_index(drop=True)
    paths = [folder / "results.parquet", folder / "results.csv"]
    with replacing(paths[0], "wb") as handle:
        frame.to_parquet(handle, index=False)
    for name in frame.select_dtypes("object").columns:
        frame[name] = [csv_cell(plain(v)) if isinstance(v, str) else v for v in frame[name]]
    with replacing(paths[1]) as handle:
        frame.rename(columns=csv_cell).to_csv(handle, index=False, lineterminator="\n")
    return paths
