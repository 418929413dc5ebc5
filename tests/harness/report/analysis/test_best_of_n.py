"""Best of N against the enumeration of all subsets, and on sweeps whose truth is known."""

import itertools
import math
import random
import statistics

import numpy as np
import pytest

from openended.harness.report.analysis.decoder_sweeps import (
    BestOfN,
    compute_curve,
    compute_expected_best,
    compute_weights,
    halves,
    pool_std,
)
from openended.harness.report.analysis.paired import compute_student_quantile

HIGHER = {"sign": -1.0, "target": math.nan}
LOWER = {"sign": 1.0, "target": math.nan}


@pytest.mark.parametrize("settings", range(1, 8))
def test_the_closed_form_is_the_mean_over_all_subsets(settings):
    rng = random.Random(settings)
    scores = [rng.choice([rng.random(), 0.5]) for _ in range(settings)]
    other = [rng.random() for _ in range(settings)]
    for count in range(1, settings + 1):
        subsets = list(itertools.combinations(range(settings), count))
        assert compute_expected_best(scores, count) == pytest.approx(
            statistics.mean(max(scores[i] for i in s) for s in subsets)
        )
        # chosen by one score and scored by another; equal ones are chosen with equal chances
        found = []
        for subset in subsets:
            top = [i for i in subset if scores[i] == max(scores[j] for j in subset)]
            found.append(statistics.mean(other[i] for i in top))
        if len(set(scores)) == settings:
            assert compute_expected_best(other, count, scores) == pytest.approx(statistics.mean(found))
        assert compute_weights(settings, count).sum() == pytest.approx(1)


def test_chances_are_shared_and_more_settings_are_never_worse():
    # the best two of three are equal: of one drawn 0, 4 or 8; of two drawn always one of the pair: 4 or 8
    assert compute_expected_best([0.0, 4.0, 8.0], 2, [1.0, 2.0, 2.0]) == pytest.approx(6)
    assert compute_expected_best([0.0, 4.0, 8.0], 1, [1.0, 2.0, 2.0]) == pytest.approx(4)

    scores = [0.3, 0.9, 0.1, 0.5]
    found = [compute_expected_best(scores, n) for n in (1, 2, 3, 4)]
    assert found[0] == pytest.approx(0.45)
    assert found[3] == 0.9
    assert found == sorted(found)


def test_noise_alone_is_no_advantage_on_fresh_seeds():
    """Settings that differ in nothing: chosen and scored on the same seeds the best looks good, on fresh ones it does not."""
    rng = random.Random(0)
    gain_seen, gain_fresh, covered = [], [], []
    for _ in range(400):
        values = [{str(s): rng.gauss(0, 1) for s in range(4)} for _ in range(6)]
        made = compute_curve("x", values, cost=HIGHER)
        gain_seen.append(made.seen[5])
        gain_fresh.append(made.fresh[5])
        covered.append(abs(made.fresh[5]) <= made.half[5])
    assert statistics.mean(gain_seen) == pytest.approx(1.27 / 2, abs=0.06), (
        "the largest of six normals, over four seeds"
    )
    assert abs(statistics.mean(gain_fresh)) < 0.06
    assert 0.94 <= statistics.mean(covered) <= 1


def test_directions_and_seeds_of_the_best():
    values = [{"0": 10.0, "1": 12.0}, {"0": 30.0, "1": 28.0}]
    low = compute_curve("x", values, cost=LOWER)
    assert (low.seen, low.fresh) == ((20.0, 11.0), (20.0, 11.0))
    near = compute_curve("x", values, cost={"sign": 1.0, "target": 27.0})
    assert near.seen == ((16 + 2) / 2, 2.0)
    assert near.fresh == pytest.approx(((17 + 15 + 3 + 1) / 4, 2.0))

    made = compute_curve("x", [{"0": 1.0}, {"0": 3.0}], cost=HIGHER)
    assert made.seen == (2.0, 3.0)
    assert all(math.isnan(v) for v in (*made.fresh, *made.half))
    assert isinstance(made, BestOfN)


def test_halves_and_the_spread_that_settings_share():
    assert halves(1) == []
    assert ((0,), (1, 2)) in halves(3)
    assert ((0, 1), (2,)) in halves(3)
    assert len(halves(4)) == 6
    assert len(halves(9)) == 2
    # squares about the row means: 2 + 8, over 2 degrees of freedom
    assert pool_std(np.array([[1.0, 3.0], [0.0, 4.0]])) == (pytest.approx(math.sqrt(5)), 2)
    assert compute_student_quantile(10**6) == pytest.approx(1.95996, abs=1e-4)
