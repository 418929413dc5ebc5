"""Time HUSE, Bradley-Terry and rank correlations."""

from __future__ import annotations

from typing import Any

import numpy as np

from scripts.benchmarks._work import Benchmark, format_max_gap

TEXTS = 20_000
SHARE = 0.02  # of the texts that the quadratic loop classifies


def sample_ratings() -> dict[str, Any]:
    """Sample ratings of human and model texts; they are means of 20, so many distances tie."""
    rng = np.random.default_rng(0)
    is_model = np.arange(TEXTS) % 2 == 1
    ratings = rng.integers(1, 7, (TEXTS, 20)).mean(axis=1) - 0.2 * is_model
    logp = rng.normal(-80, 20, TEXTS) + 10 * is_model
    return {"judgments": ratings, "log_probs": logp, "lengths": rng.integers(20, 40, TEXTS), "is_model": is_model}


def harness_huse(data: dict[str, Any]) -> dict[str, Any]:
    """Score all texts; return the errors on the texts that the loop covers."""
    from openended.metrics.huse import huse

    scores = huse(**data)
    some = int(SHARE * TEXTS)
    return {"wrong": int(scores.errors[:some].sum()), "wrong_q": int(scores.errors_q[:some].sum()), "huse": scores.huse}


def loop_huse(data: dict[str, Any]) -> dict[str, Any]:
    """Sort the distances from each text to all others, one text at a time, as the released code does."""
    rating = data["judgments"] / data["judgments"].std()
    logp = data["log_probs"] / data["lengths"]
    logp = logp / logp.std()
    labels, some = data["is_model"], int(SHARE * TEXTS)
    wrong = {}
    for name, points in (("wrong", np.column_stack([rating, logp])), ("wrong_q", rating[:, None])):
        wrong[name] = 0
        for i in range(some):
            distances = np.sqrt(((points - points[i]) ** 2).sum(axis=1))
            distances[i] = np.inf
            near = labels[distances <= np.sort(distances)[15] + 1e-9]
            wrong[name] += int((2 * near.sum() > len(near)) != labels[i])
    return wrong


def sample_wins() -> np.ndarray:
    """Sample wins of 50 players of known abilities, 100 comparisons per pair."""
    import scipy.optimize  # noqa: F401 - not timed

    rng = np.random.default_rng(1)
    scores = rng.normal(size=50)
    won = np.triu(rng.binomial(100, 1 / (1 + np.exp(scores[None, :] - scores[:, None]))), 1).astype(float)
    return won + np.triu(100 - won, 1).T


def harness_bradley_terry(data: np.ndarray) -> dict[str, float]:
    """Fit by Newton steps, with standard errors."""
    from openended.metrics.bradley_terry import bradley_terry

    return {str(i): float(s) for i, s in enumerate(bradley_terry(data).scores)}


def iterate_bradley_terry(data: np.ndarray) -> dict[str, float]:
    """Run Zermelo's iteration in NumPy until it changes by less than 1e-10."""
    strength, games = np.ones(len(data)), data + data.T
    for _ in range(100_000):
        new = data.sum(axis=1) / (games / (strength[:, None] + strength[None, :])).sum(axis=1)
        new /= np.exp(np.log(new).mean())
        moved = np.abs(np.log(new / strength)).max()
        strength = new
        if moved < 1e-10:
            break
    return {str(i): float(s) for i, s in enumerate(np.log(strength))}


def sample_scores() -> tuple[np.ndarray, np.ndarray]:
    """Sample two scores of seven systems, which have 5,040 orders."""
    import scipy.stats  # noqa: F401 - not timed

    rng = np.random.default_rng(2)
    x = rng.normal(size=7)
    return x, x + rng.normal(size=7)


def harness_correlation(data: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    """Compute the exact p-value without an interval."""
    from openended.metrics.correlation import correlate

    correlation = correlate(*data, draws=0)
    return {"value": correlation.value, "p": correlation.p_value}


def scipy_correlation(data: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    """Test with SciPy's `permutation_test` of `spearmanr`, all orders."""
    from scipy.stats import permutation_test, spearmanr

    x, y = data
    correlation = permutation_test(
        (x,), lambda a: spearmanr(a, y).statistic, permutation_type="pairings", n_resamples=np.inf, vectorized=False
    )
    return {"value": float(correlation.statistic), "p": float(correlation.pvalue)}


def _format_error_gap(harness: dict[str, Any], peer: dict[str, Any]) -> str:
    return format_max_gap({key: harness[key] for key in peer}, peer) + f" errors on {int(SHARE * TEXTS)} texts"


WORKS = [
    Benchmark(
        name="huse, 20,000 rated texts",
        prepare=sample_ratings,
        harness=harness_huse,
        against="a loop over texts that sorts all distances",
        peer=loop_huse,
        peer_share=SHARE,
        at_most_seconds=20.0,
        agree=lambda harness, peer: (
            format_max_gap({k: harness[k] for k in peer}, peer) + f" errors on {int(SHARE * TEXTS)} texts"
        ),
        say=lambda harness: f"HUSE {harness['huse']:.3f}",
        peer_repeats=1,
    ),
    Benchmark(
        name="bradley_terry, 50 players, with standard errors",
        prepare=sample_wins,
        harness=harness_bradley_terry,
        against="Zermelo's iteration in NumPy",
        peer=iterate_bradley_terry,
        agree=format_max_gap,
    ),
    Benchmark(
        name="spearman of 7 systems, exact permutation p-value",
        prepare=sample_scores,
        harness=harness_correlation,
        against="scipy.stats.permutation_test",
        peer=scipy_correlation,
        peer_repeats=1,
        agree=format_max_gap,
    ),
]
