"""Metrics of a scorer's numbers: face, gen_ppl, kl_to_scorer, rank_histogram."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core import Need, SpecError, UndefinedMetric, build_signature, canonicalize
from openended.harness.run.settings import read_preset
from openended.metrics.face import FREQUENCIES, Face, _compute_spectra, face
from openended.metrics.gen_ppl import GenPPL, end_token_mask, gen_ppl
from openended.metrics.kl_to_scorer import KLToScorer, kl_per_token
from openended.metrics.rank_histogram import RankHistogram, rank_histogram_divergence
from tests.helpers import ragged
from tests.metrics.helpers import check_edges, compare, run
from tests.oracles.copying import slow_spectrum
from tests.oracles.distributional import slow_rank_divergence

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
    assert GenPPL().needs()[0] == Need("token_nll", by="scorer", options=(("bos", False),))
    with_prompt = GenPPL(compat="mauve_experiments").needs()
    assert with_prompt == GenPPL(include_prompt=True).needs()
    assert {need.scope for need in with_prompt} == {"prompt_and_continuation"}
    assert GenPPL(bos=True).needs()[0].options == (("bos", True),)
    assert GenPPL(window=8, stride=4, retokenize=True).needs()[0].options == (
        ("bos", False), ("retokenize", True), ("stride", 4), ("window", 8),
    )  # fmt: skip
    assert GenPPL(entropy_ids="own").needs()[1] == Need("tokens", by="rows")
    # later options at their defaults are in no signature and no key
    assert build_signature(GenPPL(), {}) == "gen_ppl|v:1|include_prompt:no|bos:no|average:micro|compat:none"
    assert set(canonicalize(GenPPL())) == {"group", "name", "version", "include_prompt", "bos", "average", "compat"}
    assert "end_tokens:first" in build_signature(GenPPL(end_tokens="first"), {})
    assert GenPPL(first_token="bos") == GenPPL(bos=True)
    for options in ({"stride": 4}, {"window": 4, "stride": 4}, {"end_tokens": "first", "include_prompt": True},
                    {"compat": "mauve_experiments", "bos": True}, {"retokenize": True, "include_prompt": True}):  # fmt: skip
        with pytest.raises(SpecError):
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
        "keep": [True] * 5,
        "first": [True, True, False, False, True],
        "drop": [False, True, False, False, True],
        "remove": [False, True, False, False, True],
        "cut": [False] * 5,
    }
    for end_tokens, mask in want.items():
        assert end_token_mask(ids, eos_ids=[0], end_tokens=end_tokens).tolist() == mask
    assert end_token_mask([5, 6, 0, 7], eos_ids=0, end_tokens="cut").tolist() == [True, True, False, False]
    assert end_token_mask([5, 1, 0], eos_ids=(0, 1), end_tokens="first").tolist() == [True, True, False]
    table = end_token_mask(np.array([[5, 0], [0, 0]]), eos_ids=0, end_tokens="first")
    assert table.tolist() == [[True, True], [True, False]]
    rows = end_token_mask([[5, 0, 0], [0]], eos_ids=0, end_tokens="first")
    assert [row.tolist() for row in rows] == [[True, True, False], [True]]
    with pytest.raises(ValueError, match="did you mean 'first'"):
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


def test_kl_by_hand():
    # NLL 1 + 2 + 3 = 6 nats, log Q -1.5 twice: (6 - 3) / 3 tokens
    assert kl_per_token([[1.0, 2.0], [3.0]], log_prob=[-1.5, -1.5]) == 1.0
    assert kl_per_token([[1.0, 0.5]], log_prob=[-1.5]) == 0.0  # the sampler is the scorer


def test_kl_as_a_metric_and_its_edges():
    nll, log_prob = losses([[1.0, 2.0], [3.0]]), np.array([-1.5, -1.5])
    assert run(KLToScorer(), [[1, 2], [3]], token_nll=nll, log_prob=log_prob).values == {"kl_per_token": 1.0}
    without = np.array([-1.5, np.nan])
    check_edges([
        (lambda: run(KLToScorer(), [[1, 2], [3]], token_nll=nll, log_prob=without), UndefinedMetric, "without log Q"),
        (lambda: run(KLToScorer(), [[1, 2], [3, 4]], token_nll=nll, log_prob=log_prob), UndefinedMetric, "bos=true"),
        (lambda: kl_per_token([[1.0]], log_prob=[1.0, 2.0]), ValueError, "one a text"),
        (lambda: kl_per_token([[]], log_prob=[0.0]), UndefinedMetric, "no token"),
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
    assert spectrum == pytest.approx(slow_spectrum(row, FREQUENCIES), abs=1e-8)


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


def test_ranks_by_hand():
    """Human rank 1 twice, model rank 2 twice; 28 bins with a half added: 2.5 and 0.5 of 16 against 0.5 and 2.5 of 16.

    chi2 = (2/16)^2 / (2.5/16) + (2/16)^2 / (0.5/16) = 4/16 * (1/2.5 + 1/0.5) = 0.25 * 2.4 = 0.6.
    """
    assert rank_histogram_divergence(human_ranks=[1, 1], model_ranks=[2, 2]) == pytest.approx(0.6)


@settings(max_examples=40, deadline=None)
@given(RANKS, RANKS)
def test_ranks_agree_with_the_slow_version(human, model):
    for divergence in ("chi2", "renyi"):
        got = rank_histogram_divergence(human_ranks=human, model_ranks=model, divergence=divergence)
        assert got == pytest.approx(slow_rank_divergence(human, model, divergence), rel=1e-9, abs=1e-12)


def test_ranks_mean():
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
    assert result.values["rank_histogram"] == pytest.approx(
        rank_histogram_divergence(human_ranks=human, model_ranks=greedy)
    )
    assert compare(RankHistogram(permutations=99), human, other).values["p_value"] > 0.05
