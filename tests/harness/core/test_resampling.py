"""Random streams, replicates, intervals and permutation tests against what is known of them in closed form."""

import dataclasses
import math

import numpy as np
import pytest

from openended.harness.core import (
    SHARE,
    combine_replicates,
    derive_seed,
    permutation_p_value,
    relabel_rows,
    row_uniforms,
)
from openended.harness.core.resampling import Plan, Replicates, estimate_interval, wilson_interval

FLAT = Replicates(np.zeros((1, 200)))
IDS = [f"t/{i:04d}" for i in range(300)]


@pytest.fixture(scope="module")
def plan():
    return Plan(200)


def halves_of(plan, values, of=lambda x: x):
    inside = plan.mask_halves(IDS[: len(values)])
    means = np.stack([(m @ values) / m.sum(axis=1) for m in (inside, ~inside)])
    return Replicates(of(means))


def test_a_prompt_is_drawn_alike_wherever_it_stands(plan):
    weights, halves, subsets = plan.weights(IDS), plan.mask_halves(IDS), plan.subsets(IDS, SHARE)
    turned = IDS[::-1]
    assert np.array_equal(Plan(200).weights(turned), weights[:, ::-1])
    assert np.array_equal(Plan(200).mask_halves(turned), halves[:, ::-1])
    assert np.array_equal(plan.weights([i for i in IDS for _ in "ab"])[:, ::2], weights), "samples go with their prompt"
    assert set(halves.sum(axis=1)) == {150}
    assert set(subsets.sum(axis=1)) == {270}
    assert {int(m.sum()) for m in plan.mask_halves(IDS[:11])} == {5}
    # Poisson(1): mean and variance 1; 60,000 draws have a standard error of 0.004 and 0.007
    assert weights.mean() == pytest.approx(1, abs=0.03)
    assert weights.var() == pytest.approx(1, abs=0.05)
    assert abs(np.corrcoef(halves[0], halves[1])[0, 1]) < 0.3


def test_all_three_kinds_find_the_standard_error_of_a_mean(plan):
    """sd / sqrt(n), with a relative standard error of 1 / sqrt(2 R): 5 % for 200 draws, 7 % for 100 splits."""
    values = np.random.default_rng(0).gamma(2.0, size=300)
    known = values.std(ddof=1) / math.sqrt(300)
    inside = plan.subsets(IDS, SHARE)
    subsample = Replicates.from_subsamples((inside @ values) / inside.sum(axis=1), SHARE)
    for drawn in (plan.mean(IDS, values), halves_of(plan, values), subsample):
        assert drawn.std_error() == pytest.approx(known, rel=0.2)
    assert [d.method for d in (plan.mean(IDS, values), halves_of(plan, values), subsample)] == [
        "bootstrap", "halves", "subsample",
    ]  # fmt: skip


def test_the_covariance_of_halves_knows_a_statistic_that_has_no_linear_part(plan):
    """The square of a mean of 0: its standard deviation is sqrt(2) / n, where a derivative (0) says nothing."""
    found = []
    for seed in range(60):
        values = np.random.default_rng(seed).normal(size=200)
        found.append(halves_of(plan, values, np.square).std_error() ** 2)
    # The mean of V^2 over halves is the U-statistic 4/n^2 ... of pairs; its variance is 2 / n^2 to first order.
    assert math.sqrt(np.mean(found)) == pytest.approx(math.sqrt(2) / 200, rel=0.35)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (0.0, math.inf), (-math.inf, 3.0), (-math.inf, math.inf), (1.0, 1e6)])
def test_no_interval_leaves_its_range_or_ends_inside_at_its_value(bounds):
    rng = np.random.default_rng(0)
    low, high = max(bounds[0], -50.0), min(bounds[1], 50.0)
    for _ in range(400):
        value = rng.choice([low, high, rng.uniform(low, high), low + (high - low) * 10.0 ** -rng.uniform(0, 12)])
        draws = value + 10.0 ** rng.uniform(-9, 2) * rng.normal(size=(rng.integers(1, 3), 8))
        made = Replicates(draws).interval(float(value), bounds)
        assert bounds[0] <= made.low <= value <= made.high <= bounds[1]
        if made.std_error > 1e-9 * abs(value):
            assert made.low < value or value == bounds[0]
            assert made.high > value or value == bounds[1]


