"""Permutation tests of two sets of texts: random relabelings of which side a text stands on.

If both sides have one text for each of the same prompts, the two texts of a prompt are exchanged with probability 1/2;
if no prompt occurs twice, sides of the same sizes are drawn at random. Otherwise texts are not exchangeable one by one.

Source: Good 2005, "Permutation, parametric and bootstrap tests of hypotheses"; the added one: Phipson and Smyth 2010.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from openended.harness.core.resampling import Ids
from openended.harness.core.rng import make_random_stream
from openended.harness.core.types import F64


def relabel_rows(human: Ids, model: Ids, count: int) -> NDArray[np.bool_] | None:
    """Return whether each row stands on the human side in each relabeling.

    Args:
        human: The prompt of each human row, sorted.
        model: The prompt of each model row, sorted.
        count: Number of relabelings.

    Returns:
        Shape (count, n_human + n_model); None where texts are not exchangeable one by one.
    """
    first, second = (np.asarray(ids, dtype=np.str_) for ids in (human, model))
    stream = make_random_stream(0, "permutation")
    if len(np.unique(first)) == len(first) and np.array_equal(first, second):
        stays = stream.random((count, len(first))) < 0.5
        return np.concatenate([stays, ~stays], axis=1)
    both = np.concatenate([first, second])
    if len(np.unique(both)) < len(both):
        return None
    order = stream.random((count, len(both))).argsort(axis=1).argsort(axis=1)
    return np.asarray(order < len(first), dtype=np.bool_)


def permutation_p_value(value: float, permuted: F64) -> float:
    """Return the share of relabelings with a value at least as large, the observed one included.

    >>> permutation_p_value(2.0, np.array([0.0, 1.0, 3.0]))
    0.5
    """
    return float((1 + np.count_nonzero(permuted >= value - 1e-12 * abs(value))) / (1 + len(permuted)))
