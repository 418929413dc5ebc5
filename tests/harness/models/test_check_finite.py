"""Numbers that are none are errors that name the model, its dtype and what to try."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from openended.harness.core.errors import DataError
from openended.harness.models.check_finite import check_finite, check_logits, describe_broken_weights
from tests.harness.generation.models import gpt2


def test_finite_logits_pass_as_they_are():
    logits = torch.tensor([[[1.0, -3e38], [0.0, 2.0]]])
    assert check_logits(logits, gpt2()) is logits


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", [(0, 0, 0), (1, 2, 3)])
def test_one_number_that_is_none_anywhere_is_seen(value, place):
    logits = torch.zeros(2, 3, 4)
    logits[place] = value
    with pytest.raises(DataError, match=r"^model gpt2: its logits are not finite in float32; its weights are broken$"):
        check_logits(logits, gpt2())


def test_finite_logits_whose_sum_overflows_are_of_no_use_either():
    with pytest.raises(DataError, match="not finite"):
        check_logits(torch.full((1, 8), 3e38), gpt2())


def test_a_smaller_dtype_may_be_the_reason():
    lm = gpt2()
    half = replace(lm, spec=replace(lm.spec, dtype="float16"))
    assert (
        describe_broken_weights(half, "x") == "model gpt2: x in float16; its weights are broken, or try dtype=float32"
    )


def test_the_rows_that_are_no_numbers_are_counted():
    values = np.zeros((5, 3), np.float32)
    check_finite(values, "vectors of x")
    check_finite(values[:0], "vectors of x")
    values[1, :2], values[4, 0] = np.nan, -np.inf
    with pytest.raises(DataError, match=r"^vectors of x: 2 of 5 are not finite; try dtype=float32$"):
        check_finite(values, "vectors of x")
    with pytest.raises(DataError, match="1 of 2"):
        check_finite(np.array([0.0, np.inf]), "numbers of x")
