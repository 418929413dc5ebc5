import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.frechet import Frechet, frechet_distance, frechet_infinity
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

    from openended.metrics._embeddings.gaussians import gaussian

    rows = normal(15, 10) @ normal(10, 10, 1)
    lower = np.tril(gaussian(rows, "ledoit_wolf").lower)
    want, _ = ledoit_wolf(rows)
    np.testing.assert_allclose(lower * 14 / 15, np.tril(want), rtol=1e-9, atol=1e-12)


def precise(human, model):
    """The distance in 50 digits."""
    mp = pytest.importorskip("mpmath", reason="mpmath is not installed")

    def fitted(rows):
        rows = mp.matrix(rows.tolist())
        mean = [mp.fsum(rows[:, j]) / rows.rows for j in range(rows.cols)]
        centered = mp.matrix(rows.rows, rows.cols)
        for i in range(rows.rows):
            for j in range(rows.cols):
                centered[i, j] = rows[i, j] - mean[j]
        return mean, centered.T * centered / (rows.rows - 1)

    with mp.workdps(50):
        (m1, s1), (m2, s2) = fitted(human), fitted(model)
        values, axes = mp.eigsy(s1)
        root = axes * mp.diag([mp.sqrt(max(v, 0)) for v in values])
        cross = mp.fsum(mp.sqrt(max(v, 0)) for v in mp.eigsy(root.T * s2 * root, eigvals_only=True))
        gap = mp.fsum((a - b) ** 2 for a, b in zip(m1, m2, strict=True))
        trace = mp.fsum((s1 + s2)[i, i] for i in range(len(m1)))
        return float(gap + trace - 2 * cross), float(trace)


@pytest.mark.parametrize("n", [5, 8, 9, 30])
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e10, 1e14])
@pytest.mark.parametrize("near", [False, True])
def test_bad_condition_costs_no_digits(n, condition, near):
    """Either side of n = d, and where the small eigenvalues would drown in the rounding of the large ones."""
    d = 8
    rng = np.random.default_rng(n)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    scale = np.geomspace(1, condition**-0.5, d)
    human = rng.normal(size=(n, d)) * scale @ turn
    model = human + 1e-3 * rng.normal(size=(n, d)) * scale @ turn if near else rng.normal(size=(n, d)) * scale @ turn
    want, trace = precise(human, model)
    # 1e-13 of what is subtracted: a few dozen float64 roundings, also where the difference is 1e-6 of it.
    assert frechet_distance(human=human, model=model) == pytest.approx(want, rel=0, abs=1e-13 * trace)


def test_short_and_exact_ways_agree(monkeypatch):
    from openended.metrics._embeddings import gaussians

    human, model = normal(300, 40), normal(200, 40, 1, 0.1, 1.5)
    short = frechet_distance(human=human, model=model)
    monkeypatch.setattr(gaussians, "_MOST_LOST", -1.0)
    assert frechet_distance(human=human, model=model) == pytest.approx(short, rel=1e-12)


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


# FD-infinity


def test_extrapolation_of_two_sizes_is_the_line_through_them():
    """With two sizes: shares s and 1, distances y and z. The line over 1 / share meets 0 at z - (y - z) / (1 / s - 1)."""
    human, model = normal(200, 4), normal(100, 4, 1, 0.3)
    rng = np.random.default_rng(7)
    # 2 d = 8 texts of 100 are less than a tenth: s = .1, hence 1 / s - 1 = 9.
    part = [side[np.sort(rng.choice(len(side), len(side) // 10, replace=False))] for side in (human, model)]
    y, z = frechet_distance(human=part[0], model=part[1]), frechet_distance(human=human, model=model)
    # 1e-9: the whole sides are drawn in their order, the fit is float64.
    got = frechet_infinity(human=human, model=model, sizes=2, draws=1, seed=7)
    assert got.frechet_infinity == pytest.approx(z - (y - z) / 9, rel=1e-9)
    assert np.isnan(got.spread)


@pytest.mark.parametrize(("d", "shift"), [(16, 0.0), (64, 0.2), (200, 0.2)])
def test_extrapolation_takes_out_the_bias(d, shift):
    """Two normals with known distance: d (shift^2 + (1.1 - 1)^2)."""
    truth = d * (shift**2 + 0.1**2)
    found = []
    for seed in range(3):
        sides = {"human": normal(800, d, 2 * seed), "model": normal(800, d, 2 * seed + 1, shift, 1.1)}
        found.append((frechet_distance(**sides), frechet_infinity(**sides).frechet_infinity))
    plain, infinity = np.mean(found, axis=0)
    assert plain - truth > 3 * abs(infinity - truth)


def test_extrapolation_is_reproducible_and_optional():
    human, model = normal(60, 5).astype("f4"), normal(60, 5, 1).astype("f4")
    assert frechet_infinity(human=human, model=model) == frechet_infinity(human=human, model=model)
    assert frechet_infinity(human=human, model=model) != frechet_infinity(human=human, model=model, seed=1)
    plain, spec = Frechet(), Frechet(extrapolate=15)
    assert set(plain.compute(features(plain, human=human, model=model, n_human=60, n_model=60)).values) == {"frechet"}
    result = spec.compute(features(spec, human=human, model=model, n_human=60, n_model=60))
    assert (result.values["frechet_infinity"], result.sd["frechet_infinity"]) == tuple(
        frechet_infinity(human=human, model=model)[key] for key in ("frechet_infinity", "spread")
    )
    assert not result.notes
    wide = spec.compute(features(spec, human=normal(30, 40), model=normal(30, 40, 1), n_human=30, n_model=30))
    assert any("starts from 15 texts" in note and "d=40" in note for note in wide.notes)


def test_extrapolation_edges():
    with pytest.raises(UndefinedMetric, match="20"):
        frechet_infinity(human=normal(19), model=normal(30))
    with pytest.raises(ValueError, match="sizes"):
        frechet_infinity(human=normal(30), model=normal(30), sizes=1)
    with pytest.raises(SpecError, match="extrapolate"):
        Frechet(extrapolate=1)
    with pytest.raises(SpecError, match="seed"):
        Frechet(seed=-1)
    assert frechet_infinity(human=np.ones((30, 3)), model=np.ones((30, 3)))["frechet_infinity"] == pytest.approx(
        0, abs=1e-12
    )
    human = normal(200)
    assert abs(frechet_infinity(human=human, model=human)["frechet_infinity"]) < frechet_distance(
        human=human, model=normal(200, seed=1)
    )


def test_extrapolation_is_a_mean_over_draws_with_their_spread():
    """The mean of five lines moves less than one of them does."""
    sides = {"human": normal(120, 3), "model": normal(120, 3, 1, 0.3), "sizes": 3}
    ones = [frechet_infinity(**sides, draws=1, seed=s)["frechet_infinity"] for s in range(40)]
    fives = [frechet_infinity(**sides, seed=s) for s in range(20)]
    assert np.std([f["frechet_infinity"] for f in fives]) < 0.7 * np.std(ones)
    # The spread that one call states is that of its lines: about the sd over calls of one draw.
    assert np.mean([f.spread for f in fives]) == pytest.approx(np.std(ones), rel=0.4)
    with pytest.raises(ValueError, match="draws"):
        frechet_infinity(**sides, draws=0)
    with pytest.raises(SpecError, match="draws"):
        Frechet(draws=0)


def test_features_that_leave_float64_are_refused():
    for share in (None, 0.9):
        with pytest.raises(ValueError, match=r"1e[+]200 leave the range of float64"):
            frechet_distance(human=np.full((5, 2), 1e200), model=normal(5, 2), pca_share=share)
