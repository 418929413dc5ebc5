"""Shares of cells from counts: what is added for cells that a finite sample missed.

With n texts over k cells and c_a of them in cell a, the share of a is proportional to

| rule | share |
| --- | --- |
| `none` | c_a |
| `kt` | c_a + 1/2 (Krichevsky and Trofimov) |
| `laplace` | c_a + 1 |
| `braess_sauer` | c_a + 1/2 where c_a = 0, c_a + 1 where c_a = 1, c_a + 3/4 elsewhere |
| `good_turing` | c_a / n where c_a > φ(c_a + 1), else (φ(c_a + 1) + 1)(c_a + 1) / (n φ(c_a)); φ(t): cells of t texts |

All but `none` leave no cell at 0; all tend to the shares of the sample as n grows.

Source: Krichevsky and Trofimov 1981, "The performance of universal encoding"; Braess and Sauer 2004, "Bernstein
polynomials and learning theory"; Orlitsky and Suresh 2015, "Competitive distribution estimation: why is Good-Turing
good", section 1.3; Liu et al. 2021 for their use in divergence frontiers.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from openended.harness.core import F64

Smoothing = Literal["none", "kt", "laplace", "braess_sauer", "good_turing"]


def smooth(hist: F64, n: float, rule: Smoothing = "kt") -> F64:
    """Return smoothed shares, of the shape of `hist`, that sum to 1."""
    if rule == "none":
        return hist
    if rule == "kt":
        shares: F64 = (hist * n + 0.5) / (n + 0.5 * hist.shape[-1])
        return shares
    counts = np.rint(hist * n)
    if rule == "laplace":
        weights = counts + 1
    elif rule == "braess_sauer":
        weights = counts + np.select([counts == 0, counts == 1], [0.5, 1.0], 0.75)
    else:
        weights = _compute_good_turing(counts.astype(np.int64))
    normalized: F64 = weights / weights.sum()
    return normalized


def _compute_good_turing(counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> F64:
    """Return Good-Turing weights, which do not sum to 1 yet."""
    cells = np.bincount(counts, minlength=int(counts.max()) + 2)  # φ
    here, above = cells[counts], cells[counts + 1]
    weights: F64 = np.where(counts > above, counts, (above + 1) * (counts + 1) / here) / counts.sum()
    return weights