def test_an_interval_near_a_bound_is_one_of_log_odds(plan):
    drawn = Replicates(np.array([[0.08, 0.1, 0.12, 0.1]]))
    made = drawn.interval(0.1, (0.0, 1.0))
    # sd of the draws 0.0163299, t 3.1824463; d logit / dp = 1 / (0.1 · 0.9): 0.57743 on either side of log(1 / 9)
    assert made.low == pytest.approx(1 / (1 + 9 * math.exp(0.5774348)), rel=1e-6)
    assert made.high == pytest.approx(1 / (1 + 9 * math.exp(-0.5774348)), rel=1e-6)
    assert drawn.interval(0.1, (0.0, math.inf)).high == pytest.approx(0.1 * math.exp(3.1824463 * 0.1632993), rel=1e-6)


def test_a_difference_of_two_systems_is_drawn_as_one(plan):
    rng = np.random.default_rng(1)
    prompt = rng.normal(size=300)
    a, b = prompt + 0.1 * rng.normal(size=300), prompt + 0.1 * rng.normal(size=300)
    left, right = plan.mean(IDS, a), plan.mean(IDS, b)
    both = combine_replicates((1.0, -1.0), (left, right))
    assert both.std_error() == pytest.approx((a - b).std(ddof=1) / math.sqrt(300), rel=0.2)
    assert both.std_error() < left.std_error() / 3
    first, second = np.array([1.0, 2.0, 4.0]), np.array([1.1, 2.0, 3.9])
    noisy = combine_replicates((1.0, -1.0), (Replicates(left.draws, first), Replicates(right.draws, second)))
    assert noisy.noise == pytest.approx(0.01 / 3)  # of (-.1, 0, .1): the seeds are shared, so is what they bring
    assert combine_replicates((1.0, -1.0), (Replicates(left.draws, first), right)).noise == pytest.approx((7 / 3) / 3)
    assert combine_replicates((1.0, -1.0), (Replicates(left.draws, first), Replicates(right.draws, second[:2]))) is None
    assert combine_replicates((1.0, -1.0), (left, halves_of(plan, a))) is None


def test_intervals_end_at_the_bounds_and_p_values_are_those_of_t(plan):
    drawn = Replicates(np.array([[0.8, 1.0, 1.2, 1.0]]))
    made = drawn.interval(0.95, (0.0, 1.0))
    assert made.high == 1.0
    # t quantile 0.975 with 3 degrees of freedom is 3.1824; sd of the draws 0.16330
    assert made.low == pytest.approx(0.95 - 3.1824463 * 0.1632993, rel=1e-6)
    assert drawn.p_value(3.1824463 * 0.1632993) == pytest.approx(0.05, rel=1e-5)
    still = Replicates(np.ones((1, 8)))
    assert not still.varies
    assert math.isnan(still.p_value(0.0)), "draws without variation test nothing"
    assert math.isnan(still.p_value(0.5))
    assert float(np.std(drawn.deviations(), ddof=0)) == pytest.approx(drawn.std_error())


def test_degrees_of_freedom_are_those_of_all_parts():
    """Satterthwaite: (sum of v)^2 / sum of v^2 / degrees; the parts of halves are subtracted, so that few are left."""
    rng = np.random.default_rng(0)
    alone = Replicates(rng.normal(size=(1, 200)))
    assert alone.dof == pytest.approx(199)
    a, b = float(np.var(alone.draws[0], ddof=1)), 2.0 / 3
    three = np.array([0.0, 2.0, np.sqrt(3) + 1])
    seeds = Replicates(alone.draws, three / three.std(ddof=1) * np.sqrt(2))
    assert seeds.dof == pytest.approx((a + b) ** 2 / (a**2 / 199 + b**2 / 2))
    assert 1 < seeds.dof < 30
    # Halves whose difference outweighs their mean: A - T is the variance, A and T are what is estimated.
    one, both = rng.normal(size=100), 0.3 * rng.normal(size=100)
    halves = Replicates(np.stack([both + one, both - one]), np.array([0.0, 0.1]))
    a, t, n = float(np.mean(one**2)), float(np.var(both, ddof=1)), 0.005 / 2
    assert halves.std_error() ** 2 == pytest.approx(a - t + n)
    assert halves.dof == pytest.approx((a - t + n) ** 2 / ((a**2 + t**2) / 99 + n**2 / 1))
    # 20 prompts: the bootstrap's variance is 19 / 20 of the right one, and 199 draws and 20 prompts estimate it.
    few = Replicates(alone.draws, prompts=20)
    assert few.std_error() == pytest.approx(alone.std_error() * math.sqrt(20 / 19))
    assert few.dof == pytest.approx(1 / (1 / 199 + 1 / 19))
    for scale in (1e-120, 1e120):  # the square of the variance leaves the range of float64
        scaled = dataclasses.replace(seeds, draws=seeds.draws * scale, repeats=seeds.repeats * scale)
        assert scaled.dof == pytest.approx(seeds.dof)
    assert combine_replicates((1.0, -1.0), (few, few)).prompts == few.map(np.exp).prompts == 20
    assert Replicates(halves.draws, halves.repeats, prompts=20).std_error() == halves.std_error()


