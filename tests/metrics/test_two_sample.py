"""Metrics of two sets of vectors: clipped_density_coverage, copying, discriminator_accuracy, energy_distance, frechet,
gradient_moment, kid, knn_precision_recall, typicality; vendi; and how many texts they compare."""

import contextlib
import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness import core
from openended.harness.core import Features, Plan, Side, UndefinedMetric
from openended.harness.core.resampling import rescale_halves
from openended.harness.run.measure import add_intervals
from openended.metrics._embeddings import neighbors
from openended.metrics._surface import NAMES, surface_features
from openended.metrics.clipped_density_coverage import (
    ClippedDensityCoverage,
    clipped_density_coverage,
    compute_expected_shares,
)
from openended.metrics.copying import Copying, auth_pct, copying_z
from openended.metrics.discriminator_accuracy import DiscriminatorAccuracy, discriminator_accuracy, split_by_prompt
from openended.metrics.energy_distance import EnergyDistance, energy_distance
from openended.metrics.families.cells import JOINT_CLUSTERINGS, JOINT_ITERATIONS
from openended.metrics.families.two_sample import standardize
from openended.metrics.frechet import Frechet, frechet_distance, frechet_infinity
from openended.metrics.gradient_moment import GradientMoment, gradient_moment
from openended.metrics.kid import Kid, kid
from openended.metrics.knn_precision_recall import KnnPrecisionRecall, knn_precision_recall
from openended.metrics.mauve import Mauve
from openended.metrics.typicality import Typicality, typicality
from openended.metrics.vendi import Vendi, vendi
from tests.helpers import cases, features
from tests.metrics.helpers import SEEDS, check_edges, compare, normal
from tests.oracles import two_sample as oracle

GRID = st.tuples(st.integers(0, 10_000), st.integers(4, 25), st.integers(4, 25), st.integers(1, 3))


def column(*values):
    return np.array([[float(value)] for value in values])


def test_hand_values():
    # Human 0, 2: mean 1, variance 2. Model 3, 7: mean 5, variance 8: (m1 - m2)^2 + (s1 - s2)^2 = 16 + (√2 - 2√2)^2 = 18.
    assert frechet_distance(human=column(0, 2), model=column(3, 7)) == pytest.approx(18.0, abs=1e-12)
    # d = 1: within human k = (0 + 1)^3 = 1, within model (1 + 1)^3 = 8, across 1: 1 + 8 - 2 = 7
    got = kid(human=column(0, 0), model=column(1, 1))
    assert (got.kid, got.std_error) == pytest.approx((7.0, 0.0))
    # Human 0, 2, model 1, 1: 2 * mean |x - y| = 2 * 1; within human (0 + 2 + 2 + 0) / 4 = 1, within model 0: 2 - 1 = 1.
    assert energy_distance(human=column(0, 2), model=column(1, 1)) == 1.0
    # Human 1, 3: pairs of different texts 1 * 3 = 3; model 0, 0: 0; across 0. The plug-in value would be 2^2 = 4.
    assert gradient_moment(human=column(1, 3), model=column(0, 0)) == 3.0
    # Human -2, -1, 1, 2 around 0; every human value is as far out as model 0 (p = 1), none as 3 (p = 0): 1/2.
    assert typicality(human=column(-2, -1, 1, 2), model=column(0, 3)) == 0.5
    # Human 0, 1, 5. 0.1: nearest 0, whose neighbor is 1 away: copy. 7: 2 from 5, whose neighbor is 4 away: copy. 30: 25
    # from 5: authentic. -4: 4 from 0: authentic. 2 of 4.
    assert auth_pct(human=column(0, 1, 5), model=column(0.1, 7, 30, -4)) == 50.0
    # Human at -1, model at +1 on a line: the boundary is at 0, every held-out text is right: accuracy 1 of 2 · 4 texts.
    human, model = -np.ones((20, 1)) - normal(20, 1) * 0.01, np.ones((20, 1)) + normal(20, 1, 1) * 0.01
    got = discriminator_accuracy(human=human, model=model)
    assert (got.accuracy, got.n_test) == (1.0, 8)


