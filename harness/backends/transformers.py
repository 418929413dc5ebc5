"""The reference backend: a model of transformers in this process, every decoder, exact Q."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openended.harness.core.causal_model import CausalModel
from openended.harness.core.runtime import DeviceMap
from openended.harness.core.types import Generation, NextToken, Ragged
from openended.harness.decoders.base import Decoder, Prompt, QDecoder
from openended.harness.generation.generate import generate
from openended.harness.generation.kv_cache.choose import check
from openended.harness.generation.teacher_forcing import next_token_stats
from openended.harness.models.backend import Advance, Embedded
from openended.harness.models.embedder import EmbedderSpec, embed, embed_lengths
from openended.harness.models.score import embed_and_nll, token_nll
from openended.harness.models.spec import ModelSpec
from openended.harness.models.transformers import LanguageModel, load_model


@dataclass(frozen=True, eq=False)
class TransformersBackend(LanguageModel):
    """A `Backend`: a language model in memory that does what a run asks of it."""

    def provenance(self) -> dict[str, Any]:
        """Nothing: this process made it, which every manifest says."""
        return {}

    def generate(
        self,
        prompts: Sequence[Prompt],
        decoder: Decoder,
        *,
        seed: int,
        max_new_tokens: int,
        min_new_tokens: int = 0,
        batch_size: int,
        emit: Callable[[list[Generation]], None],
        advance: Advance | None = None,
        companions: Mapping[str, CausalModel] | None = None,
    ) -> None:
        """See `decoding.loop.generate`."""
        generate(
            self, decoder, prompts, seed=seed, max_new_tokens=max_new_tokens, min_new_tokens=min_new_tokens,
            batch_size=batch_size, emit=emit, advance=advance, companions=companions,
        )  # fmt: skip

    def score(
        self,
        prompts: Ragged,
        continuations: Ragged,
        *,
        include_prompt: bool = False,
        bos: bool = False,
        batch_size: int,
        advance: Advance | None = None,
    ) -> Ragged:
        """See `models.score.token_nll`."""
        return token_nll(
            self, prompts, continuations, include_prompt=include_prompt, bos=bos, batch_size=batch_size, advance=advance
        )

    def next_token(
        self,
        prompts: Ragged,
        continuations: Ragged,
        decoders: Sequence[QDecoder],
        *,
        min_new_tokens: int = 0,
        batch_size: int,
        advance: Advance | None = None,
    ) -> list[NextToken]:
        """See `decoding.teacher.next_token_stats`."""
        return next_token_stats(
            self, decoders, prompts, continuations, min_new_tokens=min_new_tokens, batch_size=batch_size,
            advance=advance,
        )  # fmt: skip

    def states(
        self,
        prompts: Ragged,
        continuations: Ragged,
        embedder: EmbedderSpec,
        *,
        batch_size: int,
        advance: Advance | None = None,
    ) -> dict[int | None, Embedded]:
        """See `models.embedder.embed` and `embed_lengths`."""
        if not embedder.lengths:
            made = embed(self, embedder, prompts, continuations, batch_size=batch_size, advance=advance)
            return {embedder.max_length: made}
        several = embed_lengths(
            self, embedder, prompts, continuations, max_lengths=embedder.lengths, batch_size=batch_size, advance=advance
        )
        return dict(several.items())

    def states_and_score(
        self,
        prompts: Ragged,
        continuations: Ragged,
        embedder: EmbedderSpec,
        *,
        include_prompt: bool = False,
        batch_size: int,
        advance: Advance | None = None,
    ) -> tuple[Embedded, Ragged]:
        """See `models.score.embed_and_nll`."""
        return embed_and_nll(
            self, embedder, prompts, continuations, include_prompt=include_prompt, batch_size=batch_size,
            advance=advance,
        )  # fmt: skip


def load_backend(spec: ModelSpec, *, device: str = "cpu", device_map: DeviceMap | None = None) -> TransformersBackend:
    """Load weights and tokenizer (`models.transformers.load_model`), and see that steps agree with one pass."""
    lm = load_model(spec, device=device, device_map=device_map)
    check(lm)
    return TransformersBackend(**{f.name: getattr(lm, f.name) for f in dataclasses.fields(lm)})
