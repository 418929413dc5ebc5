"""Metrics of a scorer's numbers, of the decoder's Q on human text, and of classifiers trained on both sides."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness import core
from openended.harness.core import Features, Ragged, UndefinedMetric
from openended.harness.run.settings import read_preset
from openended.metrics.eps_ppl import EpsPPL, eps_ppl
from openended.metrics.face import FREQUENCIES, Face, _compute_spectra, face
from openended.metrics.finetuned_discriminator import FinetunedDiscriminator
from openended.metrics.gen_ppl import GenPPL, end_token_mask, gen_ppl
from openended.metrics.jensen_shannon import JensenShannon, jensen_shannon
from openended.metrics.kl_to_scorer import KLToScorer, kl_per_token
from openended.metrics.ppl import PPL, ppl
from openended.metrics.q_entropy import QEntropy, average_by_position, q_entropy
from openended.metrics.rank_histogram import RankHistogram, rank_histogram_divergence
from openended.metrics.rep_l import RepL, distance_back, rep_l
from openended.metrics.sparsemax_score import SparsemaxScore, sparsemax_score
from scripts.studies.worlds import classify_by_length
from tests.helpers import ragged, side
from tests.metrics.helpers import SEEDS, check_edges, compare, distributions, run, run_teacher_forced, stats_of
from tests.oracles import language_model as slow

# Metrics of a scorer's numbers: face, gen_ppl, kl_to_scorer, rank_histogram

NLL = st.lists(st.lists(st.floats(0, 20), max_size=6), min_size=1, max_size=6)
RANKS = st.lists(st.integers(1, 60_000), min_size=1, max_size=40)


def losses(rows):
    return ragged(rows, np.float64)


# gen_ppl


def test_gen_ppl_by_hand():
    # five tokens, NLL 1 + 2 + 3 + 0 + 4 = 10 nats: exp(10 / 5) = e^2; texts: exp(2) and exp(2): macro e^2 too
    assert gen_ppl([[1, 2, 3], [0, 4]]) == pytest.approx(math.exp(2))
    # one text of 3 tokens at 1 nat, one of 1 token at 5: micro exp(8 / 4), macro (e + e^5) / 2
    rows = [[1.0, 1.0, 1.0], [5.0]]
    assert gen_ppl(rows) == pytest.approx(math.exp(2))
    assert gen_ppl(rows, average="macro") == pytest.approx((math.e + math.exp(5)) / 2)
    # means 1 and 5 nats: exp(3); an empty text is left out
    assert gen_ppl([*rows, []], average="geometric") == pytest.approx(math.exp(3))
    # one unscored token counted in each text: exp(8 / 6)
    assert gen_ppl(rows, compat="mauve_experiments") == pytest.approx(math.exp(8 / 6))


@given(NLL)
@settings(max_examples=80, deadline=None)
def test_gen_ppl_equals_the_slow_version(rows):
    flat = [x for row in rows for x in row]
    if not flat:
        with pytest.raises(UndefinedMetric):
            gen_ppl(rows)
        return
    # sums in another order: 1e-12 of 1e2 nats
    assert gen_ppl(rows) == pytest.approx(math.exp(math.fsum(flat) / len(flat)), rel=1e-9)
    kept = [row for row in rows if row]
    texts = [math.exp(math.fsum(row) / len(row)) for row in kept]
    assert gen_ppl(rows, average="macro") == pytest.approx(math.fsum(texts) / len(texts), rel=1e-9)
    counted = sum(len(row) + 1 for row in kept)
    assert gen_ppl(rows, compat="mauve_experiments") == pytest.approx(math.exp(math.fsum(flat) / counted), rel=1e-9)


def test_gen_ppl_means():
    assert gen_ppl([[math.log(50257)] * 7, [math.log(50257)]]) == pytest.approx(50257)  # a uniform scorer
    assert gen_ppl([[0.0, 0.0]]) == 1.0
    assert gen_ppl([[1.0, 1.0]]) < gen_ppl([[1.0, 1.1]])
    # a token of probability zero, and values beyond float64
    assert gen_ppl([[math.inf, 1.0]]) == gen_ppl([[1e3]]) == gen_ppl([[1e3], [0.0]], average="macro") == math.inf
    check_edges([
        (lambda: gen_ppl([[1.0], [], [2.0, math.nan]]), ValueError, "text 2 has a NaN"),
        *((lambda n=n: gen_ppl(n), UndefinedMetric, "no token") for n in ([], [[]], [[], []])),
    ])  # fmt: skip


def test_gen_ppl_reports_perplexity_and_entropy_of_each_text():
    result = run(GenPPL(), [[4, 4], [4, 5], []], token_nll=losses([[1.0, 3.0], [0.5, 0.5], []]))
    assert result.values["gen_ppl"] == pytest.approx(math.exp(5 / 4))
    # entropies of "4 4" and "4 5": 0 and log 2
    assert result.values["entropy"] == pytest.approx(math.log(2) / 2)
    assert result.per_example["gen_ppl"].tolist() == pytest.approx([math.exp(2), math.exp(0.5), math.nan], nan_ok=True)
    assert result.notes == ("1 of 3 texts have no scored token",)
    macro = run(GenPPL(average="macro"), [[4, 4], [4, 5]], token_nll=losses([[1.0, 3.0], [0.5, 0.5]]))
    assert macro.values["gen_ppl"] == pytest.approx((math.exp(2) + math.exp(0.5)) / 2)


def test_needs_and_signature_follow_the_options():
    assert GenPPL().needs()[0] == core.Need("token_nll", by="scorer", options=(("bos", False),))
    with_prompt = GenPPL(compat="mauve_experiments").needs()
    assert with_prompt == GenPPL(include_prompt=True).needs()
    assert {need.scope for need in with_prompt} == {"prompt_and_continuation"}
    assert GenPPL(bos=True).needs()[0].options == (("bos", True),)
    assert GenPPL(window=8, stride=4, retokenize=True).needs()[0].options == (
        ("bos", False), ("retokenize", True), ("stride", 4), ("window", 8),
    )  # fmt: skip
    assert GenPPL(entropy_ids="own").needs()[1] == core.Need("tokens", by="rows")
    whole = core.build_signature(GenPPL(compat="mauve_experiments"), {})
    assert "|include_prompt:yes|" in whole, "it scores the prompt"
    assert "end_tokens:first" in core.build_signature(GenPPL(end_tokens="first"), {})
    for options in ({"stride": 4}, {"window": 4, "stride": 4}, {"end_tokens": "first", "include_prompt": True},
                    {"compat": "mauve_experiments", "bos": True}, {"retokenize": True, "include_prompt": True}):  # fmt: skip
        with pytest.raises(core.SpecError):
            GenPPL(**options)


# Sixteen texts under a tokenizer with the end token 0: none, one at either end, several inside, runs of them, and a text
# that starts with one, as texts that were trained on wrapped pieces do. The i-th scored token costs i / 4 nats.
SIXTEEN = (
    (0, 5, 6, 0, 7, 8), (5, 0, 6, 7), (5, 6, 7, 0), (5, 6, 7, 8), (0, 5, 0, 0, 6), (5, 0, 0), (5, 6, 0, 7, 0, 8), (0, 0, 5),
    (9, 9, 9, 9, 9), (5, 6), (0, 5, 6, 7, 8, 9, 0), (7, 0, 7, 0, 7), (5, 0), (0, 5, 0, 6, 0, 7, 0), (8, 6, 4), (5, 5, 0, 5),
)  # fmt: skip
# Positions (from 1, the first token is not scored) that count if of end tokens the first of the text does, or none.
FIRST = (
    (1, 2, 4, 5), (1, 2, 3), (1, 2, 3), (1, 2, 3), (1, 4), (1,), (1, 2, 3, 5), (2,),
    (1, 2, 3, 4), (1,), (1, 2, 3, 4, 5), (1, 2, 4), (1,), (1, 3, 5), (1, 2), (1, 2, 3),
)  # fmt: skip
NONE = (
    (1, 2, 4, 5), (2, 3), (1, 2), (1, 2, 3), (1, 4), (), (1, 3, 5), (2,),
    (1, 2, 3, 4), (1,), (1, 2, 3, 4, 5), (2, 4), (), (1, 3, 5), (1, 2), (1, 3),
)  # fmt: skip
ALL = tuple(tuple(range(1, len(text))) for text in SIXTEEN)
# What is left of a text without its end tokens; the tokens after its first one cost 1/4, 2/4, … again.
LEFT = tuple(tuple(range(1, left)) for left in (4, 3, 3, 4, 2, 1, 4, 1, 5, 2, 5, 3, 1, 3, 3, 3))


def by_hand(average, counted):
    """Aggregate the positions that count, each of position / 4 nats."""
    sums = [sum(row) / 4 for row in counted if row]
    counts = [len(row) for row in counted if row]
    if average == "micro":
        return math.exp(sum(sums) / sum(counts))
    means = [s / n for s, n in zip(sums, counts, strict=True)]
    return sum(map(math.exp, means)) / len(means) if average == "macro" else math.exp(sum(means) / len(means))


PRESETS = {
    # positions sum to 12+6+6+6+5+1+11+2+10+1+15+7+1+9+3+6 = 101 over 43 tokens
    "mdlm": math.exp(101 / 4 / 43),
    "sedd": by_hand("macro", ALL),
    "bd3lm": by_hand("macro", NONE),
    # 6+3+3+6+1+0+6+0+10+1+10+3+0+3+3+3 = 58 over 3+2+2+3+1+0+3+0+4+1+4+2+0+2+2+2 = 31
    "sdtt": math.exp(58 / 4 / 31),
    "dlmbench": by_hand("geometric", ALL),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_on_sixteen_texts_with_end_tokens_inside(preset):
    assert PRESETS["mdlm"] == pytest.approx(by_hand("micro", FIRST))
    assert PRESETS["sdtt"] == pytest.approx(by_hand("micro", LEFT))
    metric = GenPPL(**read_preset(preset)["metric"]["gen_ppl"])
    removed = metric.end_tokens == "remove"
    rows = [[t for t in text if t or not removed] for text in SIXTEEN]
    nll = losses([[i / 4 for i in range(1, len(row))] for row in rows])
    result = run(metric, rows, token_nll=nll, end_tokens=np.array([0]))
    assert result.values["gen_ppl"] == pytest.approx(PRESETS[preset], rel=1e-12)


def test_which_tokens_count():
    ids = [0, 5, 0, 0, 7]
    want = {
        "keep": [True] * 5, "first": [True, True, False, False, True], "drop": [False, True, False, False, True],
        "remove": [False, True, False, False, True], "cut": [False] * 5,
    }  # fmt: skip
    for end_tokens, mask in want.items():
        assert end_token_mask(ids, eos_ids=[0], end_tokens=end_tokens).tolist() == mask
    assert end_token_mask([5, 6, 0, 7], eos_ids=0, end_tokens="cut").tolist() == [True, True, False, False]
    assert end_token_mask([5, 1, 0], eos_ids=(0, 1), end_tokens="first").tolist() == [True, True, False]
    with pytest.raises(ValueError, match="end_tokens: expected one of keep, first"):
        end_token_mask(ids, eos_ids=0, end_tokens="frist")
    # a text that starts with an end token is not cut there
    nll = losses([[1.0, 2.0, 4.0, 8.0]])
    result = run(GenPPL(end_tokens="cut"), [[0, 5, 6, 0, 7]], token_nll=nll, end_tokens=np.array([0]))
    assert result.values["gen_ppl"] == pytest.approx(math.exp(1.5))


# kl_to_scorer


@given(st.lists(st.lists(st.floats(0, 20), min_size=1, max_size=5), min_size=1, max_size=5))
def test_kl_equals_the_slow_version(rows):
    log_prob = [-0.5 * len(row) for row in rows]
    want = math.fsum(x for row in rows for x in row) + math.fsum(log_prob)
    assert kl_per_token(rows, log_prob=log_prob) == pytest.approx(want / sum(map(len, rows)), rel=1e-9, abs=1e-12)


def test_kl_by_hand_and_its_edges():
    # NLL 1 + 2 + 3 = 6 nats, log Q -1.5 twice: (6 - 3) / 3 tokens
    assert kl_per_token([[1.0, 2.0], [3.0]], log_prob=[-1.5, -1.5]) == 1.0
    assert kl_per_token([[1.0, 0.5]], log_prob=[-1.5]) == 0.0  # the sampler is the scorer
    nll, log_prob = losses([[1.0, 2.0], [3.0]]), np.array([-1.5, -1.5])
    assert run(KLToScorer(), [[1, 2], [3]], token_nll=nll, log_prob=log_prob).values == {"kl_per_token": 1.0}
    without = np.array([-1.5, np.nan])
    check_edges([
        (lambda: run(KLToScorer(), [[1, 2], [3]], token_nll=nll, log_prob=without), UndefinedMetric, "without log Q"),
        (lambda: run(KLToScorer(), [[1, 2], [3, 4]], token_nll=nll, log_prob=log_prob), UndefinedMetric, "bos=true"),
        (lambda: kl_per_token([[1.0]], log_prob=[1.0, 2.0]), ValueError, "one per text"),
        (lambda: kl_per_token([[]], log_prob=[0.0]), UndefinedMetric, "no token"),
        (lambda: kl_per_token([[np.inf]], log_prob=[-np.inf]), UndefinedMetric, "without log Q"),
        (lambda: kl_per_token([[1.0], [np.nan]], log_prob=[0.0, 0.0]), ValueError, "token_nll: text 1 has a NaN"),
    ])  # fmt: skip


# face


def draw_losses(n, length=40, seed=0):
    return list(np.random.default_rng(seed).gamma(2.0, 1.5, (n, length)))


def test_face_by_hand():
    """Twice the losses is twice the spectrum: overlap 1/2; shares, ranks and correlation are equal."""
    result = face(human_nll=[[1.0, 2.0, 3.0, 4.0]], model_nll=[[2.0, 4.0, 6.0, 8.0]])
    assert result.so == 0.5
    assert (result.pearson, result.spearman) == (pytest.approx(1), pytest.approx(1))
    assert (result.emd, result.kl, result.js) == (pytest.approx(0, abs=1e-12),) * 3
    # Losses 1, 3: at frequency 0 their sum 4, at 1/2 their difference 2, a straight line between.
    spectrum = _compute_spectra([[1.0, 3.0]], standardize=False)[0][0]
    assert spectrum == pytest.approx(np.linspace(4, 2, FREQUENCIES))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 20), min_size=2, max_size=15))
def test_spectra_agree_with_a_transform_by_hand(row):
    spectrum = _compute_spectra([row], standardize=False)[0][0]
    assert spectrum == pytest.approx(slow.spectrum(row, FREQUENCIES), abs=1e-8)


def test_face_means():
    human = draw_losses(60)
    alike, flat = draw_losses(60, seed=1), [np.full(40, 3.0)] * 60
    loops = [np.tile(row[:4], 10) for row in draw_losses(60, seed=2)]
    values = [face(human_nll=human, model_nll=model) for model in (human, alike, loops, flat)]
    assert values[0].so == 1.0
    assert [v.so for v in values] == sorted((v.so for v in values), reverse=True)
    assert values[1].so > 0.9
    assert values[1].emd < values[2].emd
    # standardized texts ignore shift and scale
    moved = [2 * r + 1 for r in human[:10]]
    assert face(human_nll=human[:10], model_nll=moved, standardize=True).so == pytest.approx(1.0)
    assert face(human_nll=human[:10], model_nll=moved).so < 0.6


def test_face_leaves_short_texts_out_and_its_edges():
    rows = losses([*draw_losses(12), [1.0], []])
    result = compare(Face(), rows, rows)
    assert result.values["so"] == 1.0
    assert result.notes == ("4 texts with fewer than two scored tokens are left out",)
    zero = face(human_nll=[[0.0, 0.0]], model_nll=[[0.0, 0.0]])
    assert zero.so == 1.0
    assert np.isnan(zero.pearson)
    check_edges([
        (lambda: face(human_nll=[[1.0]], model_nll=[[1.0, 2.0]]), UndefinedMetric, "two scored tokens"),
        (lambda: face(human_nll=[[1.0, np.nan]], model_nll=[[1.0, 2.0]]), ValueError, "finite"),
    ])  # fmt: skip


# rank_histogram


@settings(max_examples=40, deadline=None)
@given(RANKS, RANKS)
def test_ranks_agree_with_the_slow_version(human, model):
    for divergence in ("chi2", "renyi"):
        got = rank_histogram_divergence(human_ranks=human, model_ranks=model, divergence=divergence)
        assert got == pytest.approx(slow.rank_divergence(human, model, divergence), rel=1e-9, abs=1e-12)


def test_ranks_by_hand_and_their_edges():
    """Human rank 1 twice, model rank 2 twice; 28 bins with a half added: 2.5 and 0.5 of 16 against 0.5 and 2.5 of 16.

    chi2 = (2/16)^2 / (2.5/16) + (2/16)^2 / (0.5/16) = 4/16 * (1/2.5 + 1/0.5) = 0.25 * 2.4 = 0.6.
    """
    assert rank_histogram_divergence(human_ranks=[1, 1], model_ranks=[2, 2]) == pytest.approx(0.6)
    human = np.random.default_rng(0).integers(1, 500, 2000)
    assert rank_histogram_divergence(human_ranks=human, model_ranks=human[::-1]) == 0.0
    rows = [[1, 5], [30]]  # rows and flat ranks are the same
    flat = rank_histogram_divergence(human_ranks=[1, 5, 30], model_ranks=[2])
    assert rank_histogram_divergence(human_ranks=rows, model_ranks=[[2]]) == flat
    assert rank_histogram_divergence(human_ranks=ragged(rows), model_ranks=ragged([[2]])) == flat
    check_edges([
        (lambda: rank_histogram_divergence(human_ranks=[], model_ranks=[1]), UndefinedMetric, "no ranked token"),
        (lambda: rank_histogram_divergence(human_ranks=[0], model_ranks=[1]), ValueError, "expected 1"),
        (lambda: rank_histogram_divergence(human_ranks=[1], model_ranks=[1], order=1), ValueError, "order"),
        (lambda: rank_histogram_divergence(human_ranks=[1], model_ranks=[1], order=0), ValueError, "order"),
    ])  # fmt: skip


def test_ranks_have_a_p_value():
    rng = np.random.default_rng(0)
    human, other = (ragged(rng.integers(1, 300, (40, 20)).tolist()) for _ in range(2))
    greedy = ragged(np.ones((40, 20), dtype=int).tolist())
    result = compare(RankHistogram(permutations=99), human, greedy)
    assert result.values["p_value"] == 0.01
    expected = rank_histogram_divergence(human_ranks=human, model_ranks=greedy)
    assert result.values["rank_histogram"] == pytest.approx(expected)
    assert compare(RankHistogram(permutations=99), human, other).values["p_value"] > 0.05


# Metrics of the decoder's Q on human text: eps_ppl, jensen_shannon, ppl, rep_l, sparsemax_score


def test_hand_values():
    # V = 4, eps = .25: (.5 + .25) / 2 = .375 and (0 + .25) / 2 = .125; exp(-(log .375 + log .125) / 2) = 1 / sqrt(.046875)
    assert eps_ppl([0.5, 0.0], vocab_size=4, eps=0.25) == pytest.approx(1 / math.sqrt(0.046875), rel=1e-14)
    # Q(y) = 1/3: m(y) = 2/3; KL(e||m) = log 1.5 = .405465; KL(Q||m) = 1/3 log(1/2) + 2/3 log 2 = .231049
    # JS = (.405465 + .231049) / 2 = .318257
    assert jensen_shannon([0.0], base="2") == 1.0
    assert jensen_shannon([1 / 3]) == pytest.approx(0.5 * (math.log(1.5) + math.log(2) / 3), abs=1e-15)
    # exp(-(log .5 + log .125) / 2) = 1 / sqrt(.0625) = 4
    assert ppl([0.5, 0.125]) == pytest.approx(4.0, rel=1e-15)
    # Q = (.5, .5), true token first: .5 + (1 - .5) / 2 = .75; Q = one-hot elsewhere: 0 + (1 - 1) / 2 = 0; mean .375
    assert sparsemax_score([0.5, 0.0], [0.5, 1.0]) == pytest.approx(0.375, abs=1e-15)


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_values_equal_the_oracles(seed):
    q, gold = distributions(seed, kept=1 + seed % 7)
    stats, eps = stats_of(q, gold), 10.0 ** -(seed % 7)
    # float64 algebra
    smoothed = eps_ppl(stats.gold_prob, vocab_size=q.shape[1], eps=eps)
    assert smoothed == pytest.approx(slow.eps_ppl(q, gold, eps), rel=1e-11)
    value = jensen_shannon(stats.gold_prob)
    assert value == pytest.approx(slow.jensen_shannon(q, gold), abs=1e-12)
    assert 0 <= value <= math.log(2)
    score = sparsemax_score(stats.gold_prob, stats.sum_sq)
    assert score == pytest.approx(slow.sparsemax_score(q, gold), abs=1e-12)
    assert 0 <= score <= 1
    whole, gold = distributions(seed)
    assert ppl(stats_of(whole, gold).gold_prob) == pytest.approx(slow.eps_ppl(whole, gold, 0.0), rel=1e-11)


@pytest.mark.parametrize("metric", [JensenShannon(), JensenShannon(base="2"), SparsemaxScore()], ids=repr)
def test_values_by_row_are_means_over_positions(metric):
    result = run_teacher_forced(metric, stats_of(*distributions(3, n=5), [2, 0, 3]))
    by_row = result.per_example[metric.name]
    assert np.isnan(by_row[1])
    assert result.values[metric.name] == pytest.approx((2 * by_row[0] + 3 * by_row[2]) / 5, abs=1e-12)


def test_perplexities_by_row_have_a_geometric_mean():
    plain = run_teacher_forced(PPL(), stats_of(*distributions(3, n=4), [2, 2]))
    result = run_teacher_forced(EpsPPL(eps=1e-3, grid=(1e-1, 1e-3)), stats_of(*distributions(3, n=6, kept=3), [3, 3]))
    assert set(result.values) == {"eps_ppl", "eps_ppl_0.1", "eps_ppl_0.001"}
    assert result.values["eps_ppl"] == result.values["eps_ppl_0.001"]
    for found in (plain, result):
        by_row = found.per_example[found.metric]
        assert found.values[found.metric] == pytest.approx(math.sqrt(by_row[0] * by_row[1]), rel=1e-12)


def test_edges():
    nothing = stats_of(np.zeros((0, 3)), np.zeros(0, dtype=int), [0])
    check_edges([
        (lambda: eps_ppl([], vocab_size=3, eps=0.1), UndefinedMetric, "no token"),
        (lambda: eps_ppl([0.0, 1.0], vocab_size=3, eps=0.0), UndefinedMetric, "1 of 2"),
        (lambda: eps_ppl([0.5], vocab_size=3, eps=-1.0), ValueError, "eps >= 0"),
        (lambda: eps_ppl([0.5], vocab_size=0, eps=1.0), ValueError, "vocab_size >= 1"),
        (lambda: eps_ppl([np.nan], vocab_size=3, eps=0.1), ValueError, "probabilities"),
        (lambda: jensen_shannon([]), UndefinedMetric, "no token"),
        (lambda: jensen_shannon([float("inf")]), ValueError, "probabilities"),
        (lambda: jensen_shannon([[0.5]]), ValueError, "shape"),
        (lambda: ppl([]), UndefinedMetric, "no token"),
        (lambda: ppl([0.0, 0.5]), UndefinedMetric, "zero on 1 of 2"),
        (lambda: ppl([-0.1]), ValueError, "probabilities"),
        (lambda: sparsemax_score([], []), UndefinedMetric, "no token"),
        (lambda: sparsemax_score([float("nan")], [1.0]), ValueError, "probabilities"),
        (lambda: sparsemax_score([1.5], [1.0]), ValueError, "probabilities"),
        (lambda: sparsemax_score([0.5, 0.5], [1.0]), ValueError, "one sum of squares"),
        (lambda: run_teacher_forced(SparsemaxScore(), nothing), UndefinedMetric, "no human token"),
        (lambda: run_teacher_forced(RepL(), repetition_stats([], [])), UndefinedMetric, "no human token"),
    ])  # fmt: skip


def repetition_stats(best, gold, context=(), offsets=None):
    n = len(gold)
    ends = np.array(offsets or [0, n], dtype=np.int64)
    return core.NextToken(
        ends, np.full(n, 0.5), np.full(n, 0.5), np.full(n, 2), np.array(best, dtype=np.int64), np.array(gold, dtype=np.int64),
        Ragged.from_rows([list(context)] * (len(ends) - 1), np.int64), vocab_size=10,
    )  # fmt: skip


def test_rep_by_hand():
    # prompt 1 2; gold 3 1 3; best 1 2 3. l = 1: before the positions stand {2} {3} {1}: 1, 2, 3 → 0 of 3.
    # l = 2: {1 2} {2 3} {3 1}: 1 yes, 2 yes, 3 yes → 3 of 3; the last is the true token → wrep 2 of 3.
    # human: l = 2: 3 in {1 2} no, 1 in {2 3} no, 3 in {3 1} yes → 1 of 3.
    stats = repetition_stats([1, 2, 3], [3, 1, 3], [1, 2])
    assert rep_l(stats, lengths=(1,)) == {"rep_l": 0.0, "wrep_l": 0.0, "human_rep_l": 0.0}
    assert rep_l(stats, lengths=(2,)) == pytest.approx({"rep_l": 1.0, "wrep_l": 2 / 3, "human_rep_l": 1 / 3})
    assert rep_l(stats, lengths=(1, 2)) == pytest.approx({"rep_l": 0.5, "wrep_l": 1 / 3, "human_rep_l": 1 / 6})


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_rep_equals_the_oracle(seed):
    g = np.random.default_rng(seed)
    n, length = int(g.integers(1, 30)), int(g.integers(1, 12))
    best, gold, context = g.integers(0, 8, n).tolist(), g.integers(0, 8, n).tolist(), g.integers(0, 8, 3).tolist()
    got = rep_l(repetition_stats(best, gold, context), lengths=(length,))
    assert got["rep_l"] == pytest.approx(slow.rep(best, gold, context, length, wrong=False), abs=1e-15)
    assert got["wrep_l"] == pytest.approx(slow.rep(best, gold, context, length, wrong=True), abs=1e-15)
    assert got["human_rep_l"] == pytest.approx(slow.rep(gold, gold, context, length, wrong=False), abs=1e-15)


def test_rows_do_not_see_each_other():
    result = run_teacher_forced(RepL(lengths=(16,)), repetition_stats([5, 5, 5, 5], [5, 6, 7, 8], offsets=[0, 2, 4]))
    assert result.per_example["rep_l"].tolist() == [0.5, 0.0]
    one = distance_back(np.array([3]), np.array([3]), np.array([0, 1]), Ragged.from_rows([[]], np.int64))
    assert one[0] == np.iinfo(np.int64).max


# Accuracy of classifiers that are trained on the texts of both sides; here by a rule


def compare_texts(human: list[str], model: list[str]) -> tuple[FinetunedDiscriminator, Features]:
    metric = FinetunedDiscriminator(classifiers=("bundled:docs-s", "./mine/bert/"))
    texts, *classifiers = metric.needs()
    data = dict.fromkeys(classifiers, classify_by_length)
    sides = (side("human", len(human), {texts: human, **data}), side("model", len(model), {texts: model, **data}))
    return metric, Features(*sides, {"n": f"{len(human)}/{len(model)}", "task": "t@000000"})


def test_accuracy_by_hand():
    # Human texts have 3 or 9 letters, model texts 9: the means are 6 and 9, so the human texts of 9 are taken for the
    # model's. Of the 4 held-out prompts of 20, accuracy is the mean of both sides' shares.
    human = ["a" * (3 if i % 2 else 9) for i in range(20)]
    metric, features = compare_texts(human, ["b" * 9] * 20)
    prepared = metric.prepare(features)
    rows = prepared["accuracy_docs-s"].sides[0][0]
    assert len(rows) == 4
    share = np.mean([len(human[row]) == 3 for row in rows])
    result = metric.compute(features)
    assert result.values == {"accuracy_docs-s": (share + 1) / 2, "accuracy_bert": (share + 1) / 2}
    assert "8 held-out texts" in result.notes[0]
    assert [(metric.best_of(key), metric.target_of(key)) for key in result.values] == [("target", 0.5)] * 2  # chance
    draws = metric.replicates(features, result, core.Plan(50))["accuracy_bert"].draws
    assert np.all((draws >= 0.5) & (draws <= 1))


def test_both_sides_of_a_prompt_are_held_out_together_and_train_no_classifier():
    metric, features = compare_texts([f"h{i}" for i in range(20)], [f"m{i}" for i in range(20)])
    seen: list[str] = []
    features.model.data[metric.needs()[1]] = lambda texts, is_model, test_texts, **options: (
        seen.extend([*texts, "|", *test_texts]), np.zeros(len(test_texts), bool)
    )[1]  # fmt: skip
    metric.compute(features)
    train, test = seen[: seen.index("|")], seen[seen.index("|") + 1 :]
    assert {text[1:] for text in train}.isdisjoint(text[1:] for text in test)
    assert len(train) == 32
    assert len(test) == 8


def test_what_cannot_be_computed_is_said():
    metric, features = compare_texts(["a"] * 9, ["b"] * 20)
    check_edges([
        (lambda: metric.compute(features), UndefinedMetric, "10 texts per side, got 9 and 20"),
        (lambda: FinetunedDiscriminator(classifiers=("gpt2", "gpt2")), core.SpecError, "classifiers"),
    ])  # fmt: skip


# q_entropy


def test_entropy_by_hand_and_against_one_position_after_the_other():
    rows = [[np.log(4), np.log(2)], [np.log(8)], [], [0.0, np.log(2), 1.0]]
    assert q_entropy(rows[:3]) == pytest.approx(np.log(64) / 3)
    found = run(QEntropy(), [[1, 2], [3], [], [1, 2, 3]], ["a", "a", "b", "b"], q_entropy=ragged(rows, np.float64))
    assert found.values["branching_factor"] == pytest.approx(np.exp((np.log(128) + 1) / 6))
    by_row = [1.5 * np.log(2), np.log(8), np.nan, (np.log(2) + 1) / 3]
    np.testing.assert_allclose(found.per_example["q_entropy"], by_row)
    assert found.arrays["texts"].tolist() == [3, 2, 1]
    np.testing.assert_allclose(found.arrays["mean"], [np.log(32) / 3, np.log(2), 1])
    # position 0: prompt a is away by log 32 / 3 in all, b by minus as much; the factor of two prompts is 2
    away = np.log(32) - 2 * np.log(32) / 3
    np.testing.assert_allclose(found.arrays["std_error"], [np.sqrt(2 * 2 * away**2) / 3, 0, np.nan])
    check_edges([
        (lambda: q_entropy([[], []]), UndefinedMetric, "no tokens"),
        (lambda: q_entropy([[0.1], [], [np.nan]]), ValueError, "entropies: text 2 has a NaN"),
        (lambda: run(QEntropy(), [[]], q_entropy=ragged([[]], np.float64)), UndefinedMetric, "no tokens"),
    ])  # fmt: skip


def test_the_band_of_the_curve_covers_the_mean_of_a_known_law():
    """Two texts per prompt that share half of their variance; nominal 95 %."""
    inside = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        values = 9 + rng.normal(size=(60, 1)).repeat(2, 0) + rng.normal(size=(120, 1))
        curve = average_by_position(ragged(values, np.float64), [f"p/{i // 2}" for i in range(120)])
        inside.append(abs(curve["mean"][0] - 9) < 1.96 * curve["std_error"][0])
    assert 0.92 < np.mean(inside) < 0.98
