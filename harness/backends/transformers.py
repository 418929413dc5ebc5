"""Reference backend: a transformers model in this process, with every decoder and exact Q."""

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from openended.harness import generation, models
from openended.harness.core import Advance, DeviceMap, NextToken
from openended.harness.models import LanguageModel, ModelSpec, QStatisticsRequest


@dataclass(frozen=True, eq=False)
class TransformersBackend(LanguageModel):
    """A language model in memory as a `Backend`."""

    generate = generation.generate_texts

    def q_statistics(self, request: QStatisticsRequest, advance: Advance | None = None) -> list[NextToken]:
        return generation.compute_q_statistics(self, request, advance)

    @cached_property
    def _is_batch_dependent(self) -> bool:  # in reduced precision a trial, which every stage asks for
        return generation.depends_on_batch(self)

    def provenance(self) -> dict[str, Any]:
        return {"batch_dependent": self._is_batch_dependent}


def load_backend(spec: ModelSpec, *, device: str = "cpu", device_map: DeviceMap | None = None) -> TransformersBackend:
    """Load weights and tokenizer, and check that stepwise decoding agrees with one full pass."""
    return make_backend(models.load_model(spec, device=device, device_map=device_map))


def make_backend(lm: LanguageModel) -> TransformersBackend:
    """Return a model in memory as a backend, after the check of stepwise decoding."""
    generation.choose_runner_kind(lm)
    return TransformersBackend(**{f.name: getattr(lm, f.name) for f in dataclasses.fields(lm)})
