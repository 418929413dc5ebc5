"""Examples of what HUSE finds: quality failures, diversity failures, indistinguishable pairs (HUSE, Table 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from openended.harness.report.tables.selection import split_results
from openended.harness.report.tables.table import BLANK, Cell, Column, Table, TableRow
from openended.harness.results import ROW_FILES, Layout, Results, System, group_systems, locate_verified_file
from openended.harness.storage import RowFile

PER_KIND = 2  # examples of each kind
_LETTERS = 300  # of a text
KINDS = {
    "quality failure": "the classifier separates the two texts by their ratings alone",
    "diversity failure": "it separates them only with the model's probability",
    "indistinguishable": "it takes each of the two for the other side's",
}


def build_huse_example_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build a table of examples for every system that has HUSE."""
    systems = [s for part in split_results(results, layout, name) for s in group_systems(part.items)]
    remarks = [f"{kind}: {what}.".capitalize() for kind, what in KINDS.items()]
    remarks.append("Of each kind the clearest: the largest difference in ratings, in log-probability, or the smallest.")
    columns = (Column("huse", "log_prob", "log p a word", decimals=2), Column("huse", "rating", "rating", decimals=2))
    tables: list[Table] = []
    for system in systems:
        rows = tuple(_list_rows(results, system))
        if rows:
            stem = name if len(systems) == 1 else f"{name}-{len(tables) + 1}"
            title = f"{layout.title}: {system.name}"
            tables.append(Table(stem, title, columns, rows, tuple(remarks), head="Text", show_seeds=False))
    return tables


def _list_rows(results: Results, system: System) -> Iterator[TableRow]:
    value = system.value("huse", "huse")
    at, artefact = value.sources[0] if value is not None else (0, None)
    stored = results.arrays(at, artefact)
    arrays = {key.removeprefix("arrays/"): array for key, array in stored.items() if key.startswith("arrays/")}
    if value is None or "errors_q" not in arrays:
        return
    # Rows 0 to n − 1 are human texts, rows n to 2n − 1 the model's of the same examples.
    wrong, wrong_q = (arrays[key].reshape(2, -1).mean(axis=0) for key in ("errors", "errors_q"))
    ratings = np.nanmean(arrays["ratings"], axis=1).reshape(2, -1)
    log_probs = (arrays["log_probs"] / arrays["lengths"]).reshape(2, -1)
    gap, gap_p = ratings[0] - ratings[1], np.nan_to_num(log_probs[1] - log_probs[0], posinf=1e9)
    spread, spread_p = ratings.std(), np.std(log_probs[np.isfinite(log_probs)])
    distance = np.abs(gap) / spread + np.abs(gap_p) / spread_p
    ranks = {
        "quality failure": np.where(wrong_q == 0, -np.abs(gap), np.inf),
        "diversity failure": np.where((wrong_q > 0) & (wrong == 0), -np.abs(gap_p), np.inf),
        "indistinguishable": np.where(wrong == 1, distance, np.inf),
    }
    texts = _read_texts(results, at, stored, len(gap))
    for kind, rank in ranks.items():
        for example in np.argsort(rank, kind="stable")[:PER_KIND]:
            if np.isfinite(rank[example]):
                context, *sides = texts[int(example)]
                yield TableRow(f"{kind}: {context}", "text", (BLANK, BLANK), rule=True)
                for side, label in ((1, "model"), (0, "reference")):
                    cells = (Cell(float(log_probs[side, example])), Cell(float(ratings[side, example])))
                    yield TableRow(f"{label}: {sides[side]}", "text", cells)


def _read_texts(results: Results, at: int, stored: Any, count: int) -> list[tuple[str, str, str]]:  # noqa: ANN401
    """Return prompt, human and model text of every rated example; its number where the run has no texts."""
    run = results.runs[at]
    sides: dict[str, RowFile] = {}
    for name, artifact in run.inputs.items():
        stage = name.partition(":")[0]
        path = locate_verified_file(run.store, artifact, ROW_FILES.get(stage, ""), results.damaged)
        if path is not None:
            sides.setdefault("human" if stage == "human" else "model", RowFile(path))
    errors = stored.get("per_example/error_model")
    unknown = [(f"example {number}", "–", "–") for number in range(1, count + 1)]
    if len(sides) < 2 or errors is None:
        return unknown
    rows = (sides["human"], sides["model"])
    human, model = ({e: (p, t) for e, p, t in zip(r.ids, r.prompts, r.texts, strict=True)} for r in rows)
    rated = sorted(e for e, error in zip(model, errors, strict=False) if not np.isnan(error))
    if len(rated) != count:
        return unknown
    return [tuple(_shorten(text) for text in (*human[e], model[e][1])) for e in rated]  # type: ignore[misc]


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LETTERS else f"{line[:_LETTERS]}…"
