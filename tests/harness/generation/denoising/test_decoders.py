"""Options of the samplers of denoisers."""

from __future__ import annotations

import pytest

from openended.harness.core.errors import SpecError
from openended.harness.generation.denoising.decoders import Duo, FirstHitting, Llada, Mdlm, Remdm

REFUSED = [
    (Mdlm, {"steps": 0}, "mdlm.steps: expected 1 or more"),
    (Mdlm, {"temperature": 0.0}, "mdlm.temperature"),
    (Mdlm, {"nucleus_p": 0.0}, "mdlm.nucleus_p"),
    (Mdlm, {"precision": "float16"}, "one of float64, float32"),
    (Mdlm, {"schedule": "log"}, "one of linear, cosine, cosine_squared"),
    (Remdm, {"eta": 1.5}, "remdm.eta"),
    (Remdm, {"strategy": "loop", "schedule": "cosine"}, "remdm.schedule: expected linear with strategy=loop"),
    (Duo, {"eta": -0.1}, "duo.eta"),
    (Duo, {"first": 0.2, "last": 0.4}, "duo.first"),
    (Llada, {"steps": 0}, "llada.steps"),
    (Llada, {"block_length": 0}, "llada.block_length"),
]


@pytest.mark.parametrize(("cls", "options", "message"), REFUSED)
def test_options_out_of_range_are_one_line(cls, options, message):
    with pytest.raises(SpecError, match=message) as caught:
        cls(**options)
    assert "\n" not in str(caught.value)


def test_lengths_and_blocks_are_checked_before_a_model_loads():
    Mdlm().check_context_length(64, 64, 0)  # no start token is needed
    with pytest.raises(SpecError, match=r"max_new_tokens=60 with a prompt of 5 tokens.*64 positions; at most 59"):
        FirstHitting().check_context_length(64, 60, 5)
    with pytest.raises(SpecError, match=r"max_new_tokens: expected at least 1"):
        Mdlm().check_context_length(64, 0, 0)
    Llada(steps=12, block_length=10).check_context_length(None, 25, 0)
    with pytest.raises(SpecError, match=r"llada.steps: expected a multiple of the 3 blocks of 10, got 10"):
        Llada(steps=10, block_length=10).check_context_length(None, 25, 0)


def test_titles_say_the_steps():
    assert Mdlm(steps=16).title == "mdlm steps=16"
    assert Llada().title == "llada steps=128 remasking=low_confidence"
