"""A decoder: nucleus sampling with a lower p."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from openended.harness.decoders import truncation_rules
from openended.harness.decoders.base import SamplingDecoder
from openended.harness.decoders.descending_logits import DescendingLogits, Truncation


@dataclass(frozen=True, kw_only=True)
class LowerP(SamplingDecoder):
    """Nucleus sampling at p − by; only `cut` differs, so teacher-forced metrics read the same Q."""

    name: ClassVar[str] = "lower_p"
    title_fields: ClassVar[tuple[str, ...]] = ("p", "by")

    p: float = 0.9
    by: float = 0.3  # how much lower

    def check(self) -> None:
        """Refuse values that leave no nucleus."""
        super().check()
        self.require(0 < self.p <= 1, "p", "a number in (0, 1]")
        self.require(0 <= self.by < self.p, "by", "0 or more, less than p")

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep the nucleus of the lower p."""
        return truncation_rules.nucleus(ranked, self.p - self.by)
