"""What people would say, estimated from many judgments of a model and few of people.

The estimate of people on the items that they judged, plus λ times what the judge says of the other items minus what it
says of those: the judge's bias cancels, and its judgments reduce the variance as far as they follow people's. λ has the
least variance for each value (power tuning). It is used as it comes out, near 0 where the judge helps nothing: taking
the narrower of this interval and that of people alone would cover too rarely. The error of λ itself, which the
judge's difference between the two sets of items multiplies, is part of the standard error.

Sources: Angelopoulos, Duchi and Zrnic 2023, "PPI++: Efficient Prediction-Powered Inference", whose estimate of a mean
this is; Chen and Chen 2000, "A unified approach to regression analysis under double-sampling designs", for other
estimates with an influence function, as Bradley-Terry abilities.
"""

from dataclasses import dataclass

import numpy as np

from openended.harness.core import F64

LEAST_ITEMS = 20  # that people judged; with fewer, intervals of a correction or an agreement cover nearly everything


@dataclass(frozen=True, slots=True)
class ItemEstimate:
    """An estimate and its linearization: its error is about the mean of the influence of the items."""

    values: F64  # shape (k,)
    influence: F64  # shape (items, k)

    @classmethod
    def from_mean(cls, values: F64) -> "ItemEstimate":
        """Return the estimate of a mean, values of shape (items,)."""
        return cls(values.mean(keepdims=True), (values - values.mean())[:, None])


@dataclass(frozen=True, slots=True)
class CorrectedEstimate:
    """Values that people would give, with 95 % intervals; each field has the shape (k,).

    Where all judgments of people are equal, they do not tell their error, and all but `values` and `weights` is NaN.
    """

    values: F64
    std_errors: F64
    low: F64
    high: F64
    people_errors: F64  # standard errors of people alone
    weights: F64  # λ
    worth: F64  # items that people would have had to judge in addition for the same standard errors


def correct_judge(people: ItemEstimate, judge: ItemEstimate, judge_unrated: ItemEstimate | None) -> CorrectedEstimate:
    """Correct a judge by people (Angelopoulos, Duchi and Zrnic 2023).

    Args:
        people: People's estimate from the items that they judged, three or more.
        judge: The judge's estimate from the same items, in the same order.
        judge_unrated: The judge's estimate from the items without people; `None`: there are none.

    Returns:
        Values that people would give, in their unit, with standard errors and 95 % intervals.

    Raises:
        ValueError: If there are fewer than three items, or the estimates are of different items.
    """
    from scipy.special import stdtrit

    n = len(people.influence)
    if n < 3 or judge.influence.shape != people.influence.shape:
        raise ValueError(f"expected the same 3 items or more, got {people.influence.shape} and {judge.influence.shape}")
    alone = np.sqrt((people.influence**2).sum(axis=0) / (n - 1) / n)
    alone = np.where(alone > 1e-12 * np.abs(people.values), alone, np.nan)
    margin = float(stdtrit(n - 1, 0.975)) * alone
    weights, errors, values = np.zeros_like(alone), alone, people.values
    if judge_unrated is not None and (rest := len(judge_unrated.influence)) > 1:
        spread = ((judge.influence**2).sum(axis=0) + (judge_unrated.influence**2).sum(axis=0)) / (n + rest - 2)
        shared = (people.influence * judge.influence).sum(axis=0) / (n - 1)
        tuned = np.divide(shared, (1 + n / rest) * spread, out=np.zeros_like(alone), where=spread > 0)
        left = ((people.influence - tuned * judge.influence) ** 2).sum(axis=0) / (n - 2)
        apart = judge_unrated.values - judge.values
        steepness = np.divide(apart**2, n * spread, out=np.zeros_like(alone), where=spread > 0) / (1 + n / rest) ** 2
        error = np.sqrt(
            left * (1 / n + steepness) + tuned**2 * (judge_unrated.influence**2).sum(axis=0) / (rest - 1) / rest
        )
        says = (spread > 0) & np.isfinite(alone)  # a judge that says the same of all items tells nothing
        weights, errors = np.where(says, tuned, 0.0), np.where(says, error, alone)
        margin = np.where(says, float(stdtrit(n - 2, 0.975)) * error, margin)
        values = people.values + weights * apart
    return CorrectedEstimate(
        values, errors, values - margin, values + margin, alone, weights, n * ((alone / errors) ** 2 - 1)
    )
