"""Write the ids of the texts behind a low score to `explain.jsonl` in the run folder.

A line is a cell that one side fills more than the other (`kind: cell`, with both shares and the texts nearest to its
center), the texts that no ball of k-NN precision and recall holds (`kind: missed`, all counted, the first of them
named), or those that an estimate of density ratios holds for the least likely on the other side (`kind: ratio`, nats).
A text is named `id#sample`; its content is in the run's rows, not here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.core import Json, write_text
from openended.harness.run.artifact_files import load_result_arrays
from openended.harness.run.artifacts import TextRows
from openended.harness.run.pipeline.measure import SystemResult
from openended.harness.storage import EXPLAIN, RowFile

_NAMED = 20  # texts of a line

Names = Mapping[str, Sequence[str]]
Arrays = Mapping[str, np.ndarray[Any, Any]]


def write_explanations(
    folder: Path, store: Path, measured: Sequence[SystemResult], human: TextRows, model: TextRows
) -> None:
    """Write the explanations of the metrics of the system under test; nothing if there are none."""
    lines: list[Mapping[str, Json]] = []
    names: Names = {}
    for result in measured:
        if result.system != "model" or result.artefact is None:
            continue
        arrays = load_result_arrays(store / result.artefact)
        if not any(name.endswith("_rows") for name in arrays):
            continue
        names = names or {"human": _name_rows(human), "model": _name_rows(model)}
        head = {"metric": result.result.metric, "signature": result.result.signature}
        lines += [{**head, **line} for line in _iterate_lines(arrays, names)]
    if lines:
        write_text(folder / EXPLAIN, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def _name_rows(source: TextRows) -> list[str]:
    """Return `id#sample` of each row, in the order that two-sample metrics read them."""
    rows = RowFile(source.path)
    return [f"{example}#{sample}" for example, sample in sorted(zip(rows.ids, rows.samples, strict=True))]


def _iterate_lines(arrays: Arrays, names: Names) -> Iterator[Mapping[str, Json]]:
    if "cell" in arrays:
        for index, cell in enumerate(arrays["cell"]):
            shares = arrays["cell_shares"][index]
            yield {
                "kind": "cell", "cell": int(cell), "human_share": float(shares[0]), "model_share": float(shares[1]),
                **{side: _list_texts(arrays[f"cell_{side}_rows"][index], names[side]) for side in ("human", "model")},
            }  # fmt: skip
    for side in ("human", "model"):
        if (rows := arrays.get(f"missed_{side}_rows")) is not None:
            yield {"kind": "missed", "side": side, "count": len(rows), "texts": _list_texts(rows, names[side])}
        if (rows := arrays.get(f"ratio_{side}_rows")) is not None:
            scores: list[Json] = [round(float(v), 4) for v in arrays[f"ratio_{side}"][:_NAMED]]
            yield {"kind": "ratio", "side": side, "texts": _list_texts(rows, names[side]), "log_ratio": scores}


def _list_texts(rows: np.ndarray[Any, Any], names: Sequence[str]) -> list[Json]:
    return [names[row] for row in rows[:_NAMED] if row >= 0]
