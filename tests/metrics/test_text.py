"""Text statistics: compression_ratio, distinct_n, entropy, length, novelty, overused_phrases, repetition, self_bleu, zipf;
and the index of n-grams."""

import gzip
import math
import statistics
import tracemalloc
import warnings
import zlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from openended.harness.core import Features, Need, Plan, Ragged, Side, UndefinedMetric, make_random_stream
from openended.harness.run.measure import add_intervals
from openended.metrics import repetition
from openended.metrics.compression_ratio import CompressionRatio, compression_ratio
from openended.metrics.distinct_n import DistinctN, distinct_n
from openended.metrics.entropy import Entropy, ngram_entropy
from openended.metrics.families import NgramIndex, index_of, ngrams as ngram_index, pack_rows
from openended.metrics.families.ngrams import select_rows, trim_rows
from openended.metrics.length import Length, length_statistics
from openended.metrics.novelty import Novelty, longest_copied_spans, n_novelty
from openended.metrics.overused_phrases import OverusedPhrases, find_overused_phrases
from openended.metrics.repetition import diversity, loop_rate, seq_rep_n
from openended.metrics.self_bleu import SelfBleu, bleu_by_text, choose_hypotheses, self_bleu
from openended.metrics.zipf import Zipf, top_frequencies, zipf_coefficient
from tests.helpers import cases, check_error, ragged
from tests.metrics.helpers import TEXTS, check_edges, compare, run
from tests.oracles import text_statistics as slow

VARIANTS = ("corpus", "li", "hapax", "per_doc", "simctg", "ngd")
NO_VALUE = pytest.approx(math.nan, nan_ok=True)


def value_or_nan(call, *args, **options):
    """The value of the only order of a statistic, NaN where it is undefined."""
    try:
        result = call(*args, **options)
    except UndefinedMetric:
        return math.nan
    return next(iter(result.values())) if isinstance(result, dict) else result


@given(TEXTS)
@settings(max_examples=80, deadline=None)
def test_statistics_equal_the_slow_versions(texts):
    near = {"abs": 1e-12, "nan_ok": True}
    for n in (1, 2, 4):
        for variant in VARIANTS:
            value = value_or_nan(distinct_n, texts, orders=(n,), variant=variant)
            assert value == pytest.approx(slow.distinct(texts, n, variant), **near)
        pooled = slow.entropy(slow.pooled(texts, n))
        assert value_or_nan(ngram_entropy, texts, orders=(n,)) == pytest.approx(pooled, **near)
        by_text = value_or_nan(ngram_entropy, texts, orders=(n,), average="texts")
        assert by_text == pytest.approx(slow.text_entropy(texts, n), **near)
        assert value_or_nan(seq_rep_n, texts, orders=(n,)) == pytest.approx(slow.seq_rep(texts, n), **near)
        rep = value_or_nan(seq_rep_n, texts, orders=(n,), average="pooled")
        assert rep == pytest.approx(slow.rep_pooled(texts, n), **near)
    assert repetition.self_repetition(texts, order=2) == pytest.approx(slow.self_repetition(texts, 2), abs=1e-12)
    lengths = [len(text) for text in texts]
    mean, sd, median = statistics.fmean(lengths), statistics.pstdev(lengths), statistics.median(lengths)
    want = {"length": pytest.approx(mean), "length_sd": pytest.approx(sd), "length_median": median}
    assert length_statistics(texts) == want


def test_edges():
    check_edges([
        *((lambda f=f: f([]), UndefinedMetric, "text") for f in (
            distinct_n, ngram_entropy, loop_rate, seq_rep_n, diversity, repetition.self_repetition, self_bleu, length_statistics,
            compression_ratio,
        )),
        *((lambda f=f: f([[], []]), UndefinedMetric, "order 1") for f in (distinct_n, ngram_entropy)),
        *((lambda m=m: run(m, [[], []]), UndefinedMetric, "shorter than the smallest") for m in (DistinctN(), Entropy())),
        (lambda: run(DistinctN(fixed_tokens=3), [[1]]), UndefinedMetric, "3 tokens and left out"),
        (lambda: diversity([[1, 2, 3]]), UndefinedMetric, "largest order of diversity, 4"),
        (lambda: loop_rate([[1]], max_phrase=0), ValueError, "max_phrase"),
        (lambda: self_bleu([[1, 2]]), UndefinedMetric, "two texts"),
        (lambda: self_bleu([[1], [2]], num_hypotheses=0), ValueError, "num_hypotheses"),
        (lambda: self_bleu([[1], [2], [3]], num_references=3), ValueError, "num_references"),
        (lambda: run(SelfBleu(num_references=3), [[1]]), UndefinedMetric, "two texts"),
        *((lambda t=t: zipf_coefficient(t), UndefinedMetric, "two ranks") for t in ([], [[]], [[7, 7, 7]])),
        (lambda: zipf_coefficient([[1, 2]], max_rank=1), ValueError, "max_rank"),
        *((lambda t=t: compression_ratio(t), UndefinedMetric, "empty") for t in ([], [""], ["", ""])),
        (lambda: compression_ratio(["a"], level=0), ValueError, "level"),
        (lambda: compression_ratio(["a"], level=10), ValueError, "level"),
        (lambda: n_novelty([[1], []], [[1]], orders=(2,)), UndefinedMetric, "order 2"),
        (lambda: Novelty().compute(novelty_features([], ["a b c d e f"])), UndefinedMetric, "corpus has no text"),
        (lambda: find_overused_phrases(["a"], ["", "…"]), UndefinedMetric, "no text of 1 words"),
    ])  # fmt: skip


