"""Checks of real engines and servers: a table of results, losses and statistics, and texts that part at a near tie."""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from openended.harness.backends.vllm.rows import TextSampler, make_group, make_order
from openended.harness.decoders.base import Prompt
from openended.harness.models.requests import QStatisticsRequest, ScoringRequest
from openended.harness.models.score import compute_token_nll

NOISE, TRIALS = 1e-5, 512
"""How far logits are moved (the engine's depart from the reference's by 6e-6), and how often."""


def is_near_tie(reference, request, prompt, mine, expected):
    """Say whether the reference draws the other token too when its logits are moved by float noise.

    Args:
        reference: A backend of transformers.
        request: What both were asked for.
        prompt: The text's prompt.
        mine: Tokens of the text to judge, its end token included.
        expected: Tokens of the reference's text, its end token included.
    """
    at = next(i for i, (a, b) in enumerate(zip(mine, expected, strict=False)) if a != b)
    prompt = Prompt(prompt.example_id, prompt.sample, prompt.token_ids or (reference.tokenizer.start_id,))
    group = make_group(request, reference.eos_ids)
    sampler = TextSampler(group, "cpu")
    slot = sampler.add(make_order(group, prompt))
    with torch.inference_mode():
        ids = torch.tensor([[*prompt.token_ids, *expected[:at]]])
        logits = reference.model(ids).logits[0].float()[len(prompt.token_ids) - 1 :]
        for step in range(at):  # brings history and state to the step where they part
            if sampler.choose(logits[step : step + 1].clone(), [slot], [step]).tolist() != expected[step : step + 1]:
                return False
        noise = (torch.rand(TRIALS, logits.shape[1], generator=torch.Generator().manual_seed(0)) * 2 - 1) * NOISE
        drawn = set(sampler.choose(logits[at] + noise, [slot] * TRIALS, [at] * TRIALS).tolist())
    return {mine[at], expected[at]} <= drawn


def compare_losses(mine: Any, reference: Any, request: ScoringRequest, tolerance: float) -> tuple[str, bool]:
    """Compare the token losses of two backends."""
    apart = float(np.abs(compute_token_nll(mine, request).values - compute_token_nll(reference, request).values).max())
    return f"{len(request.continuations)} texts: {apart:.1e} nats apart at most", apart <= tolerance


def compare_statistics(mine: Any, reference: Any, request: QStatisticsRequest, tolerance: float) -> tuple[str, bool]:
    """Compare two backends' statistics of the Q of each decoder on given texts."""
    worst, supports = 0.0, 0
    for one, other in zip(mine.q_statistics(request), reference.q_statistics(request), strict=True):
        apart = (np.abs(one.gold_prob - other.gold_prob).max(), np.abs(one.sum_sq - other.sum_sq).max())
        worst = max(worst, *map(float, apart))
        supports += int((one.support != other.support).sum())
    size = f"{len(request.decoders)} decoders, {len(request.continuations.values)} tokens"
    return f"{size}: {worst:.1e} apart at most, {supports} supports differ", worst <= tolerance


class Table:
    """Rows of checks, printed as they are done; a check that raises has failed."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.failed = 0
        print("| with | check | found | passed | s |\n| --- | --- | --- | --- | --- |")

    def check(self, name: str, run: Callable[[], tuple[str, bool]]) -> None:
        """Run a check, which returns what it found and whether that is right."""
        began = time.monotonic()
        try:
            found, passed = run()
        except Exception as err:
            found, passed = f"{type(err).__name__}: {err}".splitlines()[0][:200], False
        self.failed += not passed
        seconds = time.monotonic() - began
        print(f"| {self.subject} | {name} | {found} | {'yes' if passed else 'NO'} | {seconds:.1f} |", flush=True)

    def end(self) -> None:
        """Exit with 1 if a check failed."""
        sys.exit(1 if self.failed else 0)
