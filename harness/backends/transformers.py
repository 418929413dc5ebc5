"""The reference backend: a model of transformers in this process, every decoder, exact Q."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from openended.harness.core.progress import Advance
from openended.harness.core.runtime import DeviceMap
from openended.harness.core.types import NextToken, Ragged
from openended.harness.decoders.base import Emit, GenerationRequest
from openended.harness.generation.generate import generate
from openended.harness.generation.kv_cache.choose import check
from openended.harness.generation.teacher_forcing import compute_q_statistics
from openended.harness.models.backend import Embedded, EmbeddingRequest, QStatisticsRequest, ScoringRequest
from openended.harness.models.embedder import embed
from openended.harness.models.score import embed_and_score, token_nll
from openended.harness.models.spec import ModelSpec
from openended.harness.models.transformers import LanguageModel, load_model


@dataclass(frozen=True, eq=False)
class TransformersBackend(LanguageModel):
    """A `Backend`: a language model in memory that does what a run asks of it."""

    def provenance(self) -> dict[str, Any]:
        """Nothing: this process made it, which every manifest says."""
        return {}

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        """See `generation.generate`."""
        generate(self, request, emit, advance)

    def score(self, request: ScoringRequest, advance: Advance | None = None) -> Ragged:
        """See `models.score.token_nll`."""
        return token_nll(self, request, advance)

    def q_statistics(self, request: QStatisticsRequest, advance: Advance | None = None) -> list[NextToken]:
        """See `generation.teacher_forcing.compute_q_statistics`."""
        return compute_q_statistics(self, request, advance)

    def embed(self, request: EmbeddingRequest, advance: Advance | None = None) -> dict[int | None, Embedded]:
        """See `models.embedder.embed`."""
        return embed(self, request, advance)

    def embed_and_score(
        self, request: EmbeddingRequest, *, include_prompt: bool = False, advance: Advance | None = None
    ) -> tuple[Embedded, Ragged]:
        """See `models.score.embed_and_score`."""
        return embed_and_score(self, request, include_prompt=include_prompt, advance=advance)


def load_backend(spec: ModelSpec, *, device: str = "cpu", device_map: DeviceMap | None = None) -> TransformersBackend:
    """Load weights and tokenizer (`models.transformers.load_model`), and see that steps agree with one pass."""
    lm = load_model(spec, device=device, device_map=device_map)
    check(lm)
    return TransformersBackend(**{f.name: getattr(lm, f.name) for f in dataclasses.fields(lm)})
