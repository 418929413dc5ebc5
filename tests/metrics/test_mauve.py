import math

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from openended.harness.core import Features, Side, UndefinedMetric
from openended.metrics._embeddings.blocks import check_side, fit_pca, limit_magnitude
from openended.metrics._mauve import scores
from openended.metrics._mauve.scores import frontier_integral
from openended.metrics.families import CellCounts, Values
from openended.metrics.knn_precision_recall import KnnPrecisionRecall
from openended.metrics.mauve import Mauve, find_distinguishing_cells, mauve
from openended.metrics.mauve_ratio import MauveRatio
from openended.metrics.precision_recall_curve import PrecisionRecallCurve, precision_recall_curve
from tests.helpers import cases, check_error, features
from tests.metrics.helpers import check_edges, mauve_of_cells
from tests.oracles import mauve as oracle

HISTOGRAMS = st.integers(2, 12).flatmap(
    lambda k: st.tuples(*[st.lists(st.integers(0, 20), min_size=k, max_size=k).filter(any) for _ in range(2)])
)


def clusters(n, groups, d=16, seed=0, *, noise=0.3, centers=12):
    """Rows around the first `groups` of fixed centers."""
    middle = np.random.default_rng(99).normal(size=(centers, d))
    rng = np.random.default_rng(seed)
    return (middle[rng.integers(0, groups, n)] + noise * rng.normal(size=(n, d))).astype(np.float32)


def cells_of(counts):
    return np.repeat(np.arange(len(counts)), counts)


# hand values


def test_hand_value_of_two_disjoint_cells():
    """p = (1, 0), q = (0, 1), one weight w = 1/2 (the grid of one point starts at 1e-6, so check the formula itself).

    KL(p || w p + (1 - w) q) = -ln w, so a point is ((1 - w)^c, w^c). With c = 1 that is the line x + y = 1, whose area with
    both end points is 1/2.
    """
    got = mauve_of_cells(human=np.zeros(3, int), model=np.ones(3, int), num_buckets=2, scaling_factor=1.0)
    assert got.mauve == pytest.approx(0.5, abs=1e-12)
    assert got.frontier_integral == pytest.approx(1.0, abs=1e-12)


