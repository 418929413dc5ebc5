"""A decoder: nucleus sampling with a lower p."""

from __future__ import annotations

from openended.plugins import DescendingLogits, SamplingDecoder, Truncation, decoder, ranged, truncation_rules


@decoder
class LowerP(SamplingDecoder):
    """Nucleus sampling at p − by; only `truncate` differs, so teacher-forced metrics read the same Q."""

    name = "lower_p"
    title_fields = ("p", "by")

    p: float = ranged(0.9, "(0, 1]", "a number in (0, 1]")
    by: float = 0.3  # how much lower

    def check(self) -> None:
        """Refuse values that leave no nucleus."""
        self.require(0 <= self.by < self.p, "by", "0 or more, less than p")

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep the nucleus of the lower p."""
        return truncation_rules.nucleus(ranked, self.p - self.by)
