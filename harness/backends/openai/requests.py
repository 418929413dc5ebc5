"""A completion to request and its sampling parameters, before a dialect puts them into its words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from openended.harness.backends.openai.bodies import MAX_REPLY
from openended.harness.core import load_members
from openended.harness.decoders import Decoder, QDecoder, SamplingDecoder

_ENTRY = 256  # bytes of one listed token in a reply, at most


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
        return tuple(name for name in TRUNCATIONS if getattr(self, name) != getattr(NEUTRAL, name))

    @property
    def greedy(self) -> bool:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model as a server knows it, and how it is asked."""

    name: str
    """The server's id of the model."""
    chat: bool = False
    instruction: str | None = None
    seeded: bool = True
    """Whether a seed is sent."""
    sends_ids: bool = True
    """Whether prompts are sent as token ids."""
    end_ids: tuple[int, ...] = ()
    """Token ids that end a text."""
    vocab_size: int = 0
    """Number of token ids that a reply may hold; 0: unknown."""
    listed: int = 0
    """Most probable tokens that the server lists at a position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """A completion to request, independent of the dialect."""

    ids: tuple[int, ...]
    """Token ids of the prompt with the beginning-of-text token; empty without a tokenizer."""
    text: str
    """The prompt as text, without that token; sent if the server accepts no ids."""
    max_tokens: int
    min_tokens: int = 0
    sampling: Sampling = NEUTRAL
    seed: int = 0
    copies: int = 1
    listed: int = 0
    """Most probable tokens to list at each position."""
    echo: bool = False
    """Whether to return the log-probabilities of the prompt's tokens."""

    @property
    def max_reply(self) -> int:
        """Maximum size of the reply in bytes."""
        positions = self.copies * self.max_tokens + (len(self.ids) if self.echo else 0)
        return MAX_REPLY + _ENTRY * positions * (self.listed + 1)
