"""Standard errors of Bradley-Terry scores where one item has several judgments."""

from __future__ import annotations

import numpy as np

from openended.harness.core import F64
from openended.metrics.judgments.comparisons import Wins


def estimate_std_errors(scores: F64, covariance: F64, wins: Wins) -> tuple[F64, str]:
    """Return the standard errors of the scores and how they were estimated; clustered where items have several rows."""
    if not wins.is_repeated:
        return np.sqrt(np.diag(covariance)), "observed information"
    return _cluster_std_errors(scores, covariance, wins), f"clustered by item, {wins.items:,} items"


def _cluster_std_errors(scores: F64, covariance: F64, wins: Wins) -> F64:
    """Compute standard errors that allow for correlated judgments of one item, shape (players,).

    The sandwich estimator: C (sum over items of g gᵀ) C · m / (m - 1), with C the covariance under independence, g the
    gradient of the log-likelihood of an item's comparisons and m the number of items.

    Source: Liang & Zeger 1986, "Longitudinal data analysis using generalized linear models".
    """
    from scipy.special import expit

    residuals = wins.weights * expit(scores[wins.losers] - scores[wins.winners])
    gradients = np.zeros((wins.items, len(scores)))
    np.add.at(gradients, (wins.item_of, wins.winners), residuals)
    np.add.at(gradients, (wins.item_of, wins.losers), -residuals)
    moved = gradients @ covariance
    errors: F64 = np.sqrt((moved**2).sum(axis=0) * wins.items / (wins.items - 1))
    return errors
