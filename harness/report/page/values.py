"""Numbers about single texts: what the metrics left of each, its length, its likelihood, its nearest human text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Floats, Ragged
from openended.harness.report.page.sources import HUMAN, TextSource, feature_file

MOST_PAIRS = 30_000_000  # comparisons of one source with the human side; beyond, similarity is left out
ROWS = 512  # compared at once
BEFORE = "per_example/"


@dataclass(frozen=True, slots=True)
class TextValue:
    """One number for every text of a source."""

    title: str
    direction: str
    """`higher`, `lower`, `match_human` or `none`."""
    values: F64
    """Shape (texts,); NaN where a text has none."""


def values_of(source: TextSource, nll: Ragged | None) -> dict[str, TextValue]:
    """Return name → what is known of each text of a source by itself; `nll` is what `token_nll` found."""
    n = len(source.rows)
    words = np.fromiter((len(text.split()) for text in source.rows.each("text")), dtype=np.float64)
    made = {"words": TextValue("words", "match_human", words)}
    if nll is not None:
        mean = np.divide(_sums(nll), nll.lengths, out=np.full(n, np.nan), where=nll.lengths > 0)
        made["nll"] = TextValue("surprise (nats a token)", "match_human", mean)
    return made | _of_metrics(source, n)


def _sums(rows: Ragged) -> F64:
    """Sum of each row, as differences of the running sum of all; a bounded number of values at a time."""
    sums, so_far = np.empty(len(rows)), 0.0
    for start in range(0, len(rows), ROWS):
        ends = rows.offsets[start : start + ROWS + 1]
        running = np.cumsum(np.concatenate([[so_far], rows.values[ends[0] : ends[-1]]]), dtype=np.float64)
        sums[start : start + ROWS] = np.diff(running[ends - ends[0]])
        so_far = running[-1]
    return sums


def _of_metrics(source: TextSource, n: int) -> dict[str, TextValue]:
    made: dict[str, TextValue] = {}
    for at in source.runs:
        for row in source.results.runs[at].results:
            if row.system != source.role or row.artefact is None:
                continue
            for name, array in source.results.arrays(at, row.artefact).items():
                key = name.removeprefix(BEFORE)
                told = f"{row.metric}.{key}"
                if name == key or told in made or np.shape(array) != (n,):
                    continue
                title = row.titles.get(key, key.replace("_", " "))
                direction = row.directions.get(key, row.direction)
                made[told] = TextValue(title, direction, np.asarray(array, dtype=np.float64))
    return made


def token_nll(source: TextSource) -> Ragged | None:
    """Return the negative log-likelihood of every token under the scorer, nats; None where it is not stored."""
    for at in source.runs:
        run = source.results.runs[at]
        name = f"score:{source.role} continuation"
        flat, ends = (_array(source, at, name, file) for file in ("values.npy", "offsets.npy"))
        if name in run.inputs and flat is not None and ends is not None and len(ends) == len(source.rows) + 1:
            return Ragged(flat, ends)
    return None


def nearest(source: TextSource, human: TextSource | None) -> tuple[F64, I64] | None:
    """Return the greatest cosine similarity with a human text's embedding and that text's row; None where unknown.

    A human text is compared with the others.
    """
    if human is None:
        return None
    for at in source.runs:
        mine, theirs = (_vectors(source, at, role) for role in (source.role, HUMAN))
        if mine is None or theirs is None or len(mine) != len(source.rows) or len(theirs) != len(human.rows):
            continue
        if len(mine) * len(theirs) > MOST_PAIRS or len(theirs) < 2:
            return None
        return _nearest(_unit(mine), _unit(theirs), apart=source.role == HUMAN)
    return None


def _nearest(mine: F64, theirs: F64, *, apart: bool) -> tuple[F64, I64]:
    best, where = np.empty(len(mine)), np.empty(len(mine), dtype=np.int64)
    for start in range(0, len(mine), ROWS):
        alike = mine[start : start + ROWS] @ theirs.T
        rows = np.arange(len(alike))
        if apart:
            alike[rows, start + rows] = -np.inf
        where[start : start + ROWS] = alike.argmax(axis=1)
        best[start : start + ROWS] = alike[rows, where[start : start + ROWS]]
    return best, where


def _unit(rows: Floats) -> F64:
    made = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(made, axis=1, keepdims=True)
    unit: F64 = np.divide(made, lengths, out=np.zeros_like(made), where=lengths > 0)
    return unit


def _vectors(source: TextSource, at: int, role: str) -> Floats | None:
    names = [n for n in source.results.runs[at].inputs if n.startswith(f"embed:{role} ") and " cut to " not in n]
    return _array(source, at, names[0], "embeddings.npy") if names else None


def _array(source: TextSource, at: int, name: str, file: str) -> NDArray[Any] | None:
    path = feature_file(source.results, source.results.runs[at], name, file)
    return np.load(path, mmap_mode="r", allow_pickle=False) if path is not None else None


def rounded(values: Mapping[str, TextValue]) -> dict[str, list[float | None]]:
    """Return the numbers to four digits, as JSON holds them; None where there is none."""
    return {n: [float(f"{x:.4g}") if np.isfinite(x) else None for x in v.values] for n, v in values.items()}
