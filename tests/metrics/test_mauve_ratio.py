"""MAUVE from density ratios: closed forms of two Gaussians, and what each estimator keeps and cannot see."""

import math

import numpy as np
import pytest

from openended.harness.core import Features, Side, UndefinedMetric
from openended.metrics._mauve.density_ratio import RatioSettings, log_ratios
from openended.metrics.mauve import Mauve, mauve
from openended.metrics.mauve_ratio import MauveRatio, mauve_ratio, score_ratios
from tests.helpers import cases, features
from tests.metrics.helpers import check_edges

ALL = ("knn", "kde", "classifier", "gaussian")
TRUTH = {0.0: (1.0, 1.0, 0.0), 0.5: (0.951, 0.739, 0.0406), 1.0: (0.632, 0.328, 0.1514), 2.0: (0.105, 0.034, 0.4705)}


def normal(n=1000, d=5, shift=0.0, scale=1.0, seed=0):
    rows = scale * np.random.default_rng(seed).normal(size=(n, d))
    rows[:, 0] += shift
    return rows


@pytest.fixture(scope="module")
def ladder():
    """Estimator → δ → result, of 2,000 + 2,000 rows in five dimensions."""
    human = normal(2000, seed=1)
    models = {shift: normal(2000, shift=shift, seed=2) for shift in (0.0, 0.5, 1.0, 2.0, 8.0)}
    return {
        name: {shift: mauve_ratio(human=human, model=rows, estimator=name) for shift, rows in models.items()}
        for name in ALL
    }


def exact_ratios(shift, n=50_000):
    """log p / q at draws from N(0, 1) and N(δ, 1): -δ x + δ² / 2."""
    rng = np.random.default_rng(3)
    return [shift**2 / 2 - shift * (rng.normal(size=n) + at) for at in (0, shift)]


@pytest.mark.parametrize("shift", TRUTH)
def test_exact_ratios_give_the_truth(shift):
    human, model = exact_ratios(shift)
    got = score_ratios((human, model), curve_points=51)
    area, mid, integral = TRUTH[shift]
    # 50,000 draws: a standard error of .004 at most.
    assert got.mauve == pytest.approx(area, abs=0.015)
    assert math.exp(-10 * got.js) == pytest.approx(mid, abs=0.015)
    assert got.frontier_integral == pytest.approx(integral, abs=0.008)


def test_the_integral_is_that_of_its_definition():
    """2 ∫ λ KL(P || R) + (1 - λ) KL(Q || R) dλ by the midpoint rule, from the formulas of both divergences."""
    human, model = (rows[:500] for rows in exact_ratios(1.5))
    w = ((np.arange(4000) + 0.5) / 4000)[:, None]
    r, s = np.exp(human), np.exp(model)
    terms = w * np.log(r / (w * r + 1 - w)).mean(axis=1, keepdims=True)
    terms += (1 - w) * np.log(1 / (w * s + 1 - w)).mean(axis=1, keepdims=True)
    assert score_ratios((human, model)).frontier_integral == pytest.approx(2 * terms.mean(), abs=1e-6)


def test_the_ends_are_exact():
    nothing, all_ = np.zeros(7), np.full(7, np.inf)
    same = score_ratios((nothing, nothing))
    assert (same.mauve, same.js, same.frontier_integral, same.clipped) == pytest.approx((1, 0, 0, 0), abs=1e-12)
    apart = score_ratios((all_, -all_), curve_points=501)
    assert apart.js == pytest.approx(math.log(2))
    assert apart.frontier_integral == pytest.approx(1)
    assert apart.mauve == pytest.approx(1 / 252, abs=1e-4)  # 1 / C(10, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_shifts_have_their_closed_form(ladder, name):
    """Against the true ratios at the same rows: 2,000 of them move the area of the truth itself by .03 (one sd)."""
    for shift in (0.5, 1.0, 2.0):
        human, model = normal(2000, seed=1)[:, 0], normal(2000, shift=shift, seed=2)[:, 0]
        exact = score_ratios((shift**2 / 2 - shift * human, shift**2 / 2 - shift * model))
        assert exact.mauve == pytest.approx(TRUTH[shift][0], abs=0.09)
        # Kernels of one width blur the sides into each other: too high by .065 at δ = 1 in the mean of eight draws.
        tolerance = 0.08 if name == "kde" else 0.05
        assert ladder[name][shift].mauve == pytest.approx(exact.mauve, abs=tolerance), shift
        assert ladder[name][shift].frontier_integral == pytest.approx(TRUTH[shift][2], abs=0.03), shift