def test_clipped_by_hand():
    """k = 1, human 0, 1, 2, 3: all radii 1. 1.1 is in two balls (1 and 2), 9 in none: a = 1, 0; human texts are all in a
    neighbor's ball: 1. Density (1/2) / 1. Open balls of 0, 1, 2, 3 hold 0, 1, 1, 0 model texts: y = 1/2; f(1) = 1/4 and
    f(2) = 1 - B(1, 5) / B(1, 3) = 2/5 < 1/2, so all of f(0), f(1), f(2) are below: 1."""
    result = clipped_density_coverage(human=column(0, 1, 2, 3), model=column(1.1, 9), k=1)
    assert dict(result) == {"clipped_density": 0.5, "clipped_coverage": 1.0}
    # 4 lies on the edge of the ball of 3: inside for the density, outside for the coverage.
    result = clipped_density_coverage(human=column(0, 1, 2, 3), model=column(4, 8), k=1)
    assert dict(result) == {"clipped_density": 0.5, "clipped_coverage": 0.0}
    points, every = neighbors.center_points(column(0, 1, 2, 3), column(4, 8)), (np.ones((1, n), bool) for n in (4, 2))
    subset = ClippedDensityCoverage(k=1).score(points, *every)
    assert subset == {"clipped_density": [0.5], "clipped_coverage": [0.0]}
    assert compute_expected_shares(4, 2, 1) == pytest.approx([0, 1 / 4, 2 / 5])
    expected = [oracle.expected_share(m, 40, 5) for m in range(31)]
    assert compute_expected_shares(40, 30, 5) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(2, 12), st.integers(2, 12), st.integers(1, 5))
def test_pairs_agree_with_loops(seed, n, m, d):
    human, model = normal(n, d, seed), normal(m, d, seed + 1, 0.5)
    # 1e-9 of the size of the terms: float64 sums in another order
    near = {"rel": 1e-9, "abs": 1e-9}
    assert kid(human=human, model=model).kid == pytest.approx(oracle.kid(human, model), **near)
    assert energy_distance(human=human, model=model) == pytest.approx(oracle.energy_distance(human, model), **near)
    assert gradient_moment(human=human, model=model) == pytest.approx(oracle.gradient_moment(human, model), **near)
    assert auth_pct(human=human, model=model) == pytest.approx(oracle.auth_pct(human, model))


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(8, 25), st.integers(7, 25), st.integers(1, 5))
def test_clipped_agrees_with_loops(seed, n, m, k):
    human, model = normal(n, 2, seed), normal(m, 2, seed + 1, 0.7)
    found = tuple(dict(clipped_density_coverage(human=human, model=model, k=k)).values())
    assert found == pytest.approx(oracle.clipped(human, model, k), abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(20, 60), st.integers(20, 60), st.integers(2, 8))
def test_moments_agree_with_other_code(seed, n, m, d):
    human, model = normal(n, d, seed), normal(m, d, seed + 1, 0.5, 2.0)
    # 1e-8: the general square root loses half of the digits of the smallest eigenvalues.
    assert frechet_distance(human=human, model=model) == pytest.approx(oracle.frechet(human, model), rel=1e-8)
    few = human[: 5 + seed % 16]
    covariance = pytest.importorskip("sklearn.covariance").ledoit_wolf(few)[0]
    assert typicality(human=few, model=model) == pytest.approx(oracle.typicality(few, model, covariance), abs=1e-9)


def test_p_values():
    far, alike = normal(30, 3, 1, 2), [normal(30, 3, seed) for seed in range(1, 10)]
    assert compare(GradientMoment(permutations=99), normal(30, 3), far).values["p_value"] == 0.01
    metric = EnergyDistance(space="embeddings", permutations=99)
    assert compare(metric, normal(30, 3), far).values["p_value"] == 0.01  # 1 of 100: the observed labels
    assert np.median([compare(metric, normal(30, 3), other).values["p_value"] for other in alike]) > 0.1
    without = EnergyDistance(space="embeddings", permutations=0)
    assert set(compare(without, normal(30), normal(30, seed=1)).values) == {"energy_distance"}
    typical = Typicality(space="embeddings", permutations=99)
    assert compare(typical, normal(60), normal(60, seed=1, scale=6.0)).values["p_value"] == 0.02  # twice 1 of 100
    assert compare(typical, normal(60), normal(60, seed=1)).values["p_value"] > 0.05
    sentence = "The quick fox number {} jumped over the lazy dog. Then it slept, because it was tired."
    human = [sentence.format(i) for i in range(30)]
    loops = ["the the the the the the the the the the the the"] * 30
    assert compare(EnergyDistance(permutations=99), human, loops).values["p_value"] == 0.01


def test_surface_features_by_hand():
    """ "Cats purr loudly. They sleep." has 5 words in 2 segments of 3 and 2; content words: cats, purr, loudly, sleep."""
    row = dict(zip(NAMES, surface_features(["Cats purr loudly. They sleep."])[0], strict=True))
    assert row["log_words"] == pytest.approx(np.log(6))
    assert (row["segments"], row["segment_length"], row["segment_length_std"]) == (2.0, 2.5, 0.5)
    assert row["content_rate"] == pytest.approx(4 / 5)
    assert row["capitalized_rate"] == pytest.approx(2 / 5)
    assert row["pronoun_rate"] == pytest.approx(1 / 5)
    assert row["pronoun_first"] == pytest.approx(1 / 2)
    assert row["jaccard"] == 0.0
    assert surface_features(["", "one"]).shape == (2, 34)
    marked = dict(zip(NAMES, surface_features(["But it rained, so we left."])[0], strict=True))
    assert marked["marker_rate"] == pytest.approx(2 / 6)
    assert (marked["contrast_rate"], marked["cause_rate"]) == (pytest.approx(1 / 6), pytest.approx(1 / 6))
    assert marked["segments_starting_with_marker"] == 1.0
    again = dict(zip(NAMES, surface_features(["Ann met Bob. Ann left."])[0], strict=True))
    assert again["capitalized_recur"] == pytest.approx(1 / 2)


