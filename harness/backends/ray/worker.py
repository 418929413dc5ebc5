"""What runs in a Ray worker: it holds models and passes rows through them."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from openended.harness.core import F64, DataError, Floats, Generation, HarnessError, Runtime, digest
from openended.harness.decoders import GenerationRequest
from openended.harness.models import (
    EmbedderSpec,
    ForwardRow,
    GradientRequest,
    ModelCache,
    ModelSpec,
    Pool,
    QStatisticsRequest,
)

AnyModel = ModelSpec | EmbedderSpec


class RemoteModelRef(NamedTuple):
    """Reference to a model that a worker loads."""

    spec: AnyModel  # of a model in a folder, with the folder's whole path
    identity: str  # digest of what makes two models the same one: every machine must have the same files


@dataclass(frozen=True, slots=True)
class RemoteModelInfo:
    """Properties of a model in a worker that are needed to split rows into chunks."""

    device: str
    dtype: str
    eos_ids: tuple[int, ...]
    vocab_size: int
    context_length: int | None
    start_id: int
    before: tuple[int, ...] = ()  # special tokens before a text, of a masked model
    after: tuple[int, ...] = ()


class WorkerAnswer(NamedTuple):
    """A worker's result, warnings and error."""

    value: Any
    remarks: tuple[str, ...]  # what it would have said on its own terminal
    error: tuple[str, str] | None = None  # class and message of an error that is about the user's input


class Worker:
    """Holds models and passes rows through them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._models = ModelCache()
        self._verified: set[RemoteModelRef] = set()

    def ready(self) -> int:
        return os.getpid()

    def do(self, task: str, arguments: Sequence[Any]) -> WorkerAnswer:
        """Run one of the tasks below."""
        with _collect_warnings() as remarks:
            try:
                value = getattr(self, task)(*arguments)
            except HarnessError as err:
                return WorkerAnswer(None, tuple(remarks), (type(err).__name__, str(err)))
        return WorkerAnswer(value, tuple(remarks))

    def describe_model(self, model: RemoteModelRef) -> RemoteModelInfo:
        lm = self._load(model)
        before, after = (tuple(getattr(lm.model, f"openended_{side}", ())) for side in ("before", "after"))
        dtype = str(lm.dtype).removeprefix("torch.")
        return RemoteModelInfo(
            str(lm.device), dtype, lm.eos_ids, lm.vocab_size, lm.context_length, lm.start_id, before, after
        )

    def generate(
        self, model: RemoteModelRef, companions: Mapping[str, RemoteModelRef], request: GenerationRequest
    ) -> list[Generation]:
        """Continue prompts; the request gets its companions here."""
        texts: list[Generation] = []
        others = {name: self._load(model_ref) for name, model_ref in companions.items()}
        self._load(model).generate(replace(request, companions=others), texts.extend)
        return texts

    def forward(
        self,
        model: RemoteModelRef,
        jobs: Sequence[ForwardRow],
        pool: Pool | None,
        scored: tuple[int, ...] | None,
        batch_size: int,
    ) -> tuple[list[Floats], F64 | None]:
        """Run a model over sequences; returns vectors, a row for each sequence that begins one, and scores."""
        worker_pool = None if pool is None else replace(pool, vectors=[])
        nll = None if scored is None else np.full(scored, np.nan)
        rows = sum(job.row >= 0 for job in jobs)
        self._load(model).forward(jobs, rows=rows, pool=worker_pool, nll=nll, batch_size=batch_size)
        return ([] if worker_pool is None else worker_pool.vectors), nll

    def sketch_gradients(self, model: RemoteModelRef, request: GradientRequest) -> Any:  # noqa: ANN401
        return self._load(model).sketch_gradients(request)

    def q_statistics(self, model: RemoteModelRef, request: QStatisticsRequest) -> Any:  # noqa: ANN401
        return self._load(model).q_statistics(request)

    def _load(self, model: RemoteModelRef) -> Any:  # noqa: ANN401 - a language model, of either kind
        if model not in self._verified:
            if digest(model.spec.identity()) != model.identity:
                raise DataError(
                    f"model {model.spec.title}: the worker on {platform.node()} has other files than the run's own "
                    "machine; all need the same ones (a folder that all see, or a hub id with its revision)"
                )
            self._verified.add(model)
        spec = model.spec
        if isinstance(spec, EmbedderSpec):
            return self._models.embedder(spec, self._runtime)
        return self._models.model(spec, self._runtime)


class _WarningCollector(logging.Handler):
    """Keeps the warnings of this package."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.remarks: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.remarks.append(record.getMessage())


@contextmanager
def _collect_warnings() -> Iterator[list[str]]:
    """Collect the warnings of this package, which a worker's own terminal would hide."""
    ear, logger = _WarningCollector(), logging.getLogger("openended")
    logger.addHandler(ear)
    try:
        yield ear.remarks
    finally:
        logger.removeHandler(ear)
