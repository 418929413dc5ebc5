from __future__ import annotations

import gzip
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.harness.core.metric_spec import Need
from openended.harness.core.signature import build_signature, canonicalize
from openended.harness.run.settings import read_preset
from openended.metrics.gen_ppl import GenPPL, end_token_mask, gen_ppl
from tests.helpers import ragged
from tests.metrics.text_helpers import SHARED, needed, run

NLL = st.lists(st.lists(st.floats(0, 20), max_size=6), min_size=1, max_size=6)


def test_hand_value():
    # five tokens, NLL 1 + 2 + 3 + 0 + 4 = 10 nats: exp(10 / 5) = e^2; texts: exp(2) and exp(2): macro e^2 too
    assert gen_ppl([[1, 2, 3], [0, 4]]) == pytest.approx(math.exp(2))
    # one text of 3 tokens at 1 nat, one of 1 token at 5: micro exp(8 / 4), macro (e + e^5) / 2
    rows = [[1.0, 1.0, 1.0], [5.0]]
    assert gen_ppl(rows) == pytest.approx(math.exp(2))
    assert gen_ppl(rows, average="macro") == pytest.approx((math.e + math.exp(5)) / 2)
    # one unscored token counted in each text: exp(8 / 6)
    assert gen_ppl(rows, compat="mauve_experiments") == pytest.approx(math.exp(8 / 6))


@given(NLL)
@settings(max_examples=80, deadline=None)
def test_equals_the_slow_version(rows):
    flat = [x for row in rows for x in row]
    if not flat:
        with pytest.raises(UndefinedMetric):
            gen_ppl(rows)
        return
    # sums in another order: 1e-12 of 1e2 nats
    assert gen_ppl(rows) == pytest.approx(math.exp(math.fsum(flat) / len(flat)), rel=1e-9)
    texts = [math.exp(math.fsum(row) / len(row)) for row in rows if row]
    assert gen_ppl(rows, average="macro") == pytest.approx(math.fsum(texts) / len(texts), rel=1e-9)
    kept = [row for row in rows if row]
    counted = sum(len(row) + 1 for row in kept)
    assert gen_ppl(rows, compat="mauve_experiments") == pytest.approx(math.exp(math.fsum(flat) / counted), rel=1e-9)


def test_uniform_scorer_gives_the_vocabulary_size_and_less_likely_text_a_larger_value():
    assert gen_ppl([[math.log(50257)] * 7, [math.log(50257)]]) == pytest.approx(50257)
    assert gen_ppl([[0.0, 0.0]]) == 1.0
    assert gen_ppl([[1.0, 1.0]]) < gen_ppl([[1.0, 1.1]])


def test_a_token_of_probability_zero_makes_it_infinite_and_huge_values_do_not_fail():
    assert gen_ppl([[math.inf, 1.0]]) == math.inf
    assert gen_ppl([[1e3]]) == math.inf
    assert gen_ppl([[1e3], [0.0]], average="macro") == math.inf


def test_nan_and_nothing_are_refused():
    with pytest.raises(ValueError, match="text 2 has a NaN"):
        gen_ppl([[1.0], [], [2.0, math.nan]])
    for nothing in ([], [[]], [[], []]):
        with pytest.raises(UndefinedMetric, match="no token"):
            gen_ppl(nothing)


def test_metric_reports_ppl_and_entropy_of_each_text():
    result = run(GenPPL(), [[4, 4], [4, 5], []], token_nll=ragged([[1.0, 3.0], [0.5, 0.5], []], np.float64))
    assert result.values["gen_ppl"] == pytest.approx(math.exp(5 / 4))
    # entropies of "4 4" and "4 5": 0 and log 2
    assert result.values["entropy"] == pytest.approx(math.log(2) / 2)
    assert result.per_example["gen_ppl"].tolist() == pytest.approx([math.exp(2), math.exp(0.5), math.nan], nan_ok=True)
    assert result.notes == ("1 of 3 texts have no scored token",)
    macro = run(GenPPL(average="macro"), [[4, 4], [4, 5]], token_nll=ragged([[1.0, 3.0], [0.5, 0.5]], np.float64))
    assert macro.values["gen_ppl"] == pytest.approx((math.exp(2) + math.exp(0.5)) / 2)


def test_needs_follow_the_options():
    assert GenPPL().needs()[0] == Need("token_nll", by="scorer", options=(("bos", False),))
    with_prompt = GenPPL(compat="mauve_experiments").needs()
    assert with_prompt == GenPPL(include_prompt=True).needs()
    assert {need.scope for need in with_prompt} == {"prompt_and_continuation"}
    assert GenPPL(bos=True).needs()[0].options == (("bos", True),)


def test_compat_needs_texts_whose_first_token_is_not_scored():
    with pytest.raises(SpecError, match="compat"):
        GenPPL(compat="mauve_experiments", bos=True)


