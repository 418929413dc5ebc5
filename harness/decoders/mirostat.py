"""Mirostat: truncation controlled by the surprise of the tokens drawn so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from openended.harness.core import register
from openended.harness.decoders import truncation_rules
from openended.harness.decoders.base import SamplingDecoder
from openended.harness.decoders.descending_logits import DescendingLogits, Truncation

if TYPE_CHECKING:
    from torch import Tensor


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class Mirostat(SamplingDecoder):
    """Truncation steered so that the observed surprise stays near tau (Basu et al. 2021); Q depends on what was drawn.

    The state is the limit mu, 2 tau at first; after a token of surprise s (bits, under the distribution before
    truncation) it falls by learning_rate · (s - tau). Teacher-forced, the state runs along the human text.
    """

    name: ClassVar[str] = "mirostat"
    title_fields: ClassVar[tuple[str, ...]] = ("tau",)

    tau: float = 3.0  # bits a token; Basu et al. 2021, section 6: human-like repetition near 3
    learning_rate: float = 0.1  # Basu et al. 2021, Algorithm 1
    candidates: int = 100  # Basu et al. 2021: m = 100 tokens for the Zipf fit
    algorithm: Literal["top_k", "threshold"] = "top_k"  # the paper's; "threshold" is llama.cpp's second form

    def check(self) -> None:
        """Refuse options out of range."""
        super().check()
        self.require(0 < self.tau < float("inf"), "tau", "a number above 0, in bits")
        self.require(0 < self.learning_rate <= 1, "learning_rate", "a number in (0, 1]")
        self.require(2 <= self.candidates <= 512, "candidates", "an integer from 2 to 512")
        self.require(self.temperature_order == "before", "temperature_order", "'before' for a steered truncation")

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep as many tokens as the limit allows."""
        if self.algorithm == "threshold":
            return truncation_rules.mirostat_threshold(ranked)
        return truncation_rules.mirostat_top_k(ranked, self.candidates)

    def first_state(self) -> tuple[float, ...]:
        """Return the initial limit, mu = 2 tau."""
        return (2 * self.tau,)

    def next_state(self, state: Tensor | None, surprise: Tensor | None) -> Tensor | None:
        """Move mu against the error of the surprisal."""
        if state is None or surprise is None:
            return None
        bits = (surprise / 0.6931471805599453)[:, None]
        return state - self.learning_rate * (bits - self.tau)