def test_too_few_prompts_are_not_drawn(plan):
    assert plan.has_enough_prompts(IDS[:10])
    assert not plan.has_enough_prompts([IDS[0]] * 50)
    assert not Plan(0).has_enough_prompts(IDS)


def test_a_value_is_drawn_from_the_influence_of_its_texts(plan):
    values = np.random.default_rng(2).normal(5, 2, size=300)
    drawn = plan.linear(float(values.mean()), (IDS, values))
    assert drawn.std_error() == pytest.approx(values.std() / math.sqrt(300), rel=0.2)
    assert drawn.draws.mean() == pytest.approx(values.mean(), abs=0.1)


@pytest.mark.parametrize(
    ("events", "n", "low", "high"),
    # Brown, Cai and DasGupta's formula by hand: z = 1.95996; 0 of 10: z^2 / (n + z^2) = 3.8415 / 13.8415
    [(0, 10, 0.0, 0.277533), (10, 10, 0.722467, 1.0), (5, 10, 0.236593, 0.763407), (1, 100, 0.000513, 0.054486)],
    # Next to 0, the limit is Poisson's: of a mean -ln 0.95 = 0.051293, one event or more have a probability of 5 %.
)
def test_wilson_interval(events, n, low, high):
    made = wilson_interval(events / n, n, FLAT)
    assert (made.low, made.high) == pytest.approx((low, high), abs=2e-6)
    assert made.method == "wilson"


@pytest.mark.parametrize(("p", "n"), [(0.003, 100), (0.02, 100), (0.3, 60), (0.995, 200)])
def test_the_interval_of_a_share_covers_it(p, n):
    """By bootstrap and t alone, 28 % at p = 0.003 and n = 100."""
    plan, ids, held = Plan(200), [f"t/{i}" for i in range(n)], 0
    for world in range(300):
        rows = (np.random.default_rng([7, world]).random(n) < p).astype(np.float64)
        made = estimate_interval(plan.mean(ids, rows), float(rows.mean()), (0.0, 1.0), rows, is_share=True)
        assert made.low < made.high
        held += made.low <= p <= made.high
    assert held / 300 > 0.91


@pytest.mark.parametrize("rate", [0.17, 0.2, 0.35, 0.7, 1.1])  # expected events; Wilson's own interval: from 84 %
@pytest.mark.parametrize("mirrored", [False, True])
def test_the_interval_of_a_rare_share_covers_it(rate, mirrored):
    n, covered = 300, 0.0
    for events in range(20):
        made = wilson_interval(1 - events / n if mirrored else events / n, n, FLAT)
        share = 1 - rate / n if mirrored else rate / n
        covered += (
            (made.low <= share <= made.high)
            * math.comb(n, events)
            * (rate / n) ** events
            * (1 - rate / n) ** (n - events)
        )
    assert covered > 0.93


@pytest.mark.parametrize("errors", [0, 3, 40])
def test_twice_a_share_has_twice_its_interval(errors):
    """HUSE: the standard error of subsets says how many independent texts there are."""
    share, std_error = errors / 200, 0.02
    draws = Replicates(share + std_error * np.sqrt(7 / 3) * np.tile([-1.0, 1.0], 100)[None], share=0.3)
    made = estimate_interval(draws, 2 * share, (0.0, 2.0), np.repeat([2.0, 0.0], [errors, 200 - errors]), is_share=True)
    count = share * (1 - share) / (draws.std_error() / 2) ** 2 if errors else 200
    expected = wilson_interval(share, count, draws)
    assert (made.low, made.high) == pytest.approx((2 * expected.low, 2 * expected.high))


