import numpy as np
import pytest

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.prompt_similarity import PromptSimilarity, prompt_similarity
from tests.metrics.within_helpers import check_rows, run, sizes_of, vectors
from tests.oracles import diversity as oracle


def test_hand_value():
    """Prompt a: cosines 0.6, 0, 0.8, mean 1.4 / 3; prompt b: 1. Mean 0.7333; above 0.7: 1 of 3 and 1 of 1."""
    rows = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 2.0], [3.0, 3.0], [1.0, 1.0]])
    found = prompt_similarity(rows, ["a", "a", "a", "b", "b"], threshold=0.7)
    assert found["prompt_similarity"] == pytest.approx((1.4 / 3 + 1) / 2)
    assert found["similar_share"] == pytest.approx((1 / 3 + 1) / 2)
    # Of different prompts: (1, 0), (0.6, 0.8), (0, 1) with (1, 1) / sqrt 2: 1, 1.4 and 1 over sqrt 2.
    assert found["other_prompts"] == pytest.approx(3.4 / 3 / 2**0.5)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_pair_after_pair(seed):
    ids = sizes_of(seed)
    rows = vectors(len(ids), seed)
    found = prompt_similarity(rows, ids, threshold=0.3)
    assert found["prompt_similarity"] == pytest.approx(oracle.over_prompts(oracle.similarity, rows.tolist(), ids))
    share = oracle.over_prompts(lambda g: oracle.similar_share(g, 0.3), rows.tolist(), ids)
    assert found["similar_share"] == pytest.approx(share)
    several = [i for i, name in enumerate(ids) if ids.count(name) > 1]
    pairs = [oracle.cosine(rows[i], rows[j]) for i in several for j in several if ids[i] != ids[j]]
    assert found["other_prompts"] == pytest.approx(np.mean(pairs))


def test_meaning():
    ids = np.repeat([f"p/{i}" for i in range(20)], 5).tolist()
    centers = np.repeat(vectors(20, 1, 16) - 0.5, 5, axis=0)
    noise = vectors(100, 2, 16) - 0.5
    found = [prompt_similarity(centers + s * noise, ids)["prompt_similarity"] for s in (0.0, 0.3, 1.0, 5.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(1)
    assert abs(prompt_similarity(centers, ids)["other_prompts"]) < 0.2


def test_edges():
    with pytest.raises(UndefinedMetric, match="samples=2"):
        prompt_similarity(vectors(3), ["a", "b", "c"])
    with pytest.raises(UndefinedMetric, match="zero"):
        prompt_similarity(np.array([[0.0, 0.0], [1.0, 0.0]]), ["a", "a"])
    with pytest.raises(ValueError, match="finite"):
        prompt_similarity(np.full((2, 2), np.nan), ["a", "a"])
    assert np.isnan(prompt_similarity(vectors(2), ["a", "a"])["other_prompts"])
    assert prompt_similarity(np.ones((2, 3)), ["a", "a"])["prompt_similarity"] <= 1
    with pytest.raises(SpecError, match="threshold"):
        PromptSimilarity(threshold=1.5)


def test_the_metric_says_who_is_left_out_and_what_each_row_has():
    ids = sizes_of(3)
    result = run(PromptSimilarity(), ids, {"embeddings": vectors(len(ids), 3).astype("f4")})
    alone = [name for name in ids if ids.count(name) == 1]
    assert result.notes == (f"{len(alone)} of {len(set(ids))} prompts have one text and are left out",)
    assert [name for name, v in zip(ids, result.per_example["similar_share"], strict=True) if np.isnan(v)] == alone
    check_rows(result, "prompt_similarity")
    check_rows(result, "similar_share")