def test_edges():
    bad, one, few = np.full((4, 3), np.nan), normal(1, 3), normal(5, 3)
    pairs = (frechet_distance, kid, gradient_moment, typicality, auth_pct, energy_distance)
    check_edges([
        *((lambda f=f: f(human=bad, model=few), ValueError, "finite") for f in (*pairs, discriminator_accuracy)),
        *((lambda f=f: f(human=np.zeros((0, 3)), model=few), UndefinedMetric, "texts") for f in pairs),
        *((lambda f=f: f(human=one, model=few), UndefinedMetric, "at least 2") for f in pairs[:5]),
        *((lambda f=f: f(human=few, model=normal(5, 2)), ValueError, "one dimension") for f in pairs),
        (lambda: frechet_distance(human=few, model=few, shrinkage="some"), ValueError, "shrinkage"),
        (lambda: frechet_infinity(human=normal(19), model=normal(30)), UndefinedMetric, "20"),
        (lambda: frechet_infinity(human=normal(30), model=normal(30), sizes=1), ValueError, "sizes"),
        (lambda: frechet_infinity(human=normal(30), model=normal(30), draws=0), ValueError, "draws"),
        (lambda: kid(human=few, model=few, degree=0), ValueError, "degree"),
        (lambda: kid(human=few, model=few, human_groups=[1, 2, 3]), ValueError, "expected one per row, 5, got 3"),
        (lambda: kid(human=np.full((3, 2), 1e40), model=np.ones((3, 2)), degree=9), ValueError, "degree 9: the kernel"),
        (lambda: discriminator_accuracy(human=normal(9), model=normal(30)), UndefinedMetric, "10 texts"),
        (lambda: discriminator_accuracy(human=normal(30), model=normal(30), folds=1), ValueError, "folds"),
        (lambda: copying_z(train=normal(9), test=normal(3), model=normal(9)), UndefinedMetric, "cell"),
        (lambda: copying_z(train=normal(9) * 1e300, test=normal(9), model=normal(9)), ValueError, "leave the range"),
        (lambda: clipped_density_coverage(human=normal(5), model=normal(9)), UndefinedMetric, "human side has 5"),
        (lambda: clipped_density_coverage(human=normal(6), model=normal(9)), UndefinedMetric, "7 human texts"),
        (lambda: clipped_density_coverage(human=normal(9), model=normal(9), k=0), ValueError, "k:"),
        (lambda: knn_precision_recall(human=normal(4), model=normal(9)), UndefinedMetric, "5 texts"),
        (lambda: knn_precision_recall(human=np.zeros((0, 4)), model=normal(9)), UndefinedMetric, "5 texts"),
        (lambda: knn_precision_recall(human=np.full((9, 4), np.inf), model=normal(9)), ValueError, "finite"),
        (lambda: knn_precision_recall(human=normal(9), model=normal(9), k=0), ValueError, "k:"),
        (lambda: knn_precision_recall(human=normal(9), model=normal(9), explained_variance=0.0), ValueError, "explained_v"),
        (lambda: knn_precision_recall(human=normal(9), model=normal(9), rows="l3"), ValueError, "rows"),
        (lambda: vendi(np.zeros((0, 3))), UndefinedMetric, "one text"),
        (lambda: vendi(np.array([[0.0, 0.0], [1.0, 0.0]])), UndefinedMetric, "zero"),
        (lambda: vendi(bad), ValueError, "finite"),
        (lambda: vendi(np.eye(2), order=0.0), ValueError, "order"),
        *(
            (lambda f=f, s=s: f(human=np.full((5, 2), s), model=normal(5, 2)), ValueError, "leave the range of float64")
            for f in (*pairs, lambda **sides: frechet_distance(**sides, pca_share=0.9)) for s in (1e200, 1e50)
        ),
    ])  # fmt: skip
    same = {"human": np.ones((20, 3)), "model": np.ones((20, 3))}
    assert frechet_distance(**same) == frechet_distance(**same, shrinkage="ledoit_wolf") == auth_pct(**same) == 0
    assert frechet_distance(human=np.ones((5, 3)), model=np.zeros((5, 3))) == pytest.approx(3)
    equal = frechet_infinity(human=np.ones((30, 3)), model=np.ones((30, 3)))
    assert equal["frechet_infinity"] == pytest.approx(0, abs=1e-12)
    assert dict(kid(**same)) == {"kid": 0.0, "std_error": 0.0}
    assert discriminator_accuracy(**same).accuracy == 0.5
    assert typicality(**same) == clipped_density_coverage(**same).clipped_density == 1.0


