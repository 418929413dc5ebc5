"""Texts of every decoder: equal to transformers', and independent of batch size, order and threads."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from openended.harness.core import SpecError
from openended.harness.core.types import Generation
from openended.harness.decoders import sampling
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Greedy, Nucleus
from openended.harness.generation.adversarial import Adversarial
from openended.harness.generation.beam_search import Beam, BeamSample
from openended.harness.generation.contrastive import ContrastiveDecoding, ContrastiveSearch
from tests.harness.generation.models import FAMILIES, gpt2, make_family_model, prompt_rows
from tests.helpers import cases, check_error, generate
from tests.lazy import torch

# Texts of every decoder: equal to transformers' where it has them, and independent of batch size and order


def prompts(n: int = 9, vocab_size: int = 300) -> list[Prompt]:
    """Two lengths, two samples of some examples, and an empty prompt."""
    rows = [*prompt_rows(n // 2, 6, vocab_size), *prompt_rows(n - n // 2 - 1, 9, vocab_size, seed=1), ()]
    made = [Prompt(f"t/{i:03d}", 0, r) for i, r in enumerate(rows)]
    return [*made, *(dataclasses.replace(p, sample=1) for p in made[:2])]


def texts(lm, decoder, rows, batch_size, *, limit=12, seed=5, least=0, companions=None):
    out = generate(
        lm, rows, decoder, seed=seed, max_new_tokens=limit, min_new_tokens=least, batch_size=batch_size,
        companions=companions or {},
    )  # fmt: skip
    assert len(out) == len({(g.example_id, g.sample) for g in out}) == len(rows)
    return out


def plain(generations: list[Generation]) -> list[Any]:
    return [(g.example_id, g.sample, g.token_ids, g.stop, g.text, str(g.log_prob)) for g in generations]


ALL = [
    sampling.Greedy(), sampling.Ancestral(), sampling.Temperature(), sampling.TopK(k=5), sampling.Nucleus(p=0.9),
    sampling.MinP(), sampling.Typical(mass=0.9), sampling.Epsilon(eps=0.01), sampling.Eta(eps=0.01),
    sampling.TopNSigma(), sampling.TopH(), sampling.Mirostat(), sampling.Entmax(),
    sampling.Nucleus(temperature=0.7, temperature_order="after"),
    sampling.Nucleus(repetition_penalty=1.3, no_repeat_ngram_size=2), Beam(num_beams=3),
    Beam(num_beams=2, no_repeat_ngram_size=2), BeamSample(num_beams=3, top_k=20), ContrastiveSearch(k=3),
    Adversarial(human_ppl=30.0),
]  # fmt: skip


# One decoder for each loop over tokens, and the penalties: what a cache of another kind could break.
LOOPS = [
    sampling.Ancestral(),
    sampling.Nucleus(repetition_penalty=1.3, no_repeat_ngram_size=2),
    *(d for d in ALL if isinstance(d, Beam | BeamSample | ContrastiveSearch | Adversarial)),
]


def rows() -> list[Prompt]:
    """Many lengths, an empty prompt, several samples."""
    lengths = (6, 6, 9, 1, 13, 25, 6, 40, 3)
    made = [Prompt(f"t/{i}", 0, prompt_rows(1, n, 300, seed=i)[0]) for i, n in enumerate(lengths)]
    return [*made, Prompt("t/none", 0, ()), *(dataclasses.replace(made[5], sample=s) for s in (1, 2))]


@pytest.mark.slow
@pytest.mark.thin(3)
@pytest.mark.parametrize(
    ("name", "decoder"),
    [*(("gpt2", d) for d in ALL), *(("llama", d) for d in LOOPS), *((name, sampling.Ancestral()) for name in FAMILIES)],
    ids=lambda one: getattr(one, "title", one),
)
def test_texts_depend_on_no_batch_and_no_order(name, decoder):
    """Every decoder with one family; every family with a decoder that shows the last digit of a logit."""
    lm, asked = make_family_model(name), rows()
    whole = plain(texts(lm, decoder, asked, 64, limit=6))
    for size in (1, 5):
        assert plain(texts(lm, decoder, asked[::-1], size, limit=6)) == whole
    half = texts(lm, decoder, asked[4:], 64, limit=6)  # what is left after a resume
    assert plain(half) == [g for g in whole if g[:2] in {(p.example_id, p.sample) for p in asked[4:]}]


@pytest.mark.thin(2)
@pytest.mark.parametrize("decoder", ALL, ids=lambda d: d.title)
def test_seeds_and_samples(decoder):
    lm, rows = gpt2(), prompts()
    first = texts(lm, decoder, rows, 64)
    other = texts(lm, decoder, rows, 64, seed=6)
    assert (plain(first) != plain(other)) == decoder.stochastic
    by_row = {(g.example_id, g.sample): g.token_ids for g in first}
    assert (by_row["t/000", 0] != by_row["t/000", 1]) == decoder.stochastic


def theirs(lm: Any, rows: list[Prompt], limit: int = 12, **options: Any) -> list[tuple[int, ...]]:
    out = []
    for p in rows:
        ids = torch.tensor([p.token_ids or (lm.tokenizer.start_id,)])
        made = lm.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=limit, do_sample=False, eos_token_id=list(lm.eos_ids),
            pad_token_id=lm.eos_ids[0], **options,
        )  # fmt: skip
        tokens = made[0, ids.shape[1] :].tolist()
        end = next((t for t, token in enumerate(tokens) if token in lm.eos_ids), None)
        out.append(tuple(tokens[:end]))
    return out


def sorted_as(rows: list[Prompt], made: list[Generation]) -> list[Generation]:
    by_row = {(g.example_id, g.sample): g for g in made}
    return [by_row[p.example_id, p.sample] for p in rows]


BEAMS = [
    Beam(num_beams=4), Beam(num_beams=2, length_penalty=0.0),
    Beam(num_beams=3, length_penalty=2.0, early_stopping=True), Beam(num_beams=3, early_stopping="never"),
    Beam(num_beams=4, no_repeat_ngram_size=2), Beam(num_beams=3, repetition_penalty=1.2),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("decoder", BEAMS, ids=lambda d: d.title)
@pytest.mark.parametrize("ends", [False, True])
def test_beam_equals_generate(decoder, ends):
    lm, rows = gpt2(), [p for p in prompts(5) if not p.sample]
    if ends:  # an end token that good hypotheses meet
        free = texts(dataclasses.replace(lm, eos_ids=()), decoder, rows[:1], 1)
        lm = dataclasses.replace(lm, eos_ids=(free[0].token_ids[5],))
    want = theirs(lm, rows, **vars(decoder))
    got = sorted_as(rows, texts(lm, decoder, rows, 64))
    assert [g.token_ids for g in got] == want
    assert all(math.isnan(g.log_prob) for g in got)
    if ends and decoder.length_penalty == 0:
        assert any(g.stop == "eos" for g in got)


def test_contrastive_search_by_definition():
    lm = gpt2()
    prompt = Prompt("t/0", 0, prompt_rows(1, 7, 300)[0])
    got = texts(lm, ContrastiveSearch(k=4, alpha=0.6), [prompt], 1, limit=5)[0].token_ids
    ids = list(prompt.token_ids)
    for token in got:
        out = lm.model(torch.tensor([ids]), output_hidden_states=True)
        p, top = torch.softmax(out.logits[0, -1], -1).topk(4)
        before = torch.nn.functional.normalize(out.hidden_states[-1][0], dim=-1)
        score = []
        for one, candidate in zip(p, top.tolist(), strict=True):
            with_it = lm.model(torch.tensor([[*ids, candidate]]), output_hidden_states=True).hidden_states[-1][0, -1]
            score.append(float(0.4 * one - 0.6 * (before @ torch.nn.functional.normalize(with_it, dim=-1)).max()))
        assert token == top[int(np.argmax(score))]
        ids.append(token)


def test_contrastive_decoding_by_definition():
    lm, amateur = gpt2(), gpt2(seed=1)
    rows = prompts()
    decoder = ContrastiveDecoding(alpha=0.2, amateur_temperature=0.5)
    pair = {"amateur": amateur}
    whole = texts(lm, decoder, rows, 64, limit=6, companions=pair)
    assert plain(texts(lm, decoder, rows, 2, limit=6, companions=pair)) == plain(whole)
    ids = list(rows[0].token_ids)
    for token in whole[0].token_ids:
        expert = torch.log_softmax(lm.model(torch.tensor([ids])).logits[0, -1], -1)
        other = torch.log_softmax(amateur.model(torch.tensor([ids])).logits[0, -1] / 0.5, -1)
        plausible = expert >= expert.max() + math.log(0.2)
        assert token == int(torch.where(plausible, expert - other, -torch.inf).argmax())
        ids.append(token)


@pytest.mark.parametrize("target", [40.0, 100.0])
def test_adversarial_meets_its_target(target):
    lm, rows = gpt2(), [p for p in prompts() if p.token_ids]
    made = sorted_as(rows, texts(lm, Adversarial(human_ppl=target), rows, 64, limit=60))
    total = count = 0.0
    for g, p in zip(made, rows, strict=True):
        log_p = torch.log_softmax(lm.model(torch.tensor([p.token_ids + g.token_ids])).logits[0].double(), -1)
        at = torch.arange(len(g.token_ids)) + len(p.token_ids) - 1
        total -= float(log_p[at, torch.tensor(g.token_ids)].sum())
        count += len(g.token_ids)
    assert math.exp(total / count) == pytest.approx(target, rel=0.02)
    assert {len(g.token_ids) for g in made} == {60}


def test_lengths_that_do_not_fit():
    lm = gpt2()
    check_error(SpecError, "128 positions", texts, lm, sampling.Greedy(), prompts(), 4, limit=125)
    with pytest.raises(SpecError, match="the longest prompt has 130"):
        texts(lm, sampling.Greedy(), [Prompt("t/0", 0, (1,) * 130)], 4)
    check_error(SpecError, "max_new_tokens", texts, lm, sampling.Greedy(), prompts(), 4, limit=0)
    check_error(SpecError, "batch_size", texts, lm, sampling.Greedy(), prompts(), 0)
    check_error(SpecError, "human perplexity", texts, lm, Adversarial(), prompts(), 4)


@cases("decoder", sampling.Greedy(), Beam(num_beams=3), Beam(num_beams=2, length_penalty=0.0), ids=str)
@pytest.mark.parametrize("least", [0, 4, 12])
def test_several_end_tokens_are_those_of_generate(decoder, least):
    rows = [p for p in prompts(5) if not p.sample]
    free = texts(dataclasses.replace(gpt2(), eos_ids=()), sampling.Greedy(), rows, 64)
    lm = dataclasses.replace(gpt2(), eos_ids=(free[0].token_ids[3], free[-1].token_ids[5]))  # some text meets each
    options = vars(decoder) if isinstance(decoder, Beam) else {}
    want = theirs(lm, rows, min_new_tokens=least, **options)
    assert [g.token_ids for g in sorted_as(rows, texts(lm, decoder, rows, 64, least=least))] == want
    assert least or min(len(ids) for ids in want) < 12


@pytest.mark.thin(2)
@pytest.mark.parametrize("decoder", ALL, ids=lambda d: d.title)
def test_any_end_token_ends_a_text_and_none_comes_too_early(decoder):
    rows = [dataclasses.replace(p, token_ids=tuple(i % 12 for i in p.token_ids)) for p in prompts()]
    lm = dataclasses.replace(gpt2(sharp=1.0, vocab_size=12), eos_ids=(3, 5, 8))
    made = texts(lm, decoder, rows, 64, least=4)
    assert plain(made) == plain(texts(lm, decoder, rows, 4, least=4))
    assert all(not {3, 5, 8} & set(g.token_ids) for g in made)
    assert min(len(g.token_ids) for g in made) >= 4
    if not isinstance(decoder, Adversarial):
        assert any(g.stop == "eos" for g in made)


@cases("temperature, top_k, top_p", (1.0, 0, 1.0), (0.6, 0, 1.0), (1.0, 1, 1.0), (1.0, 7, 0.8), (1.7, 20, 0.05))
def test_beam_samples_scores_are_those_of_transformers(temperature, top_k, top_p):
    from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    want = have = torch.log_softmax(torch.randn(6, 80, generator=torch.Generator().manual_seed(0)) * 3, -1)
    theirs = [TemperatureLogitsWarper(temperature)] if temperature != 1 else []
    theirs += [TopKLogitsWarper(top_k, min_tokens_to_keep=2)] if top_k else []
    theirs += [TopPLogitsWarper(top_p, min_tokens_to_keep=2)] if top_p < 1 else []
    for warper in theirs:
        want = warper(None, want)
    made = BeamSample(num_beams=3, temperature=temperature, top_k=top_k, top_p=top_p).scores(have, 2)
    assert torch.equal(made, want)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "gemma3", "mixtral"])
def test_bytes_are_the_same_at_every_number_of_threads(name):
    before = torch.get_num_threads()
    try:
        made = []
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            made.append(plain(texts(make_family_model(name), Nucleus(), rows(), 64, limit=4)))
    finally:
        torch.set_num_threads(before)
    assert made[0] == made[1] == made[2]


@pytest.mark.slow
@pytest.mark.thin(3)
@pytest.mark.parametrize(
    "decoder",
    [Greedy(), Greedy(repetition_penalty=1.3), Greedy(no_repeat_ngram_size=2), Beam(num_beams=3)],
    ids=lambda d: d.title,
)
@pytest.mark.parametrize("name", FAMILIES)
def test_equals_generate(name, decoder):
    lm, asked = make_family_model(name), rows()[2:10]  # no two of one length
    got = sorted_as(asked, texts(lm, decoder, asked, 5, limit=6))
    assert [g.token_ids for g in got] == theirs(lm, asked, limit=6, **vars(decoder))