def test_a_mean_of_texts_of_which_few_differ_has_no_interval(plan):
    rows = np.zeros(60)
    for differing in (4, 5):
        rows[:differing] = np.linspace(0.2, 0.4, differing)
        made = estimate_interval(plan.mean(IDS[:60], rows), float(rows.mean()), (0.0, 1.0), rows)
        assert (made is None) == (differing < 5)
    prompts = np.repeat(np.arange(30), 2)
    assert estimate_interval(plan.mean(IDS[:60], rows), float(rows.mean()), (0.0, 1.0), rows, prompts) is None


def test_samples_of_a_prompt_count_for_less_than_prompts():
    prompts = np.repeat(np.arange(50), 8)
    ids = [f"t/{i}" for i in prompts]
    rows = np.repeat(np.random.default_rng(0).random(50) < 0.2, 8).astype(np.float64)  # all samples of a prompt agree
    share = float(rows.mean())
    made = estimate_interval(Plan(200).mean(ids, rows), share, (0.0, 1.0), rows, prompts, is_share=True)
    independent = wilson_interval(share, 50, FLAT)
    assert made.high - made.low == pytest.approx(independent.high - independent.low, rel=0.2)
    none = estimate_interval(FLAT, 0.0, (0.0, 1.0), np.zeros(400), prompts, is_share=True)
    assert none.high == pytest.approx(wilson_interval(0.0, 50, FLAT).high), "prompts are counted, not samples"


def test_without_variation_only_a_share_has_an_interval():
    assert estimate_interval(FLAT, 0.0) is None
    assert estimate_interval(FLAT, 0.0, (0.0, 0.0), np.zeros(8)) is None, "the entropy of texts of one token"
    most = float(np.log(22))
    assert estimate_interval(FLAT, most, (0.0, most), np.full(8, most)) is None, "equal entropies are no shares"
    same = Replicates(np.full((1, 200), 0.1) + 1e-17)
    assert not same.varies
    assert estimate_interval(same, 0.1, (0.0, 1.0), np.full(30, 0.1)) is None
    assert estimate_interval(FLAT, 1.0, (1.0, math.inf), np.ones(30)) is None, "texts of one token have no share of 1"
    assert math.isnan(same.p_value(0.1))
    rows = np.zeros(30)
    assert estimate_interval(FLAT, 0.0, (0.0, 1.0), rows) is None, "a mean of numbers that can be anything from 0 to 1"
    assert estimate_interval(FLAT, 0.0, (0.0, 1.0), rows, is_share=True).high > 0, "a share says so"


def test_texts_of_one_prompt_are_exchanged_and_others_are_drawn():
    ids = ["a", "b", "c"]
    labels = relabel_rows(ids, ids, 200)
    assert labels is not None
    assert (labels[:, :3] != labels[:, 3:]).all()  # of each prompt one text stands on each side
    assert 0.4 < labels[:, :3].mean() < 0.6
    loose = relabel_rows(ids, ["d", "e"], 200)
    assert loose is not None
    assert set(loose.sum(axis=1)) == {3}
    assert len({row.tobytes() for row in loose}) == 10  # all choices of 3 of 5
    assert relabel_rows(["a", "b"], ["a", "a", "b"], 5) is None


def test_p_value_counts_the_observed_labels():
    assert permutation_p_value(-1.0, np.array([-1.0, -2.0, -3.0])) == 0.5
    assert permutation_p_value(9.0, np.zeros(99)) == 0.01


def test_streams_depend_on_names_alone_extend_and_are_uniform():
    a = row_uniforms(0, "x", 0, 5)
    assert np.array_equal(a, row_uniforms(0, "x", 0, 9)[:5])
    assert not np.array_equal(a, row_uniforms(1, "x", 0, 5))
    assert not np.array_equal(a, row_uniforms(0, "y", 0, 5))
    assert not np.array_equal(a, row_uniforms(0, "x", 1, 5))
    assert derive_seed(0, "a", "b") != derive_seed(0, "ab")

    draws = np.concatenate([row_uniforms(7, str(i), 0, 8) for i in range(2000)])
    counts = np.histogram(draws, bins=20, range=(0, 1))[0]
    # 16,000 draws, 20 bins of 800: chi-square with 19 degrees of freedom is below 43.8 with probability 0.999.
    assert ((counts - 800) ** 2 / 800).sum() < 43.8