# frechet


def test_ledoit_wolf_of_gaussians_agrees_with_scikit_learn():
    from sklearn.covariance import ledoit_wolf as other

    from openended.metrics.frechet import _fit_gaussian

    rows = normal(15, 10) @ normal(10, 10, 1)
    lower = np.tril(_fit_gaussian(rows, "ledoit_wolf").lower)
    np.testing.assert_allclose(lower * 14 / 15, np.tril(other(rows)[0]), rtol=1e-9, atol=1e-12)


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


def test_more_dimensions_than_texts():
    human, model = normal(10, 30), normal(12, 30, 1)
    raw = frechet_distance(human=human, model=model)
    assert np.isfinite(raw)
    assert raw > frechet_distance(human=human, model=model, shrinkage="ledoit_wolf") >= 0
    assert raw > frechet_distance(human=human, model=model, pca_share=0.5) >= 0
    assert any("n=10" in note and "d=30" in note for note in compare(Frechet(), human, model).notes)
    assert not compare(Frechet(pca_share=0.5), human, model).notes
    wide = compare(Frechet(extrapolate=15), normal(30, 40), normal(30, 40, 1))
    assert any("starts from 15 texts" in note and "d=40" in note for note in wide.notes)


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


def test_extrapolation_is_reproducible_and_its_spread_is_that_of_its_draws():
    human, model = normal(60, 5).astype("f4"), normal(60, 5, 1).astype("f4")
    assert frechet_infinity(human=human, model=model) == frechet_infinity(human=human, model=model)
    assert frechet_infinity(human=human, model=model) != frechet_infinity(human=human, model=model, seed=1)
    assert set(compare(Frechet(), human, model).values) == {"frechet"}
    result = compare(Frechet(extrapolate=15), human, model)
    extrapolated = frechet_infinity(human=human, model=model)
    assert (result.values["frechet_infinity"], result.sd["frechet_infinity"]) == (
        extrapolated.frechet_infinity, extrapolated.spread,
    )  # fmt: skip
    assert not result.notes
    assert extrapolated.frechet_infinity == pytest.approx(np.mean(extrapolated.at_zero))
    assert extrapolated.spread == pytest.approx(np.std(extrapolated.at_zero, ddof=1))


# kid


def test_std_error_is_the_spread_of_repeated_samples():
    found = [kid(human=normal(200, 4, 2 * i), model=normal(200, 4, 2 * i + 1, 0.7)) for i in range(60)]
    # 60 repetitions know a standard deviation to about 10 %.
    assert np.mean([f.std_error for f in found]) == pytest.approx(np.std([f.kid for f in found], ddof=1), rel=0.35)


def test_samples_of_a_prompt_are_one_draw_in_the_error():
    """Every text four times, under one prompt: the error is that of the texts once, but for the kernel of copies."""
    rng = np.random.default_rng(0)
    human, model = rng.normal(size=(200, 3)), rng.normal(size=(200, 3)) + 0.5
    once = kid(human=human, model=model).std_error
    four = {"human": human, "model": np.repeat(model, 4, axis=0)}
    prompts = {"human_groups": np.arange(200), "model_groups": np.repeat(np.arange(200), 4)}
    assert kid(**four, **prompts).std_error == pytest.approx(once, rel=0.05)
    assert kid(**four).std_error < 0.9 * once
    alone = {"human_groups": np.arange(200), "model_groups": np.arange(200)}
    assert kid(human=human, model=model, **alone).std_error == pytest.approx(once, rel=1e-12)


# discriminator_accuracy


def test_accuracy_agrees_with_the_best_boundary_on_a_line():
    """Oracle: for N(0, 1) against N(s, 1) no classifier is right more often than Φ(s / 2)."""
    from scipy.stats import norm

    for shift in (0.5, 1.0, 2.0):
        got = discriminator_accuracy(human=normal(3000, 1), model=normal(3000, 1, 1, shift), test_share=0.5)
        # 3,000 held-out texts: three standard errors are 0.027.
        assert got.accuracy == pytest.approx(norm.cdf(shift / 2), abs=0.03)