# distinct_n, entropy, length, compression_ratio


@cases(
    "variant, value",
    # texts "a b a b" and "a b c": bigrams ab ba ab | ab bc; types ab ba bc = 3 of 5
    ("corpus", 3 / 5),
    ("li", 3 / 7),  # the same types over 7 tokens
    ("hapax", 2 / 5),  # ba and bc occur once
    ("per_doc", (2 / 3 + 2 / 2) / 2),
    # without each last token: "a b a" (ab ba: 2 of 2) and "a b" (1 of 1): no repeat
    ("simctg", 1.0),
    # "a b a b a b c": ab ba ab ba ab bc: 3 of 6
    ("ngd", 3 / 6),
)
def test_distinct_n_by_hand(variant, value):
    texts = [["a", "b", "a", "b"], ["a", "b", "c"]]
    assert distinct_n(texts, orders=(2,), variant=variant) == {2: pytest.approx(value, abs=1e-15)}
    assert run(DistinctN(orders=(2,), variant=variant), pack_rows(texts)).values["distinct_2"] == pytest.approx(value)


def test_distinct_n_names_its_values_and_what_it_left_out():
    result = run(DistinctN(orders=(1, 2, 4), fixed_tokens=3), [[1, 2, 1, 9], [3, 3], [], [5, 5, 5]])
    # cut to 3 tokens: "1 2 1" and "5 5 5": 3 types of 6 tokens, bigrams 12 21 55 55: 3 of 4
    assert result.values == {
        "distinct_1": pytest.approx(3 / 6), "distinct_2": pytest.approx(3 / 4), "distinct_4": NO_VALUE,
    }  # fmt: skip
    assert result.primary == "distinct_2"
    assert result.notes == (
        "2 of 4 texts are shorter than 3 tokens and left out",
        "no value for distinct_4: all texts are shorter",
    )
    result = run(DistinctN(orders=(2,), variant="per_doc"), [[1, 1, 1], [], [1, 2]])
    assert result.per_example["distinct_2"].tolist() == pytest.approx([0.5, math.nan, 1.0], nan_ok=True)
    assert result.values["distinct_2"] == pytest.approx(0.75)
    assert result.notes == ("1 of 3 texts are empty",)
    result = run(DistinctN(orders=(1, 2), variant="ngd"), [[1, 2, 1], [2]])
    # joined "1 2 1 2": 2 of 4 and 12 21 12: 2 of 3
    assert (result.primary, result.values["ngram_diversity"]) == ("ngram_diversity", pytest.approx(2 / 4 + 2 / 3))
    # in no other text: 1 of 1 2 1, and both bigrams; none of 2, which has no bigram
    assert result.per_example["ngram_diversity"].tolist() == pytest.approx([1 / 3 + 1, math.nan], nan_ok=True)


def test_entropy_by_hand():
    # tokens 1 1 1 1 2: shares 4/5 and 1/5; bigrams 11 11 12: shares 2/3 and 1/3
    texts = [[1, 1, 1], [1, 2]]
    four_fifths = -(4 / 5 * math.log(4 / 5) + 1 / 5 * math.log(1 / 5))
    two_thirds = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    assert ngram_entropy(texts, orders=(1, 2)) == {1: pytest.approx(four_fifths), 2: pytest.approx(two_thirds)}
    # inside the texts: 0 and log 2; bigrams: 0 and 0
    assert ngram_entropy(texts, orders=(1, 2), average="texts") == {1: pytest.approx(math.log(2) / 2), 2: 0.0}
    assert ngram_entropy([list(range(64))])[1] == pytest.approx(math.log(64))
    assert ngram_entropy([[3] * 9])[1] == 0.0
    assert ngram_entropy([[1, 2]], orders=(1, 3)) == {1: pytest.approx(math.log(2)), 3: NO_VALUE}


