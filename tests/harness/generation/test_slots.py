"""Places: who runs, who waits, and what the models are asked to do for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from openended.harness.decoders.base import GenerationRequest, Prompt
from openended.harness.decoders.sampling import Ancestral, Greedy, Nucleus
from openended.harness.generation import slots as places_module
from openended.harness.generation.beam_search import Beam
from openended.harness.generation.kv_cache.gpt2 import Gpt2Runner
from openended.harness.generation.slots import BatchSlots
from tests.harness.generation.models import family, prompt_rows
from tests.harness.generation.test_generate import plain, texts
from tests.helpers import generation
from tests.lazy import torch


def request(prompts: list[Prompt], batch_size: int) -> GenerationRequest:
    return generation(prompts, Greedy(), seed=0, max_new_tokens=8, batch_size=batch_size)


def prompts(*lengths: int) -> list[Prompt]:
    return [Prompt(f"t/{i}", 0, (1,) * n) for i, n in enumerate(lengths)]


def seated(slots: BatchSlots) -> list[str]:
    return [slots.prompt(i).example_id for i in range(len(slots))]


def test_who_ends_gives_the_place_to_the_next():
    with torch.inference_mode():
        slots = BatchSlots([family("gpt2")], request(prompts(3, 9, 5, 7), 2))
        assert slots.refill().fresh == [0, 1]
        assert seated(slots) == ["t/1", "t/3"]  # the longest first
        slots.run_step(torch.zeros(2, dtype=torch.int64))
        slots.free([1])
        turn = slots.refill()
        assert (turn.fresh, turn.source) == ([1], [])
        assert seated(slots) == ["t/1", "t/2"]
        slots.run_step(torch.zeros(2, dtype=torch.int64))
        assert slots.runs[0].lengths.tolist() == [10, 5]  # one goes on, one begins
        slots.free([0, 1])
        assert slots.refill().fresh == [0]
        slots.free([0])
        slots.refill()
        assert len(slots) == 0


def test_holes_that_nobody_fills_are_closed():
    with torch.inference_mode():
        slots = BatchSlots([family("gpt2")], request(prompts(4, 4, 4, 4, 2), 4))
        slots.refill()
        slots.run_step(torch.zeros(4, dtype=torch.int64))
        slots.free([0, 2])
        turn = slots.refill()
        assert (turn.fresh, turn.source, turn.target) == ([0], [3], [2])
        assert seated(slots) == ["t/4", "t/1", "t/3"]


class Counting(Gpt2Runner):
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
    from openended.harness.generation.kv_cache import choose as module

    monkeypatch.setattr(Counting, "prompts", 0)
    monkeypatch.setattr(Counting, "tokens", 0)
    monkeypatch.setattr(
        module, "make_runner", lambda lm, rows, length, once=False: Counting(lm, rows, length, once=once)
    )
    return Counting


@pytest.mark.parametrize("decoder", [Ancestral(), Beam(num_beams=3)], ids=str)
@pytest.mark.parametrize("count", [1, 3, 5, 64])
def test_a_prompt_goes_through_once_for_all_its_samples(counting: Any, decoder: Any, count: int):
    lm = dataclasses.replace(family("gpt2"), eos_ids=(7,))
    rows = [Prompt(f"t/{i}", s, r) for s in range(4) for i, r in enumerate(prompt_rows(5, 6, 300))]
    made = texts(lm, decoder, rows, count)
    assert counting.prompts == 5
    assert plain(made) == plain(texts(lm, decoder, rows[::-1], 64))


def test_no_step_for_texts_that_ended(counting: Any):
    lm = family("gpt2")
    free = texts(dataclasses.replace(lm, eos_ids=()), Ancestral(), [Prompt("t/0", 0, (5, 6))], 1, limit=12)
    lm = dataclasses.replace(lm, eos_ids=(free[0].token_ids[2],))
    counting.tokens = 0
    made = texts(lm, Ancestral(), [Prompt(f"t/{i}", 0, (5, 6)) for i in range(20)], 6, limit=12)
    asked = sum(min(len(g.token_ids) + (g.stop == "eos"), 12) - 1 for g in made)  # the first is the prompt's
    assert counting.tokens == asked


def test_models_without_ragged_rows_take_prompts_of_one_length():
    lm = family("falcon")
    rows = [Prompt(f"t/{i}", 0, prompt_rows(1, n, 300, seed=i)[0]) for i, n in enumerate((6, 3, 6, 3, 6, 1))]
    with torch.inference_mode():
        slots = BatchSlots([lm], request(rows, 4))
        assert len(slots.refill().fresh) == 3
    assert plain(texts(lm, Nucleus(), rows, 2)) == plain(texts(lm, Nucleus(), rows[::-1], 64))


@pytest.mark.slow
def test_memory_that_runs_out_midway_loses_no_row(monkeypatch, caplog):
    lm = dataclasses.replace(family("gpt2"), eos_ids=(7,))
    rows = [Prompt(f"t/{i}", 0, prompt_rows(1, 2 + i % 5, 300, seed=i)[0]) for i in range(30)]
    want = plain(texts(lm, Nucleus(), rows, 64))
    real, calls = BatchSlots.run_step, []

    def short(self, tokens):
        calls.append(len(self))
        if len(calls) > 9 and self.count > 2:
            raise MemoryError("no room")
        return real(self, tokens)

    monkeypatch.setattr(places_module.BatchSlots, "run_step", short)
    assert plain(texts(lm, Nucleus(), rows, 8)) == want  # each row once: `texts` looks
    assert "continuing with 2" in caplog.text


def test_one_row_that_does_not_fit_is_an_error(monkeypatch):
    def never(self, tokens):
        raise MemoryError("no room")

    monkeypatch.setattr(places_module.BatchSlots, "run_step", never)
    with pytest.raises(MemoryError):
        texts(family("gpt2"), Greedy(), [Prompt("t/0", 0, (1, 2))], 8)
