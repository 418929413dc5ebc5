"""Reading the whole text again at each step is right for any model, in any company."""

from __future__ import annotations

import torch

from openended.harness.generation.kv_cache.choose import RereadRunner
from tests.harness.generation.models import gpt2, prompt_rows


def test_each_step_is_the_models_pass_over_the_text_so_far():
    lm = gpt2()
    first, second = prompt_rows(1, 5, 300)[0], prompt_rows(1, 3, 300, seed=1)[0]
    tails = torch.tensor([[7, 8], [9, 10]])
    run = RereadRunner(lm, 2)
    made = [torch.stack([run.logits(s[-1:])[0] for s in run.start([0, 1], [first, second])])]
    made += [run.logits(run.extend(tails[:, t], [0, 1])) for t in range(2)]
    for i, prompt in enumerate((first, second)):
        with torch.inference_mode():
            want = lm.model(torch.tensor([[*prompt, *tails[i].tolist()]])).logits[0, len(prompt) - 1 :]
        torch.testing.assert_close(torch.stack([step[i] for step in made]), want, atol=1e-4, rtol=1e-4)
    assert run.lengths.tolist() == [7, 5]