def test_hand_value_of_divergences():
    # KL = .7 ln(.7 / .5) + .3 ln(.3 / .5) = .2355306 - .1532477 = .0822829
    assert scores.kl_divergence(np.array([0.7, 0.3]), np.array([0.5, 0.5])) == pytest.approx(0.0822829, abs=1e-7)
    # Disjoint: JS = ln 2.
    assert scores.js_divergence(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == pytest.approx(math.log(2))


# oracle


@settings(max_examples=60, deadline=None)
@given(HISTOGRAMS, st.sampled_from(["uniform", "angular"]), st.sampled_from([1.0, 5.0]))
def test_curve_agrees_with_the_plain_formula(counts, curve, c):
    human, model = map(cells_of, counts)
    got = mauve_of_cells(human=human, model=model, num_buckets=len(counts[0]), scaling_factor=c, curve=curve)
    weights = scores.mixture_weights(25, curve)
    # 1e-12: the same float64 sums in another order.
    assert got.mauve == pytest.approx(oracle.mauve(got.human_hist, got.model_hist, c=c, weights=weights), abs=1e-12)
    stars = [(np.array(x) + 0.5) / (sum(x) + len(x) / 2) for x in counts]
    assert got.mauve_star == pytest.approx(oracle.mauve(*stars, c=c, weights=weights), abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(HISTOGRAMS)
def test_no_distribution_is_closer_to_both_sides_than_a_point_of_the_curve(counts):
    """Proposition 1 of Pillutla et al. 2021: mixtures are Pareto-optimal for both divergences."""
    human, model = map(cells_of, counts)
    result = mauve_of_cells(human=human, model=model, num_buckets=len(counts[0]))
    p, q, rng = result.human_hist, result.model_hist, np.random.default_rng(0)
    near = rng.random((500, 1)) * (p - q) + q
    for others in (near * np.exp(rng.normal(size=near.shape) / 9) + 1e-12, rng.dirichlet(np.ones(len(p)), size=500)):
        rivals = np.log(others / others.sum(axis=1, keepdims=True))
        x, y = (np.exp(-5 * (np.sum(side[side > 0] * np.log(side[side > 0])) - rivals @ side)) for side in (q, p))
        for at in result.divergence_curve:
            assert not ((x > at[0] + 1e-9) & (y > at[1] + 1e-9)).any()


@settings(max_examples=60, deadline=None)
@given(HISTOGRAMS)
def test_frontier_integral_agrees_with_the_integral(counts):
    p, q = (np.array(x) / sum(x) for x in counts)
    # 1e-6: the midpoint rule with 2,000 steps near its logarithmic ends.
    assert frontier_integral(p, q) == pytest.approx(oracle.frontier_integral(p, q, 2000), abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 60), st.integers(1, 20), st.sampled_from([0.5, 0.9, 1.0]))
def test_pca_agrees_with_the_singular_values(seed, n, d, share):
    rng = np.random.default_rng(seed)
    sides = [rng.normal(size=(n, d)), rng.normal(size=(n + 1, d)) + 1]
    rows = np.vstack(sides)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    centered = rows - rows.mean(axis=0)
    assume(np.abs(centered).max() > 1e-9)
    _, s, axes = np.linalg.svd(centered, full_matrices=False)
    got = fit_pca(sides, share=share).apply(sides).astype(np.float64)
    if share < 1:
        assert got.shape[1] == np.argmax(np.cumsum(s**2 / np.sum(s**2)) >= share) + 1
    want = centered @ axes[: got.shape[1]].T
    # 1e-5: the projection is float32. Signs of components are free, distances are not.
    np.testing.assert_allclose(got @ got.T, want @ want.T, atol=1e-5)


# the metric


def sides(metric, human, model, ids_human, ids_model):
    (need,) = metric.needs()
    return Features(Side("human", ids_human, {need: human}), Side("m", ids_model, {need: model}), {"n": "x"})


def test_score_does_not_depend_on_the_order_of_a_file():
    human, model, spec = clusters(100, 12), clusters(100, 8, seed=1), Mauve(clustering_seeds=2)
    ids = tuple(f"t/{i:03d}" for i in range(100))
    turn = np.random.default_rng(0).permutation(100)
    there = spec.compute(sides(spec, human, model, ids, ids))
    back = spec.compute(sides(spec, human[turn], model, tuple(ids[i] for i in turn), ids))
    assert there.values == back.values
    assert mauve(human=human[turn], model=model).mauve != mauve(human=human, model=model).mauve


def test_result_has_mean_and_spread_over_clustering_seeds():
    human, model = clusters(100, 12), clusters(100, 8, seed=1)
    ids = tuple(f"t/{i:03d}" for i in range(100))
    spec = Mauve(clustering_seeds=3)
    result = spec.compute(sides(spec, human, model, ids, ids))
    each = [mauve(human=human, model=model, seed=25 + i).mauve for i in range(3)]
    assert result.values["mauve"] == pytest.approx(np.mean(each))
    assert result.sd["mauve"] == pytest.approx(np.std(each, ddof=1))
    curves = result.arrays["divergence_curves"]
    assert curves.shape == (3, 27, 2)
    assert [scores.curve_area(c) for c in curves] == pytest.approx(each)
    assert any("n/k=10" in note for note in result.notes)
    assert not Mauve(clustering_seeds=1).compute(sides(spec, human, model, ids, ids)).sd


def test_joint_fit_needs_a_grid_and_does_not_depend_on_its_order():
    human = clusters(100, 12)
    ids = tuple(f"t/{i:03d}" for i in range(100))
    spec = Mauve(clustering_seeds=1, cluster_fit="joint")
    (need,) = spec.needs()
    grid = [Side(f"m{i}", ids, {need: clusters(100, 4 + 3 * i, seed=i)}) for i in range(3)]
    check_error(UndefinedMetric, "grid", spec.compute, Features(Side("human", ids, {need: human}), grid[0], {}))
    found = []
    for others in (grid, grid[::-1]):
        side = Side("human", ids, {need: human})
        found.append([spec.compute(Features(side, m, {}, others)).values["mauve"] for m in grid])
    assert found[0] == found[1]
    assert found[0] == sorted(found[0])


def test_reference_fit_uses_the_human_side_alone():
    human, model = clusters(100, 12), clusters(90, 12, seed=1)
    spec = Mauve(clustering_seeds=1, cluster_fit="reference")
    (need,) = spec.needs()
    reference = Side("human", tuple(map(str, range(100, 200))), {need: human})
    result = spec.compute(Features(reference, Side("m", tuple(map(str, range(100, 190))), {need: model}), {}))
    assert 0.3 < result.values["mauve"] <= 1
    assert any("differ in size" in note for note in result.notes)
    assert result.arrays["divergence_curves"].shape == (1, 27, 2)


# edges


def test_edges():
    good, p, ones = np.eye(4), np.array([0.5, 0.5]), np.ones(3)
    bad = (np.array([]), np.zeros(2), np.array([-1.0, 2.0]), np.array([np.nan, 1.0]), np.eye(2))
    check_edges([
        *((lambda c=c: mauve(**({"human": good, "model": good} | c)), error, message) for c, error, message in (
            ({"model": np.where(np.arange(4)[:, None] == 2, np.nan, good)}, ValueError, "row 2"),
            ({"model": np.ones((4, 3))}, ValueError, "dimension"),
            ({"model": np.ones(4)}, ValueError, "shape"),
            ({"num_buckets": 0}, ValueError, "num_buckets"),
            ({"quantizer": "vq"}, ValueError, "quantizer"),
            ({"curve_points": 0}, ValueError, "curve_points: expected at least 1, got 0"),
            ({"num_buckets": 9}, UndefinedMetric, "buckets"),
            ({"human": good[:0]}, UndefinedMetric, "2 texts"),
            ({"human": good[:1]}, UndefinedMetric, "2 texts"),
        )),
        *((lambda b=b: precision_recall_curve(human_hist=b, model_hist=p), ValueError, "hist") for b in bad),
        (lambda: precision_recall_curve(human_hist=p, model_hist=ones), ValueError, "cells"),
        (lambda: precision_recall_curve(human_hist=p, model_hist=p, num_angles=2), ValueError, "num_angles"),
    ])  # fmt: skip
    assert precision_recall_curve(human_hist=np.ones(1), model_hist=np.ones(1)).f8 == pytest.approx(1)
    assert check_side(np.eye(3, dtype=np.float16), "x").dtype == np.float32
    for rows in (np.ones((30, 4)), np.zeros((30, 4))):
        assert mauve(human=rows, model=rows).mauve == 1.0


def test_the_scale_of_rows_does_not_matter_even_where_squares_leave_float64(tmp_path):
    human, model = clusters(60, 12), clusters(60, 6, seed=1)
    plain = mauve(human=human, model=model).mauve
    scale = np.float32(10.0) ** np.random.default_rng(0).integers(-10, 10, (60, 1)).astype(np.float32)
    assert mauve(human=human * scale, model=model).mauve == pytest.approx(plain)
    for factor in (2.0**600, 2.0**-600):
        wide, narrow = human.astype(np.float64) * factor, model.astype(np.float64) * factor
        assert mauve(human=wide, model=narrow).mauve == pytest.approx(plain, abs=1e-9)
    np.save(tmp_path / "h.npy", human)
    assert mauve(human=np.load(tmp_path / "h.npy", mmap_mode="r"), model=model).mauve == plain


# smoothing of cell counts

COUNTS = np.array([3, 1, 0, 0])


@cases(
    "rule, want",
    ("none", [0.75, 0.25, 0, 0]),
    ("laplace", [4 / 8, 2 / 8, 1 / 8, 1 / 8]),
    ("kt", [3.5 / 6, 1.5 / 6, 0.5 / 6, 0.5 / 6]),
    ("braess_sauer", [3.75 / 6.75, 2 / 6.75, 0.5 / 6.75, 0.5 / 6.75]),
    # φ(0) = 2, φ(1) = 1, φ(2) = 0, φ(3) = 1. t = 0: (φ(1) + 1) 1 / (4 φ(0)) = .25 each; t = 1 > φ(2): 1 / 4;
    # t = 3 > φ(4): 3 / 4; the sum is 1.5.
    ("good_turing", [0.75 / 1.5, 0.25 / 1.5, 0.25 / 1.5, 0.25 / 1.5]),
)
def test_shares_by_hand(rule, want):
    np.testing.assert_allclose(scores.smooth(COUNTS / 4, 4, rule), want, rtol=1e-14)


def test_the_starred_values_are_those_of_kt():
    human, model = np.repeat([0, 1, 2], [8, 3, 1]), np.repeat([0, 2, 3], [4, 4, 4])
    plain = mauve_of_cells(human=human, model=model, num_buckets=4)
    kt = mauve_of_cells(human=human, model=model, num_buckets=4, smoothing="kt")
    assert (kt.mauve, kt.frontier_integral) == (plain.mauve_star, plain.frontier_integral_star)
    assert (kt.mauve_star, plain.mauve_star > plain.mauve) == (plain.mauve_star, True)
    np.testing.assert_array_equal(kt.human_hist, plain.human_hist)
    # With cells smoothed, nothing is impossible: the divergences between the sides are those of the rule.
    shares = scores.share_cells(human, model, 4)
    values = scores.summarize_shares(*shares, kt.js, [0.5], "kt")
    assert values["kl_human_model"] == scores.summarize_shares(*shares, 0, [0.5], "none")["kl_human_model"]
    assert values["js"] == kt.js < plain.js


def test_codes_that_hold_no_text_are_left_out_where_asked():
    human, model = np.array([0, 0, 5]), np.array([5, 9, 9])
    every = mauve_of_cells(human=human, model=model, num_buckets=1000)
    shares = scores.share_cells(human, model, 1000, seen_only=True)
    seen = Values(scores.score_shares(*shares, scores.CurveRule(), "none"))
    assert seen.num_buckets == 3
    assert seen.mauve == pytest.approx(every.mauve, abs=1e-12)
    assert seen.mauve_star < every.mauve_star  # 1,000 half counts make any two sides alike


# which rows a score is explained by


def test_cells_by_gap_and_texts_by_distance():
    """Cell 2 has 3/4 of the model and none of the human side, cell 0 half against nothing; cell 1 is even."""
    human = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.0, 1.0]])
    model = np.array([[0.0, 1.0], [-1.0, 0.1], [-1.0, 0.0], [-1.0, -0.1]])
    got = find_distinguishing_cells(human, model, CellCounts(np.array([0, 0, 1, 1]), np.array([1, 2, 2, 2]), 4))
    np.testing.assert_array_equal(got["cell"], [2, 0, 1])
    np.testing.assert_array_equal(got["cell_shares"], [[0, 0.75], [0.5, 0], [0.5, 0.25]])
    np.testing.assert_array_equal(got["cell_human_rows"], [[-1, -1, -1], [0, 1, -1], [2, 3, -1]])
    # The center of cell 2 is (-1, 0) but for its length: row 2 is nearest.
    np.testing.assert_array_equal(got["cell_model_rows"], [[2, 1, 3], [-1, -1, -1], [0, -1, -1]])


