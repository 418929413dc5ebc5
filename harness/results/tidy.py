"""Build the rows of the tidy frame: one row per value, without duplicates."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openended.harness.core import parse_signature
from openended.harness.results.axes import describes_human_side
from openended.harness.storage import ResultRow

if TYPE_CHECKING:
    import pandas as pd

    from openended.harness.results.runs import Run

FIXED = tuple(
    "run experiment system model_title decoder_title setting metric key title value sd low high primary status reason "
    "n_human n_model signature family direction target resampling artefact".split()
)
"""Columns of the frame that are not axes, in the order of the exported files."""
INTERNAL = "at"  # column with the index into `Results.runs`; not exported

Key = tuple[str, ...]


def serialize_axes(axes: Mapping[str, Any]) -> str:
    """Serialize axes to a text that does not depend on their order."""
    return json.dumps({k: v for k, v in axes.items() if v is not None}, sort_keys=True, default=str)


def rows_of(runs: Sequence[Run]) -> tuple[list[dict[str, Any]], int]:
    """Return one row per value, and the number of older values that were skipped.

    Among runs with the same axes and signature, the newest counts. Human values appear once per human side and
    signature: the newest values, attributed to the first run (by axes) that has them, so that the order in which the
    jobs of a grid finish does not matter.
    """
    old = _find_superseded(runs)
    sides: dict[Key, list[tuple[int, ResultRow]]] = {}
    rows: list[dict[str, Any]] = []
    for at, run in enumerate(runs):
        for result in run.results:
            if (at, result.metric) in old:  # skips its human values too
                continue
            if result.system == "model":
                rows += _iterate_rows(run, at, result)
            else:
                sides.setdefault(_make_side_key(run, result), []).append((at, result))
    count = len(old)
    for shared in sides.values():
        newest = max(shared, key=lambda entry: (runs[entry[0]].created, runs[entry[0]].folder.name))
        first = next(entry for entry in shared if _serialize_values(entry[1]) == _serialize_values(newest[1]))
        rows += _iterate_rows(runs[first[0]], *first)
        count += sum(_serialize_values(entry[1]) != _serialize_values(newest[1]) for entry in shared)
    return rows, count


def _serialize_values(result: ResultRow) -> str:
    """Serialize the values so that NaN equals NaN."""
    return json.dumps(dict(result.values), sort_keys=True)


def _make_side_key(run: Run, result: ResultRow) -> Key:
    human = serialize_axes({k: v for k, v in run.axes.items() if describes_human_side(k)})
    return human, result.system, result.metric, result.signature


def _find_superseded(runs: Sequence[Run]) -> set[tuple[int, str]]:
    """Return (index of a run, metric) for values that a newer run with the same axes and signature replaces."""
    seen: set[Key] = set()
    old: set[tuple[int, str]] = set()
    for at in sorted(range(len(runs)), key=lambda i: (runs[i].created, runs[i].folder.name), reverse=True):
        axes = serialize_axes(runs[at].axes)
        for result in (r for r in runs[at].results if r.system == "model"):
            key = (axes, result.metric, result.signature)
            if key in seen:
                old.add((at, key[1]))
            seen.add(key)
    return old


def _iterate_rows(run: Run, at: int, result: ResultRow) -> Iterator[dict[str, Any]]:
    system, primary = result.system, result.primary
    axes = run.axes if system == "model" else {k: v for k, v in run.axes.items() if describes_human_side(k)}
    setting = serialize_axes({k: v for k, v in axes.items() if k != "seed"})
    shared = {
        INTERNAL: at,
        "run": run.name,
        "experiment": run.experiment,
        "system": system,
        "model_title": run.titles["model"] or str(axes.get("model") or ""),
        "decoder_title": run.titles["decoder"] or str(axes.get("decoder") or ""),
        "setting": hashlib.sha256(setting.encode()).hexdigest()[:12],
        "metric": result.metric,
        "status": result.status,
        "reason": "; ".join(result.notes),
        "n_human": result.n_human,
        "n_model": result.n_model,
        "signature": result.signature,
        "family": result.family,
        "resampling": result.resampling,
        "artefact": result.artefact,
        **axes,
    }
    if system != "model":
        shared |= {"model_title": "", "decoder_title": ""}
    who = parse_signature(result.signature).get("raters")  # shown in every column title: LLM judge or simulated raters
    raters = f" ({who})" if who else ""
    for key, value in (result.values or {primary: math.nan}).items():
        yield shared | {
            "key": key,
            "title": (result.titles.get(key) or key) + raters,
            "value": value,
            "sd": result.sd.get(key, math.nan),
            "low": result.intervals.get(key, {}).get("low", math.nan),
            "high": result.intervals.get(key, {}).get("high", math.nan),
            "primary": key == primary,
            "direction": result.directions.get(key) or result.direction,
            "target": result.targets.get(key, math.nan),
        }


def to_frame(rows: Sequence[Mapping[str, Any]], axes: Sequence[str]) -> pd.DataFrame:
    """Convert rows to a frame with columns `FIXED`, the axes and `INTERNAL`."""
    import pandas as pd

    names = (*FIXED, *axes, INTERNAL)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pd.DataFrame({name: _build_series(pd, values) for name, values in columns.items()})


def _build_series(pd: Any, values: Sequence[Any]) -> Any:  # noqa: ANN401
    """Build a column of one type; integers stay integers despite missing values, mixed types become text."""
    kinds = {type(v) for v in values if v is not None}
    if kinds == {int}:
        return pd.Series(values, dtype="Int64")
    if kinds and kinds <= {int, float}:
        return pd.Series([float("nan") if v is None else float(v) for v in values])
    if kinds == {bool}:
        return pd.Series(values, dtype="boolean")
    return pd.Series([None if v is None else str(v) for v in values], dtype=object)
