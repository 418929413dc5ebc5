from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.harness.core.metric_spec import Features, Need, Side
from openended.metrics._ngrams.sequences import pack_rows
from openended.metrics._ngrams.suffix_array import SuffixArray
from openended.metrics.novelty import Novelty, longest_copied_spans, n_novelty
from tests.oracles.copying import slow_match_lengths, slow_novelty

texts = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=1, max_size=5)


def test_hand_value():
    """Of a, b, c, d the corpus lacks d: 1/4. Of ab, bc, cd it lacks cd: 1/3. abcd is new: 1."""
    assert n_novelty(["a b c d"], ["x a b c"], orders=(1, 2, 4)) == {1: 0.25, 2: pytest.approx(1 / 3), 4: 1.0}


@settings(max_examples=60, deadline=None)
@given(texts, texts)
def test_agrees_with_search_in_lists(sequences, corpus):
    matches = SuffixArray(pack_rows(corpus)).match_lengths(pack_rows(sequences))
    assert [row.tolist() for row in matches] == [slow_match_lengths(text, corpus) for text in sequences]
    longest = max(map(len, sequences))
    if longest:
        values = n_novelty(sequences, corpus, orders=range(1, longest + 1))
        assert values == {n: pytest.approx(slow_novelty(sequences, corpus, n)) for n in values}


@pytest.mark.parametrize("n", [1, 7, 40, 100])
def test_planted_copies_are_found_exactly(n):
    rng = np.random.default_rng(n)
    corpus = [rng.integers(0, 1000, 300).tolist() for _ in range(20)]
    texts = [rng.integers(1000, 2000, 150).tolist() for _ in range(10)]
    for number, text in enumerate(texts):
        text[20 : 20 + n] = corpus[number][50 : 50 + n]
    assert longest_copied_spans(texts, corpus).tolist() == [n] * 10
    novelty = n_novelty(texts, corpus, orders=(n, n + 1))
    assert novelty == {n: 1 - 1 / (150 - n + 1), n + 1: 1.0}


def test_no_copy_across_texts():
    assert longest_copied_spans(["a b c d"], ["a b", "c d"]).tolist() == [2]
    assert longest_copied_spans([[5, -3]], [[-3, 5]]).tolist() == [1]


def make_features(metric, human, model, corpus=None):
    ids = [f"t/{i:06d}" for i in range(len(model))]
    sides = [Side(n, ids[: len(t)], {Need("texts"): t}) for n, t in (("human", human), ("model", model))]
    if corpus is not None:
        sides[1].data[metric.needs()[1]] = corpus
    return Features(*sides, {"n": "2/2"})


def test_references_or_a_file_is_the_corpus():
    human, model = ["the cat sat on the mat", "a dog ran"], ["the cat sat on a log", "we saw a dog"]
    result = Novelty(orders=(2,)).compute(make_features(Novelty(), human, model))
    # Novel of 5 + 3 bigrams: "on a", "a log", "we saw", "saw a".
    assert result.values == {"novelty_2": 0.5, "longest_copy": 4.0, "mean_longest_copy": 3.0}
    metric = Novelty(orders=(2,), corpus="train.txt")
    result = metric.compute(make_features(metric, human, model, ["we saw a dog"]))
    assert result.values["novelty_2"] == 5 / 8
    assert metric.needs()[1] == Need("corpus", options=(("file", "train.txt"),))


def test_copies_lower_the_value():
    human = [f"every text {i} has its own words{i} and endings{i}" for i in range(20)]
    new = [f"others{i} write something{i} else{i} here" for i in range(20)]
    shares = [n_novelty(human[:copied] + new[copied:], human, orders=(2,))[2] for copied in (0, 10, 20)]
    assert shares[0] > shares[1] > shares[2] == 0.0


def test_edges():
    assert n_novelty([[1, 2]], [], orders=(1,)) == {1: 1.0}
    with pytest.raises(UndefinedMetric):
        n_novelty([[1], []], [[1]], orders=(2,))
    with pytest.raises(UndefinedMetric):
        Novelty().compute(make_features(Novelty(), [], ["a b c d e f"]))
    with pytest.raises(SpecError, match="orders"):
        Novelty(orders=(0,))
    with pytest.raises(SpecError, match="corpus"):
        Novelty(corpus="")
