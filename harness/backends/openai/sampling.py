"""Convert a decoder's options to the sampling parameters of a server."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from openended.harness.core import load_members
from openended.harness.decoders import Decoder, QDecoder, SamplingDecoder


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters; the defaults sample from the unmodified distribution of the model."""

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
    def truncations(self) -> tuple[str, ...]:
        """Names of the truncations in use."""
        return tuple(name for name in TRUNCATIONS if getattr(self, name) != getattr(NEUTRAL, name))

    @property
    def greedy(self) -> bool:
        """Whether decoding is greedy."""
        return self.temperature == 0


TRUNCATIONS = ("top_k", "top_p", "min_p", "typical_p", "epsilon", "eta", "n_sigma")
NEUTRAL = Sampling()


def make_sampling(decoder: Decoder) -> Sampling | None:
    """Return a decoder's sampling parameters; None if servers have no parameters for it."""
    options = _get_server_options(type(decoder))
    if options is None or not isinstance(decoder, QDecoder):
        return None
    sampling = Sampling(
        temperature=0.0 if decoder.one_hot else decoder.temperature_and_order()[0],
        repetition_penalty=decoder.repetition_penalty,
        no_repeat_ngram_size=decoder.no_repeat_ngram_size,
        **{parameter: getattr(decoder, option) for parameter, option in options.items()},
    )
    if isinstance(decoder, SamplingDecoder) and not decoder.untruncated and decoder.temperature != 1:
        sampling = dataclasses.replace(sampling, order=decoder.temperature_order)
    return sampling


def list_supported_decoders(truncations: frozenset[str]) -> list[str]:
    """Return the names of the decoders that need only these truncations."""
    options = {name: _get_server_options(cls) for name, cls in load_members("decoder").items()}
    return sorted(name for name, needed in options.items() if needed is not None and truncations >= needed.keys())


def _get_server_options(cls: type) -> Mapping[str, str] | None:
    """Return the server options that a class itself declares, not those it inherits; None if it declares none."""
    options: Mapping[str, str] | None = vars(cls).get("server_options")
    return options