def test_entropy_in_nats_and_bits():
    rows = [[1, 2, 3, 4], [], [5, 5]]
    result = run(Entropy(orders=(1, 4)), rows)
    assert result.primary == "text_entropy_1"
    assert result.values["text_entropy_1"] == pytest.approx(math.log(4) / 2)
    assert np.isnan(result.per_example["text_entropy_1"][1])
    assert result.values["entropy_4"] == 0.0
    assert result.notes == ("1 of 3 texts are empty",)
    bits = run(Entropy(orders=(1, 4), measured_in="bits"), rows)
    assert bits.values["text_entropy_1"] == pytest.approx(1.0)
    assert bits.values["entropy_1"] == pytest.approx(result.values["entropy_1"] / math.log(2))


def test_length_by_hand():
    # lengths 1, 2, 6: mean 3, squared deviations 4 + 1 + 9 = 14 over 3, median 2; two of three hit the limit
    result = run(Length(), [[0], [0, 0], [0] * 6], stops=np.array([True, False, True]))
    assert result.values == {
        "length": pytest.approx(3), "length_sd": pytest.approx((14 / 3) ** 0.5), "length_median": 2.0,
        "hit_limit": pytest.approx(2 / 3),
    }  # fmt: skip
    assert result.per_example["length"].tolist() == [1, 2, 6]
    assert result.per_example["hit_limit"].tolist() == [1, 0, 1]
    assert length_statistics([[0] * 9, [0] * 9])["length_sd"] == 0
    assert length_statistics(["a b c"])["length"] == 3 > length_statistics(["a b"])["length"]
    assert run(Length(), [[], [1, 1]], stops=np.zeros(2, dtype=bool)).values["length"] == 1
    assert Length(unit="words").needs() == (Need("tokens", by="words"), Need("stops"))


def test_the_share_of_texts_at_the_limit_has_an_interval_without_any_such_text():
    """No text of 40: Wilson's interval; the constant length has none, and a note says so."""
    metric = Length(unit="words")
    tokens, stops = metric.needs()
    ids = tuple(f"t/{i:02d}" for i in range(40))
    side = Side("model", ids, {tokens: ragged([[1, 2, 3]] * 40), stops: np.zeros(40, dtype=bool)})
    given_ = Features(side, side, {"n": "40"})
    made = add_intervals(metric, given_, metric.compute(given_), Plan(40))
    assert set(made.intervals) == {"hit_limit"}
    assert (made.intervals["hit_limit"]["method"], made.intervals["hit_limit"]["low"]) == ("wilson", 0.0)
    assert made.intervals["hit_limit"]["high"] == pytest.approx(3.8415 / 43.8415, abs=1e-4)  # z^2 / (n + z^2)
    assert made.no_interval == dict.fromkeys(("length", "length_sd", "length_median"), "no variation seen")


def test_blocks_of_compression_are_compressed_after_what_precedes_them():
    """Blocks of one letter each, 101 bytes: what precedes, of other letters, saves none of their bytes."""
    metric, texts = CompressionRatio(), [letter * 100 for letter in "abcdefghij"]
    side = Side("model", tuple(texts), {metric.needs()[0]: texts})
    features = Features(side, side, {"n": "10"})
    (made,) = metric.replicates(features, metric.compute(features), Plan(20)).values()
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=b"-")  # a past that saves nothing
    alone = len(packer.compress(b"a" * 100 + b"\n") + packer.flush())
    assert made.draws == pytest.approx(np.full((1, 20), 101 / alone))


@pytest.mark.slow
@given(st.lists(st.text(max_size=30), min_size=1, max_size=8).filter(any), st.integers(1, 9))
def test_compression_equals_the_gzip_module(texts, level):
    raw = "\n".join(texts).encode("utf-8", errors="surrogatepass")
    packed = gzip.compress(raw, compresslevel=level, mtime=0)
    # streaming and one-shot DEFLATE may place block ends differently on long inputs, never on these
    assert compression_ratio(texts, level=level) == pytest.approx(len(raw) / len(packed), rel=1e-15)