@pytest.mark.parametrize("name", ALL)
def test_a_ladder_of_shifts_falls_to_disjoint_sides(ladder, name):
    scores = [result.mauve for result in ladder[name].values()]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] == pytest.approx(1 / 252, abs=1e-3)
    assert scores[0] > (0.98 if name != "knn" else 0.95)
    for result in ladder[name].values():
        assert 0 <= result.js <= math.log(2)
        assert 0 <= result.frontier_integral <= 1
        assert result.mid_point == pytest.approx(math.exp(-10 * result.js))


@pytest.mark.parametrize("name", ALL)
def test_order_rotation_and_shift_do_not_matter_and_swapped_sides_mirror_the_curve(name):
    human, model = normal(200, shift=0.6, seed=4), normal(200, seed=5)
    plain, back = (mauve_ratio(human=a, model=b, estimator=name) for a, b in ((human, model), (model, human)))
    # 1e-3: the classifier's solver stops near its optimum.
    tolerance = 1e-3 if name == "classifier" else 1e-9
    np.testing.assert_allclose(plain.divergence_curve[::-1, ::-1], back.divergence_curve, atol=tolerance)
    assert plain.mauve == pytest.approx(back.mauve, abs=tolerance)
    rng = np.random.default_rng(6)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    shuffled = mauve_ratio(human=human[rng.permutation(200)], model=model[rng.permutation(200)], estimator=name)
    assert shuffled.mauve == pytest.approx(plain.mauve, abs=tolerance)
    # Projection is to float64; the classifier's ridge sees standardized axes, which a rotation changes.
    turned = mauve_ratio(human=human @ turn + 3, model=model @ turn + 3, estimator=name)
    assert turned.mauve == pytest.approx(plain.mauve, abs=0.02 if name == "classifier" else 1e-6)


@pytest.mark.parametrize("name", ["kde", "classifier", "left_out"])
def test_texts_of_one_prompt_do_not_judge_each_other(name):
    """Each model row lies beside the human row of its prompt, both moved by the prompt: what remains is the shift."""
    prompts = 3 * normal(1000, seed=11)
    human, model = (prompts + 0.3 * normal(1000, shift=shift, seed=seed) for shift, seed in ((0.0, 12), (6.0, 13)))
    ids = np.arange(1000)
    left_out = {"estimator": "knn", "own_point": "left_out", "neighbors": 20}
    options = left_out if name == "left_out" else {"estimator": name}
    blind = mauve_ratio(human=human, model=model, groups=(ids, ids + 1000), **options)
    seeing = mauve_ratio(human=human, model=model, groups=(ids, ids), **options)
    assert seeing.js >= blind.js
    assert seeing.mauve < 0.97  # N(0, 9.09) against a mean of 1.8: a shift of .6


def test_ties_do_not_prefer_a_side():
    """Every row stands twice, once on each side: each is as near to both copies."""
    rows = normal(80, seed=13)
    settings = RatioSettings(10, "left_out", 1.0, 25, None)
    human, model = log_ratios(human=rows, model=rows.copy(), estimator="knn", settings=settings)
    np.testing.assert_allclose(human, -model, atol=1e-12)
    assert mauve_ratio(human=rows, model=rows.copy(), estimator="knn", neighbors=10, own_point="left_out").mauve > 0.97


# the metric


@pytest.mark.parametrize("name", ALL)
def test_metric_gives_the_value_of_the_function_and_its_remarks(name):
    human, model = (rows.astype(np.float32) for rows in (normal(60, shift=0.1, seed=1), normal(60, seed=2)))
    spec = MauveRatio(estimator=name, neighbors=20)
    got = spec.compute(features(spec, human=human, model=model, n_human=60, n_model=60))
    ids = np.array([f"t/{i:06d}" for i in range(60)])  # as helpers.features names them
    want = mauve_ratio(human=human, model=model, estimator=name, neighbors=20, groups=(ids, ids))
    assert got.values["mauve"] == pytest.approx(want.mauve, abs=1e-9)
    assert got.primary == "mauve"
    assert got.arrays["divergence_curves"].shape == (1, 27, 2)
    assert set(got.values) == {"mauve", "frontier_integral", "js", "type_1@0.5", "type_2@0.5"}
    start = "clipped: most means" if want.clipped >= 0.5 else "clipped: some means"
    assert [note[: len(start)] for note in got.notes if "clipped" in note] == ([start] if want.clipped else [])
    assert any("mid-point of 0.779" in note for note in got.notes) == (name == "knn")  # exp(-5 / 20)


