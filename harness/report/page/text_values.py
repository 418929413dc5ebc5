"""Values of single texts: per-text metrics, length, likelihood, nearest human text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Floats, Ragged
from openended.harness.report.page.sources import HUMAN, TextSource
from openended.harness.results import locate_verified_file

MOST_PAIRS = 30_000_000  # comparisons of one source with the human side; beyond, similarity is left out
ROWS = 512  # compared at once
BEFORE = "per_example/"


class TextValue(NamedTuple):
    """One number for every text of a source."""

    title: str
    direction: str
    """`higher`, `lower`, `match_human` or `none`."""
    values: F64
    """Shape (texts,); NaN where a text has none."""


def compute_text_values(source: TextSource, nll: Ragged | None) -> dict[str, TextValue]:
    """Return name → value of each text of a source; `nll` is the result of `read_token_nll`."""
    n = len(source.rows)
    words = np.fromiter((len(text.split()) for text in source.rows.each("text")), dtype=np.float64)
    values = {"words": TextValue("words", "match_human", words)}
    if nll is not None:
        mean = np.divide(_sum_rows(nll), nll.lengths, out=np.full(n, np.nan), where=nll.lengths > 0)
        values["nll"] = TextValue("surprise (nats a token)", "match_human", mean)
    for at in source.runs:
        for row in source.results.runs[at].results:
            if row.system != source.role or row.artifact is None:
                continue
            for name, array in source.results.arrays(at, row.artifact).items():
                key = name.removeprefix(BEFORE)
                full_name = f"{row.metric}.{key}"
                if name != key and full_name not in values and np.shape(array) == (n,):
                    title = row.titles.get(key, key.replace("_", " "))
                    direction = row.directions.get(key, row.direction)
                    values[full_name] = TextValue(title, direction, np.asarray(array, dtype=np.float64))
    return values


def _sum_rows(rows: Ragged) -> F64:
    """Sum each row, as differences of the running sum of all rows; a bounded number of values at a time."""
    sums, so_far = np.empty(len(rows)), 0.0
    for start in range(0, len(rows), ROWS):
        ends = rows.offsets[start : start + ROWS + 1]
        running = np.cumsum(np.concatenate([[so_far], rows.values[ends[0] : ends[-1]]]), dtype=np.float64)
        sums[start : start + ROWS] = np.diff(running[ends - ends[0]])
        so_far = running[-1]
    return sums


def read_token_nll(source: TextSource) -> Ragged | None:
    """Return the negative log-likelihood of every token under the scorer, nats; None where it is not stored."""
    for at in source.runs:
        name = f"score:{source.role} continuation"
        flat, ends = (_load_array(source, at, name, file) for file in ("values.npy", "offsets.npy"))
        if flat is not None and ends is not None and len(ends) == len(source.rows) + 1:
            return Ragged(flat, ends)
    return None


def find_nearest_human_texts(source: TextSource, human: TextSource) -> tuple[F64, I64] | None:
    """Return the greatest cosine similarity with a human text's embedding and that text's row; None where unknown.

    A human text is compared with the others.
    """
    for at in source.runs:
        vectors, human_vectors = (_load_embeddings(source, at, role) for role in (source.role, HUMAN))
        if vectors is None or human_vectors is None:
            continue
        if (len(vectors), len(human_vectors)) != (len(source.rows), len(human.rows)):
            continue
        if len(vectors) * len(human_vectors) > MOST_PAIRS or len(human_vectors) < 2:
            return None
        return _find_nearest(vectors, human_vectors, exclude_self=source.role == HUMAN)
    return None


def _find_nearest(vectors: F64, human_vectors: F64, *, exclude_self: bool) -> tuple[F64, I64]:
    best, where = np.empty(len(vectors)), np.empty(len(vectors), dtype=np.int64)
    for start in range(0, len(vectors), ROWS):
        similarities = vectors[start : start + ROWS] @ human_vectors.T
        rows = np.arange(len(similarities))
        if exclude_self:
            similarities[rows, start + rows] = -np.inf
        where[start : start + ROWS] = similarities.argmax(axis=1)
        best[start : start + ROWS] = similarities[rows, where[start : start + ROWS]]
    return best, where


def _load_embeddings(source: TextSource, at: int, role: str) -> F64 | None:
    """Return the embeddings of a side, scaled to unit length."""
    names = [n for n in source.results.runs[at].inputs if n.startswith(f"embed:{role} ") and " cut to " not in n]
    rows: Floats | None = _load_array(source, at, names[0], "embeddings.npy") if names else None
    if rows is None:
        return None
    values = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    unit: F64 = np.divide(values, lengths, out=np.zeros_like(values), where=lengths > 0)
    return unit


def _load_array(source: TextSource, at: int, name: str, file: str) -> NDArray[Any] | None:
    """Return a file of the artifact that a run lists as `name` (`score:model continuation`); None if it is missing."""
    run = source.results.runs[at]
    path = locate_verified_file(run.store, run.inputs.get(name), file, source.results.damaged)
    return np.load(path, mmap_mode="r", allow_pickle=False) if path is not None else None


def round_values(values: Mapping[str, TextValue]) -> dict[str, list[float | None]]:
    """Round values to four significant digits for JSON; NaN becomes None."""
    return {n: [float(f"{x:.4g}") if np.isfinite(x) else None for x in v.values] for n, v in values.items()}