def test_compression_by_hand_and_its_meaning():
    # one byte: DEFLATE's fixed code needs 3 + 8 + 7 bits = 3 bytes, gzip's frame 10 + 8 bytes: 1 / 21
    assert compression_ratio(["a"]) == pytest.approx(1 / 21)
    rng = np.random.default_rng(0)
    random = ["".join(map(chr, rng.integers(33, 127, 500))) for _ in range(20)]
    assert compression_ratio(random) < 1.3
    assert compression_ratio([random[0]] * 20) > 8
    assert compression_ratio(["the cat sat on the mat " * 20] * 5) > 30
    metric, texts = CompressionRatio(scope="prompt_and_continuation"), ["one text", "another text"]
    assert metric.needs() == (Need("texts", scope="prompt_and_continuation"),)
    assert run(metric, [[1], [2]], texts=texts).values == {"compression_ratio": compression_ratio(texts)}


# repetition


def looping(phrase, repeats, head=()):
    return [*head, *phrase * repeats]


@cases(
    "text, repeats, phrase, loop",
    ([1, 2, 3, 1, 2, 3], 2, 3, True),  # three tokens twice
    ([1, 2, 1, 2, 1, 2], 3, 2, False),  # two tokens need more than 50 repeats
    ([7] * 50, 50, 1, False),  # exactly 50 repeats of one token are not enough
    ([7] * 51, 51, 1, True),
    # "1 1 2" stands twice; no other length repeats: 3 wins with 2
    ([1, 1, 2, 1, 1, 2], 2, 3, True),
    # "1" stands twice at the end, and so does "2 1 1"; the shorter wins the tie and is too short to count
    ([2, 1, 1, 2, 1, 1], 2, 1, False),
    ([1, 2, 3, 4], 1, 1, False),
    ([5], 1, 1, False),
    ([], 0, 0, False),
    (looping([1, 2, 3, 4, 5], 4000, head=[9]), 4000, 5, True),  # longer than one window
)
def test_loop_by_hand(text, repeats, phrase, loop):
    index = index_of([[99, 98], text, [5, 5, 5]])
    found, length = repetition.final_repeats(index, 500)
    assert (found[1], length[1]) == (repeats, phrase)
    assert bool(repetition._ends_in_loop(index, 500)[1]) is loop
    assert bool(repetition._ends_in_loop(index, 500, "two_copies")[1]) is (repeats > 1)


def test_repetition_by_hand():
    # "1 1 1 1": bigrams 11 11 11, 1 of 3 different; "1 2 3 1": 12 23 31, 3 of 3
    texts = [[1, 1, 1, 1], [1, 2, 3, 1]]
    assert seq_rep_n(texts, orders=(2,)) == {2: pytest.approx((2 / 3 + 0) / 2)}
    assert seq_rep_n(texts, orders=(2,), average="pooled") == {2: pytest.approx(2 / 6)}
    # trigrams: 1 of 2 and 2 of 2 different; 4-grams: none repeated
    assert diversity(texts) == pytest.approx((1 - 2 / 6) * (1 - 1 / 4) * 1)
    # "1 1 1 1 2" without its last token: bigrams 1 of 3: 66.67 %; trigrams 1 of 2: 50 %; 4-grams 1 of 1: 0 %
    assert seq_rep_n([[1, 1, 1, 1, 2]], average="simctg") == {2: pytest.approx(0.6667), 3: 0.5, 4: 0.0}
    assert diversity([[1, 1, 1, 1, 2]], simctg=True) == pytest.approx((1 - 0.6667) * 0.5)
    # bigrams: {12, 23}, {12}, {}: 12 is in one other text, 23 in none; 12 in one other; nothing
    shared = repetition.self_repetition([[1, 2, 3], [1, 2], [9]], order=2)
    assert shared == pytest.approx((math.log(2) + math.log(2) + 0) / 3)


@given(st.lists(st.lists(st.integers(0, 1), max_size=24), min_size=1, max_size=8), st.integers(1, 15))
@settings(max_examples=150, deadline=None)
def test_loops_equal_slices(texts, max_phrase):
    found, phrase = repetition.final_repeats(index_of(texts), max_phrase)
    assert list(zip(found.tolist(), phrase.tolist(), strict=True)) == [slow.final_loop(t, max_phrase) for t in texts]
    want = [slow.is_loop(t, max_phrase) for t in texts]
    assert loop_rate(texts, max_phrase=max_phrase) == sum(want) / len(want)


