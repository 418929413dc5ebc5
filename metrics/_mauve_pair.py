"""MAUVE of several systems over the same projection, clusterings and subsamples: what a difference is judged by.

Two systems that are clustered together and measured on the same prompts share most of what makes a score uncertain; it
leaves their difference. So the spread of the difference is far below what two separate intervals suggest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.rng import stream
from openended.harness.types import F64, I64, Floats
from openended.metrics._embeddings import check_side, check_sides
from openended.metrics._histograms import Curve, curve_area, divergence_curve, histogram
from openended.metrics._quantizers import Buckets, QuantizerName, fit_quantizer
from openended.metrics._smoothing import Smoothing, smoothed


def shared_mauve(
    *,
    human: Floats,
    systems: Sequence[Floats],
    subsamples: Sequence[Sequence[I64]],
    seeds: Sequence[int],
    quantizer: QuantizerName = "kmeans",
    num_buckets: Buckets = "auto",
    explained_variance: float = 0.9,
    scaling_factor: float = 5.0,
    curve: Curve = "uniform",
    curve_points: int = 25,
    restarts: int = 5,
    max_iter: int = 500,
    smoothing: Smoothing = "none",
) -> F64:
    """Compute MAUVE of each system on each subsample, with one clustering a seed for all of them.

    Args:
        human: Embeddings, shape (n_human, d).
        systems: Those of each system, shape (n_i, d).
        subsamples: For each, which rows of the human side and then of every system; see `shared_subsamples`.
        seeds: Of the clusterings.
        quantizer: As the other options, of `openended.metrics.mauve.mauve`.
        num_buckets: Of it.
        explained_variance: Of it.
        scaling_factor: Of it.
        curve: Of it.
        curve_points: Of it.
        restarts: Of it.
        max_iter: Of it.
        smoothing: Of it.

    Returns:
        Scores, shape (seeds, subsamples, systems). A difference of two systems is taken within a seed and a subsample.

    Raises:
        ValueError: If shapes do not fit or an option is out of range.
        UndefinedMetric: If a side has fewer than two texts.
    """
    for number, side in enumerate(systems):
        check_sides(human=human, model=check_side(side, f"system {number}"))
    cluster, buckets = fit_quantizer(
        [*systems, human],
        quantizer=quantizer,
        num_buckets=num_buckets,
        explained_variance=explained_variance,
        restarts=restarts,
        max_iter=max_iter,
    )
    out = np.empty((len(seeds), len(subsamples), len(systems)))
    for i, seed in enumerate(seeds):
        *theirs, ours = cluster(seed)([*systems, human])
        for j, (rows, *others) in enumerate(subsamples):
            p = smoothed(histogram(ours[rows], buckets), len(rows), smoothing)
            for number, (cells, own) in enumerate(zip(theirs, others, strict=True)):
                q = smoothed(histogram(cells[own], buckets), len(own), smoothing)
                path = divergence_curve(p, q, scaling_factor=scaling_factor, points=curve_points, curve=curve)
                out[i, j, number] = curve_area(path)
    return out


def shared_subsamples(ids: Sequence[NDArray[Any]], *, share: float, rounds: int, seed: int) -> list[list[I64]]:
    """Draw prompts without replacement, the same for all sides, and return the rows of each side that are theirs.

    Args:
        ids: The prompt of each row of the human side and of every system; a prompt may have several rows.
        share: Of the prompts that a subsample has, in (0, 1].
        rounds: Number of subsamples.
        seed: Of the draws.
    """
    if not (0 < share <= 1 and rounds >= 1):
        raise ValueError(f"expected 0 < share <= 1 and rounds >= 1, got {share}, {rounds}")
    names, place = np.unique(np.concatenate([np.asarray(side) for side in ids]), return_inverse=True)
    parts = np.split(place, np.cumsum([len(side) for side in ids])[:-1])
    drawn = []
    for number in range(rounds):
        kept = np.zeros(len(names), dtype=bool)
        kept[stream(seed, "mauve subsamples", number).permutation(len(names))[: max(1, round(share * len(names)))]] = (
            True
        )
        drawn.append([np.flatnonzero(kept[part]) for part in parts])
    return drawn
