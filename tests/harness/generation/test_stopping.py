"""Which tokens end a text."""

from __future__ import annotations

import torch

from openended.harness.generation.stopping import find_end_tokens
from tests.harness.generation.models import gpt2


def test_every_end_token_of_the_model_ends_a_text_in_any_shape():
    tokens = torch.tensor([[0, 5, 7], [9, 0, 8]])
    expected = torch.tensor([[True, False, True], [False, True, False]])
    lm = gpt2(vocab_size=12, eos_ids=(0, 7))
    assert torch.equal(find_end_tokens(lm, tokens), expected)
    assert torch.equal(find_end_tokens(lm, tokens[0]), expected[0])


def test_a_model_without_end_tokens_never_ends_a_text():
    assert not find_end_tokens(gpt2(vocab_size=12, eos_ids=()), torch.arange(12)).any()