def test_repetition_gathers_all_values():
    rows = [looping([1, 2, 3], 4), [1, 2, 3, 4, 5], []]
    result = run(repetition.Repetition(), rows)
    assert result.values["loop_rate"] == pytest.approx(1 / 3)
    assert result.per_example["loop_rate"].tolist() == [1, 0, 0]
    assert result.values["diversity"] == pytest.approx(diversity(rows))
    assert result.values["rep_2"] == pytest.approx(slow.rep_pooled(rows, 2))
    assert result.values["seq_rep_3"] == pytest.approx(slow.seq_rep(rows, 3))
    assert np.isnan(result.per_example["seq_rep_3"][2])
    assert result.values["self_repetition"] == pytest.approx(slow.self_repetition(rows, 4))
    assert result.notes == ("1 of 3 texts are empty",)
    published = run(repetition.Repetition(simctg=True), rows)
    assert published.values["diversity"] == pytest.approx(diversity(rows, simctg=True))
    short = run(repetition.Repetition(), [[1], [2, 3]])  # texts that are too short have loops but no rep
    assert short.values["loop_rate"] == 0
    assert math.isnan(short.values["diversity"])
    assert math.isnan(short.values["seq_rep_4"])


# self_bleu

CORPUS = st.lists(st.lists(st.integers(0, 3), max_size=10), min_size=2, max_size=7)


def nltk_bleu(texts, i, references, order):
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        smooth = SmoothingFunction().method1
        return sentence_bleu(references, texts[i], weights=[1 / order] * order, smoothing_function=smooth)


def test_self_bleu_by_hand():
    # "1 2 3 4" against "1 2 3 5": 3 of 4 tokens, 2 of 3 bigrams, equal length: sqrt(3/4 * 2/3) = sqrt(1/2), both ways
    texts = [[1, 2, 3, 4], [1, 2, 3, 5]]
    assert self_bleu(texts, orders=(1, 2)) == {1: pytest.approx(0.75), 2: pytest.approx(math.sqrt(0.5))}
    # trigrams 1 of 2; no 4-gram of 1: 0.1 in place of 0
    assert self_bleu(texts, orders=(4,))[4] == pytest.approx((0.75 * 2 / 3 * 0.5 * 0.1) ** 0.25)
    # "1 1 1": the most 1s in another text are 2: 2 of 3; closest lengths 2 and 4 are equally near: 2, so no penalty
    # "1 1": both found; closest length 3: exp(1 - 3/2); "2 2 2 2": nothing found: 0
    table = bleu_by_text(index_of([[1, 1, 1], [1, 1], [2, 2, 2, 2]]), 1)
    assert table[0].tolist() == pytest.approx([2 / 3, math.exp(-0.5), 0.0])


@given(CORPUS, st.integers(1, 6), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_self_bleu_equals_nltk_with_all_other_texts_and_with_exactly_k(texts, k, seed):
    pytest.importorskip("nltk")
    n = len(texts)
    table = bleu_by_text(index_of(texts), 5)
    for order in range(1, 6):
        want = [nltk_bleu(texts, i, texts[:i] + texts[i + 1 :], order) for i in range(n)]
        # the same products and logs in another order: a few ulp
        assert table[order - 1].tolist() == pytest.approx(want, abs=1e-12)
    if k > n - 1:
        check_error(ValueError, "num_references", self_bleu, texts, num_references=k)
        return
    drawn = make_random_stream(seed, "self_bleu", "references").permutation(n)[: k + 1].tolist()
    table = bleu_by_text(index_of(texts), 4, num_references=k, seed=seed)
    for i in range(n):
        pool = range(n) if k == n - 1 else drawn
        references = [texts[j] for j in pool if j != i][:k]
        assert len(references) == k
        assert table[3][i] == pytest.approx(nltk_bleu(texts, i, references, 4), abs=1e-12)


def test_self_bleu_of_equal_different_and_empty_texts():
    assert self_bleu([[1, 2, 3, 4, 5, 6]] * 4) == dict.fromkeys(range(1, 6), pytest.approx(1.0))
    assert self_bleu([[1, 2, 3], [4, 5, 6], [7, 8, 9]]) == dict.fromkeys(range(1, 6), 0.0)
    assert self_bleu([[], []], orders=(1,)) == {1: 0.0}
    assert self_bleu([[], [1]], orders=(2,)) == {2: 0.0}
    rng = np.random.default_rng(0)
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


def test_self_bleu_reports_each_scored_text():
    rows = [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 9, 9], []]
    result = run(SelfBleu(num_hypotheses=2), rows)
    assert result.primary == "self_bleu_4"
    scored = ~np.isnan(result.per_example["self_bleu_4"])
    assert scored.sum() == 2
    assert result.values["self_bleu_4"] == pytest.approx(result.per_example["self_bleu_4"][scored].mean())
    assert run(SelfBleu(), rows).values == {f"self_bleu_{n}": v for n, v in self_bleu(rows).items()}
    assert result.notes == ("1 of 4 texts are empty",)
    assert run(SelfBleu(orders=(2, 3)), rows).primary == "self_bleu_3"
    large = run(SelfBleu(num_references=100), rows[:3])
    assert "only 2 other texts" in large.notes[0]
    assert large.values == run(SelfBleu(), rows[:3]).values


