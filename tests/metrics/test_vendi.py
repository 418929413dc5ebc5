import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.harness.core.signature import build_signature, canonicalize
from openended.metrics.vendi import Vendi, vendi
from tests.helpers import features
from tests.oracles import embeddings as oracle


def normal(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_hand_value_of_two_texts():
    """Cosine 1/2: K / 2 has eigenvalues (1 ± 1/2) / 2 = 3/4, 1/4; exp(-3/4 ln 3/4 - 1/4 ln 1/4) = exp(.562335) = 1.754765."""
    rows = np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
    assert vendi(rows) == pytest.approx(1.754765, abs=1e-6)
    # Order 2: 1 / (9/16 + 1/16) = 1.6
    assert vendi(rows, order=2.0) == pytest.approx(1.6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 15), st.integers(1, 15))
def test_agrees_with_the_matrix_of_cosines(seed, n, d):
    rows = normal(n, d, seed)
    # 1e-9: eigenvalues of the smaller of the two matrices.
    assert vendi(rows) == pytest.approx(oracle.vendi(rows), rel=1e-9)


def test_copies_count_once_and_orthogonal_texts_each():
    assert vendi(np.ones((7, 3))) == pytest.approx(1)
    assert vendi(np.eye(5)) == pytest.approx(5)
    assert vendi(np.repeat(np.eye(5), 4, axis=0) * 3) == pytest.approx(5)
    spread = [vendi(np.ones((30, 8)) + s * normal(30, 8)) for s in (0.0, 0.3, 1.0, 5.0)]
    assert spread == sorted(spread)


def test_edges():
    with pytest.raises(UndefinedMetric):
        vendi(np.zeros((0, 3)))
    with pytest.raises(UndefinedMetric, match="zero"):
        vendi(np.array([[0.0, 0.0], [1.0, 0.0]]))
    with pytest.raises(ValueError, match="finite"):
        vendi(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match="order"):
        vendi(np.eye(2), order=0.0)
    assert vendi(np.array([[3.0, 4.0]])) == 1
    with pytest.raises(SpecError, match="order"):
        Vendi(order=-1.0)


def test_metric_reads_the_system_under_test():
    spec = Vendi()
    result = spec.compute(
        features(spec, human=normal(9, 4).astype("f4"), model=np.ones((9, 4), dtype="f4"), n_human=9, n_model=9)
    )
    assert result.values["vendi"] == pytest.approx(1)


def test_the_largest_order_counts_the_largest_share_alone():
    """Shares 3/4 and 1/4: order infinity is 1 / (3/4); large orders tend to it and do not overflow."""
    rows = np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
    assert vendi(rows, order=np.inf) == pytest.approx(4 / 3)
    for order in (1e3, 1e6, 1e300, 1e308):
        assert vendi(rows, order=order) == pytest.approx(4 / 3, rel=1e-3)
    # -log(0.75) * 50 / 49 - log(1 + 3^-50) / 49, written out
    assert vendi(rows, order=50.0) == pytest.approx(0.75 ** (-50 / 49))
    spec = Vendi(order=np.inf)
    assert spec == Vendi(order="inf")
    assert "order:inf" in build_signature(spec, {})
    assert canonicalize(spec)["order"] == "inf"
    result = spec.compute(features(spec, human=rows, model=rows, n_human=2, n_model=2))
    assert result.values["vendi"] == pytest.approx(4 / 3)


def test_huge_and_tiny_rows_have_a_direction_too():
    rows = normal(12, 4)
    for scale in (1e200, 1e-200):
        assert vendi(rows * scale) == pytest.approx(vendi(rows))