def test_results_carry_them():
    """A model that knows 4 of 12 groups: the cells that tell most are those that it fills too much or not at all."""
    human, model = clusters(240, 12), clusters(240, 4, seed=1)
    spec = Mauve(clustering_seeds=1, num_buckets=12)
    arrays = spec.compute(features(spec, human=human, model=model, n_human=240, n_model=240)).arrays
    shares, rows = arrays["cell_shares"], arrays["cell_model_rows"]
    gaps = np.abs(shares[:, 0] - shares[:, 1])
    assert list(gaps) == sorted(gaps, reverse=True)
    assert ((rows >= 0).any(axis=1) == (shares[:, 1] > 0)).all()
    assert shares[0, 1] > shares[0, 0]
    spec = MauveRatio(estimator="classifier")
    arrays = spec.compute(features(spec, human=human, model=model, n_human=240, n_model=240)).arrays
    assert arrays["ratio_human"][0] > 0 > arrays["ratio_model"][0]
    spec = KnnPrecisionRecall()
    result = spec.compute(features(spec, human=human, model=model, n_human=240, n_model=240))
    assert len(result.arrays["missed_human_rows"]) == round(240 * (1 - result.values["recall"]))
    assert len(result.arrays["missed_model_rows"]) == round(240 * (1 - result.values["precision"]))