# zipf


def corpus(frequencies):
    return [[token] * count for token, count in enumerate(frequencies)]


def test_zipf_by_hand():
    # frequencies 4 and 2: slope (log 2 - log 4) / (log 2 - log 1) = -1
    assert zipf_coefficient([[1, 1, 1, 1, 2, 2]]) == pytest.approx(1.0)
    # frequencies 64, 16, 4 at ranks 1, 2, 3, thinned: the last rank is not used: (log 16 - log 64) over the rounded
    # log 2, which is round(15 * 0.6931) / 15 = 10 / 15
    assert zipf_coefficient(corpus([64, 16, 4]), definition="log_thinned") == pytest.approx(math.log(4) / (10 / 15))
    assert zipf_coefficient([[1, 2, 3, 4]]) == 0.0
    assert zipf_coefficient(corpus([8, 4, 1, 1, 1]), max_rank=2) == pytest.approx(1.0)
    assert top_frequencies(np.array([1, 0, 5, 3, 5]), 3).tolist() == [5, 5, 3]


@given(st.lists(st.lists(st.integers(0, 30), max_size=40), min_size=1, max_size=5), st.sampled_from([2, 3, 7, 5000]))
@settings(max_examples=80, deadline=None)
def test_zipf_equals_the_slow_version_and_keeps_the_points(texts, max_rank):
    for definition in ("degen", "log_thinned"):
        want = slow.zipf(texts, definition, max_rank)
        value = value_or_nan(zipf_coefficient, texts, definition=definition, max_rank=max_rank)
        assert value == pytest.approx(want, abs=1e-9, nan_ok=True)
        if not math.isnan(want):
            result = run(Zipf(definition=definition, max_rank=max_rank), texts)
            assert result.values == {"zipf": value}
            x, y = result.arrays["log_rank"], result.arrays["log_frequency"]
            assert -np.polyfit(x, y, 1)[0] == pytest.approx(want, abs=1e-9)


def test_the_number_of_a_text_is_how_far_it_moves_the_coefficient():
    counts = np.array([[9, 1, 0, 0], [1, 5, 2, 0], [2, 0, 2, 1]])  # of four tokens in three texts
    moved = run(Zipf(), [np.repeat(np.arange(4), row).tolist() for row in counts]).per_example["zipf"]
    log_rank, total = np.log(np.arange(1, 5)), counts.sum(axis=0)
    slopes = [-np.polyfit(log_rank, np.log(total + 1e-6 * row), 1)[0] for row in (0 * total, *counts)]
    assert moved == pytest.approx((np.array(slopes[1:]) - slopes[0]) / 1e-6, abs=1e-5)


# novelty

SEQUENCES = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(SEQUENCES, SEQUENCES)
def test_novelty_agrees_with_search_in_lists(sequences, corpus):
    matches = NgramIndex(pack_rows([*sequences, *corpus])).match_lengths(len(sequences))
    assert [row.tolist() for row in matches] == [slow.match_lengths(text, corpus) for text in sequences]
    longest = max(map(len, sequences))
    if longest:
        values = n_novelty(sequences, corpus, orders=range(1, longest + 1))
        assert values == {n: pytest.approx(slow.novelty(sequences, corpus, n)) for n in values}


def test_novelty_by_hand():
    # Of a, b, c, d the corpus lacks d: 1/4. Of ab, bc, cd it lacks cd: 1/3. abcd is new: 1.
    assert n_novelty(["a b c d"], ["x a b c"], orders=(1, 2, 4)) == {1: 0.25, 2: pytest.approx(1 / 3), 4: 1.0}
    assert n_novelty([[1, 2]], [], orders=(1,)) == {1: 1.0}
    # no copy across texts
    assert longest_copied_spans(["a b c d"], ["a b", "c d"]).tolist() == [2]
    assert longest_copied_spans([[5, -3]], [[-3, 5]]).tolist() == [1]


def novelty_features(human, model, needs=(), corpus=None):
    ids = [f"t/{i:06d}" for i in range(len(model))]
    sides = [Side(n, ids[: len(t)], {Need("texts"): t}) for n, t in (("human", human), ("model", model))]
    sides[1].data.update(dict.fromkeys(needs, corpus))
    return Features(*sides, {"n": "2/2"})


