"""MAUVE from density ratios: closed forms of two Gaussians, and what each estimator keeps and cannot see.

For N(0, I) against N(δ e₁, I) in any dimension the truth was computed by quadrature over 56,001 points:
δ = .5, 1, 2: area .951, .632, .105; mid-point .739, .328, .034; frontier integral .0406, .1514, .4705.
"""

import math

import numpy as np
import pytest

from openended.harness.core import Features, Side, SpecError, UndefinedMetric
from openended.metrics._mauve.density_ratio import RatioSettings, log_ratios
from openended.metrics._mauve.scores import Ratios, mauve_of_ratios
from openended.metrics.correlation import rank_correlation
from openended.metrics.mauve import Mauve, mauve
from tests.helpers import features
from tests.metrics._mauve.test_quantizers import CODED
from tests.metrics.test_mauve import clusters

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
        name: {shift: mauve(human=human, model=rows, estimator=name) for shift, rows in models.items()} for name in ALL
    }


def exact_ratios(shift, n=50_000):
    """log p / q at draws from N(0, 1) and N(δ, 1): -δ x + δ² / 2."""
    rng = np.random.default_rng(3)
    return [shift**2 / 2 - shift * (rng.normal(size=n) + at) for at in (0, shift)]


@pytest.mark.parametrize("shift", TRUTH)
def test_exact_ratios_give_the_truth(shift):
    human, model = exact_ratios(shift)
    got = mauve_of_ratios(human=human, model=model, curve_points=51)
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
    assert Ratios(human, model).integral() == pytest.approx(2 * terms.mean(), abs=1e-6)


def test_the_ends_are_exact():
    nothing, all_ = np.zeros(7), np.full(7, np.inf)
    same = mauve_of_ratios(human=nothing, model=nothing)
    assert (same.mauve, same.js, same.frontier_integral, same.clipped) == pytest.approx((1, 0, 0, 0), abs=1e-12)
    apart = mauve_of_ratios(human=all_, model=-all_, curve_points=501)
    assert apart.js == pytest.approx(math.log(2))
    assert apart.frontier_integral == pytest.approx(1)
    assert apart.mauve == pytest.approx(1 / 252, abs=1e-4)  # 1 / C(10, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_shifts_have_their_closed_form(ladder, name):
    """Against the true ratios at the same rows: 2,000 of them move the area of the truth itself by .03 (one sd)."""
    for shift in (0.5, 1.0, 2.0):
        human, model = normal(2000, seed=1)[:, 0], normal(2000, shift=shift, seed=2)[:, 0]
        exact = mauve_of_ratios(human=shift**2 / 2 - shift * human, model=shift**2 / 2 - shift * model)
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
        assert math.isnan(result.mauve_star)
        assert result.num_buckets == 0


def test_own_point_counted_has_a_ceiling_and_left_out_has_none(ladder):
    assert ladder["knn"][0.0].mid_point == pytest.approx(math.exp(-5 / 50), abs=0.03)
    human, model = normal(2000, seed=1), normal(2000, seed=2)
    assert mauve(human=human, model=model, estimator="knn", self="left_out").mid_point > 0.97


@pytest.mark.parametrize("name", ALL)
def test_order_rotation_and_shift_do_not_matter_and_swapped_sides_mirror_the_curve(name):
    human, model = normal(200, shift=0.6, seed=4), normal(200, seed=5)
    plain, back = (mauve(human=a, model=b, estimator=name) for a, b in ((human, model), (model, human)))
    # 1e-3: the classifier's solver stops near its optimum.
    tolerance = 1e-3 if name == "classifier" else 1e-9
    np.testing.assert_allclose(plain.divergence_curve[::-1, ::-1], back.divergence_curve, atol=tolerance)
    assert plain.mauve == pytest.approx(back.mauve, abs=tolerance)
    rng = np.random.default_rng(6)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    shuffled = mauve(human=human[rng.permutation(200)], model=model[rng.permutation(200)], estimator=name)
    assert shuffled.mauve == pytest.approx(plain.mauve, abs=tolerance)
    # Projection is to float64; the classifier's ridge sees standardized axes, which a rotation changes.
    turned = mauve(human=human @ turn + 3, model=model @ turn + 3, estimator=name)
    assert turned.mauve == pytest.approx(plain.mauve, abs=0.02 if name == "classifier" else 1e-6)


@pytest.mark.parametrize("name", ALL)
def test_one_source_in_unequal_numbers_is_still_one_source(name):
    human, model = normal(2000, seed=9), normal(1000, seed=10)
    assert mauve(human=human, model=model, estimator=name).mauve > 0.97
    moved = mauve(human=human, model=normal(1000, shift=1.0, seed=10), estimator=name).mauve
    # The sample's own noise is .04, and kernels blur.
    assert moved == pytest.approx(TRUTH[1.0][0], abs=0.14 if name == "kde" else 0.08)


@pytest.mark.parametrize("name", ["kde", "classifier", "left_out"])
def test_texts_of_one_prompt_do_not_judge_each_other(name):
    """Each model row lies beside the human row of its prompt, both moved by the prompt: what remains is the shift."""
    prompts = 3 * normal(1000, seed=11)
    human, model = (prompts + 0.3 * normal(1000, shift=shift, seed=seed) for shift, seed in ((0.0, 12), (6.0, 13)))
    ids = np.arange(1000)
    options = {"estimator": "knn", "self": "left_out", "neighbors": 20} if name == "left_out" else {"estimator": name}
    blind = mauve(human=human, model=model, groups=(ids, ids + 1000), **options)
    seeing = mauve(human=human, model=model, groups=(ids, ids), **options)
    assert seeing.js >= blind.js
    assert seeing.mauve < 0.97  # N(0, 9.09) against a mean of 1.8: a shift of .6


