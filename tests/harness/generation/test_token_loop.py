"""Texts that run next to each other: which tokens end one, and draws from Q against a loop by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from openended.harness.core import Generation, row_uniforms
from openended.harness.decoders import Prompt, QDecoder, apply_penalties, compute_dense_q
from openended.harness.decoders.sampling import Ancestral, Dry, Greedy, Mirostat, Nucleus, Xtc
from openended.harness.generation import token_loop
from openended.harness.models.transformers import LanguageModel
from tests.harness.generation.models import gpt2, prompt_rows
from tests.helpers import generation
from tests.lazy import torch


def test_every_end_token_ends_a_text_in_any_shape():
    tokens = torch.tensor([[0, 5, 7], [9, 0, 8]])
    expected = torch.tensor([[True, False, True], [False, True, False]])
    assert torch.equal(token_loop.find_end_tokens((0, 7), tokens), expected)
    assert torch.equal(token_loop.find_end_tokens((0, 7), tokens[0]), expected[0])

    assert not token_loop.find_end_tokens((), torch.arange(12)).any()


class _Counting(token_loop.TokenChooser):
    """Chooses 5, then 6, then the end; keeps what it was asked."""

    def __init__(self, end: int) -> None:
        self.end, self.seen = end, []

    def begin(self, slot, prompt):
        self.seen.append(prompt.example_id)

    def choose(self, logits, slots):
        return torch.tensor([(5, 6, self.end)[step] for step in slots.steps.tolist()])

    def log_prob(self, slot):
        return -1.23456789


def test_every_prompt_gets_a_place_and_ends_by_itself_or_at_the_length():
    lm = dataclasses.replace(gpt2(), eos_ids=(9,))
    prompts = [Prompt(f"t/{i}", 0, prompt_rows(1, 2 + i, 300, seed=i)[0]) for i in range(5)]
    out, counted, chooser = [], [], _Counting(9)
    request = generation(prompts, Greedy(), seed=0, max_new_tokens=8, batch_size=2)
    token_loop.decode_rows([lm], request, out.extend, counted.append, chooser)
    assert sorted(g.example_id for g in out) == sorted(chooser.seen) == [p.example_id for p in prompts]
    assert {g.token_ids for g in out} == {(5, 6)}
    assert {(g.stop, g.log_prob) for g in out} == {("eos", -1.234568)}
    assert sum(counted) == 15

    made = token_loop.build_generation(gpt2(), Prompt("t/0", 1, (3,)), [4, 5], ended=False)
    assert (made.stop, made.sample, made.token_ids) == ("length", 1, (4, 5))


SEED, LENGTH = 5, 10
ROWS = np.random.default_rng(0).integers(1, 12, (6, 4)).tolist()
PROMPTS = [Prompt(f"t/{i}", i % 2, tuple(row)) for i, row in enumerate(ROWS)]


def sampled(lm: LanguageModel, decoder: QDecoder, *, least: int = 0, slots: int = 64) -> dict[str, Generation]:
    out: list[Generation] = []
    request = generation(PROMPTS, decoder, seed=SEED, max_new_tokens=LENGTH, min_new_tokens=least, batch_size=slots)
    token_loop.decode_rows([lm], request, out.extend, lambda _: None, token_loop.QChooser(lm, decoder, request))
    assert len(out) == len(PROMPTS)
    return {g.example_id: g for g in out}


def by_hand(lm: LanguageModel, decoder: QDecoder, prompt: Prompt, least: int) -> tuple[tuple[int, ...], str, float]:
    """Inverse CDF along the descending order, a whole forward pass a token."""
    uniforms = row_uniforms(SEED, prompt.example_id, prompt.sample, LENGTH)
    ids, log_prob = list(prompt.token_ids), 0.0
    for step in range(LENGTH):
        with torch.no_grad():
            logits = lm.model(torch.tensor([ids])).logits[:, -1].float()
        logits = apply_penalties(decoder, logits, torch.tensor([ids]))
        if step < least:
            logits[:, list(lm.eos_ids)] = float("-inf")
        order = logits[0].argsort(descending=True, stable=True)
        q = compute_dense_q(decoder, logits)[0][order]
        at = int(torch.searchsorted(q.cumsum(0), float(uniforms[step]), right=True))
        token = int(order[at])
        if token in lm.eos_ids:
            return tuple(ids[len(prompt.token_ids) :]), "eos", log_prob
        ids.append(token)
        log_prob += float(q[at].log())
    return tuple(ids[len(prompt.token_ids) :]), "length", log_prob


@pytest.mark.parametrize("least", [0, 4])
@pytest.mark.parametrize(
    "decoder",
    [Ancestral(), Nucleus(p=0.8), Nucleus(repetition_penalty=1.5), Dry(allowed_length=1), Xtc()],
    ids=lambda d: d.title,
)
def test_equals_a_loop_by_hand(decoder, least):
    lm = gpt2(vocab_size=12, sharp=1.0)
    made = sampled(lm, decoder, least=least, slots=2)
    stops = set()
    for prompt in PROMPTS:
        got = made[prompt.example_id]
        ids, stop, log_prob = by_hand(lm, decoder, prompt, least)
        assert (got.token_ids, got.stop, got.sample) == (ids, stop, prompt.sample)
        assert got.log_prob == pytest.approx(log_prob, abs=2e-5)  # of the text, without the token that ends it
        assert len(ids) >= least
        stops.add(stop)
    assert "eos" in stops, "a model that never ends a text tests nothing here"


@pytest.mark.parametrize("decoder", [Mirostat(), Mirostat(algorithm="threshold", tau=2.0), Ancestral()], ids=str)
def test_a_text_takes_its_uniforms_and_its_state_to_another_place(decoder):
    lm = gpt2(vocab_size=12, sharp=1.0)
    together, alone = sampled(lm, decoder, slots=3), sampled(lm, decoder, slots=1)
    assert together == alone
    assert len({len(g.token_ids) for g in alone.values()}) > 1, "no text moves where all end at once"


def test_a_decoder_that_draws_nothing_is_sure_of_its_texts():
    made = sampled(gpt2(vocab_size=12, sharp=1.0), Greedy())
    assert {g.log_prob for g in made.values()} == {0.0}
