"""Likelihood of the Bradley-Terry model: its value, its derivatives, and the scores that maximize it."""

from __future__ import annotations

from typing import Any

import numpy as np

from openended.harness.core import F64, UndefinedMetric

_GRADIENT = 1e-9  # largest gradient component per comparison that counts as converged


def compute_loss(scores: F64, matrix: F64) -> float:
    """Return the negative log-likelihood, nats."""
    return float(np.sum(matrix * np.logaddexp(0.0, scores[None, :] - scores[:, None])))


def _compute_gradient(scores: F64, matrix: F64) -> F64:
    """Return expected minus observed wins of each player."""
    games = matrix + matrix.T
    expected = games * _compute_win_probabilities(scores)
    out: F64 = (expected - matrix).sum(axis=1)
    return out


def _compute_win_probabilities(scores: F64) -> F64:
    """Return P(i beats j), without overflow at any score."""
    out: F64 = np.exp(-np.logaddexp(0.0, scores[None, :] - scores[:, None]))
    return out


def compute_information(matrix: F64, scores: F64) -> F64:
    """Return the observed information: a graph Laplacian with weights games × p × (1 − p)."""
    p = _compute_win_probabilities(scores)
    weights = (matrix + matrix.T) * p * p.T
    out: F64 = np.diag(weights.sum(axis=1)) - weights
    return out


def invert_centered(information: F64) -> F64:
    """Return the pseudo-inverse on the space of mean-0 scores, where the information is not singular.

    Its null vector is all ones: a multiple of the matrix of ones makes it invertible and is taken out again, which no
    choice of a tolerance for small eigenvalues can get wrong.
    """
    n = len(information)
    ones = np.full((n, n), 1.0 / n)
    weight = float(np.trace(information)) / n
    out: F64 = np.asarray(np.linalg.inv(information + weight * ones) - ones / weight, dtype=np.float64)
    return out


def maximize_likelihood(matrix: F64) -> F64:
    """Maximize the likelihood with the last player held at 0, then center."""
    from scipy.optimize import minimize

    games = float(matrix.sum())

    def loss(free: F64) -> float:
        return compute_loss(_append_zero(free), matrix) / games

    def gradient(free: F64) -> F64:
        out: F64 = _compute_gradient(_append_zero(free), matrix)[:-1] / games
        return out

    def hessian(free: F64) -> F64:
        out: F64 = compute_information(matrix, _append_zero(free))[:-1, :-1] / games
        return out

    start = np.zeros(len(matrix) - 1)
    options: Any = {"gtol": 1e-7, "maxiter": 1000}
    solution = minimize(loss, start, jac=gradient, hess=hessian, method="trust-exact", options=options)
    free: F64 = np.asarray(solution.x, dtype=np.float64)
    # The loss is flat to rounding near its minimum, where the optimizer compares losses; Newton steps need none.
    for _ in range(20):
        step = np.asarray(np.linalg.solve(hessian(free), gradient(free)), dtype=np.float64)
        free = free - step
        if float(np.abs(step).max()) < 1e-12:
            break
    steepest = float(np.abs(gradient(free)).max())
    if not steepest <= _GRADIENT:
        raise UndefinedMetric(
            f"the likelihood did not converge: gradient {steepest:.1e} a comparison ({solution.message})"
        )
    scores = _append_zero(free)
    return scores - float(scores.mean())


def _append_zero(free: F64) -> F64:
    """Append the score 0 of the last player."""
    return np.concatenate([free, np.zeros(1)])
