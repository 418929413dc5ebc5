"""Drawing a batch from Q: one uniform a row and step, from the row's own stream."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.decoding.base import Job, Prompt, QDecoder
from openended.harness.rng import row_uniforms
from openended.harness.types import Generation, Stop

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.decoding.cache import Runner
    from openended.harness.models.transformers import LanguageModel


@dataclass(slots=True)
class Rows:
    """The rows still running; every field has one entry a row, in the order of the cache."""

    index: list[int]
    """Which prompt of the batch."""
    history: Tensor
    """Token ids, prompt included, shape (n, prompt + max_new_tokens)."""
    log_prob: Tensor
    """Shape (n,), float64."""
    uniforms: Tensor
    """Shape (n, max_new_tokens), float64."""
    state: Tensor | None

    def reorder(self, order: list[int]) -> None:
        """Take the rows that stay."""
        self.index = [self.index[i] for i in order]
        self.history, self.log_prob = self.history[order], self.log_prob[order]
        self.uniforms = self.uniforms[order]
        self.state = None if self.state is None else self.state[order]


def prompt_ids(lm: LanguageModel, prompts: Sequence[Prompt]) -> Tensor:
    """Prompts of one length as (n, t); an empty prompt becomes the model's start token."""
    import torch

    rows = [p.token_ids or (lm.start_id,) for p in prompts]
    return torch.tensor(rows, dtype=torch.int64, device=lm.device)


def finished(
    lm: LanguageModel, prompt: Prompt, ids: Sequence[int], *, ended: bool, log_prob: float = math.nan
) -> Generation:
    """Make the row's record; `ids` without the end token.

    The log-probability is rounded to 1e-6: its last bits depend on where a row stands in a vector register.
    """
    stop: Stop = "eos" if ended else "length"
    kept = tuple(int(i) for i in ids)
    text = lm.continuation(prompt.token_ids, kept)
    return Generation(prompt.example_id, prompt.sample, text, kept, stop, round(log_prob, 6))


def sample_batch(lm: LanguageModel, decoder: QDecoder, prompts: Sequence[Prompt], job: Job) -> None:
    """Continue prompts of one length by drawing from the decoder's Q; rows leave as they end."""
    import torch

    from openended.harness.decoding.cache import runner
    from openended.harness.decoding.distribution import draw
    from openended.harness.decoding.penalties import ends, forbid_end, penalise

    ids = prompt_ids(lm, prompts)
    start = ids.shape[1]
    with torch.inference_mode():
        rows = _start(lm, decoder, prompts, ids, job)
        run = runner(lm, len(prompts), start + job.max_new_tokens)
        hidden = run.feed(ids)
        for step in range(job.max_new_tokens):
            logits = run.logits(hidden)
            if decoder.penalises:
                logits = penalise(decoder, logits, rows.history[:, : start + step])
            if job.may_not_end(step):
                logits = forbid_end(logits, lm.eos_ids)
            token, log_q, rows.state = draw(decoder, logits, rows.uniforms[:, step], rows.state)
            rows.history[:, start + step] = token
            job.advance(len(token))
            ended = ends(token, lm.eos_ids)
            rows.log_prob += torch.where(ended, 0.0, log_q)
            if bool(ended.any()):
                token = _drop(lm, prompts, job, rows, run, ended, start, step)
                if not rows.index:
                    return
            if step + 1 < job.max_new_tokens:
                hidden = run.feed(token[:, None])
        tokens, sums = rows.history[:, start:].tolist(), rows.log_prob.tolist()
    job.emit(
        [finished(lm, prompts[i], t, ended=False, log_prob=s) for i, t, s in zip(rows.index, tokens, sums, strict=True)]
    )


def _start(lm: LanguageModel, decoder: QDecoder, prompts: Sequence[Prompt], ids: Tensor, job: Job) -> Rows:
    import torch

    n, start = ids.shape
    limit = job.max_new_tokens
    history = torch.zeros((n, start + limit), dtype=torch.int64, device=lm.device)
    history[:, :start] = ids
    if decoder.stochastic:
        drawn = np.stack([row_uniforms(job.seed, p.example_id, p.sample, limit) for p in prompts])
    else:
        drawn = np.zeros((n, limit))
    first = decoder.first_state()
    state = torch.tensor([first] * n, dtype=torch.float64, device=lm.device) if first else None
    zeros = torch.zeros(n, dtype=torch.float64, device=lm.device)
    return Rows(list(range(n)), history, zeros, torch.from_numpy(drawn).to(lm.device), state)


def _drop(
    lm: LanguageModel,
    prompts: Sequence[Prompt],
    job: Job,
    rows: Rows,
    run: Runner,
    ended: Tensor,
    start: int,
    step: int,
) -> Tensor:
    """Emit the rows that ended and take them out; returns the last token of those that stay."""
    gone = ended.tolist()
    leaving = [i for i, g in enumerate(gone) if g]
    made = []
    for i in leaving:
        ids = rows.history[i, start : start + step].tolist()
        made.append(finished(lm, prompts[rows.index[i]], ids, ended=True, log_prob=float(rows.log_prob[i])))
    job.emit(made)
    order = run.keep([i for i, g in enumerate(gone) if not g])
    rows.reorder(order)
    return rows.history[:, start + step]