def test_references_or_a_file_is_the_corpus():
    human, model = ["the cat sat on the mat", "a dog ran"], ["the cat sat on a log", "we saw a dog"]
    result = Novelty(orders=(2,)).compute(novelty_features(human, model))
    # Novel of 5 + 3 bigrams: "on a", "a log", "we saw", "saw a".
    assert result.values == {"novelty_2": 0.5, "longest_copy": 4.0, "mean_longest_copy": 3.0}
    everyone = np.ones((2, len(human)), np.bool_), np.ones((2, len(model)), np.bool_)
    drawn = Novelty(orders=(2,)).score(Novelty(orders=(2,)).prepare(novelty_features(human, model)), *everyone)
    assert drawn["novelty_2"]().tolist() == [0.5, 0.5], "a draw of all texts and all references is the value"
    metric = Novelty(orders=(2,), corpus="train.txt")
    assert metric.needs()[1] == Need("corpus", options=(("file", "train.txt"),))
    features = novelty_features(human, model, needs=metric.needs()[1:], corpus=["we saw a dog"])
    assert metric.compute(features).values["novelty_2"] == 5 / 8
    drawn = metric.score(metric.prepare(features), *np.ones((2, 1, 2)) * [1.0, 3.0])
    assert drawn["novelty_2"]().tolist() == [5 / (5 + 3 * 3)], "the second text weighs three times"


def make_texts(n, seed, length=30):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, length)) for _ in range(n)]


# overused_phrases

WORDS = [f"w{i}" for i in range(60)]


def test_overused_by_hand():
    """Model: b of 4 words, 3 times; human: once of 4; prior 4: a = 4 * 4 / 8 = 2. Odds (3 + 2) / (4 + 4 - 3 - 2) = 5/3
    and (1 + 2) / (4 + 4 - 1 - 2) = 3/5; z = log(25/9) / sqrt(1/5 + 1/3)."""
    ((phrase, z),) = find_overused_phrases(["a c d b"], ["b b b e"], prior=4.0)
    assert phrase == "b"
    assert z == pytest.approx(np.log(25 / 9) / np.sqrt(1 / 5 + 1 / 3))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 9999), st.sampled_from([1, 2, 3]), st.sampled_from([5.0, 500.0]))
def test_overused_agrees_with_loops(seed, order, prior):
    rng = np.random.default_rng(seed)
    human, model = ([" ".join(rng.choice(WORDS[:4], 20)) for _ in range(6)] for _ in range(2))
    expected = slow.overused(human, model, order, prior)
    assert dict(find_overused_phrases(human, model, order=order, prior=prior)) == pytest.approx(expected, abs=1e-9)


def test_a_planted_phrase_comes_first():
    human, model = make_texts(60, 1), make_texts(60, 2)
    model[1::2] = [f"{text} a rich tapestry" for text in model[1::2]]
    assert find_overused_phrases(human, model, order=3)[0][0] == "a rich tapestry"
    assert {p for p, _ in find_overused_phrases(human, model)[:3]} == {"a", "rich", "tapestry"}
    result = compare(OverusedPhrases(), human, model)
    assert result.values["overused_words"] == pytest.approx(90 / (60 * 30 + 90))
    assert result.values["overused_trigrams"] > 0
    assert any(note.startswith("overused trigrams (z): 'a rich tapestry'") for note in result.notes)
    assert compare(OverusedPhrases(), human, human).values == {"overused_words": 0.0, "overused_trigrams": 0.0}
    assert compare(OverusedPhrases(), human, ["w1 w2 w3 w4"] * 60).values["overused_words"] == 1.0
    assert compare(OverusedPhrases(), ["a b c"], ["b"]).values == {"overused_words": 0.0}


# The index of n-grams

INDEXED_TEXTS = st.lists(st.lists(st.integers(0, 3), max_size=14), max_size=7)


def check_index(texts, orders=range(1, 6)):
    index = index_of(texts)
    for n in orders:
        counts, level, runs = slow.pooled(texts, n), index.level(n), index.runs(n)
        assert (level.total, level.types) == (sum(counts.values()), len(counts))
        assert level.hapaxes == sum(c == 1 for c in counts.values())
        assert sorted(level.counts) == sorted(c for c in counts.values() if c > 1)
        own = [Counter(slow.grams(text, n)) for text in texts]
        assert index.repeats(n).tolist() == [sum(c.values()) - len(c) for c in own]
        expected = sorted((i, c) for i, text in enumerate(own) for g, c in text.items() if counts[g] > 1)
        assert sorted(zip(runs.text.tolist(), runs.count.tolist(), strict=True)) == expected
        assert index.sizes(n).tolist() == [len(slow.grams(text, n)) for text in texts]


