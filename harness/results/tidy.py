"""The tidy frame's rows: one a value; nothing twice, nothing merged that differs in any axis but the seed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openended.harness.core import parse_signature
from openended.harness.results.axes import of_human
from openended.harness.storage import ResultRow

if TYPE_CHECKING:
    import pandas as pd

    from openended.harness.results.runs import Run

FIXED = tuple(
    "run experiment system model_title decoder_title setting metric key title value sd low high primary status reason "
    "n_human n_model signature family direction target resampling artefact".split()
)
"""Columns of the frame that are not axes, in the order of the exported files."""
INTERNAL = "at"  # index into `Results.runs`; not exported

Key = tuple[str, ...]


def canonical_axes(axes: Mapping[str, Any]) -> str:
    """Return axes as one text, the same whatever their order."""
    return json.dumps({k: v for k, v in axes.items() if v is not None}, sort_keys=True, default=str)


def rows_of(runs: Sequence[Run]) -> tuple[list[dict[str, Any]], int]:
    """Return one row a value, and how many older values were passed over.

    Of runs with the same axes and signature the newest counts. Human sides count once: of one human side with one
    signature the newest values, shown as those of the first run that has them, in the order of their axes; which job of
    a grid ended first must not move a row.
    """
    old = _superseded(runs)
    sides: dict[Key, list[tuple[int, ResultRow]]] = {}
    rows: list[dict[str, Any]] = []
    for at, run in enumerate(runs):
        for result in run.results:
            if (at, result.metric) in old:  # its human side does not count either
                continue
            if result.system == "model":
                rows += _result_rows(run, at, result)
            else:
                sides.setdefault(_side_key(run, result), []).append((at, result))
    count = len(old)
    for shared in sides.values():
        newest = max(shared, key=lambda one: (runs[one[0]].created, runs[one[0]].folder.name))
        first = next(one for one in shared if _told(one[1]) == _told(newest[1]))
        rows += _result_rows(runs[first[0]], *first)
        count += sum(_told(one[1]) != _told(newest[1]) for one in shared)
    return rows, count


def _told(result: ResultRow) -> str:
    """The values as text, in which NaN equals NaN."""
    return json.dumps(dict(result.values), sort_keys=True)


def _side_key(run: Run, result: ResultRow) -> Key:
    human = canonical_axes({k: v for k, v in run.axes.items() if of_human(k)})
    return human, result.system, result.metric, result.signature


def _superseded(runs: Sequence[Run]) -> set[tuple[int, str]]:
    """Return (index of a run, metric) where a newer run of the same axes and signature has the value."""
    seen: set[Key] = set()
    old: set[tuple[int, str]] = set()
    for at in sorted(range(len(runs)), key=lambda i: (runs[i].created, runs[i].folder.name), reverse=True):
        own = canonical_axes(runs[at].axes)
        for result in (r for r in runs[at].results if r.system == "model"):
            key = (own, result.metric, result.signature)
            if key in seen:
                old.add((at, key[1]))
            seen.add(key)
    return old


def _result_rows(run: Run, at: int, result: ResultRow) -> Iterator[dict[str, Any]]:
    system, primary = result.system, result.primary
    axes = run.axes if system == "model" else {k: v for k, v in run.axes.items() if of_human(k)}
    setting = canonical_axes({k: v for k, v in axes.items() if k != "seed"})
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
    who = parse_signature(result.signature).get("raters")  # a judge, or nobody: no column hides it
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
    """Return rows as a frame; columns `FIXED`, the axes, `INTERNAL`."""
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
