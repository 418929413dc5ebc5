import numpy as np
import pytest

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.harness.core.metric_spec import Features, Side
from openended.metrics.discriminator_accuracy import (
    DiscriminatorAccuracy,
    _split,
    _split_by_group,
    discriminator_accuracy,
)
from tests.helpers import features


def normal(n, d=4, seed=0, shift=0.0):
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


def test_hand_value_of_separable_sides():
    """Human at -1, model at +1 on a line: the boundary is at 0, every held-out text is right: accuracy 1 of 2 · 4 texts."""
    human, model = -np.ones((20, 1)) - normal(20, 1) * 0.01, np.ones((20, 1)) + normal(20, 1, 1) * 0.01
    got = discriminator_accuracy(human=human, model=model)
    assert (got.accuracy, got.n_test) == (1.0, 8)


def test_agrees_with_the_best_boundary_on_a_line():
    """Oracle: for N(0, 1) against N(s, 1) no classifier is right more often than Φ(s / 2)."""
    from scipy.stats import norm

    for shift in (0.5, 1.0, 2.0):
        got = discriminator_accuracy(human=normal(3000, 1), model=normal(3000, 1, 1, shift), test_share=0.5)
        # 3,000 held-out texts: three standard errors are 0.027.
        assert got.accuracy == pytest.approx(norm.cdf(shift / 2), abs=0.03)


def test_chance_for_equal_distributions_and_rises_with_a_shift():
    scores = [discriminator_accuracy(human=normal(400), model=normal(400, seed=1, shift=s)).accuracy for s in (0, 1, 4)]
    assert scores[0] == pytest.approx(0.5, abs=0.12)
    assert scores == sorted(scores)
    assert scores[-1] > 0.95


def test_unequal_sides_are_balanced():
    got = discriminator_accuracy(human=normal(500), model=normal(60, seed=1))
    assert got.accuracy == pytest.approx(0.5, abs=0.2)


def test_split_keeps_pairs_together_and_is_deterministic():
    a, b = _split(40, 40, 0.25, 5, 25), _split(40, 40, 0.25, 5, 25)
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert len(a[2]) == 10
    assert sorted(np.concatenate([a[0], a[2]])) == list(range(40))
    human, model = normal(40), normal(40, seed=1, shift=1)
    assert discriminator_accuracy(human=human, model=model) == discriminator_accuracy(human=human, model=model)


def test_edges():
    with pytest.raises(UndefinedMetric, match="10 texts"):
        discriminator_accuracy(human=normal(9), model=normal(30))
    with pytest.raises(UndefinedMetric):
        discriminator_accuracy(human=np.zeros((0, 4)), model=normal(30))
    with pytest.raises(ValueError, match="finite"):
        discriminator_accuracy(human=np.full((20, 4), np.inf), model=normal(30))
    with pytest.raises(ValueError, match="folds"):
        discriminator_accuracy(human=normal(30), model=normal(30), folds=1)
    assert discriminator_accuracy(human=np.ones((20, 3)), model=np.ones((20, 3))).accuracy == 0.5
    with pytest.raises(SpecError, match="folds"):
        DiscriminatorAccuracy(folds=1)


def test_metric():
    spec = DiscriminatorAccuracy()
    result = spec.compute(
        features(
            spec, human=normal(50).astype("f4"), model=normal(50, seed=1, shift=5).astype("f4"), n_human=50, n_model=50
        )
    )
    assert result.values["accuracy"] == 1.0
    assert "20 held-out" in result.notes[0]


def sampled(samples, prompts=60, seed=0):
    """Features that tell the prompt and nothing else; each prompt has a human text and some of the model."""
    rng = np.random.default_rng(seed)
    ids = [f"t/{i:06d}" for i in range(prompts)]
    centers = rng.normal(size=(prompts, 40))
    human = centers + 0.001 * rng.normal(size=centers.shape)
    model = np.repeat(centers, samples, axis=0) + 0.001 * rng.normal(size=(prompts * samples, 40))
    return ids, human.astype("f4"), [i for i in ids for _ in range(samples)], model.astype("f4")


def test_samples_of_a_prompt_stay_together():
    """A prompt whose texts are on both sides of the split would be known by heart."""
    human_ids, human, model_ids, model = sampled(4)
    parts = _split_by_group([np.array(human_ids), np.array(model_ids)], 0.25, 5, 25)
    names = [np.array(human_ids), np.array(model_ids)]
    held = [set(side[test]) for side, (_, _, test) in zip(names, parts, strict=True)]
    assert held[0] == held[1]
    assert len(held[0]) == 15
    for side, (train, fold, _) in zip(names, parts, strict=True):
        assert not set(side[train]) & held[0]
        for name in set(side[train]):
            assert len(set(fold[side[train] == name])) == 1, "a prompt is in two folds"
    spec = DiscriminatorAccuracy()
    sides = {"human": Side("human", human_ids, dict.fromkeys(spec.needs(), human)),
             "model": Side("model", model_ids, dict.fromkeys(spec.needs(), model))}  # fmt: skip
    result = spec.compute(Features(**sides))
    assert f"{12 + 48} held-out texts" in result.notes[0]


def test_one_sample_a_prompt_is_split_as_ever():
    ids, human, _, model = sampled(1)
    spec = DiscriminatorAccuracy()
    sides = {"human": Side("human", ids, dict.fromkeys(spec.needs(), human)),
             "model": Side("model", ids, dict.fromkeys(spec.needs(), model))}  # fmt: skip
    plain = discriminator_accuracy(human=human, model=model)
    assert spec.compute(Features(**sides)).values["accuracy"] == plain.accuracy


def test_huge_features_are_told_apart_like_others():
    human, model = normal(50), normal(50, seed=1, shift=5)
    assert discriminator_accuracy(human=human * 1e200, model=model * 1e200).accuracy == 1.0
