import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.metrics.correlation import agreement_scores, correlate, correlation_matrix, rank_correlation
from tests.oracles import correlation as oracle

SHARED = Path(__file__).parents[2].parent / "shared/reference"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the published numbers are not beside the repository")
COLUMNS = st.integers(3, 8).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 6), min_size=n, max_size=n).filter(lambda v: len(set(v)) > 1)] * 2)
)


def test_hand_values():
    """Ranks 1 2 3 4 against 1 2 4 3: rho = 1 − 6 × 2 / (4 × 15) = 0.8; 5 of 6 pairs agree: tau = 4/6.

    p of rho: 24 orders; those with |rho| >= 0.8 have squared rank differences of at most 2 or at least 18: the identity
    and 3 swaps of neighbors, and their 4 mirrors: 8/24.
    """
    got = correlate([1, 2, 3, 4], [10, 20, 40, 30], draws=0)
    assert got.value == pytest.approx(0.8)
    assert got.p_value == pytest.approx(8 / 24)
    assert (got.n, got.exact) == (4, True)
    assert math.isnan(got["low"])
    assert rank_correlation([1, 2, 3, 4], [1, 2, 4, 3], method="kendall") == pytest.approx(4 / 6)


@settings(max_examples=60, deadline=None)
@given(COLUMNS)
def test_oracle(columns):
    """1e-12: sums of at most 64 small numbers."""
    x, y = columns
    for method in ("spearman", "kendall"):
        assert rank_correlation(x, y, method=method) == pytest.approx(getattr(oracle, method)(x, y), abs=1e-12)


@settings(max_examples=10, deadline=None)
@given(COLUMNS.filter(lambda c: len(c[0]) <= 5))
def test_oracle_of_the_exact_p_value(columns):
    x, y = columns
    for method in ("spearman", "kendall"):
        got = correlate(x, y, method=method, draws=0)
        assert got.p_value == pytest.approx(oracle.permutation_p(x, y, getattr(oracle, method)), abs=1e-12)


@pytest.mark.reference
@needs_data
def test_published_correlations():
    """MAUVE with Bradley-Terry scores over 8 systems, the human left out: 0.952, 0.857, 0.810."""
    with (SHARED / "mauve2021_bt.csv").open() as handle:
        rows = [row for row in csv.DictReader(handle) if row["model"] not in ("", "human")]
    values = {}
    for row in rows:
        values.setdefault(row["metric"], {})[row["model"], row["decoder"]] = float(row["value"])
    systems = sorted(values["mauve"])
    columns = {name: [column[s] for s in systems] for name, column in values.items()}
    mauve = columns.pop("mauve")
    found = {name: correlate(mauve, column, draws=200) for name, column in columns.items()}
    assert {name: round(row.value, 3) for name, row in found.items()} == {
        "bt_human_like": 0.952,
        "bt_sensible": 0.857,
        "bt_interesting": 0.810,
    }
    # The notebook's p-values (t approximation) are 0.0003, 0.0065 and 0.0149; the exact ones are of their order.
    assert [row.p_value for row in found.values()] == pytest.approx([46 / 40320, 0.0107, 0.0218], abs=1e-4)


def test_random_orders_agree_with_all_orders():
    """p of 10 systems by 20,000 random orders, against the t approximation; sd sqrt(p (1 − p) / 20,000) < 0.004."""
    from scipy.stats import spearmanr

    rng = np.random.default_rng(3)
    x = rng.normal(size=10)
    y = x + 2 * rng.normal(size=10)
    got = correlate(x, y, permutations=20_000, draws=500)
    assert got.p_value == pytest.approx(spearmanr(x, y).pvalue, abs=0.02)
    assert got.low < got.value < got.high
    assert got == correlate(x, y, permutations=20_000, draws=500)
    assert got != correlate(x, y, permutations=20_000, draws=500, seed=1)


def test_undefined_values_are_left_out_and_counted():
    got = correlate([1, 2, np.nan, 4, 5], [1, 3, 9, np.nan, 4])
    assert got.n == 3
    assert got.value == pytest.approx(1)
    assert math.isnan(correlate([1, 2], [2, 1]).value)
    assert math.isnan(correlate([1, 1, 1], [1, 2, 3]).value)
    assert math.isnan(correlate([], []).value)
    with pytest.raises(ValueError, match="one length"):
        correlate([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="finite"):
        correlate([1, 2, np.inf], [1, 2, 3])
    with pytest.raises(ValueError, match="as many"):
        rank_correlation([1, 2, 3], [1, 2])


def test_agreement_counts_as_positive():
    ppl = [10.0, 20, 30, 45]
    assert agreement_scores(ppl, direction="higher").tolist() == ppl
    assert agreement_scores(ppl, direction="lower").tolist() == [-10, -20, -30, -45]
    assert agreement_scores(ppl, direction="match_human", human=25).tolist() == [-15, -5, -5, -20]
    with pytest.raises(ValueError, match="human value"):
        agreement_scores(ppl, direction="match_human")


def test_matrix():
    got = correlation_matrix({"a": [1, 2, 3, 4], "b": [4, 3, 2, 1], "c": [1, np.nan, np.nan, 2], "d": [2, 2, 2, 2]})
    assert got[:2, :2] == pytest.approx(np.array([[1, -1], [-1, 1]]))
    assert np.isnan(got[2:]).all()
