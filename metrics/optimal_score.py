"""The optimal discriminator between two known distributions, which HUSE bounds, and their total variation distance."""

import numpy as np
from numpy.typing import ArrayLike


def optimal_score(
    *, reference: ArrayLike, model: ArrayLike, context_weights: ArrayLike | None = None, tolerance: float = 1e-6
) -> float:
    """L*: twice the error of the best discriminator between two known distributions.

    Args:
        reference: Probability of each output under the reference, shape (outputs,) or (contexts, outputs).
        model: The same under the model.
        context_weights: Probability of each context, shape (contexts,); none: all equal.
        tolerance: How far a row of probabilities may sum from 1.

    Returns:
        The mean over contexts of Σ min(p_ref, p_model), in [0, 1]; 1 if both are equal (Hashimoto et al. 2019, equation
        2 and appendix A.1). HUSE with any features is an upper bound of it.

    Raises:
        ValueError: If the shapes differ, or a row is no distribution.
    """
    rows = {"reference": reference, "model": model}
    sides = {name: np.atleast_2d(np.asarray(side, dtype=np.float64)) for name, side in rows.items()}
    shape = sides["model"].shape
    weights = np.full(shape[0], 1 / shape[0]) if context_weights is None else np.asarray(context_weights, np.float64)
    if sides["reference"].shape != shape or len(shape) != 2 or weights.shape != shape[:1]:
        shapes = {name: side.shape for name, side in sides.items()}
        raise ValueError(f"expected two arrays of one shape (contexts, outputs), got {shapes}, weights {weights.shape}")
    for name, side in {**sides, "context_weights": weights[None]}.items():
        if not ((side >= 0).all() and (np.abs(side.sum(axis=1) - 1) <= tolerance).all()):
            raise ValueError(f"{name}: expected probabilities that sum to 1 in each context")
    return float(weights @ np.minimum(sides["reference"], sides["model"]).sum(axis=1))


def total_variation(
    *, reference: ArrayLike, model: ArrayLike, context_weights: ArrayLike | None = None, tolerance: float = 1e-6
) -> float:
    """Total variation distance of two known distributions, 1 - L*, in [0, 1]; arguments as of `optimal_score`.

    Source: Hashimoto et al. 2019, Proposition 2.
    """
    return 1.0 - optimal_score(reference=reference, model=model, context_weights=context_weights, tolerance=tolerance)
