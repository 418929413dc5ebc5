from __future__ import annotations

import gzip
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.harness.core.metric import Need
from openended.metrics.gen_ppl import GenPPL, gen_ppl
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
