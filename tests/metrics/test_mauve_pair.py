"""Scores of systems that share projection, clusterings and subsamples: their difference is far less noisy."""

import numpy as np
import pytest

from openended.metrics._mauve_pair import shared_mauve, shared_subsamples
from openended.metrics.mauve import mauve
from tests.metrics.test_mauve import clusters


def test_one_system_on_all_rows_is_mauve():
    human, model = clusters(120, 12), clusters(120, 8, seed=1)
    rows = [np.arange(120)] * 2
    got = shared_mauve(human=human, systems=[model], subsamples=[rows], seeds=[25, 26], smoothing="kt")
    assert got.shape == (2, 1, 1)
    want = [mauve(human=human, model=model, seed=seed, smoothing="kt").mauve for seed in (25, 26)]
    assert got[:, 0, 0] == pytest.approx(want, abs=1e-12)


def test_subsamples_take_prompts_whole_and_the_same_on_all_sides():
    one = np.array([f"t/{i}" for i in range(40)])
    two = np.repeat(one, 2)  # two samples a prompt
    drawn = shared_subsamples([one, two, one[:30]], share=0.5, rounds=3, seed=1)
    for human, double, short in drawn:
        assert len(human) == 20
        assert set(one[human]) == set(two[double])
        assert len(double) == 40
        assert set(one[:30][short]) == set(one[human]) & set(one[:30])
    assert [list(rows[0]) for rows in drawn] == [
        list(rows[0]) for rows in shared_subsamples([one, two], share=0.5, rounds=3, seed=1)
    ]
    with pytest.raises(ValueError, match="share"):
        shared_subsamples([one], share=0, rounds=1, seed=1)


def test_a_paired_difference_is_narrower_than_two_intervals():
    """Two systems that write nearly the same texts for the same prompts."""
    human, first = clusters(300, 12), clusters(300, 9, seed=1)
    second = first + 0.05 * np.random.default_rng(2).normal(size=first.shape).astype(np.float32)
    ids = np.array([f"t/{i:03d}" for i in range(300)])
    drawn = shared_subsamples([ids] * 3, share=0.5, rounds=30, seed=0)
    scores = shared_mauve(human=human, systems=[first, second], subsamples=drawn, seeds=[25, 26], restarts=2)
    paired = (scores[..., 0] - scores[..., 1]).std()
    apart = np.hypot(scores[..., 0].std(), scores[..., 1].std())
    assert paired < apart / 3