# precision_recall_curve


def test_curve_by_hand_at_equal_weights():
    """p = (.5, .5), q = (1, 0). At angle 45° the slope is 1: precision = min(.5, 1) + min(.5, 0) = .5 = recall.

    As the slope grows precision tends to 1 (every model cell is a human one) and recall to .5 / slope; the best F1/8 is at
    slope 2: precision 1, recall .5, (1 + 1/64) · .5 / (1/64 + .5) = .5078125 / .515625 = .984848.
    """
    got = precision_recall_curve(human_hist=np.array([0.5, 0.5]), model_hist=np.array([1.0, 0.0]), num_angles=3)
    assert (got.precision[1], got.recall[1]) == pytest.approx((0.5, 0.5))
    fine = precision_recall_curve(human_hist=np.array([0.5, 0.5]), model_hist=np.array([1.0, 0.0]), num_angles=20001)
    assert fine.f1_8 == pytest.approx(0.984848, abs=1e-4)


@settings(max_examples=50, deadline=None)
@given(HISTOGRAMS)
def test_precision_and_recall_agree_with_the_plain_formula(counts):
    p, q = (np.array(x) / sum(x) for x in counts)
    got = precision_recall_curve(human_hist=p, model_hist=q, num_angles=11)
    for angle, precision, recall in zip(
        np.linspace(1e-10, np.pi / 2 - 1e-10, 11), got.precision, got.recall, strict=True
    ):
        # 1e-9: min(1, …) cuts rounding at the ends.
        assert (precision, recall) == pytest.approx(oracle.prd(p, q, np.tan(angle)), abs=1e-9)