@pytest.mark.reference
@pytest.mark.parametrize("name", ["webtext-human.gpt2", "wiki-gpt2-generated", "wiki-gpt2-xl-generated"])
def test_published_losses(name):
    want = json.loads(needed(SHARED / "nll" / "expected.json").read_text(encoding="utf-8"))[f"{name}.jsonl.gz"]
    with gzip.open(needed(SHARED / "nll" / f"{name}.jsonl.gz"), "rt", encoding="utf-8") as handle:
        rows = ragged([json.loads(line)["nll"] for line in handle], np.float64)
    assert (len(rows), len(rows.values)) == (want["n_docs"], want["n_scored_tokens"])
    assert gen_ppl(rows) == pytest.approx(want["ppl_corpus"], rel=1e-12)
    assert gen_ppl(rows, average="macro") == pytest.approx(want["ppl_mean_of_documents"], rel=1e-12)
    compat = gen_ppl(rows, compat="mauve_experiments")
    assert compat == pytest.approx(want["ppl_corpus_first_token_in_denominator"], rel=1e-12)


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
# What is left of a text without its end tokens; the tokens after its first one cost 1/4, 2/4, … again.
LEFT = (4, 3, 3, 4, 2, 1, 4, 1, 5, 2, 5, 3, 1, 3, 3, 3)


def by_hand(average, counted):
    """Aggregate the positions that count, each of position / 4 nats."""
    sums = [sum(row) / 4 for row in counted if row]
    counts = [len(row) for row in counted if row]
    if average == "micro":
        return math.exp(sum(sums) / sum(counts))
    means = [s / n for s, n in zip(sums, counts, strict=True)]
    return sum(map(math.exp, means)) / len(means) if average == "macro" else math.exp(sum(means) / len(means))


ALL = tuple(tuple(range(1, len(text))) for text in SIXTEEN)
PRESETS = {
    "mdlm": by_hand("micro", FIRST),
    "sedd": by_hand("macro", ALL),
    "bd3lm": by_hand("macro", NONE),
    "sdtt": by_hand("micro", tuple(tuple(range(1, left)) for left in LEFT)),
    "dlmbench": by_hand("geometric", ALL),
}


def test_values_of_the_presets_by_hand():
    """The sums of quarters and the counts, from the tables above.

    mdlm: positions sum to 12+6+6+6+5+1+11+2+10+1+15+7+1+9+3+6 = 101 over 43 tokens: exp(101 / 4 / 43).
    """
    assert PRESETS["mdlm"] == pytest.approx(math.exp(101 / 4 / 43))
    # sdtt: 6+3+3+6+1+0+6+0+10+1+10+3+0+3+3+3 = 58 over 3+2+2+3+1+0+3+0+4+1+4+2+0+2+2+2 = 31
    assert PRESETS["sdtt"] == pytest.approx(math.exp(58 / 4 / 31))
    assert len(set(PRESETS.values())) == 5


@pytest.mark.parametrize("preset", PRESETS)
def test_each_preset_on_sixteen_texts_with_end_tokens_inside(preset):
    metric = GenPPL(**read_preset(preset)["metric"]["gen_ppl"])
    removed = metric.end_tokens == "remove"
    rows = [[t for t in text if t or not removed] for text in SIXTEEN]
    losses = ragged([[i / 4 for i in range(1, len(row))] for row in rows], np.float64)
    result = run(metric, rows, token_nll=losses, end_tokens=np.array([0]))
    assert result.values["gen_ppl"] == pytest.approx(PRESETS[preset], rel=1e-12)


def test_which_tokens_count():
    ids = [0, 5, 0, 0, 7]
    want = {
        "keep": [True] * 5,
        "first": [True, True, False, False, True],
        "drop": [False, True, False, False, True],
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


def test_a_text_that_starts_with_an_end_token_is_not_cut_there():
    metric = GenPPL(end_tokens="cut")
    result = run(
        metric, [[0, 5, 6, 0, 7]], token_nll=ragged([[1.0, 2.0, 4.0, 8.0]], np.float64), end_tokens=np.array([0])
    )
    assert result.values["gen_ppl"] == pytest.approx(math.exp(1.5))


def test_geometric_mean_of_perplexities():
    # means 1 and 5 nats: exp(3); micro exp(8 / 4); macro (e + e^5) / 2
    assert gen_ppl([[1.0, 1.0, 1.0], [5.0], []], average="geometric") == pytest.approx(math.exp(3))


def test_later_options_at_their_defaults_change_no_signature_and_no_key():
    assert build_signature(GenPPL(), {}) == "gen_ppl|v:1|include_prompt:no|bos:no|average:micro|compat:none"
    assert set(canonicalize(GenPPL())) == {"group", "name", "version", "include_prompt", "bos", "average", "compat"}
    assert "end_tokens:first" in build_signature(GenPPL(end_tokens="first"), {})
    assert GenPPL(first_token="bos") == GenPPL(bos=True)
    assert GenPPL(window=8, stride=4, retokenize=True).needs()[0].options == (
        ("bos", False), ("retokenize", True), ("stride", 4), ("window", 8),
    )  # fmt: skip
    assert GenPPL(entropy_ids="own").needs()[1] == Need("tokens", by="rows")


@pytest.mark.parametrize(
    "options",
    [{"window": 1}, {"stride": 4}, {"window": 4, "stride": 4}, {"end_tokens": "first", "include_prompt": True}],
)
def test_options_that_do_not_fit_are_refused(options):
    with pytest.raises(SpecError):
        GenPPL(**options)
