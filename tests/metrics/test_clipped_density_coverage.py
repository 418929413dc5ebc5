from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.clipped_density_coverage import (
    ClippedDensityCoverage,
    clipped_density_coverage,
    compute_expected_shares,
)
from tests.oracles.copying import slow_clipped, slow_expected_share


def normal(n, d=4, seed=0, shift=0.0):
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


def test_hand_value():
    """k = 1, human 0, 1, 2, 3: all radii 1. 1.1 is in two balls (1 and 2), 9 in none: a = 1, 0; human texts are all in a
    neighbor's ball: 1. Density (1/2) / 1. Open balls of 0, 1, 2, 3 hold 0, 1, 1, 0 model texts: y = 1/2; f(1) = 1/4 and
    f(2) = 1 - B(1, 5) / B(1, 3) = 2/5 < 1/2, so all of f(0), f(1), f(2) are below: 1."""
    human, model = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([[1.1], [9.0]])
    result = clipped_density_coverage(human=human, model=model, k=1)
    assert dict(result) == {"clipped_density": 0.5, "clipped_coverage": 1.0}
    assert compute_expected_shares(4, 2, 1) == pytest.approx([0, 1 / 4, 2 / 5])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9999), st.integers(8, 25), st.integers(7, 25), st.integers(1, 5))
def test_agrees_with_loops(seed, n, m, k):
    human, model = normal(n, 2, seed), normal(m, 2, seed + 1, 0.7)
    # 1e-9: float64 sums in another order
    assert tuple(dict(clipped_density_coverage(human=human, model=model, k=k)).values()) == pytest.approx(
        slow_clipped(human, model, k), abs=1e-9
    )


def test_expected_shares_are_the_published_sum():
    assert compute_expected_shares(40, 30, 5) == pytest.approx(
        [slow_expected_share(m, 40, 5) for m in range(31)], abs=1e-9
    )


def test_falls_linearly_with_the_share_of_bad_texts():
    """The mean of six samples: the standard error of one is 0.02 at n = 1000."""
    shares = np.linspace(0, 1, 6)
    values = np.array([[measure_with_bad(seed, share) for share in shares] for seed in range(6)]).mean(axis=0)
    assert values[:, 0] == pytest.approx(1 - shares, abs=0.02)
    assert values[:, 1] == pytest.approx(1 - shares, abs=0.02)


def measure_with_bad(seed, share, n=1000):
    human, model = normal(n, 8, seed), normal(n, 8, seed + 100)
    model[: round(share * n)] += 30.0
    return list(dict(clipped_density_coverage(human=human, model=model)).values())


def test_identical_sides_and_outliers():
    human = normal(200)
    assert dict(clipped_density_coverage(human=human, model=human)) == {"clipped_density": 1.0, "clipped_coverage": 1.0}
    far = human.copy()
    far[:4] *= 50  # outliers with large balls
    inside = normal(200, seed=3) * 40
    assert clipped_density_coverage(human=far, model=inside).clipped_density < 0.1


def test_collapse_lowers_coverage_not_density():
    human = normal(400)
    collapsed = normal(400, seed=1) * 0.05
    result = clipped_density_coverage(human=human, model=collapsed)
    assert result.clipped_density > 0.9
    assert result.clipped_coverage < 0.2


def test_edges():
    with pytest.raises(UndefinedMetric):
        clipped_density_coverage(human=normal(5), model=normal(9))
    with pytest.raises(UndefinedMetric, match="human"):
        clipped_density_coverage(human=normal(6), model=normal(9))
    with pytest.raises(ValueError, match="finite"):
        clipped_density_coverage(human=np.full((9, 2), np.nan), model=normal(9, 2))
    with pytest.raises(ValueError, match="k:"):
        clipped_density_coverage(human=normal(9), model=normal(9), k=0)
    same = clipped_density_coverage(human=np.ones((9, 2)), model=np.ones((9, 2)))
    assert same.clipped_density == 1.0
    with pytest.raises(SpecError, match="k"):
        ClippedDensityCoverage(k=0)
