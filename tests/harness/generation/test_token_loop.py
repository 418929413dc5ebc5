"""Texts that run next to each other: which tokens end one, draws against a loop by hand, who runs and who waits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from openended.harness.core import Generation, row_uniforms
from openended.harness.decoders import GenerationRequest, Prompt, QDecoder, apply_penalties, compute_dense_q
from openended.harness.decoders.sampling import Ancestral, Dry, Greedy, Mirostat, Nucleus, Xtc
from openended.harness.generation import token_loop
from openended.harness.generation.beam_search import Beam
from openended.harness.generation.runners import GeneralRunner
from openended.harness.generation.slots import BatchSlots
from openended.harness.models.transformers import LanguageModel
from tests.harness.generation.models import gpt2, make_family_model, prompt_rows
from tests.harness.generation.test_generate import plain, texts
from tests.helpers import generation
from tests.lazy import torch


class _Counting(token_loop.TokenChooser):
    """Chooses 5, then 6, then the end; keeps what it was asked."""

    def __init__(self, end: int) -> None:
        self.end, self.seen = end, []

    def begin(self, slot, prompt):
        self.seen.append(prompt.example_id)

    def choose(self, logits, slots):
        token = torch.tensor([(5, 6, self.end)[step] for step in slots.steps.tolist()])
        return token, token.numpy()

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
    made = texts(lm, decoder, PROMPTS, slots, limit=LENGTH, seed=SEED, least=least)
    return {g.example_id: g for g in made}


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
    [Ancestral(), Nucleus(p=0.8), Nucleus(repetition_penalty=1.5), Dry(allowed_length=1), Xtc(threshold=0.095)],
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


def request(prompts: list[Prompt], batch_size: int) -> GenerationRequest:
    return generation(prompts, Greedy(), seed=0, max_new_tokens=8, batch_size=batch_size)


def prompts(*lengths: int) -> list[Prompt]:
    return [Prompt(f"t/{i}", 0, (1,) * n) for i, n in enumerate(lengths)]


def seated(slots: BatchSlots) -> list[str]:
    return [slots.prompt(i).example_id for i in range(len(slots))]


def test_who_ends_gives_the_place_to_the_next():
    with torch.inference_mode():
        slots = BatchSlots([make_family_model("gpt2")], request(prompts(3, 9, 5, 7), 2))
        assert slots.refill() == [0, 1]
        assert seated(slots) == ["t/1", "t/3"]  # the longest first
        slots.run_step(torch.zeros(2, dtype=torch.int64))
        slots.free([1])
        assert slots.refill() == [1]
        assert seated(slots) == ["t/1", "t/2"]
        slots.run_step(torch.zeros(2, dtype=torch.int64))
        assert slots.runners[0].lengths.tolist() == [10, 5]  # one goes on, one begins
        slots.free([0, 1])
        assert slots.refill() == [0]
        slots.free([0])
        slots.refill()
        assert len(slots) == 0


def test_holes_that_nobody_fills_are_closed():
    with torch.inference_mode():
        slots = BatchSlots([make_family_model("gpt2")], request(prompts(4, 4, 4, 4, 2), 4))
        slots.refill()
        slots.run_step(torch.zeros(4, dtype=torch.int64))
        slots.free([0, 2])
        state = np.arange(4)
        assert slots.refill(state) == [0]
        assert state.tolist()[:3] == [0, 1, 3]
        assert seated(slots) == ["t/4", "t/1", "t/3"]


def test_every_end_token_ends_a_text_in_any_shape():
    tokens = torch.tensor([[0, 5, 7], [9, 0, 8]])
    expected = torch.tensor([[True, False, True], [False, True, False]])
    assert torch.equal(token_loop.find_end_tokens((0, 7), tokens), expected)
    assert torch.equal(token_loop.find_end_tokens((0, 7), tokens[0]), expected[0])

    assert not token_loop.find_end_tokens((), torch.arange(12)).any()


class Counting(GeneralRunner):
    """Counts what goes through the model."""

    prompts = 0
    tokens = 0

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], *, every: bool = True) -> list[torch.Tensor]:
        Counting.prompts += len(prompts)
        return super().start(rows, prompts, every=every)

    def extend(self, ids: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        Counting.tokens += len(rows)
        return super().extend(ids, rows)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    from openended.harness.generation import runners as module

    monkeypatch.setattr(Counting, "prompts", 0)
    monkeypatch.setattr(Counting, "tokens", 0)
    monkeypatch.setattr(module, "make_runner", Counting)
    return Counting


@pytest.mark.parametrize("decoder", [Ancestral(), Beam(num_beams=3)], ids=str)
@pytest.mark.parametrize("count", [1, 3, 64])
def test_a_prompt_goes_through_once_for_all_its_samples(counting: Any, decoder: Any, count: int):
    lm = dataclasses.replace(make_family_model("gpt2"), eos_ids=(7,))
    rows = [Prompt(f"t/{i}", s, r) for s in range(4) for i, r in enumerate(prompt_rows(5, 6, 300))]
    made = texts(lm, decoder, rows, count)
    assert counting.prompts == 5
    assert plain(made) == plain(texts(lm, decoder, rows[::-1], 64))


def test_no_step_for_texts_that_ended(counting: Any):
    lm = make_family_model("gpt2")
    free = texts(dataclasses.replace(lm, eos_ids=()), Ancestral(), [Prompt("t/0", 0, (5, 6))], 1, limit=12)
    lm = dataclasses.replace(lm, eos_ids=(free[0].token_ids[2],))
    counting.tokens = 0
    made = texts(lm, Ancestral(), [Prompt(f"t/{i}", 0, (5, 6)) for i in range(20)], 6, limit=12)
    asked = sum(min(len(g.token_ids) + (g.stop == "eos"), 12) - 1 for g in made)  # the first is the prompt's
    assert counting.tokens == asked


def test_models_without_ragged_rows_take_prompts_of_one_length():
    lm = make_family_model("falcon")
    rows = [Prompt(f"t/{i}", 0, prompt_rows(1, n, 300, seed=i)[0]) for i, n in enumerate((6, 3, 6, 3, 6, 1))]
    with torch.inference_mode():
        slots = BatchSlots([lm], request(rows, 4))
        assert len(slots.refill()) == 3
    assert plain(texts(lm, Nucleus(), rows, 2)) == plain(texts(lm, Nucleus(), rows[::-1], 64))


@pytest.mark.slow
def test_memory_that_runs_out_midway_loses_no_row(monkeypatch, caplog):
    lm = dataclasses.replace(make_family_model("gpt2"), eos_ids=(7,))
    rows = [Prompt(f"t/{i}", 0, prompt_rows(1, 2 + i % 5, 300, seed=i)[0]) for i in range(16)]
    want = plain(texts(lm, Nucleus(), rows, 64))
    real, calls = BatchSlots.run_step, []

    def short(self, tokens):
        calls.append(len(self))
        if len(calls) > 9 and self.count > 2:
            raise MemoryError("no room")
        return real(self, tokens)

    monkeypatch.setattr(BatchSlots, "run_step", short)
    assert plain(texts(lm, Nucleus(), rows, 8)) == want  # each row once: `texts` looks
    assert "continuing with 2" in caplog.text


def test_one_row_that_does_not_fit_is_an_error(monkeypatch):
    def never(self, tokens):
        raise MemoryError("no room")

    monkeypatch.setattr(BatchSlots, "run_step", never)
    with pytest.raises(MemoryError):
        texts(make_family_model("gpt2"), Greedy(), [Prompt("t/0", 0, (1, 2))], 8)
