"""Metrics of several texts of one prompt: chamfer, distinct_k, ngram_diversity, prompt_similarity, rouge_l;
and system_similarity."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.spatial.distance import cdist

from openended.harness.core import HUMAN, DataError, Features, Need, Side, UndefinedMetric
from openended.metrics.chamfer import Chamfer, chamfer
from openended.metrics.distinct_k import DistinctK, distinct_k, distinct_k_by_threshold
from openended.metrics.ngram_diversity import NgramDiversity, ngram_diversity
from openended.metrics.prompt_similarity import PromptSimilarity, prompt_similarity
from openended.metrics.rouge_l import RougeL, rouge_l
from openended.metrics.system_similarity import SystemSimilarity, system_similarity
from tests.helpers import cases, check_error
from tests.metrics.helpers import check_edges, check_rows, run_samples as run, sizes_of, tokens, vectors
from tests.oracles import diversity as oracle

TEXT = st.lists(st.integers(0, 4), max_size=90)
ALIKE = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 2.0]])  # cosines 0.6, 0, 0.8


def test_hand_values():
    # distances 0.4, 1, 0.2: the least are 0.4, 0.2, 0.2; the mean of all is 1.6 / 3
    assert chamfer(ALIKE, ["a", "a", "a"]) == pytest.approx(0.8 / 3)
    ends = tuple(chamfer(np.array([[1.0, 0.0], [sign, 0.0]]), ["a", "a"]) for sign in (1, -1))
    assert ends == Chamfer.bounds, "equal and opposite directions"
    # prompt a: mean cosine 1.4 / 3; prompt b: 1. Above 0.7: 1 of 3 and 1 of 1.
    rows = np.concatenate([ALIKE, [[3.0, 3.0], [1.0, 1.0]]])
    found = prompt_similarity(rows, ["a", "a", "a", "b", "b"], threshold=0.7)
    assert found["prompt_similarity"] == pytest.approx((1.4 / 3 + 1) / 2)
    assert found["similar_share"] == pytest.approx((1 / 3 + 1) / 2)
    assert prompt_similarity(np.eye(2), ["a", "a"], threshold=0)["similar_share"] == 0, "as near, not nearer"
    # of different prompts: (1, 0), (0.6, 0.8), (0, 1) with (1, 1) / sqrt 2: 1, 1.4 and 1 over sqrt 2
    assert found["other_prompts"] == pytest.approx(3.4 / 3 / 2**0.5)
    # a: yes, no; b: yes: (2 + 1) / 2
    assert distinct_k(["yes", "no", "yes", "yes", "yes"], ["a", "a", "a", "b", "b"]) == 1.5
    # a b a b: 2 / 4 words, 2 / 3 pairs (ab, ba), 2 / 2 triples, 1 / 1
    assert ngram_diversity(["a b", "a b"], ["p", "p"]) == pytest.approx(0.5 + 2 / 3 + 1 + 1)
    # a b c d and a c x d share a c d: 2 · 3 / 8; with e f nothing: the mean of 0.75, 0, 0
    assert rouge_l(["a b c d", "a c x d"], ["p", "p"]) == pytest.approx(0.75)
    assert rouge_l(["a b c d", "a c x d", "e f"], ["p", "p", "p"]) == pytest.approx(0.25)
    # (1, 0) against (0.6, 0.8) and (1, 0): 0.6 and 1, mean 0.8; prompt q is not common
    one, two = np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[0.6, 0.8], [1.0, 0.0]])
    assert system_similarity(one, two, first_ids=["p", "q"], second_ids=["p", "p"]) == pytest.approx(0.8)


@pytest.mark.parametrize("seed", range(6))
def test_embeddings_agree_with_pair_after_pair(seed):
    ids = sizes_of(seed)
    rows = vectors(len(ids), seed)
    assert chamfer(rows, ids) == pytest.approx(oracle.over_prompts(oracle.chamfer, rows.tolist(), ids))
    found = prompt_similarity(rows, ids, threshold=0.3)
    assert found["prompt_similarity"] == pytest.approx(oracle.over_prompts(oracle.similarity, rows.tolist(), ids))
    share = oracle.over_prompts(lambda g: oracle.similar_share(g, 0.3), rows.tolist(), ids)
    assert found["similar_share"] == pytest.approx(share)
    several = [i for i, name in enumerate(ids) if ids.count(name) > 1]
    cosines = 1 - cdist(rows, rows, "cosine")
    pairs = [cosines[i, j] for i in several for j in several if ids[i] != ids[j]]
    assert found["other_prompts"] == pytest.approx(np.mean(pairs))
    for threshold in (0.2, 0.7, 0.95):
        expected = oracle.over_prompts(lambda g, t=threshold: oracle.classes(g, t), rows.tolist(), ids)
        assert distinct_k_by_threshold(rows, ids, threshold=threshold) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(8))
def test_tokens_agree_with_pair_after_pair_and_with_sets(seed):
    ids = sizes_of(seed)
    rows = tokens(len(ids), seed)
    assert rouge_l(rows, ids) == pytest.approx(oracle.over_prompts(oracle.rouge_l, rows, ids))
    words = np.random.default_rng(seed).integers(0, 3, len(ids)).tolist()
    assert distinct_k(words, ids) == pytest.approx(oracle.over_prompts(lambda g: len(set(g)), words, ids))
    full = [row or [7] for row in rows]
    for orders in ((1, 2, 3, 4), (2,), (3, 1)):
        expected = oracle.over_prompts(lambda g, o=orders: oracle.ngram_diversity(g, o), full, ids)
        assert ngram_diversity(full, ids, orders=orders) == pytest.approx(expected)


@settings(max_examples=60, deadline=None)
@given(TEXT, TEXT)
def test_the_common_length_is_exact(a, b):
    expected = oracle.rouge_l([a, b])
    assert rouge_l([a, b], ["p", "p"]) == pytest.approx(expected, abs=1e-12)
    assert rouge_l([b, a], ["p", "p"]) == pytest.approx(expected, abs=1e-12)


def test_the_common_length_of_long_texts():
    rows = np.random.default_rng(0).integers(0, 60, (3, 300)).tolist()
    assert rouge_l(rows, ["p"] * 3) == pytest.approx(oracle.rouge_l(rows))


def test_a_chain_of_similar_texts_is_one_class():
    assert (rouge_l([[], [1]], ["p", "p"]), rouge_l([[], []], ["p", "p"])) == (0, 1)
    # a chain is one class: cos 30° = 0.87; cos 60° = 0.5
    angles = np.deg2rad([0, 30, 60, 180])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert distinct_k_by_threshold(rows, ["p"] * 4, threshold=0.85) == 2
    assert distinct_k_by_threshold(rows, ["p"] * 4, threshold=0.9) == 4
    assert distinct_k_by_threshold(rows[[3, 0, 2, 1]], ["p"] * 4, threshold=0.85) == 2
    assert distinct_k_by_threshold(np.ones((6, 3)), ["p"] * 6) == 1


def test_edges():
    zero = np.array([[0.0, 0.0], [1.0, 0.0]])
    functions = (chamfer, prompt_similarity, distinct_k_by_threshold)
    check_edges([
        *((lambda f=f: f(vectors(3), ["a", "b", "c"]), UndefinedMetric, "samples=2") for f in functions),
        *((lambda f=f: f(zero, ["a", "a"]), UndefinedMetric, "zero") for f in functions),
        *((lambda f=f: f(np.full((2, 2), np.nan), ["a", "a"]), ValueError, "finite") for f in functions),
        *((lambda f=f: f([[1], [2]], ["a", "b"]), UndefinedMetric, "samples=2") for f in (rouge_l, ngram_diversity)),
        (lambda: distinct_k(["x", "y"], ["a", "b"]), UndefinedMetric, "samples=2"),
        (lambda: ngram_diversity([[], [], [1], [2]], ["a", "a", "b", "b"]), UndefinedMetric, "empty"),
    ])  # fmt: skip
    assert np.isnan(prompt_similarity(vectors(2), ["a", "a"])["other_prompts"])
    assert prompt_similarity(np.ones((2, 3)), ["a", "a"])["prompt_similarity"] <= 1


@pytest.mark.parametrize("metric", [Chamfer(), PromptSimilarity()], ids=lambda m: m.name)
def test_metrics_say_who_is_left_out_and_what_each_row_has(metric):
    ids = sizes_of(3)
    result = run(metric, ids, {"embeddings": vectors(len(ids), 3).astype("f4")})
    alone = [name for name in ids if ids.count(name) == 1]
    assert result.notes == (f"{len(alone)} of {len(set(ids))} prompts have one text and are left out",)
    for key, rows in result.per_example.items():
        assert [name for name, value in zip(ids, rows, strict=True) if np.isnan(value)] == alone
        check_rows(result, key)
    assert set(result.values) - set(result.per_example) <= {"other_prompts"}


def test_metrics_of_tokens_cut_to_one_length_and_leave_short_texts_out():
    result = run(NgramDiversity(fixed_tokens=2), ["a", "a", "b", "b"], {"tokens": [[1, 2, 3], [1, 2], [1], [4, 5]]})
    assert result.values["ngram_diversity"] == pytest.approx(0.5 + 2 / 3 + 1 + 1)
    assert np.isnan(result.per_example["ngram_diversity"]).tolist() == [False, False, True, True]
    check_rows(result, "ngram_diversity")
    ids = ["a", "a", "a", "b", "b", "c", "c"]
    rows = [[1, 2, 3, 4], [1, 2, 9, 9], [1], [5, 6, 7, 8], [5], [1, 2, 3, 3], [3, 2, 1, 1]]
    result = run(RougeL(fixed_tokens=3), ids, {"tokens": rows})
    assert result.values["rouge_l"] == pytest.approx((2 / 3 + 1 / 3) / 2)  # a: 1 2 of 1 2 3; c: one of 1 2 3 and 3 2 1
    assert np.isnan(result.per_example["rouge_l"]).tolist() == [False, False, True, True, True, False, False]
    check_rows(result, "rouge_l")
    assert any("shorter than 3" in note for note in result.notes)
    assert any("1 of 3 prompts" in note for note in result.notes)


def test_distinct_k_under_each_partition(tmp_path):
    ids = ["a", "b", "a", "b", "a"]
    exact = run(DistinctK(), ids, {"texts": ["x", "y", "x ", "y", "x"]})
    assert exact.values == {"distinct_k": 1.5, "distinct_share": pytest.approx((2 / 3 + 1 / 2) / 2)}
    check_rows(exact, "distinct_k")
    rows = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1]])
    assert run(DistinctK(partition="threshold"), ids, {"embeddings": rows}).values["distinct_k"] == 2
    spec = DistinctK(partition="file")
    assert Need("judgments", by="file") in spec.needs()
    path = tmp_path / "classes.csv"
    # Samples are counted in the order of the rows: a has the rows 0, 2, 4.
    path.write_text("example_id,sample,class\na,0,u\na,1,v\na,2,w\nb,0,u\nb,1,u\n")
    assert run(spec, ids, {"texts": ["x"] * 5, "judgments": spec.read(path)}).values["distinct_k"] == 2
    path.write_text("example_id,number,class\na,0,u\nb,0,u\n")
    with pytest.raises(DataError, match="no class for sample 1 of a"):
        run(spec, ids, {"texts": ["x"] * 5, "judgments": spec.read(path, {"sample": "number"})})


@cases(
    "text, message",
    ("example_id,class\na,u\n", "no column sample"),
    ("example_id,sample,class\na,0.5,u\n", "expected 0, 1, 2"),
    ("example_id,sample,class\na,-1,u\n", "expected 0, 1, 2"),
    ("example_id,sample,class\na,,u\n", "expected 0, 1, 2"),
    ("example_id,sample,class\na,0,u\na,0,v\n", "comes twice"),
    ("example_id,sample,class\na,0,\n", "'class' is empty"),
)
def test_a_wrong_file_of_classes_is_refused_in_one_line(text, message, tmp_path):
    path = tmp_path / "classes.csv"
    path.write_text(text)
    assert "classes.csv" in check_error(DataError, message, DistinctK(partition="file").read, path)


def system(name, ids, rows):
    return Side(name, tuple(ids), {SystemSimilarity().needs()[0]: rows})


@pytest.mark.parametrize("seed", range(5))
def test_systems_agree_with_pair_after_pair(seed):
    a_ids, b_ids = sizes_of(seed), sizes_of(seed + 50)[1:]
    a, b = vectors(len(a_ids), seed), vectors(len(b_ids), seed + 1)
    by_prompt = []
    for name in sorted(set(a_ids) & set(b_ids)):
        of_a, of_b = a[np.array(a_ids) == name], b[np.array(b_ids) == name]
        by_prompt.append(np.mean(1 - cdist(of_a, of_b, "cosine")))
    assert system_similarity(a, b, first_ids=a_ids, second_ids=b_ids) == pytest.approx(np.mean(by_prompt))
    assert system_similarity(b, a, first_ids=b_ids, second_ids=a_ids) == pytest.approx(np.mean(by_prompt))
    with pytest.raises(UndefinedMetric, match="no prompt has texts of both systems"):
        system_similarity(a[:1], b[:1], first_ids=["a"], second_ids=["c"])
    with pytest.raises(ValueError, match="one dimension for both systems, got 4 and 3"):
        system_similarity(a[:1], b[:1, :3], first_ids=["a"], second_ids=["a"])


def test_a_system_is_compared_with_every_other_set_of_the_grid():
    ids = [f"p/{i}" for i in range(6) for _ in range(2)]
    sets = [vectors(12, seed) for seed in range(3)]
    others = [system("model", ids, rows) for rows in sets] + [system("model", ["z/0"], vectors(1, 9))]
    human = system(HUMAN, [f"p/{i}" for i in range(6)], vectors(6, 7))
    result = SystemSimilarity().compute(Features(human, system("model", ids, sets[1].copy()), {}, others))
    expected = [system_similarity(sets[1], rows, first_ids=ids, second_ids=ids) for rows in sets]
    assert result.arrays["own"].tolist() == [1]
    np.testing.assert_allclose(result.arrays["between"][:3], expected)
    assert np.isnan(result.arrays["between"][3])
    assert result.values["system_similarity"] == pytest.approx((expected[0] + expected[2]) / 2)
    to_human = system_similarity(sets[1], vectors(6, 7), first_ids=ids, second_ids=human.ids)
    assert result.values["human"] == pytest.approx(to_human)
    check_rows(result, "system_similarity")
    one = system("model", ["a", "b"], vectors(2))
    check_edges([
        (lambda: SystemSimilarity().compute(Features(one, one, {})), UndefinedMetric, "a grid"),
        (lambda: SystemSimilarity().compute(Features(one, one, {}, (one,))), UndefinedMetric, "no other system"),
    ])  # fmt: skip
