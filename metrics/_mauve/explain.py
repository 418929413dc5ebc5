"""Find the texts that contribute most to a score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Floats
from openended.metrics._embeddings.blocks import blocks
from openended.metrics._mauve.histograms import histogram

CELLS, TEXTS = 10, 3  # shown of a score, and of each side of a cell
MISSED = 20  # texts of each side that a ball or a ratio singles out


def find_distinguishing_cells(
    *, human: Floats, model: Floats, human_cells: I64, model_cells: I64, num_buckets: int
) -> Mapping[str, NDArray[Any]]:
    """Return the cells with the largest |p - q|, and the texts of each side that are nearest to their centers."""
    shares = np.stack([histogram(cells, num_buckets) for cells in (human_cells, model_cells)], axis=1)
    gaps = np.abs(shares[:, 0] - shares[:, 1])
    order = np.argsort(-gaps, kind="stable")[:CELLS]
    order = order[gaps[order] > 0]
    rows = np.full((2, len(order), TEXTS), -1, dtype=np.int64)
    for rank, cell in enumerate(order):
        members = [np.flatnonzero(cells == cell) for cells in (human_cells, model_cells)]
        units = [_normalize_rows(side[inside]) for side, inside in zip((human, model), members, strict=True)]
        center = np.vstack(units).mean(axis=0)
        for number, (inside, unit) in enumerate(zip(members, units, strict=True)):
            near = np.argsort(np.sum((unit - center) ** 2, axis=1), kind="stable")[:TEXTS]
            rows[number, rank, : len(near)] = inside[near]
    return {
        "cell": order.astype(np.int64),
        "cell_shares": shares[order],
        "cell_human_rows": rows[0],
        "cell_model_rows": rows[1],
    }


def find_distinguishing_texts(human: F64, model: F64) -> Mapping[str, NDArray[Any]]:
    """Return the texts with the most extreme estimates of log p / q."""
    human_rows, model_rows = np.argsort(-human, kind="stable")[:MISSED], np.argsort(model, kind="stable")[:MISSED]
    return {
        "ratio_human_rows": human_rows.astype(np.int64),
        "ratio_human": np.clip(human[human_rows], -700, 700),
        "ratio_model_rows": model_rows.astype(np.int64),
        "ratio_model": np.clip(model[model_rows], -700, 700),
    }


def _normalize_rows(rows: Floats) -> F64:
    return np.vstack([np.zeros((0, rows.shape[1])), *(block for _, block in blocks(rows, "l2"))])
