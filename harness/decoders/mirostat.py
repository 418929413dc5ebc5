"""Mirostat: truncation controlled by the surprise of the tokens drawn so far."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from openended.harness.core import decoder, option, ranged
from openended.harness.decoders import truncation_rules as rules
from openended.harness.decoders.base import SamplingDecoder
from openended.harness.decoders.descending_logits import DescendingLogits, Truncation

if TYPE_CHECKING:
    from torch import Tensor


@decoder
class Mirostat(SamplingDecoder):
    """Truncation steered so that the observed surprise stays near tau (Basu et al. 2021); Q depends on what was drawn.

    The state is the limit mu, 2 tau at first; after a token of surprise s (bits, under the distribution before
    truncation) it falls by learning_rate · (s - tau). Teacher-forced, the state runs along the human text.
    """

    name = "mirostat"
    title_fields = ("tau",)

    # Basu et al. 2021, section 6: human-like repetition near 3 bits per token
    tau: float = ranged(3.0, "(0, inf)", "a number above 0, in bits")
    learning_rate: float = ranged(0.1, "(0, 1]", "a number in (0, 1]")  # Basu et al. 2021, Algorithm 1
    # Basu et al. 2021: m = 100 tokens for the Zipf fit
    candidates: int = ranged(100, "[2, 512]", "an integer from 2 to 512")
    algorithm: Literal["top_k", "threshold"] = "top_k"  # the paper's; "threshold" is llama.cpp's second form
    temperature_order: Literal["before", "after"] = option(
        "before", lambda order: order == "before", "'before' for a steered truncation"
    )

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep as many tokens as the limit allows."""
        if self.algorithm == "threshold":
            return rules.mirostat_threshold(ranked)
        return rules.mirostat_top_k(ranked, self.candidates)

    def first_state(self) -> tuple[float, ...]:
        """Return the initial limit, mu = 2 tau."""
        return (2 * self.tau,)

    def next_state(self, state: Tensor | None, surprise: Tensor | None) -> Tensor | None:
        """Move mu against the error of the surprisal."""
        if state is None or surprise is None:
            return None
        bits = (surprise / math.log(2))[:, None]
        return state - self.learning_rate * (bits - self.tau)
