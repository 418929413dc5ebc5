"""Texts that run side by side: each has a history of its own, ends by itself, and is told once."""

from __future__ import annotations

import dataclasses

import torch

from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Greedy
from openended.harness.generation.token_loop import build_generation, decode_rows
from tests.harness.generation.models import gpt2, prompt_rows
from tests.helpers import generation


class _Counting:
    """Chooses 5, then 6, then the end; keeps what it was asked."""

    def __init__(self, end: int) -> None:
        self.end, self.seen = end, []

    def begin(self, slot, prompt):
        self.seen.append(prompt.example_id)

    def move(self, source, target):
        pass

    def choose(self, logits, now):
        return torch.tensor([(5, 6, self.end)[step] for step in now.steps.tolist()])

    def log_prob(self, slot):
        return -1.23456789


def test_every_prompt_gets_a_place_and_ends_by_itself():
    lm = dataclasses.replace(gpt2(), eos_ids=(9,))
    prompts = [Prompt(f"t/{i}", 0, prompt_rows(1, 2 + i, 300, seed=i)[0]) for i in range(5)]
    out, counted, chooser = [], [], _Counting(9)
    request = generation(prompts, Greedy(), seed=0, max_new_tokens=8, batch_size=2)
    decode_rows([lm], request, out.extend, counted.append, chooser)
    assert sorted(g.example_id for g in out) == sorted(chooser.seen) == [p.example_id for p in prompts]
    assert {g.token_ids for g in out} == {(5, 6)}
    assert {(g.stop, g.log_prob) for g in out} == {("eos", -1.234568)}
    assert sum(counted) == 15


def test_a_text_of_the_full_length_did_not_end():
    made = build_generation(gpt2(), Prompt("t/0", 1, (3,)), [4, 5], ended=False)
    assert (made.stop, made.sample, made.token_ids) == ("length", 1, (4, 5))
