"""Specs of decoders that truncate by the shape of the distribution; the rules are in `truncation_rules`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from openended.harness.core import register
from openended.harness.decoders import truncation_rules
from openended.harness.decoders.base import SamplingDecoder
from openended.harness.decoders.descending_logits import DescendingLogits, Truncation


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class PLess(SamplingDecoder):
    """Tokens at least as probable as two draws are to agree, p >= Σp² (Tan et al. 2025)."""

    name: ClassVar[str] = "p_less"

    norm: bool = False  # Tan et al. 2025: p-less-norm keeps p >= (V Σp² - 1) / (V - 1), which is less strict

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep tokens at least as probable as the agreement of two draws."""
        return truncation_rules.p_less(ranked, norm=self.norm)


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class MinK(SamplingDecoder):
    """Logits above their steepest step, where the step after rank i counts 1 / i (Ding et al. 2026)."""

    name: ClassVar[str] = "min_k"
    title_fields: ClassVar[tuple[str, ...]] = ("tau",)

    tau: float = 3.0  # Ding et al. 2026 as in vLLM's pull request 48142; 0: the step alone
    temperature_order: Literal["before", "after"] = "after"
    """The paper cuts the logits as the model gives them; `before` moves only the least number that tau keeps."""

    def check(self) -> None:
        """Refuse tau < 0."""
        super().check()
        self.require(0 <= self.tau < float("inf"), "tau", "a number of at least 0")

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep the tokens above the steepest step."""
        return truncation_rules.min_k(ranked, self.tau)


@register("decoder")
@dataclass(frozen=True, kw_only=True)
class Xtc(SamplingDecoder):
    """With a probability, all tokens that reach a threshold but the least probable of them are left out (XTC).

    Exclude Top Choices (p-e-w 2024, as merged into llama.cpp). A coin a token makes Q the exact mixture of the softmax
    and of what is left: (1 - probability) p + probability p / (1 - mass left out). Nothing is left out where fewer than
    two tokens reach the threshold. text-generation-webui spares the end of text and line breaks; llama.cpp and this do
    not. llama.cpp's order is `temperature_order=after`.
    """

    name: ClassVar[str] = "xtc"
    version: ClassVar[int] = 2
    title_fields: ClassVar[tuple[str, ...]] = ("threshold", "probability")

    threshold: float = 0.1  # p-e-w 2024 and llama.cpp: 0.1
    probability: float = 0.5  # p-e-w 2024: 0.5

    def check(self) -> None:
        """Refuse options out of range."""
        super().check()
        self.require(1e-4 <= self.threshold <= 0.5, "threshold", "a number in [1e-4, 0.5]")
        self.require(0 <= self.probability <= 1, "probability", "a number in [0, 1]")

    @property
    def head(self) -> int:
        """More than can reach the threshold."""
        return max(512, int(1 / self.threshold) + 2)

    @property
    def untruncated(self) -> bool:
        """True at a probability of 0."""
        return self.probability <= 0

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Mix the softmax with its truncated version."""
        if self.untruncated:  # the temperature was applied to the logits already
            return truncation_rules.keep_all(ranked)
        temperature, first = self.temperature_and_order()
        return truncation_rules.xtc(ranked, self.threshold, self.probability, 1.0 if first else temperature)