def test_accuracy_is_chance_for_equal_distributions_and_balanced():
    scores = [discriminator_accuracy(human=normal(400), model=normal(400, seed=1, shift=s)).accuracy for s in (0, 1, 4)]
    assert scores[0] == pytest.approx(0.5, abs=0.12)
    assert scores == sorted(scores)
    assert scores[-1] > 0.95
    got = discriminator_accuracy(human=normal(500), model=normal(60, seed=1))
    assert got.accuracy == pytest.approx(0.5, abs=0.2)
    human, model = normal(50), normal(50, seed=1, shift=5)
    assert discriminator_accuracy(human=human * 1e200, model=model * 1e200).accuracy == 1.0  # huge features
    result = compare(DiscriminatorAccuracy(), human, model)
    assert result.values["accuracy"] == 1.0
    assert "20 held-out" in result.notes[0]


def sampled(samples, prompts=60, seed=0):
    """Features that tell the prompt and nothing else; each prompt has a human text and some of the model."""
    rng = np.random.default_rng(seed)
    ids = np.array([f"t/{i:06d}" for i in range(prompts)])
    centers = rng.normal(size=(prompts, 40))
    human = (centers + 0.001 * rng.normal(size=centers.shape)).astype("f4")
    model = np.repeat(centers, samples, axis=0) + 0.001 * rng.normal(size=(prompts * samples, 40))
    (need,) = DiscriminatorAccuracy().needs()
    model_ids = np.repeat(ids, samples)
    sides = (("human", ids, human), ("model", model_ids, model.astype("f4")))
    return Features(*(Side(name, names.tolist(), {need: rows}) for name, names, rows in sides))


def test_samples_of_a_prompt_stay_together():
    """A prompt whose texts are on both sides of the split would be known by heart."""
    given_ = sampled(4)
    names = [np.array(side.ids) for side in (given_.human, given_.model)]
    parts = split_by_prompt(names, 0.25, 5, 25)
    held = [set(side[test]) for side, (_, _, test) in zip(names, parts, strict=True)]
    assert held[0] == held[1]
    assert len(held[0]) == 15
    for side, (train, fold, _) in zip(names, parts, strict=True):
        assert not set(side[train]) & held[0]
        for name in set(side[train]):
            assert len(set(fold[side[train] == name])) == 1, "a prompt is in two folds"
    assert f"{12 + 48} held-out texts" in DiscriminatorAccuracy().compute(given_).notes[0]
    # one sample per prompt is split as without prompts
    (need,), given_ = DiscriminatorAccuracy().needs(), sampled(1)
    plain = discriminator_accuracy(human=given_.human.data[need], model=given_.model.data[need])
    assert DiscriminatorAccuracy().compute(given_).values["accuracy"] == plain.accuracy


# copying, clipped density and coverage


@pytest.mark.parametrize(("cells", "worlds"), [(1, 150), (3, 150), pytest.param(3, 1000, marks=pytest.mark.long)])
def test_c_t_of_equal_sets_is_a_mean_of_z_scores(cells, worlds):
    values = []
    for seed in range(worlds):
        train, test, model = np.random.default_rng(seed).normal(size=(3, 300, 8))
        values.append(copying_z(train=train, test=test, model=model, cells=cells, seed=seed))
    assert np.mean(values) == pytest.approx(0, abs=4 / np.sqrt(worlds))
    assert np.std(values) == pytest.approx(1 / np.sqrt(cells), rel=4 / np.sqrt(2 * worlds))


def test_z_in_one_cell_agrees_with_pairs():
    train, test, model = normal(30), normal(20, seed=1), normal(25, seed=2, shift=0.3)
    distances = [np.linalg.norm(side[:, None] - train[None], axis=2).min(axis=1) for side in (test, model)]
    value = copying_z(train=train, test=test, model=model, cells=1)
    assert value == pytest.approx(oracle.mann_whitney_z(*distances), abs=1e-9)


def test_copies_are_seen_and_other_human_texts_are_not_copies():
    human = normal(200, 3)
    models = human + 1e-3, normal(200, 3, 1), normal(200, 3, 1, 5)
    copied, alike, far = (compare(Copying(), human, model).values for model in models)
    assert copied["auth_pct"] == 0.0
    assert far["auth_pct"] > alike["auth_pct"] > 30
    assert copied["c_t"] < -3.5
    assert abs(alike["c_t"]) < 2.5
    assert "c_t" not in far or far["c_t"] > 3


# knn_precision_recall


def test_knn_on_a_line():
    """Human 0, 1, 3; model 0.5, 10, 11; k = 1.

    Human radii: 0 → 1, 1 → 1, 3 → 2. Of the model points .5 is inside the balls of 0 and 1 (3 - .5 = 2.5 > 2), 10 and 11
    in none: precision 1/3, density (2 + 0 + 0) / (1 · 3) = 2/3, coverage 2/3.
    Model radii: .5 → 9.5, 10 → 1, 11 → 1. All human points are within 9.5 of .5: recall 1.
    """
    human, model = column(0, 1, 3), column(0.5, 10, 11)
    got = knn_precision_recall(human=human, model=model, k=1, explained_variance=None)
    assert dict(got) == pytest.approx({"precision": 1 / 3, "recall": 1.0, "density": 2 / 3, "coverage": 2 / 3})


