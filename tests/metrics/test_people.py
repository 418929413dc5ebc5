"""Several human texts per prompt, and valid answers, in the metrics of several texts per prompt."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from openended.harness.core import HUMAN, DataError, Features, Plan, Side, SpecError, UndefinedMetric
from openended.harness.core.resampling import combine_replicates
from openended.metrics.chamfer import Chamfer
from openended.metrics.distinct_k import DistinctK, utility_k
from openended.metrics.families import prompts_of
from openended.metrics.ngram_diversity import NgramDiversity
from openended.metrics.prompt_self_bleu import PromptSelfBleu, prompt_self_bleu
from openended.metrics.prompt_similarity import PromptSimilarity
from openended.metrics.prompt_vendi import PromptVendi, prompt_vendi
from openended.metrics.rouge_l import RougeL
from openended.metrics.self_bleu import self_bleu
from openended.metrics.vendi import vendi
from tests.helpers import cases, check_error, ragged
from tests.metrics.helpers import check_edges, check_rows, run_samples, sizes_of, tokens, vectors

METRICS = [Chamfer, DistinctK, NgramDiversity, PromptSelfBleu, PromptSimilarity, PromptVendi, RougeL]
EXACT = (Chamfer, DistinctK, PromptSimilarity, RougeL)
LETTERS = list("abcdefgh")


def make_side(metric, texts, ids, name="model"):
    """A side whose tokens are the words of its texts, and whose embeddings count their first letters."""
    words = [text.split() for text in texts]
    numbers = {word: i for i, word in enumerate(sorted({w for row in words for w in row}))}
    counts = np.array([[0.1 + sum(w[0] == c for w in row) for c in LETTERS] for row in words], dtype="f4")
    kinds = {"tokens": ragged([[numbers[w] for w in row] for row in words]), "texts": list(texts), "embeddings": counts}
    return Side(name, tuple(ids), {need: kinds[need.kind] for need in metric.needs() if need.kind in kinds})


def compute(metric, texts, ids, size=0, references=None):
    side = make_side(metric, texts, ids, HUMAN if size else "model")
    people = side if size else references and make_side(metric, *references, name=HUMAN)
    return metric.compute(Features(side, side, {"n": str(len(ids))}, references=people, texts_per_prompt=size))


def write(rng, n, letters=LETTERS, words=5):
    return [" ".join(rng.choice(letters, words, p=np.arange(1, 9) / 36)) for _ in range(n)]


@pytest.mark.parametrize("seed", range(3))
def test_vendi_and_self_bleu_are_those_of_each_prompt_alone(seed):
    ids = sizes_of(seed)
    rows, words = vectors(len(ids), seed), tokens(len(ids), seed)
    groups = [np.flatnonzero(np.array(ids) == name) for name in sorted(set(ids)) if ids.count(name) > 1]
    assert prompt_vendi(rows, ids) == pytest.approx(np.mean([vendi(rows[g]) for g in groups]))
    each = [self_bleu([words[i] for i in g], orders=(3,))[3] for g in groups]
    assert prompt_self_bleu(words, ids, order=3) == pytest.approx(np.mean(each))
    check_rows(run_samples(PromptVendi(), ids, {"embeddings": rows.astype("f4")}), "prompt_vendi")
    # cosines 1 and 0: eigenvalues 2 / 3 and 1 / 3, entropy 0.6365
    assert prompt_vendi(np.array([[1.0, 0], [2, 0], [0, 3]]), ["p"] * 3) == pytest.approx(1.8899, abs=1e-4)
    check_edges([
        (lambda: prompt_vendi(rows[:2], ["a", "b"]), UndefinedMetric, "samples=2"),
        (lambda: prompt_self_bleu(["a", "b"], ["a", "b"]), UndefinedMetric, "samples=2"),
    ])  # fmt: skip


@pytest.mark.parametrize("valid", [None, "regex:^[a-e]"])
@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_the_human_row_is_the_mean_over_all_subsets_of_as_many_texts(metric, valid):
    """Exact where there is a closed form, else within the noise of the subsets that are drawn."""
    size, spec = 3, metric(valid=valid)
    texts, ids = write(np.random.default_rng(7), 12), ["p"] * 6 + ["q"] * 6
    found = compute(spec, texts, ids, size)
    subsets = [[texts[i + start] for i in subset] for start in (0, 6) for subset in combinations(range(6), size)]
    every = [compute(spec, subset, ["p"] * size).values for subset in subsets]
    for name in set(every[0]) - {"other_prompts", "utility_k", "narrowing_share"}:
        values = np.array([each[name] for each in every])
        noise = 0 if metric in EXACT else 5 * values.std() / 64**0.5
        assert found.values[name] == pytest.approx(values.mean(), abs=noise + 1e-9), name
        check_rows(found, name)
    assert dict(compute(spec, texts, ids, size).values) == pytest.approx(dict(found.values), rel=0, abs=0, nan_ok=True)
    with pytest.raises(UndefinedMetric, match=r"1 of 2 prompts have fewer .* 6; task.least_references=6"):
        compute(spec, texts[:11], ids[:11], 6)


def test_coverage_is_the_probability_that_a_human_answer_is_given():
    people, ids = ["a", "a", "b", "c", "d"], ["p"] * 5
    # of a a b c d the system gives a and b: 3 of 5
    system = compute(DistinctK(), ["a", "b", "z"], ids[:3], references=(people, ids))
    assert system.values["coverage"] == pytest.approx(0.6)
    others = [(i, pair) for i in range(5) for pair in combinations([j for j in range(5) if j != i], 2)]
    expected = np.mean([any(people[j] == people[i] for j in pair) for i, pair in others])
    assert compute(DistinctK(), people, ids, 2).values["coverage"] == pytest.approx(expected)
    none, size = compute(DistinctK(), people, ids, 5).notes
    assert none == "no coverage: 1 of 1 prompts have no more than 5 human texts"
    assert size == "human row: expected value for 5 of up to 5 human texts per prompt"
    gated = DistinctK(valid="regex:[ab]")  # b is not given: 2 of the 3 valid ones
    assert compute(gated, ["a", "z", "z"], ids[:3], references=(people, ids)).values["coverage"] == pytest.approx(2 / 3)
    nobody = compute(DistinctK(valid="number"), ["1", "2"], ids[:2], references=(people, ids))
    assert nobody.notes == ("no coverage: 1 of 1 prompts have no valid human text",)


def test_utility_and_the_two_parts_of_the_loss_by_hand():
    # weights 1, .8, .64, .512, together 2.952; the third answer repeats the first, the fourth is not valid
    assert utility_k([3, 5, 3, 0], ["x", "y", "x", "z"]) == pytest.approx((3 + 0.8 * 5) / 2.952)
    spec, ids = DistinctK(valid="number"), [name for name in "pqrstu" for _ in range(4)]
    texts = ["1", "2", "1", "none", "1", "1", "1,000", "1e3"] * 3
    found = compute(spec, texts, ids)
    # p, r, t: 3 of 4 valid in 2 classes; q, s, u: 4 valid in 3 classes
    expected = {
        "distinct_k": 2.5, "distinct_share": 2.5 / 4, "valid_share": 3.5 / 4, "lost_to_validity": 0.5 / 4,
        "lost_to_narrowing": 1 / 4, "narrowing_share": 2 / 3,
        "utility_k": ((1 + 0.8) / 2.952 + (1 + 0.64 + 0.512) / 2.952) / 2,
    }  # fmt: skip
    assert found.values == pytest.approx(expected)
    side = make_side(spec, texts, ids)
    drawn = spec.replicates(Features(side, side), found, Plan(400))["narrowing_share"].draws
    # of p a half of the loss, of q all: the share in a draw of a and b of them is (a + b) / (2 a + b)
    assert drawn.shape == (1, 400)
    assert drawn.min() >= 1 / 2 - 1e-12
    assert drawn.max() <= 1 + 1e-12
    assert drawn.mean() == pytest.approx(2 / 3, abs=0.03)


GATED = [*[metric() for metric in METRICS], DistinctK(partition="threshold", threshold=0.99)]


@pytest.mark.parametrize("spec", GATED, ids=lambda m: m.name)
def test_noise_ranks_first_without_the_gate_and_last_with_it(spec):
    """Two systems that answer, with many words and with few, and noise, which no check takes for an answer."""
    rng, ids = np.random.default_rng(3), [f"p/{i}" for i in range(20) for _ in range(8)]
    systems = {
        "noise": [" ".join(f"{c}{rng.integers(1 << 40)}" for c in rng.permutation(LETTERS[1:])[:2]) for _ in ids],
        "wide": [f"a{c} {c}" for c in rng.choice(list("bcdef"), len(ids))],
        "narrow": [f"a{c} {c}" for c in rng.choice(["b", "c"], len(ids), p=[0.9, 0.1])],
    }
    for valid, order in ((None, ["noise", "wide", "narrow"]), ("regex:^a", ["wide", "narrow", "noise"])):
        gated = replace(spec, valid=valid)
        values = {name: compute(gated, texts, ids) for name, texts in systems.items()}
        sign = 1 if spec.best_of(spec.name) == "lower" else -1
        assert sorted(values, key=lambda name: sign * values[name].values[spec.name]) == order
        for each in values.values():
            low, high = gated.bounds_of(spec.name, each)
            assert low <= each.values[spec.name] <= high


def test_answers_are_valid_by_a_check_or_a_column(tmp_path):
    texts, ids = ["7", "-1,234.5", "one", "x1 y", "", "nan"], ["p"] * 6
    no = np.nan
    checks = {
        "number": [1, 1, no, no, no, no],
        "regex:x|^7": [1, no, no, 1, no, no],
        "min_words:2": [no, no, no, 1, no, no],
        "regex:^(\\w+\\s?)+$": [1, no, 1, 1, no, 1],
    }
    for valid, expected in checks.items():
        spec = RougeL(valid=valid)
        np.testing.assert_array_equal(spec.score_answers(make_side(spec, texts, ids)), expected)
    trap = RougeL(valid="regex:^(\\w+\\s?)+$")  # seven words take a backtracking matcher longer than a night
    assert np.isnan(trap.score_answers(make_side(trap, ["congratulations " * 7 + "!"], ["p"])))
    path = tmp_path / "judged.jsonl"
    path.write_text("".join(f'{{"id": "7", "sample": {i}, "rating": {r}}}\n' for i, r in enumerate([1, 4, 5])))
    for valid, expected in (("file", [1, 4, 5]), ("file>=4.5", [no, no, 5])):
        spec = DistinctK(valid=valid)
        side = make_side(spec, ["x"] * 3, ["jsonl/7"] * 3)
        columns = spec.read(path, {"example_id": "id", "valid": "rating"})
        side = replace(side, data={**side.data, spec.needs()[-1]: columns})
        np.testing.assert_array_equal(spec.score_answers(side), expected)
    with pytest.raises(DataError, match=r"judged.jsonl: no valid for sample 3 of jsonl/7 \(model\)"):
        spec.score_answers(replace(side, ids=("jsonl/7",) * 4))
    for word in ("perhaps", ""):
        path.write_text(f'{{"example_id": "7", "sample": 0, "valid": "{word}"}}\n')
        check_error(DataError, r"judged.jsonl:1: column 'valid'", spec.read, path)
    for wrong in ("words", "regex:(", "regex:(a)\\1", "file>4", "min_words:few"):
        check_error(SpecError, "valid: expected null, number, regex:PATTERN", RougeL, valid=wrong)


def count_disagreements(metric, worlds, prompts, size=5, texts=10):
    """In how many worlds do two halves of people differ at 5 %: `size` texts of each prompt, and subsets of the rest."""
    rejected = 0
    for world in range(worlds):
        rng, halves = np.random.default_rng([world, 5]), []
        words = 1 if metric.name == "distinct_k" else 5
        written = np.array([write(rng, texts + size, rng.permutation(LETTERS), words) for _ in range(prompts)])
        for part, drawn in ((written[:, :size], 0), (written[:, size:], size)):
            ids = [f"p/{i:03d}-{world}" for i in range(prompts) for _ in range(part.shape[1])]
            side = make_side(metric, part.ravel().tolist(), ids)
            features = Features(side, side, {}, texts_per_prompt=drawn)
            result = metric.compute(features)
            draws = metric.replicates(features, result, Plan(200))[metric.name]
            halves.append((result.values[metric.name], replace(draws, prompts=prompts)))
        (first, a), (second, b) = halves
        rejected += combine_replicates((1, -1), (a, b)).p_value(first - second) < 0.05
    return rejected


@cases(
    "metric, worlds, prompts",
    *((metric, 10, 40) for metric in METRICS if metric is not PromptSelfBleu),  # which takes 0.7 ms for a subset
    *(pytest.param(m, 80 if m is PromptSelfBleu else 400, 100, marks=pytest.mark.long) for m in METRICS),
)
def test_two_halves_of_people_agree(metric, worlds, prompts):
    """At a level of 5 %, at most 7 % of 400 worlds are rejected; of 10 at most 3 (more: once in 1,000 such tests)."""
    assert count_disagreements(metric(), worlds, prompts) <= max(0.07 * worlds, 3)


def test_subsets_depend_on_the_prompt_alone():
    both, one = prompts_of(["a"] * 5 + ["b"] * 5).draw(2), prompts_of(["b"] * 5).draw(2)
    assert (both.rows[len(one.rows) :] - 5).tolist() == one.rows.tolist()
    pairs = {tuple(sorted(pair)) for pair in one.rows.reshape(-1, 2).tolist()}
    assert 7 < len(pairs) <= len(set(combinations(range(5), 2)))