def test_the_curve_as_a_metric():
    rng = np.random.default_rng(0)
    human, model = rng.normal(size=(60, 6)).astype("f4"), rng.normal(size=(60, 6)).astype("f4") + 1
    spec = PrecisionRecallCurve(clustering_seeds=2)
    same = spec.compute(features(spec, human=human, model=human, n_human=60, n_model=60))
    other = spec.compute(features(spec, human=human, model=model, n_human=60, n_model=60))
    assert same.values["f8"] == pytest.approx(1)
    assert other.values["f8"] < 0.9
    assert set(other.sd) == {"f8", "f1_8"}
    assert other.arrays["precision"].shape == (1001,)
    with pytest.raises(UndefinedMetric):
        spec.compute(features(spec, human=human[:1], model=model, n_human=1, n_model=60))


def test_empty_cells_are_left_out_where_a_quantizer_has_many_more_than_texts():
    """744 cells of which three hold texts: half a count in each of the others would make the sides alike."""
    cells = CellCounts(np.repeat([7, 0], 20), np.repeat([7, 500], 20), 744)
    ones = np.ones((1, 40))
    starred = {q: Mauve(quantizer=q).score((cells,), ones, ones)["mauve_star"][0] for q in ("lattice", "kmeans")}
    few = mauve_of_cells(human=np.repeat([1, 0], 20), model=np.repeat([1, 2], 20), num_buckets=3)
    assert starred["lattice"] == pytest.approx(few.mauve_star)
    assert starred["kmeans"] > starred["lattice"] + 0.2


def test_one_side_of_huge_numbers_scales_both():
    human, model = limit_magnitude(human=np.ones((2, 2)), model=np.full((2, 2), 1e200))
    assert np.isfinite((model**2).sum())
    assert model / human == pytest.approx(1e200)
