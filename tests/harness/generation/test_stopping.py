"""Which tokens end a text."""

from __future__ import annotations

import torch

from openended.harness.generation.token_loop import find_end_tokens


def test_every_end_token_of_the_model_ends_a_text_in_any_shape():
    tokens = torch.tensor([[0, 5, 7], [9, 0, 8]])
    expected = torch.tensor([[True, False, True], [False, True, False]])
    assert torch.equal(find_end_tokens((0, 7), tokens), expected)
    assert torch.equal(find_end_tokens((0, 7), tokens[0]), expected[0])


def test_a_model_without_end_tokens_never_ends_a_text():
    assert not find_end_tokens((), torch.arange(12)).any()
