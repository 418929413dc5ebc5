"""What a worker does: it holds models, and answers chunks of rows with what they make of them. Knows nothing of Ray."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from openended.harness.core import F64, DataError, Floats, Generation, HarnessError, NextToken, Runtime, digest
from openended.harness.decoders import GenerationRequest
from openended.harness.models import EmbedderSpec, ForwardRow, LoadedModels, ModelSpec, Pool, QStatisticsRequest

AnyModel = ModelSpec | EmbedderSpec


class ModelElsewhere(NamedTuple):
    """A model that a worker is to use."""

    spec: AnyModel
    """Of a model in a folder, with the folder's whole path."""
    identity: str
    """Digest of what makes two models the same one: every machine must have the same files."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What whoever cuts rows into chunks must know of a model that is loaded elsewhere."""

    device: str
    dtype: str
    eos_ids: tuple[int, ...]
    vocab_size: int
    context_length: int | None
    start_id: int
    before: tuple[int, ...] = ()
    """Special tokens before a text, of a masked model."""
    after: tuple[int, ...] = ()


class WorkerAnswer(NamedTuple):
    """What a worker gives back."""

    value: Any
    remarks: tuple[str, ...]
    """What it would have said on its own terminal."""
    error: tuple[str, str] | None = None
    """Class and message of an error that is about the user's input."""


class Worker:
    """Holds models and passes rows through them.

    Args:
        runtime: As the run's, with the device and the threads of this worker.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._models = LoadedModels()
        self._known: set[ModelElsewhere] = set()

    def ready(self) -> int:
        """Answer, with the number of this process, as soon as the worker can."""
        return os.getpid()

    def do(self, task: str, arguments: Sequence[Any]) -> WorkerAnswer:
        """Do one of the tasks below."""
        with _heard() as said:
            try:
                value = getattr(self, task)(*arguments)
            except HarnessError as err:
                return WorkerAnswer(None, tuple(said), (type(err).__name__, str(err)))
        return WorkerAnswer(value, tuple(said))

    def outline(self, model: ModelElsewhere) -> Outline:
        """Load a model, and say what must be known of it."""
        lm = self._loaded(model)
        before, after = (tuple(getattr(lm.model, f"openended_{side}", ())) for side in ("before", "after"))
        dtype = str(lm.dtype).removeprefix("torch.")
        return Outline(str(lm.device), dtype, lm.eos_ids, lm.vocab_size, lm.context_length, lm.start_id, before, after)

    def generate(
        self, model: ModelElsewhere, companions: Mapping[str, ModelElsewhere], request: GenerationRequest
    ) -> list[Generation]:
        """Continue prompts; the request gets its companions here."""
        made: list[Generation] = []
        others = {name: self._loaded(one) for name, one in companions.items()}
        self._loaded(model).generate(replace(request, companions=others), made.extend)
        return made

    def forward(
        self, model: ModelElsewhere, jobs: Sequence[ForwardRow], pool: Pool | None, scored: int | None, batch_size: int
    ) -> tuple[list[Floats], F64 | None]:
        """Run a model over sequences; returns vectors, a row for each sequence that begins one, and scores."""
        kept = None if pool is None else replace(pool, vectors=[])
        nll = None if scored is None else np.full(scored, np.nan)
        rows = sum(job.row >= 0 for job in jobs)
        self._loaded(model).forward(jobs, rows=rows, pool=kept, nll=nll, batch_size=batch_size)
        return ([] if kept is None else kept.vectors), nll

    def q_statistics(self, model: ModelElsewhere, request: QStatisticsRequest) -> list[NextToken]:
        """Statistics of each decoder's Q on continuations."""
        made: list[NextToken] = self._loaded(model).q_statistics(request)
        return made

    def _loaded(self, model: ModelElsewhere) -> Any:  # noqa: ANN401 - a language model, of either kind
        if model not in self._known:
            if digest(model.spec.identity()) != model.identity:
                raise DataError(
                    f"model {model.spec.title}: the worker on {platform.node()} has other files than the run's own "
                    "machine; all need the same ones (a folder that all see, or a hub id with its revision)"
                )
            self._known.add(model)
        spec = model.spec
        if isinstance(spec, EmbedderSpec):
            return self._models.embedder(spec, self._runtime)
        return self._models.model(spec, self._runtime)


class _Ear(logging.Handler):
    """Keeps the warnings of this package."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.said.append(record.getMessage())


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Collect the warnings of this package: a worker's own terminal is nobody's."""
    ear, logger = _Ear(), logging.getLogger("openended")
    logger.addHandler(ear)
    try:
        yield ear.said
    finally:
        logger.removeHandler(ear)
