"""Reference backend: a transformers model in this process, with every decoder and exact Q."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import Advance, DeviceMap, NextToken, Ragged
from openended.harness.decoders import Emit, GenerationRequest
from openended.harness.generation import choose_runner_kind, compute_q_statistics, generate_texts
from openended.harness.models import (
    EmbeddingRequest,
    GradientRequest,
    LanguageModel,
    ModelSpec,
    QStatisticsRequest,
    ScoringRequest,
    TextVectors,
    compute_token_nll,
    embed_and_score,
    load_model,
    sketch_gradients,
)


@dataclass(frozen=True, eq=False)
class TransformersBackend(LanguageModel):
    """A language model in memory as a `Backend`."""

    def provenance(self) -> dict[str, Any]:
        return {}

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        generate_texts(self, request, emit, advance)

    def score(self, request: ScoringRequest, advance: Advance | None = None) -> Ragged:
        return compute_token_nll(self, request, advance)

    def sketch_gradients(self, request: GradientRequest, advance: Advance | None = None) -> NDArray[np.float32]:
        return sketch_gradients(self, request, advance)

    def q_statistics(self, request: QStatisticsRequest, advance: Advance | None = None) -> list[NextToken]:
        return compute_q_statistics(self, request, advance)

    def embed_and_score(
        self,
        request: EmbeddingRequest,
        *,
        include_prompt: bool = False,
        ranks: bool = False,
        advance: Advance | None = None,
    ) -> tuple[TextVectors, Ragged]:
        return embed_and_score(self, request, include_prompt=include_prompt, ranks=ranks, advance=advance)


def load_backend(spec: ModelSpec, *, device: str = "cpu", device_map: DeviceMap | None = None) -> TransformersBackend:
    """Load weights and tokenizer, and check that stepwise decoding agrees with one full pass."""
    lm = load_model(spec, device=device, device_map=device_map)
    choose_runner_kind(lm)
    return TransformersBackend(**{f.name: getattr(lm, f.name) for f in dataclasses.fields(lm)})
