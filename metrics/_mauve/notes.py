"""What the reader of a MAUVE score must know of its sample and its estimator."""

from __future__ import annotations

_FEW_TEXTS = 1000  # below this the paper's own study of n finds scores far from their limit


def sample_notes(n_human: int, n_model: int, buckets: int) -> list[str]:
    """Say where a score of cells is less sure than it looks."""
    n, notes = min(n_human, n_model), []
    if n < _FEW_TEXTS or n / buckets < 10:
        notes.append(
            f"small sample: n={n}, k={buckets}, n/k={n / buckets:.3g}; "
            "two samples of the same text score below 1 here, compare with the human ceiling"
        )
    if n_human != n_model:
        notes.append(f"the sides differ in size (human {n_human}, model {n_model}); k follows the smaller")
    return notes


def ratio_notes(estimator: str, clipped: float, ceiling: float, *, counts_own: bool) -> list[str]:
    """Say how far an estimate of density ratios can be believed."""
    notes = []
    if clipped:
        notes.append(
            f"clipped: {'most' if clipped >= 0.5 else 'some'} means of {estimator} fell outside their range; "
            "the sides look alike to it, or it cannot see how they differ; read js beside the area"
        )
    if estimator == "knn" and counts_own:
        notes.append(f"knn counts each text among its neighbors: identical sides have a mid-point of {ceiling:.3f}")
    if estimator == "knn" and not counts_own:
        notes.append("knn leaves each text out of its neighbors and adds half a count: small differences are lost")
    return notes
