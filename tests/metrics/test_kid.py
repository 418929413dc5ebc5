import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics import kid as module
from openended.metrics.kid import Kid, kid
from tests.helpers import features
from tests.oracles import embeddings as oracle


def normal(n, d=6, seed=0, shift=0.0):
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


def test_hand_value():
    """d = 1, human 0, 0, model 1, 1. Within human k = (0 + 1)^3 = 1, within model (1 + 1)^3 = 8, across 1: 1 + 8 - 2 = 7."""
    got = kid(human=np.array([[0.0], [0.0]]), model=np.array([[1.0], [1.0]]))
    assert (got.kid, got.std_error) == pytest.approx((7.0, 0.0))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(2, 12), st.integers(1, 5))
def test_agrees_with_pairs(seed, n, m, d):
    human, model = normal(n, d, seed), normal(m, d, seed + 1, 0.5)
    want = oracle.kid(human, model)
    # 1e-9 of the size of the terms: float64 sums in another order.
    assert kid(human=human, model=model).kid == pytest.approx(want, rel=1e-9, abs=1e-9)


def test_blocks_do_not_matter(monkeypatch):
    human, model = normal(30), normal(25, seed=1)
    whole = kid(human=human, model=model)
    monkeypatch.setattr(module, "_BLOCK", 7)
    assert dict(kid(human=human, model=model)) == pytest.approx(dict(whole))


def test_std_error_is_the_spread_of_repeated_samples():
    found = [kid(human=normal(200, 4, 2 * i), model=normal(200, 4, 2 * i + 1, 0.7)) for i in range(60)]
    spread = np.std([f.kid for f in found], ddof=1)
    # 60 repetitions know a standard deviation to about 10 %.
    assert np.mean([f.std_error for f in found]) == pytest.approx(spread, rel=0.35)


def test_zero_on_average_for_equal_distributions_and_rises_with_a_shift():
    same = [kid(human=normal(60, 4, 2 * i), model=normal(60, 4, 2 * i + 1)).kid for i in range(40)]
    assert abs(np.mean(same)) < 4 * np.std(same) / np.sqrt(40)
    assert min(same) < 0
    values = [kid(human=normal(60), model=normal(60, seed=1, shift=s)).kid for s in (0, 1, 2, 4)]
    assert values == sorted(values)


def test_edges():
    with pytest.raises(UndefinedMetric):
        kid(human=np.zeros((0, 3)), model=normal(5, 3))
    with pytest.raises(UndefinedMetric):
        kid(human=normal(1, 3), model=normal(5, 3))
    with pytest.raises(ValueError, match="finite"):
        kid(human=np.full((4, 3), np.nan), model=normal(5, 3))
    with pytest.raises(ValueError, match="degree"):
        kid(human=normal(5), model=normal(5), degree=0)
    assert dict(kid(human=np.ones((5, 3)), model=np.ones((5, 3)))) == {"kid": 0.0, "std_error": 0.0}
    with pytest.raises(SpecError, match="degree"):
        Kid(degree=0)
    spec = Kid()
    result = spec.compute(
        features(spec, human=normal(9).astype("f4"), model=normal(9).astype("f4"), n_human=9, n_model=9)
    )
    assert set(result.values) == {"kid", "std_error"}


def test_features_that_leave_float64_are_refused():
    for scale in (1e200, 1e50):
        with pytest.raises(ValueError, match="leave the range of float64"):
            kid(human=np.full((3, 2), scale), model=np.ones((3, 2)))
    with pytest.raises(ValueError, match="degree 9: the kernel"):
        kid(human=np.full((3, 2), 1e40), model=np.ones((3, 2)), degree=9)


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
    with pytest.raises(ValueError, match="groups: expected one a row, 200, got 3"):
        kid(human=human, model=model, human_groups=[1, 2, 3])