@pytest.fixture(scope="module")
def systems():
    """Human rows around 24 centers, systems that know 2, 5, … of them, and their scores by k-means."""
    human = clusters(400, 24, centers=24)
    models = [clusters(400, known, seed=known, centers=24) for known in range(2, 25, 3)]
    return human, models, [mauve(human=human, model=rows, restarts=2).mauve for rows in models]


@pytest.mark.slow
@pytest.mark.thin(2)
@pytest.mark.parametrize("options", [{"quantizer": q} for q in CODED] + [{"estimator": e} for e in ALL], ids=str)
def test_systems_stand_in_the_order_that_k_means_has(systems, options):
    """Pillutla et al. 2021, section 4.2: the quantizers' rankings agree."""
    human, models, expected = systems
    scores = [mauve(human=human, model=rows, **options).mauve for rows in models]
    # An estimator holds several of these systems for people's own text, and their order is chance.
    assert rank_correlation(expected, scores) >= (0.95 if "quantizer" in options else 0.9)


def test_ties_do_not_prefer_a_side():
    """Every row stands twice, once on each side: each is as near to both copies."""
    rows = normal(80, seed=13)
    settings = RatioSettings(10, "left_out", 1.0, 25, None)
    human, model = log_ratios(human=rows, model=rows.copy(), estimator="knn", settings=settings)
    np.testing.assert_allclose(human, -model, atol=1e-12)
    assert mauve(human=rows, model=rows.copy(), estimator="knn", neighbors=10, self="left_out").mauve > 0.97


# the metric


@pytest.mark.parametrize("name", ALL)
def test_metric_gives_the_value_of_the_function_and_its_remarks(name):
    human, model = (rows.astype(np.float32) for rows in (normal(60, shift=0.1, seed=1), normal(60, seed=2)))
    spec = Mauve(estimator=name, neighbors=20)
    got = spec.compute(features(spec, human=human, model=model, n_human=60, n_model=60))
    ids = np.array([f"t/{i:06d}" for i in range(60)])  # as helpers.features names them
    want = mauve(human=human, model=model, estimator=name, neighbors=20, groups=(ids, ids))
    assert got.values["mauve"] == pytest.approx(want.mauve, abs=1e-9)
    assert got.primary == "mauve"
    assert got.arrays["divergence_curves"].shape == (1, 27, 2)
    assert set(got.values) == {"mauve", "frontier_integral", "js", "type_1@0.5", "type_2@0.5"}
    said = "clipped: most means" if want.clipped >= 0.5 else "clipped: some means"
    assert [note[: len(said)] for note in got.notes if "clipped" in note] == ([said] if want.clipped else [])
    assert any("mid-point of 0.779" in note for note in got.notes) == (name == "knn")  # exp(-5 / 20)


@pytest.mark.parametrize(
    ("summary", "primary"),
    [("area", "mauve"), ("mid_point", "mid_point"), ("js", "js"), ("integral", "frontier_integral")],
)
def test_the_summary_is_what_a_table_shows_first(summary, primary):
    human, model = normal(60, seed=1).astype(np.float32), normal(60, shift=1.0, seed=2).astype(np.float32)
    found = []
    for estimator in ("cells", "gaussian"):
        spec = Mauve(summary=summary, estimator=estimator, clustering_seeds=1)
        result = spec.compute(features(spec, human=human, model=model, n_human=60, n_model=60))
        assert result.primary == primary
        found.append(result)
    want = mauve(human=human, model=model)
    assert found[0].values[primary] == pytest.approx(want[primary])
    if summary == "mid_point":
        assert want.mid_point == pytest.approx(math.exp(-10 * want.js))


def test_options_that_do_nothing_together_are_refused():
    for options in ({"smoothing": "kt"}, {"cluster_fit": "reference"}):
        with pytest.raises(SpecError, match="estimator"):
            Mauve(estimator="knn", **options)


def test_too_few_texts_have_no_estimate():
    human, model = normal(10), normal(10, seed=1)
    with pytest.raises(UndefinedMetric, match="neighbors"):
        mauve(human=human, model=model, estimator="knn", neighbors=21)
    mauve(human=human, model=model, estimator="knn", neighbors=20)  # each of the 20 texts and the 19 others
    with pytest.raises(UndefinedMetric, match="folds"):
        mauve(human=human[:2], model=model[:2], estimator="gaussian")
    assert 0 <= mauve(human=np.ones((9, 3)), model=np.ones((9, 3)), estimator="kde").mauve <= 1
    assert mauve(human=np.ones((40, 3)), model=np.ones((40, 3)), estimator="knn").mauve > 0.9


def test_several_samples_of_a_prompt_count_as_such():
    """Two samples a prompt are twice as many model texts; the classifier holds a prompt's texts out together."""
    human, model = normal(60, seed=1).astype(np.float32), normal(120, shift=0.5, seed=2).astype(np.float32)
    ids = tuple(f"t/{i:02d}" for i in range(60))
    twice = tuple(np.repeat(np.array(ids), 2).tolist())
    for estimator, groups in (("cells", None), ("classifier", (np.array(ids), np.array(twice)))):
        spec = Mauve(estimator=estimator, clustering_seeds=1)
        (need,) = spec.needs()
        got = spec.compute(Features(Side("human", ids, {need: human}), Side("m", twice, {need: model}), {}))
        want = mauve(human=human, model=model, estimator=estimator, groups=groups)
        assert got.values["mauve"] == pytest.approx(want.mauve, abs=1e-9)
        assert (got.n_human, got.n_model) == (60, 120)
