"""What a decoder asks of somebody else's sampler: every parameter, neutral ones too."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from openended.harness.decoders.base import Decoder, QDecoder, SamplingDecoder
from openended.harness.decoders.sampling import (
    Ancestral,
    Epsilon,
    Eta,
    Greedy,
    MinP,
    Nucleus,
    Temperature,
    TopK,
    TopNSigma,
    Typical,
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Parameters of a sampler; the defaults are neutral: the model's own distribution."""

    temperature: float = 1.0
    """0: the most probable token."""
    order: Literal["before", "after"] = "before"
    """Whether the temperature comes before the truncation."""
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    epsilon: float = 0.0
    eta: float = 0.0
    n_sigma: float = 0.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0

    @property
    def cuts(self) -> tuple[str, ...]:
        """Names of the truncations that are not neutral."""
        return tuple(name for name in TRUNCATIONS if getattr(self, name) != getattr(NEUTRAL, name))

    @property
    def greedy(self) -> bool:
        """True where nothing is drawn."""
        return self.temperature == 0


TRUNCATIONS = ("top_k", "top_p", "min_p", "typical_p", "epsilon", "eta", "n_sigma")
NEUTRAL = Sampling()

# Decoder → the parameter that is its truncation, and its option with the value.
_CUT: dict[type[Decoder], tuple[str, str]] = {
    TopK: ("top_k", "k"), Nucleus: ("top_p", "p"), MinP: ("min_p", "p"), Typical: ("typical_p", "mass"),
    Epsilon: ("epsilon", "eps"), Eta: ("eta", "eps"), TopNSigma: ("n_sigma", "n"),
}  # fmt: skip
_PLAIN: tuple[type[Decoder], ...] = (Greedy, Ancestral, Temperature)


def sampling_of(decoder: Decoder) -> Sampling | None:
    """Return what a decoder asks for; None where it is nothing that samplers have a word for."""
    if type(decoder) not in (*_PLAIN, *_CUT) or not isinstance(decoder, QDecoder):
        return None
    made = Sampling(
        temperature=0.0 if isinstance(decoder, Greedy) else decoder.heat()[0],
        repetition_penalty=decoder.repetition_penalty,
        no_repeat_ngram_size=decoder.no_repeat_ngram_size,
    )
    if isinstance(decoder, SamplingDecoder) and not decoder.untruncated and decoder.temperature != 1:
        made = dataclasses.replace(made, order=decoder.temperature_order)
    if type(decoder) in _CUT:
        parameter, option = _CUT[type(decoder)]
        made = dataclasses.replace(made, **{parameter: getattr(decoder, option)})
    return made


def decoders_with(truncations: frozenset[str]) -> list[str]:
    """Return the names of the decoders that need no other truncation than these."""
    cut = [cls.name for cls, (parameter, _) in _CUT.items() if parameter in truncations]
    return sorted([*(cls.name for cls in _PLAIN), *cut])
