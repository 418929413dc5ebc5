"""Holm's correction of p-values for multiple tests.

Source: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

K = TypeVar("K")


def correct_by_holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Correct the p-values of tests by Holm's method; non-finite ones are skipped.

    >>> correct_by_holm({"a": 0.01, "b": math.nan, "c": 0.04})
    {'a': 0.02, 'c': 0.04}
    """
    finite = {test: p for test, p in p_values.items() if math.isfinite(p)}
    return dict(zip(finite, holm(list(finite.values())), strict=True))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values by Holm's step-down method, which controls the family-wise error rate.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    out, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        out[i] = highest
    return out
