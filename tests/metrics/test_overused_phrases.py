from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.overused_phrases import OverusedPhrases, find_overused_phrases
from tests.helpers import features
from tests.oracles.copying import slow_overused

WORDS = [f"w{i}" for i in range(60)]


def make_texts(n, seed, length=30):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, length)) for _ in range(n)]


def plant(texts, phrase):
    return [f"{text} {phrase}" if number % 2 else text for number, text in enumerate(texts)]


def measure(human, model):
    metric = OverusedPhrases()
    sides = {"human": human, "model": model, "n_human": len(human), "n_model": len(model)}
    return metric.compute(features(metric, **sides))


def test_hand_value():
    """Model: b of 4 words, 3 times; human: once of 4; prior 4: a = 4 * 4 / 8 = 2. Odds (3 + 2) / (4 + 4 - 3 - 2) = 5/3
    and (1 + 2) / (4 + 4 - 1 - 2) = 3/5; z = log(25/9) / sqrt(1/5 + 1/3)."""
    ((phrase, z),) = find_overused_phrases(["a c d b"], ["b b b e"], prior=4.0)
    assert phrase == "b"
    assert z == pytest.approx(np.log(25 / 9) / np.sqrt(1 / 5 + 1 / 3))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9999), st.sampled_from([1, 2, 3]), st.sampled_from([5.0, 500.0]))
def test_agrees_with_loops(seed, order, prior):
    rng = np.random.default_rng(seed)
    human, model = ([" ".join(rng.choice(WORDS[:4], 20)) for _ in range(6)] for _ in range(2))
    expected = slow_overused(human, model, order, prior)
    assert dict(find_overused_phrases(human, model, order=order, prior=prior)) == pytest.approx(expected, abs=1e-9)


def test_a_planted_phrase_comes_first():
    human, model = make_texts(60, 1), plant(make_texts(60, 2), "a rich tapestry")
    assert find_overused_phrases(human, model, order=3)[0][0] == "a rich tapestry"
    assert {p for p, _ in find_overused_phrases(human, model)[:3]} == {"a", "rich", "tapestry"}
    result = measure(human, model)
    assert result.values["overused_words"] == pytest.approx(90 / (60 * 30 + 90))
    assert result.values["overused_trigrams"] > 0
    assert any(note.startswith("overused trigrams (z): 'a rich tapestry'") for note in result.notes)


def test_the_same_texts_overuse_nothing():
    human = make_texts(40, 1)
    assert dict(measure(human, human).values) == {"overused_words": 0.0, "overused_trigrams": 0.0}
    assert measure(human, ["w1 w2 w3 w4"] * 40).values["overused_words"] == 1.0


def test_edges():
    with pytest.raises(UndefinedMetric):
        find_overused_phrases(["a"], ["", "…"])
    assert measure(["a b c"], ["b"]).values == {"overused_words": 0.0}
    with pytest.raises(SpecError, match="prior"):
        OverusedPhrases(prior=0.0)
