"""Rows of one length on a model's own cache: what its own pass over all tokens gives."""

from __future__ import annotations

import torch

from openended.harness.generation.kv_cache.same_length import SameLengthRunner
from tests.harness.generation.families import family
from tests.harness.generation.models import prompt_rows


def test_steps_on_the_models_own_cache_equal_its_pass():
    lm = family("falcon")
    ids = torch.tensor(prompt_rows(3, 8, 300))
    run = SameLengthRunner(lm, 3, 12)
    assert not run.ragged
    with torch.inference_mode():
        want = lm.model(ids).logits
        got = run.logits(torch.stack(run.start([0, 1, 2], ids[:, :6].tolist())))
        torch.testing.assert_close(got, want[:, :6], atol=3e-4, rtol=1e-3)
        for at in (6, 7):
            step = run.logits(run.extend(ids[:, at], [0, 1, 2]))
            torch.testing.assert_close(step, want[:, at], atol=3e-4, rtol=1e-3)
    assert run.lengths.tolist() == [8, 8, 8]
