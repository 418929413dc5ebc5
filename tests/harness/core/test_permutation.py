import numpy as np
import pytest

from openended.harness.core.permutation import permutation_p_value, relabel_rows


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
    assert permutation_p_value(2.0, np.array([0.0, 1.0, 3.0])) == 0.5
    assert permutation_p_value(-1.0, np.array([-1.0, -2.0, -3.0])) == 0.5
    assert permutation_p_value(9.0, np.zeros(99)) == 0.01


def test_p_values_are_uniform_where_both_sides_are_alike():
    rng = np.random.default_rng(0)
    ids = [f"{i}" for i in range(20)]
    labels = relabel_rows(ids, [f"x{i}" for i in range(20)], 199)
    found = []
    for _ in range(200):
        rows = rng.normal(size=40)
        permuted = np.array([abs(rows[mark].mean() - rows[~mark].mean()) for mark in labels])
        found.append(permutation_p_value(abs(rows[:20].mean() - rows[20:].mean()), permuted))
    # 200 p-values know the share below 5 % to 1.5 points
    assert np.mean(np.array(found) <= 0.05) == pytest.approx(0.05, abs=0.04)