@settings(max_examples=60, deadline=None)
@given(GRID, st.booleans())
def test_knn_agrees_with_pairs_even_where_distances_tie(case, closed):
    seed, n, m, k = case
    rng = np.random.default_rng(seed)
    # Whole numbers: many equal distances and repeated rows, and all distances exact in float64.
    human, model = (rng.integers(0, 3, size=(rows, 2)).astype(float) for rows in (n, m))
    got = knn_precision_recall(human=human, model=model, k=k, explained_variance=None, closed=closed)
    assert dict(got) == pytest.approx(oracle.knn(human, model, k, closed=closed), abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(GRID, st.sampled_from([1e-30, 1e-6, 1.0, 1e12]), st.sampled_from([0.0, 1e3]))
def test_knn_agrees_with_pairs_at_any_scale_and_offset(case, scale, offset):
    seed, n, m, k = case
    human, model = (normal(rows, 5, seed + i) * scale + offset * scale for i, rows in enumerate((n, m)))
    got = knn_precision_recall(human=human, model=model, k=k, explained_variance=None)
    assert dict(got) == pytest.approx(oracle.knn(human, model, k, closed=True), abs=1e-12)


def test_blocks_of_neighbors_do_not_matter(monkeypatch):
    human, model = normal(90, 8), normal(70, 8, 1)
    whole = knn_precision_recall(human=human, model=model)
    monkeypatch.setattr(neighbors, "_BLOCK_ROWS", 7)
    monkeypatch.setattr(neighbors, "_PAIRS", 30)
    assert knn_precision_recall(human=human, model=model) == whole
    distance = kid(human=human, model=model)
    monkeypatch.setitem(kid.__globals__, "_BLOCK", 7)
    assert dict(kid(human=human, model=model)) == pytest.approx(dict(distance))


def test_precision_has_an_interval_where_few_texts_are_in_no_ball():
    """Intervals of those worlds alone that have five such texts or more covered 79 % in place of 97 %."""
    metric, human, model = KnnPrecisionRecall(), normal(60), normal(60, seed=1)
    model[:3] += 50
    given_ = features(metric, human=human, model=model, n_human=60, n_model=60)
    result = add_intervals(metric, given_, metric.compute(given_), Plan(40))
    assert np.count_nonzero(result.per_example["precision"] == 0) < 5
    assert set(result.intervals) == {"precision", "recall", "density", "coverage"}


@pytest.mark.reference
def test_equals_prdc():
    prdc = pytest.importorskip("prdc", reason="prdc is not installed")
    human, model = normal(200, 12), normal(150, 12, seed=1, shift=0.4)
    with contextlib.redirect_stdout(io.StringIO()):
        want = prdc.compute_prdc(real_features=human, fake_features=model, nearest_k=5)
    got = knn_precision_recall(human=human, model=model, k=5, explained_variance=None)
    assert dict(got) == pytest.approx({k: float(v) for k, v in want.items()}, abs=1e-12)


# vendi


def test_vendi_by_hand():
    """Cosine 1/2: K / 2 has eigenvalues (1 ± 1/2) / 2 = 3/4, 1/4; exp(-3/4 ln 3/4 - 1/4 ln 1/4) = exp(.562335) = 1.754765."""
    rows = np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
    assert vendi(rows) == pytest.approx(1.754765, abs=1e-6)
    assert vendi(rows, order=2.0) == pytest.approx(1.6)  # 1 / (9/16 + 1/16)
    # order infinity is 1 / (3/4); large orders tend to it and do not overflow
    assert vendi(rows, order=np.inf) == pytest.approx(4 / 3)
    for order in (1e3, 1e6, 1e300, 1e308):
        assert vendi(rows, order=order) == pytest.approx(4 / 3, rel=1e-3)
    # -log(0.75) * 50 / 49 - log(1 + 3^-50) / 49, written out
    assert vendi(rows, order=50.0) == pytest.approx(0.75 ** (-50 / 49))
    spec = Vendi(order=np.inf)
    assert spec == Vendi(order="inf")
    assert "order:inf" in core.build_signature(spec, {})
    assert core.canonicalize(spec)["order"] == "inf"
    assert compare(spec, rows, rows).values["vendi"] == pytest.approx(4 / 3)
    assert compare(Vendi(), normal(9), np.ones((9, 4))).values["vendi"] == pytest.approx(1)  # the system under test


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 15), st.integers(1, 15))
def test_vendi_agrees_with_the_matrix_of_cosines(seed, n, d):
    # 1e-9: eigenvalues of the smaller of the two matrices.
    assert vendi(normal(n, d, seed)) == pytest.approx(oracle.vendi(normal(n, d, seed)), rel=1e-9)
    for scale in (1e200, 1e-200):  # huge and tiny rows have a direction too
        assert vendi(normal(12, d) * scale) == pytest.approx(vendi(normal(12, d)))


