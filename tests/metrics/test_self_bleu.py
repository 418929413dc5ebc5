from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics._ngrams.index import index_of
from openended.metrics.self_bleu import SelfBleu, bleu_by_text, choose_hypotheses, self_bleu
from tests.metrics.text_helpers import CORPORA, IDS, computed, published_words, run

CORPUS = st.lists(st.lists(st.integers(0, 3), max_size=10), min_size=2, max_size=7)


def nltk_bleu(texts, i, references, order):
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sentence_bleu(
            references, texts[i], weights=[1 / order] * order, smoothing_function=SmoothingFunction().method1
        )


def others(texts, i):
    return [text for j, text in enumerate(texts) if j != i]


def test_hand_value():
    # "1 2 3 4" against "1 2 3 5": 3 of 4 tokens, 2 of 3 bigrams, equal length: sqrt(3/4 * 2/3) = sqrt(1/2), both ways
    assert self_bleu([[1, 2, 3, 4], [1, 2, 3, 5]], orders=(1, 2)) == {
        1: pytest.approx(0.75),
        2: pytest.approx(math.sqrt(0.5)),
    }
    # trigrams 1 of 2; no 4-gram of 1: 0.1 in place of 0
    assert self_bleu([[1, 2, 3, 4], [1, 2, 3, 5]], orders=(4,))[4] == pytest.approx((0.75 * 2 / 3 * 0.5 * 0.1) ** 0.25)


def test_brevity_and_clipping_by_hand():
    # "1 1 1": the most 1s in another text are 2: 2 of 3; closest lengths 2 and 4 are equally near: 2, so no penalty
    # "1 1": both found; closest length 3: exp(1 - 3/2); "2 2 2 2": nothing found: 0
    table = bleu_by_text(index_of([[1, 1, 1], [1, 1], [2, 2, 2, 2]]), 1)
    assert table[0].tolist() == pytest.approx([2 / 3, math.exp(-0.5), 0.0])


@given(CORPUS)
@settings(max_examples=60, deadline=None)
def test_equals_nltk(texts):
    pytest.importorskip("nltk")
    table = bleu_by_text(index_of(texts), 5)
    for order in range(1, 6):
        want = [nltk_bleu(texts, i, others(texts, i), order) for i in range(len(texts))]
        # the same products and logs in another order: a few ulp
        assert table[order - 1].tolist() == pytest.approx(want, abs=1e-12)


@given(CORPUS, st.integers(1, 6), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_a_pool_gives_every_text_exactly_k_references(texts, k, seed):
    pytest.importorskip("nltk")
    n = len(texts)
    if k > n - 1:
        with pytest.raises(ValueError, match="num_references"):
            self_bleu(texts, num_references=k)
        return
    from openended.harness.core.rng import make_random_stream

    drawn = make_random_stream(seed, "self_bleu", "references").permutation(n)[: k + 1].tolist()
    table = bleu_by_text(index_of(texts), 4, num_references=k, seed=seed)
    for i in range(n):
        pool = range(n) if k == n - 1 else drawn
        references = [texts[j] for j in pool if j != i][:k]
        assert len(references) == k
        assert table[3][i] == pytest.approx(nltk_bleu(texts, i, references, 4), abs=1e-12)


def test_copies_give_one_and_strangers_nothing():
    assert self_bleu([[1, 2, 3, 4, 5, 6]] * 4) == dict.fromkeys(range(1, 6), pytest.approx(1.0))
    assert self_bleu([[1, 2, 3], [4, 5, 6], [7, 8, 9]]) == dict.fromkeys(range(1, 6), 0.0)


def test_less_varied_text_is_more_like_itself():
    rng = np.random.default_rng(0)
    values = [self_bleu(rng.integers(0, size, (30, 40)))[4] for size in (1000, 100, 10)]
    assert values == sorted(values)


def test_a_larger_pool_raises_the_value():
    texts = np.random.default_rng(0).integers(0, 30, (60, 30))
    values = [self_bleu(texts, orders=(3,), num_references=k)[3] for k in (5, 20, 59)]
    assert values == sorted(values)


def test_order_of_texts_and_names_of_tokens_do_not_matter():
    rng = np.random.default_rng(1)
    texts = [rng.integers(0, 20, rng.integers(0, 30)) for _ in range(25)]
    renamed = [[f"w{token}" for token in texts[i]] for i in rng.permutation(25)]
    assert self_bleu(renamed) == pytest.approx(self_bleu(texts), abs=1e-14)


def test_hypotheses_are_the_same_for_every_order_and_drawn_by_the_seed():
    texts = np.random.default_rng(0).integers(0, 30, (50, 20))
    some = self_bleu(texts, num_hypotheses=10, seed=3)
    chosen = choose_hypotheses(50, 10, 3)
    table = bleu_by_text(index_of(texts), 5)
    assert some == {order: table[order - 1][chosen].mean() for order in range(1, 6)}
    assert len(set(chosen.tolist())) == 10
    assert self_bleu(texts, num_hypotheses=10, seed=4) != some
    assert self_bleu(texts, num_hypotheses=50) == self_bleu(texts)


def test_undefined_and_wrong_arguments():
    for texts in ([], [[1, 2]]):
        with pytest.raises(UndefinedMetric, match="two texts"):
            self_bleu(texts)
    assert self_bleu([[], []], orders=(1,)) == {1: 0.0}
    assert self_bleu([[], [1]], orders=(2,)) == {2: 0.0}
    with pytest.raises(ValueError, match="num_hypotheses"):
        self_bleu([[1], [2]], num_hypotheses=0)
    with pytest.raises(ValueError, match="num_references"):
        self_bleu([[1], [2], [3]], num_references=3)
    for options in ({"orders": (2, 2)}, {"orders": ()}, {"num_hypotheses": 0}, {"num_references": 0}):
        with pytest.raises(SpecError, match="self_bleu"):
            SelfBleu(**options)


def test_metric_reports_each_scored_text():
    rows = [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 9, 9], []]
    result = run(SelfBleu(num_hypotheses=2), rows)
    assert result.primary == "self_bleu_4"
    scored = ~np.isnan(result.per_example["self_bleu_4"])
    assert scored.sum() == 2
    assert result.values["self_bleu_4"] == pytest.approx(result.per_example["self_bleu_4"][scored].mean())
    assert run(SelfBleu(), rows).values == {f"self_bleu_{n}": v for n, v in self_bleu(rows).items()}
    assert result.notes == ("1 of 4 texts are empty",)
    assert run(SelfBleu(orders=(2, 3)), rows).primary == "self_bleu_3"


def test_metric_says_when_the_pool_is_larger_than_the_corpus():
    rows = [[1, 2], [1, 2], [3]]
    result = run(SelfBleu(num_references=100), rows)
    assert "only 2 other texts" in result.notes[0]
    assert result.values == run(SelfBleu(), rows).values
    with pytest.raises(UndefinedMetric):
        run(SelfBleu(num_references=3), [[1]])


@pytest.mark.reference
@pytest.mark.parametrize(("file", "field"), CORPORA, ids=IDS)
def test_published_generations(file, field):
    want = computed(file, field)["self_bleu_first200"]
    texts = [text for text in published_words(file, field) if text][:200]
    values = self_bleu(texts, orders=(4, 5))
    assert values == {4: pytest.approx(want["4"], rel=1e-13), 5: pytest.approx(want["5"], rel=1e-13)}