@given(INDEXED_TEXTS)
@example([])
@example([[], []])
@settings(max_examples=150, deadline=None)
def test_counts_equal_those_of_dictionaries(texts):
    check_index(texts)
    # one group a block and three places a chunk: every border case of the blocked sorts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngram_index, "CHUNK", 4)
        patch.setattr(ngram_index, "BLOCK", 1)
        check_index(texts)


def test_ids_of_any_size_are_kept_apart():
    check_index([[0, 65536, 0, 65536], [131072, 0, 65536], [131072, 0]])  # of more than 16 bits
    check_index([[2**62, 2**62 - 1, -5], [2**62, -5, 2**62 - 1]])
    high = np.array([2**64 - 1, 2**63], dtype=np.uint64)  # -1 and -(2^63) where they wrap
    assert NgramIndex(pack_rows([high, np.array([-1, -(2**63)])])).level(1).types == 4
    assert NgramIndex(pack_rows([high, high])).level(1).types == 2
    packed = Ragged(np.array([2**63, 2**63 + 1, 2**63], dtype=np.uint64), np.array([0, 3]))
    assert NgramIndex(packed).level(1).types == 2


def test_strings_words_and_integers_give_the_same_statistics():
    by_word = index_of(["a b a", "b"])
    by_list = index_of([["a", "b", "a"], ["b"]])
    by_id = index_of([np.array([4, 9, 4]), [9]])
    for index in (by_list, by_id):
        assert index.tokens.tolist() == by_word.tokens.tolist() or index.level(2).types == by_word.level(2).types
        assert index.lengths.tolist() == [3, 1]
        assert sorted(index.frequencies[index.frequencies > 0]) == [2, 2]

    assert index_of([[1, "1"], ["1", 1]]).level(1).types == 2
    assert index_of(by_id) is by_id


@pytest.mark.parametrize("wrong", ["one string", [[1.5]], ragged([[1.5]], np.float64), [3], [[[1], [2]]]])
def test_wrong_inputs_are_refused(wrong):
    if wrong == [[1.5]]:
        assert pack_rows(wrong).values.tolist() == [0]  # a float is hashable: a token like any other
        return
    with pytest.raises(TypeError):
        index_of(wrong)
    check_error(ValueError, "order of at least 1", index_of([[1]]).level, 0)


def test_rows_can_be_cut_selected_and_joined():
    rows = ragged([[1, 2, 3], [], [4], [5, 6]])
    assert [r.tolist() for r in trim_rows(rows, np.array([2, 0, 1, 0]))] == [[1, 2], [], [4], []]
    assert [r.tolist() for r in select_rows(rows, np.array([True, True, False, True]))] == [[1, 2, 3], [], [5, 6]]
    assert NgramIndex(rows).as_one_text.tokens.tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
    assert trim_rows(rows, rows.lengths) is rows
    # a view into a longer array is read from its first offset
    view = Ragged(np.array([9, 9, 1, 2, 1, 2]), np.array([2, 4, 6]))
    assert index_of(view).level(2).counts.tolist() == [2]


def test_memory_stays_a_small_multiple_of_the_tokens():
    rng = np.random.default_rng(0)
    rows = Ragged(rng.zipf(1.3, 400_000).clip(max=30_000), np.arange(0, 400_001, 100))
    tracemalloc.start()
    index = NgramIndex(rows)
    for order in (1, 2, 3, 4):
        index.repeats(order)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 110 bytes a token here, where one block holds the whole corpus; blocks bound it for larger ones
    assert peak < 400_000 * 160


@pytest.mark.parametrize("chunk", [1 << 4, 1 << 20])
def test_no_statistic_depends_on_how_runs_are_cut(chunk, monkeypatch):
    from openended.metrics.repetition import compute_self_repetition

    rng = np.random.default_rng(4)
    rows = Ragged.from_rows((rng.integers(0, 5, n) for n in rng.integers(0, 30, 40)), np.int64)
    whole = NgramIndex(rows)
    want = [bleu_by_text(whole, 4), bleu_by_text(whole, 4, num_references=9), compute_self_repetition(whole, 2)]
    monkeypatch.setattr(ngram_index, "CHUNK", chunk)
    cut = NgramIndex(rows)
    assert (len(list(cut.run_blocks(2))) == 1) == (chunk > 16), "a small corpus is one block"
    made = [bleu_by_text(cut, 4), bleu_by_text(cut, 4, num_references=9), compute_self_repetition(cut, 2)]
    for one, other in zip(made, want, strict=True):
        assert np.array_equal(one, other)