# metrics whose cost grows with the square of the number of texts

COSTLY = (KnnPrecisionRecall(), Kid(), DiscriminatorAccuracy())


def sides(metric, n_human=60, n_model=60) -> Features:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((n, 4)).astype(np.float32) for n in (n_human, n_model)]
    made = features(metric, human=rows[0], model=rows[0], n_human=n_human, n_model=n_model)
    return replace(made, model=replace(made.model, data=dict.fromkeys(metric.needs(), rows[1])))


def measured(metric, whole):
    """As a run measures."""
    part, notes = metric.limit_texts(whole)
    result = metric.compute(part)
    return replace(result, notes=(*result.notes, *notes))


@pytest.fixture
def limit_24(monkeypatch):
    for metric in COSTLY:
        monkeypatch.setattr(type(metric), "most", 24)


@pytest.mark.parametrize("metric", COSTLY, ids=lambda m: m.name)
def test_of_more_texts_a_part_is_compared_and_a_note_and_the_signature_say_so(metric, limit_24):
    few = sides(metric, 24, 24)
    assert metric.limit_texts(few) == (few, [])
    result = measured(metric, sides(metric))
    assert (result.n_human, result.n_model) == (24, 24)
    assert "|n:24of60/24of60|" in f"{result.signature}|"
    (note,) = [note for note in result.notes if "were compared" in note]
    assert note.startswith("24 of 60 human and 24 of 60 other texts were compared, drawn by their ids")
    smaller = measured(metric, sides(metric, 60, 20))  # a smaller side stays whole
    assert (smaller.n_human, smaller.n_model) == (24, 20)
    assert "n:24of60/20of20" in smaller.signature


def test_both_sides_keep_the_same_prompts_and_no_order_of_a_file_matters(limit_24):
    metric = Kid()
    whole, need = sides(metric), metric.needs()[0]
    part, _ = metric.limit_texts(whole)
    assert part.human.ids == part.model.ids
    human, model = (side[need] for side in (part.human, part.model))
    rows = [int(name.rpartition("/")[2]) for name in part.human.ids]
    assert np.array_equal(human, whole.human[need][rows])
    assert measured(metric, whole).values["kid"] == kid(human=human, model=model).kid
    order = np.random.default_rng(1).permutation(60)
    turned = [Side(s.system, [s.ids[i] for i in order], {need: s[need][order]}) for s in (whole.human, whole.model)]
    for other in COSTLY:
        mixed = replace(sides(other), human=turned[0], model=turned[1])
        assert measured(other, mixed).values == measured(other, sides(other)).values
    assert Frechet.most is None


def test_surface_features_are_standardized_alike_whichever_side_is_called_human():
    """Else relabelings of the texts were not exchangeable, and the permutation test rejected 10 % at a level of 5 %."""
    first, second = normal(30), 3 * normal(20, seed=1) + 1
    one, other = standardize(human=first, model=second), standardize(human=second, model=first)
    assert np.allclose(np.concatenate(one), np.concatenate(other[::-1]), atol=1e-12)
    assert np.allclose(np.concatenate(one).std(axis=0), 1)


@pytest.mark.parametrize(("dim", "method"), [(5, "bootstrap"), (30, "subsample"), (60, "subsample")])
def test_vendi_scores_subsets_where_texts_are_few_for_their_dimension(dim, method):
    metric, rows = Vendi(), normal(40, dim)
    side = Side("model", [f"{i:03d}" for i in range(40)], {metric.needs()[0]: rows})
    features, plan = Features(side, side), Plan(20)
    drawn = metric.replicates(features, metric.compute(features), plan)["vendi"]
    assert drawn.method == method
    if method == "subsample":
        inside = plan.subsets(side.ids, core.SHARE)[3]
        raw = drawn.draws[0].mean() + (drawn.draws[0, 3] - drawn.draws[0].mean()) / 3  # sqrt(.9 / .1)
        assert raw == pytest.approx(vendi(rows[inside]))


# Differences of systems in one space ----------------------------------------------------------------------------------


def make_space(metric, n=30, dim=6):
    """Two systems of n texts with the same prompts, and the human texts of these and as many other prompts."""
    need = metric.needs()[0]
    ids = [f"t/{i:03d}" for i in range(2 * n)]
    human = Side("human", ids, {need: normal(2 * n, dim, 1)})
    systems = [Side(name, ids[:n], {need: normal(n, dim, seed) + 0.3 * seed}) for seed, name in ((2, "a"), (3, "b"))]
    return human, systems


