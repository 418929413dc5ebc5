"""Adversarial perplexity: a text that has human perplexity and no sense.

Pillutla et al. 2021, section 4: the first 15 % of the continuation is drawn uniformly from the vocabulary, then each
token is the one that brings the running perplexity of the continuation, given the prompt, nearest to the perplexity of
human text. No public code exists; no end token is ever chosen, so that every text has the full length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from openended.harness.decoding.base import Decoder, Job, Prompt
from openended.harness.errors import SpecError
from openended.harness.registry import register
from openended.harness.rng import row_uniforms

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.models.transformers import LanguageModel


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class Adversarial(Decoder):
    """Random tokens, then those that bring the running perplexity to the human value (Pillutla et al. 2021)."""

    name: ClassVar[str] = "adversarial"
    stochastic: ClassVar[bool] = True
    has_q: ClassVar[bool] = False
    no_q_reason: ClassVar[str] = "adversarial decoding aims at a perplexity: it has no distribution over the next token"

    random_share: float = 0.15  # Pillutla et al. 2021, section 4
    human_ppl: float | None = None  # null: measured on the human side under the same model

    def check(self) -> None:
        """Refuse options out of range."""
        self.require(0 <= self.random_share < 1, "random_share", "a number in [0, 1)")
        given = self.human_ppl is None or 1 < self.human_ppl < float("inf")
        self.require(given, "human_ppl", "null (measured) or a perplexity above 1")

    @property
    def needs_human_ppl(self) -> bool:
        """True where the target is to be measured."""
        return self.human_ppl is None

    def resolve(self, human_ppl: float) -> Adversarial:
        """Write the measured target out."""
        return dataclasses.replace(self, human_ppl=float(human_ppl))

    def run(self, lm: LanguageModel, prompts: Sequence[Prompt], job: Job) -> None:
        """Decode a batch; one forward pass a step, all tokens compared at once."""
        import torch

        from openended.harness.decoding.cache import runner
        from openended.harness.decoding.sampling import finished, prompt_ids

        if self.human_ppl is None:
            raise SpecError("decoder.adversarial.human_ppl: expected a perplexity; call resolve(human_ppl) first")
        limit = job.max_new_tokens
        ids = prompt_ids(lm, prompts)
        random = int(np.ceil(self.random_share * limit)) if self.random_share else 0
        drawn = torch.from_numpy(self._random(lm, prompts, job, random)).to(lm.device)
        out = torch.zeros((len(ids), limit), dtype=torch.int64, device=lm.device)
        with torch.inference_mode():
            cache = runner(lm, len(ids), ids.shape[1] + limit)
            total = torch.zeros(len(ids), 1, dtype=torch.float64, device=lm.device)
            feed = ids
            for step in range(limit):
                logits = cache.logits(cache.feed(feed))
                nll = -torch.log_softmax(logits.double(), dim=-1)
                token = drawn[:, step] if step < random else self._nearest(lm, nll, total, step)
                total += nll.gather(1, token[:, None])
                out[:, step] = token
                job.advance(len(token))
                feed = token[:, None]
        job.emit([finished(lm, p, row, ended=False) for p, row in zip(prompts, out.tolist(), strict=True)])

    def _nearest(self, lm: LanguageModel, nll: Tensor, total: Tensor, step: int) -> Tensor:
        """The token that brings exp(mean NLL) nearest to the target; ties: the lowest id."""
        target = self.human_ppl or 0.0
        distance = ((total + nll) / (step + 1)).clamp(max=700.0).exp().sub_(target).abs_()
        for end in lm.eos_ids:
            distance[:, end] = float("inf")
        return distance.argmin(-1)

    def _random(self, lm: LanguageModel, prompts: Sequence[Prompt], job: Job, count: int) -> np.ndarray:
        """Uniform tokens, the end tokens left out, shape (n, count)."""
        allowed = np.setdiff1d(np.arange(lm.vocab_size), lm.eos_ids)
        size = len(allowed)
        u = np.stack([row_uniforms(job.seed, p.example_id, p.sample, count) for p in prompts])
        return allowed[np.minimum((u * size).astype(np.int64), size - 1)]