def test_too_few_texts_have_no_estimate():
    human, model = normal(10), normal(10, seed=1)
    mauve_ratio(human=human, model=model, estimator="knn", neighbors=20)  # each of the 20 texts and the 19 others
    few = {"human": human[:2], "model": model[:2], "estimator": "gaussian"}
    knn = {"human": human, "model": model, "estimator": "knn"}
    check_edges([
        (lambda: mauve_ratio(**knn, neighbors=21), UndefinedMetric, "neighbors"),
        (lambda: mauve_ratio(**knn, neighbors=0), ValueError, "neighbors: expected at least 1, got 0"),
        (lambda: mauve_ratio(**few), UndefinedMetric, "folds"),
    ])  # fmt: skip
    assert 0 <= mauve_ratio(human=np.ones((9, 3)), model=np.ones((9, 3)), estimator="kde").mauve <= 1
    assert mauve_ratio(human=np.ones((40, 3)), model=np.ones((40, 3)), estimator="knn").mauve > 0.9


@cases(
    "summary, primary", ("area", "mauve"), ("mid_point", "mid_point"), ("js", "js"), ("integral", "frontier_integral")
)
def test_the_summary_is_what_a_table_shows_first(summary, primary):
    human, model = normal(60, seed=1).astype(np.float32), normal(60, shift=1.0, seed=2).astype(np.float32)
    specs = Mauve(summary=summary, clustering_seeds=1), MauveRatio(summary=summary, estimator="gaussian")
    found = [spec.compute(features(spec, human=human, model=model, n_human=60, n_model=60)) for spec in specs]
    assert {result.primary for result in found} == {primary}
    want = mauve(human=human, model=model)
    assert found[0].values[primary] == pytest.approx(want[primary])
    if summary == "mid_point":
        assert want.mid_point == pytest.approx(math.exp(-10 * want.js))


def test_several_samples_of_a_prompt_count_as_such():
    """Two samples a prompt are twice as many model texts; the classifier holds a prompt's texts out together."""
    human, model = normal(60, seed=1).astype(np.float32), normal(120, shift=0.5, seed=2).astype(np.float32)
    ids = tuple(f"t/{i:02d}" for i in range(60))
    twice = tuple(np.repeat(np.array(ids), 2).tolist())
    groups = np.array(ids), np.array(twice)
    wants = (
        mauve(human=human, model=model),
        mauve_ratio(human=human, model=model, estimator="classifier", groups=groups),
    )
    for spec, want in zip((Mauve(clustering_seeds=1), MauveRatio(estimator="classifier")), wants, strict=True):
        (need,) = spec.needs()
        got = spec.compute(Features(Side("human", ids, {need: human}), Side("m", twice, {need: model}), {}))
        assert got.values["mauve"] == pytest.approx(want.mauve, abs=1e-9)
        assert (got.n_human, got.n_model) == (60, 120)


def test_arrays_name_the_texts_that_the_other_side_would_not_write():
    prepared = np.array([0.1, np.inf, -3.0]), np.array([2.0, -1.0, -np.inf])
    spec = MauveRatio()
    given = features(spec, human=np.zeros((3, 1), "f4"), model=np.zeros((3, 1), "f4"), n_human=3, n_model=3)
    got = spec.evaluate(given, prepared)
    np.testing.assert_array_equal(got.arrays["ratio_human_rows"], [1, 0, 2])
    np.testing.assert_array_equal(got.arrays["ratio_human"], [700, 0.1, -3])
    np.testing.assert_array_equal(got.arrays["ratio_model_rows"], [2, 1, 0])
    assert got.per_example["mauve"].tolist() == [-2, 1, 700]