@cases("metric", Mauve(), Kid(), Frechet(), Frechet(pca_share=0.9), KnnPrecisionRecall(), ids=lambda m: m.name)
def test_joint_estimates_are_values_against_all_human_texts_in_one_space(metric):
    human, systems = make_space(metric)
    estimates = metric.estimate_jointly(human, systems, Plan(40))
    need = metric.needs()[0]
    rows = [side.data[need] for side in (human, *systems)]
    if isinstance(metric, Mauve):  # its option for a grid fits on the same texts
        options = {"restarts": 1, "max_iter": JOINT_ITERATIONS, "clustering_seeds": JOINT_CLUSTERINGS}
        fitted = replace(metric, cluster_fit="joint", **options)
        expected = [fitted.compute(Features(human, side, {}, systems)).values for side in systems]
    elif isinstance(metric, KnnPrecisionRecall):
        unit = [row / np.linalg.norm(row, axis=1, keepdims=True) for row in rows]
        human_rows, *others = project(unit, 0.9)
        ids = [subset.ids for subset in metric.draw_subsets(human, 30)]
        assert [len(part) for part in ids] == [30] * 4
        assert set(ids[0]) | set(ids[1]) == set(ids[2]) | set(ids[3]) == set(human.ids)
        subsets = [human_rows[[human.ids.index(name) for name in part]] for part in ids]
        pairs = [
            [knn_precision_recall(human=part, model=row, explained_variance=None) for part in subsets] for row in others
        ]
        expected = [{key: np.mean([p[key] for p in of]) for key in ("precision", "recall", "density", "coverage")}
                    for of in pairs]  # fmt: skip
    elif isinstance(metric, Kid):
        expected = [{"kid": kid(human=rows[0], model=row).kid} for row in rows[1:]]
    else:
        human_rows, *others = project(rows, metric.pca_share) if metric.pca_share else rows
        expected = [{"frechet": frechet_distance(human=human_rows, model=row)} for row in others]
    for (values, replicates), right, side in zip(estimates, expected, systems, strict=True):
        assert replicates.keys() <= values.keys()
        features = Features(human, side)
        alone = metric.replicates(features, metric.compute(features), Plan(40))
        for key in replicates:
            assert values[key] == pytest.approx(right[key], abs=1e-5), key
            assert replicates[key].std_error() < 1.4 * alone[key].std_error(), key


def project(sides, share):
    """Each side after the principal components of all rows that reach a share of the variance."""
    rows = np.concatenate(sides)
    centered = rows - rows.mean(axis=0)
    _, values, axes = np.linalg.svd(centered, full_matrices=False)
    keep = int(np.searchsorted(np.cumsum(values**2) / np.sum(values**2), share)) + 1
    return np.split(centered @ axes[:keep].T, np.cumsum([len(side) for side in sides])[:-1])


def test_the_noise_that_systems_share_cancels_in_the_joint_estimate():
    """The second system is the first with three texts exchanged, so the error of the difference is small."""
    metric = Mauve()
    human, (first, _) = make_space(metric, 150)
    need = metric.needs()[0]
    rows = first.data[need].copy()
    rows[:3] += 0.5
    second = Side("b", first.ids, {need: rows})
    (a, of_a), (b, of_b) = metric.estimate_jointly(human, [first, second], Plan())
    both = core.combine_replicates((1.0, -1.0), (of_a["mauve"], of_b["mauve"]))
    assert both.std_error() < of_a["mauve"].std_error() / 2
    assert abs(a["mauve"] - b["mauve"]) < 4 * both.std_error()
    own = [metric.compute(Features(human, side)) for side in (first, second)]
    alone = [metric.replicates(Features(human, side), result, Plan()) for side, result in zip((first, second), own)]
    apart = core.combine_replicates((1.0, -1.0), [replicates["mauve"] for replicates in alone])
    assert both.std_error() < apart.std_error()


def test_halves_at_a_scale_have_the_errors_of_halves_where_a_value_is_quadratic():
    moved, slope, curvature = normal(50, 4, 1), normal(1, 4, 2)[0], normal(4, 4, 3)

    def score(scale):
        return np.stack([rows @ slope + np.einsum("ij,jk,ik->i", rows, curvature, rows)
                         for rows in (1 + scale * moved, 1 - scale * moved)])  # fmt: skip

    errors = [core.Replicates(rescale_halves(score(scale), scale)).std_error() for scale in (1, 1 / 3)]
    assert errors[1] == pytest.approx(errors[0], rel=1e-9)
    assert core.Replicates(score(1 / 3)).std_error() < errors[0] / 2
