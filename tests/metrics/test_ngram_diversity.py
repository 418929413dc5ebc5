import numpy as np
import pytest

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.distinct_n import distinct_n
from openended.metrics.ngram_diversity import NgramDiversity, ngram_diversity
from tests.metrics.within_helpers import check_rows, run, sizes_of, tokens
from tests.oracles import diversity as oracle


def test_hand_value():
    """a b a b: 2 / 4 words, 2 / 3 pairs (ab, ba), 2 / 2 triples, 1 / 1."""
    assert ngram_diversity(["a b", "a b"], ["p", "p"]) == pytest.approx(0.5 + 2 / 3 + 1 + 1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("orders", [(1, 2, 3, 4), (2,), (3, 1)])
def test_agrees_with_sets_of_tuples(seed, orders):
    ids = sizes_of(seed)
    rows = [row or [7] for row in tokens(len(ids), seed)]
    expected = oracle.over_prompts(lambda g: oracle.ngram_diversity(g, orders), rows, ids)
    assert ngram_diversity(rows, ids, orders=orders) == pytest.approx(expected)


def test_of_one_prompt_it_is_the_variant_of_distinct_n():
    rows = [row for row in tokens(30, 1) if row]
    whole = distinct_n(rows, orders=(1, 2, 3, 4), variant="ngd")
    assert ngram_diversity(rows, ["p"] * len(rows)) == pytest.approx(sum(whole.values()))


def test_meaning():
    text = list(range(50))
    alike = ngram_diversity([text, text], ["p", "p"])
    assert alike < ngram_diversity([text, [t + 50 for t in text]], ["p", "p"]) == pytest.approx(4)


def test_edges():
    with pytest.raises(UndefinedMetric, match="samples=2"):
        ngram_diversity([[1], [2]], ["a", "b"])
    with pytest.raises(UndefinedMetric, match="empty"):
        ngram_diversity([[], [], [1], [2]], ["a", "a", "b", "b"])
    with pytest.raises(SpecError, match="orders"):
        NgramDiversity(orders=())


def test_the_metric_leaves_short_texts_out():
    result = run(NgramDiversity(fixed_tokens=2), ["a", "a", "b", "b"], {"tokens": [[1, 2, 3], [1, 2], [1], [4, 5]]})
    assert result.values["ngram_diversity"] == pytest.approx(0.5 + 2 / 3 + 1 + 1)
    assert np.isnan(result.per_example["ngram_diversity"]).tolist() == [False, False, True, True]
    check_rows(result, "ngram_diversity")
