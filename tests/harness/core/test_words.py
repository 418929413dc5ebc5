"""Words and characters as their users count them."""

import pytest

from openended import measure
from openended.harness.core import number_words
from openended.metrics.distinct_n import distinct_n
from openended.metrics.rouge_l import rouge_l
from tests.helpers import cases

TEXTS = [
    "The cat's hat -- it's RED!  Really: red.",
    "A cat; the red Hat, really?\nIt is.",
    "don't stop the cat's red hat\n\nnow 42.",
]


@cases(
    "by, rows",
    # a=0, b=1; c=2, b=1; nothing.
    ("words", [[0, 1, 0], [2, 1], []]),
    ("chars", [[0, 1, 0], [2, 1], []]),
    ("spaces", [[0, 1, 0], [2, 3], [2]]),  # "", "c\tb\n"; an empty text is one empty word
    ("rouge", [[0, 1, 0], [2, 1], []]),
)
def test_words_are_numbered_over_all_texts(by, rows):
    assert [row.tolist() for row in number_words(["a b a", " c\tb\n", ""], by)] == rows


def test_treebank_words_are_those_of_nltk():
    tokenize = pytest.importorskip("nltk").tokenize.TreebankWordTokenizer().tokenize
    words = [tokenize(text) for text in TEXTS]
    assert words[2][:2] == ["do", "n't"]
    numbers = {word: at for at, word in enumerate(dict.fromkeys(word for text in words for word in text))}
    assert [r.tolist() for r in number_words(TEXTS, "treebank")] == [[numbers[w] for w in text] for text in words]
    value = measure("distinct_n", model_texts=TEXTS, unit="treebank", orders=[1]).values["distinct_1"]
    assert value == len(numbers) / sum(map(len, words))


def test_rouge_l_and_ngram_diversity_count_as_the_packages_that_the_field_cites():
    """rouge_score 0.1.2 (fmeasure of the three pairs) and diversity's `ngram_diversity_score` at orders 1, 2 and 4."""
    pairs = [0.35294117647058826, 0.4210526315789474, 0.33333333333333326]
    assert rouge_l(number_words(TEXTS, "rouge"), ["p"] * 3) == pytest.approx(sum(pairs) / 3, abs=1e-15)
    joined = number_words(TEXTS, "spaces")
    for orders, value in (((1,), 0.87), ((1, 2), 1.87), ((1, 2, 3, 4), 3.87)):
        assert round(sum(distinct_n(joined, orders=orders, variant="ngd").values()), 2) == value
    spaces = measure("distinct_n", model_texts=TEXTS, unit="spaces", variant="ngd", orders=[1, 2, 3, 4])
    assert spaces.values["ngram_diversity"] == pytest.approx(3.87, abs=0.005)
    assert spaces.values != measure("distinct_n", model_texts=TEXTS, unit="words", variant="ngd", orders=[1]).values
