import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import SpecError, UndefinedMetric
from metrics.frechet import Frechet, frechet_distance
from tests.helpers import features
from tests.oracles import embeddings as oracle


def normal(n, d=6, seed=0, shift=0.0, scale=1.0):
    return np.random.default_rng(seed).normal(size=(n, d)) * scale + shift


def test_hand_value_in_one_dimension():
    """Human 0, 2: mean 1, variance 2. Model 3, 7: mean 5, variance 8.

    In one dimension the distance is (m1 - m2)^2 + (s1 - s2)^2 = 16 + (√2 - 2√2)^2 = 16 + 2 = 18.
    """
    got = frechet_distance(human=np.array([[0.0], [2.0]]), model=np.array([[3.0], [7.0]]))
    assert got == pytest.approx(18.0, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(20, 60), st.integers(20, 60), st.integers(2, 8))
def test_agrees_with_the_matrix_square_root(seed, n, m, d):
    human, model = normal(n, d, seed), normal(m, d, seed + 1, 0.5, 2.0)
    # 1e-8: the general square root loses half of the digits of the smallest eigenvalues.
    assert frechet_distance(human=human, model=model) == pytest.approx(oracle.frechet(human, model), rel=1e-8)


def test_ledoit_wolf_agrees_with_scikit_learn():
    from sklearn.covariance import ledoit_wolf

    from metrics.frechet import _gaussian

    rows = normal(15, 10) @ normal(10, 10, 1)
    _, covariance = _gaussian(rows, "ledoit_wolf")
    want, _ = ledoit_wolf(rows)
    np.testing.assert_allclose(covariance * 14 / 15, want, rtol=1e-9, atol=1e-12)


def test_identical_sides_are_zero_apart_and_a_shift_adds_its_square():
    human = normal(50)
    assert frechet_distance(human=human, model=human.copy()) == pytest.approx(0, abs=1e-10)
    assert frechet_distance(human=human, model=human + 3) == pytest.approx(6 * 9, rel=1e-10)
    values = [frechet_distance(human=human, model=normal(50, seed=1, shift=s)) for s in (0, 1, 2, 4)]
    assert values == sorted(values)
    assert frechet_distance(human=human, model=normal(50, seed=1)) == pytest.approx(
        frechet_distance(human=normal(50, seed=1), model=human)
    )


def test_more_dimensions_than_texts():
    human, model = normal(10, 30), normal(12, 30, 1)
    raw = frechet_distance(human=human, model=model)
    assert np.isfinite(raw)
    assert raw > frechet_distance(human=human, model=model, shrinkage="ledoit_wolf") >= 0
    assert raw > frechet_distance(human=human, model=model, pca_share=0.5) >= 0
    spec = Frechet()
    result = spec.compute(features(spec, human=human.astype("f4"), model=model.astype("f4"), n_human=10, n_model=12))
    assert any("n=10" in note and "d=30" in note for note in result.notes)
    assert (
        not Frechet(pca_share=0.5)
        .compute(
            features(Frechet(pca_share=0.5), human=human.astype("f4"), model=model.astype("f4"), n_human=10, n_model=12)
        )
        .notes
    )


def test_edges():
    with pytest.raises(UndefinedMetric):
        frechet_distance(human=np.zeros((0, 3)), model=normal(5, 3))
    with pytest.raises(UndefinedMetric):
        frechet_distance(human=normal(1, 3), model=normal(5, 3))
    with pytest.raises(ValueError, match="finite"):
        frechet_distance(human=np.full((4, 3), np.nan), model=normal(5, 3))
    with pytest.raises(ValueError, match="shrinkage"):
        frechet_distance(human=normal(5), model=normal(5), shrinkage="some")
    assert frechet_distance(human=np.ones((5, 3)), model=np.ones((5, 3))) == 0
    assert frechet_distance(human=np.ones((5, 3)), model=np.zeros((5, 3))) == pytest.approx(3)
    assert frechet_distance(human=np.ones((5, 3)), model=np.ones((5, 3)), shrinkage="ledoit_wolf") == 0
    with pytest.raises(SpecError, match="pca_share"):
        Frechet(pca_share=2.0)
