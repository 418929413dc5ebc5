"""Precision-recall curve of two distributions (PRD) over the cells of a quantizer, and its F8 and F1/8.

At slope t > 0: precision = sum over cells of min(t p, q), recall = sum of min(p, q / t), with p the human and q the
model histogram, over the cells of MAUVE. F8 (the most of F-beta with beta = 8 along the curve) weighs recall, F1/8
precision; all in [0, 1], higher is better.

Source: Sajjadi et al. 2018, "Assessing generative models via precision and recall", Theorem 3 and section 4.1;
Le Bronnec et al. 2024 for text.
"""

from dataclasses import replace

import numpy as np

from openended.harness.core import F64, Features, MetricResult, check_arguments, metric, ranged
from openended.metrics._mauve.scores import HALF_ANGLES, best_f, histogram, precision_recall
from openended.metrics.families import CellCounts, Clusterings, Quantized, Values


@check_arguments
def precision_recall_curve(*, human_hist: F64, model_hist: F64, num_angles: int = 1001) -> Values:
    """Compute the precision-recall curve of two histograms over the same cells (Sajjadi et al. 2018, eq. 4 and 5).

    Args:
        human_hist: Shares or counts per cell, shape (k,), not negative, not all zero.
        model_hist: The same for the model side.
        num_angles: Number of points of the curve, at least 3.

    Returns:
        `precision` (rises) and `recall` (falls) along the angles, shape (num_angles,), in [0, 1]; `f8` and `f1_8`, the
        largest F-beta on the curve.

    Raises:
        ValueError: If a histogram holds other numbers, or the two differ in length.
    """
    p, q = _normalize_histogram(human_hist, "human_hist"), _normalize_histogram(model_hist, "model_hist")
    if len(p) != len(q):
        raise ValueError(f"expected histograms over the same cells, got {len(p)} and {len(q)}")
    precision, recall = precision_recall(p, q, num_angles)
    f8, f1_8 = (float(best_f(precision, recall, beta)) for beta in (8, 1 / 8))
    return Values(precision=precision, recall=recall, f8=f8, f1_8=f1_8)


def _normalize_histogram(hist: F64, name: str) -> F64:
    array = np.asarray(hist, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all() or (array < 0).any() or array.sum() <= 0:
        raise ValueError(
            f"{name}: expected shares or counts of shape (k,) with a positive sum, got shape {array.shape}"
        )
    shares: F64 = array / array.sum()
    return shares


@metric
class PrecisionRecallCurve(Quantized):
    """Precision-recall curve of two histograms (Sajjadi et al. 2018) over the cells of MAUVE, with F8 and F1/8."""

    name = "precision_recall_curve"
    version = 2
    titles = {"f8": "F8", "f1_8": "F1/8"}

    num_angles: int = ranged(1001, "[3, inf)", "at least 3")
    """Sajjadi et al.; Le Bronnec et al.: 999, which differs below 1e-3."""

    def evaluate(self, features: Features, prepared: Clusterings) -> MetricResult:
        """Average over the clustering seeds; the curve is that of the first."""
        result = super().evaluate(features, prepared)
        first = {name: result.arrays[name][0] for name in ("precision", "recall")}
        return replace(result, arrays={**result.arrays, **first})

    def score_cells(self, cells: CellCounts) -> tuple[dict[str, float], dict[str, F64]]:
        p, q = histogram(cells.human, cells.count), histogram(cells.model, cells.count)
        curve = precision_recall_curve(human_hist=p, model_hist=q, num_angles=self.num_angles)
        return {"f8": curve.f8, "f1_8": curve.f1_8}, {"precision": curve.precision, "recall": curve.recall}

    def score_histograms(self, p: F64, q: F64, sizes: tuple[int, int], parts: tuple[F64, F64]) -> dict[str, F64]:
        precision, recall = precision_recall(p, q, HALF_ANGLES)
        return {"f8": best_f(precision, recall, 8), "f1_8": best_f(precision, recall, 1 / 8)}
