"""A backend whose model lies in many workers: what it is asked for goes to them in chunks, and comes back in any order.

The order of the rows, their batches and their windows are decided here as for a model in this process, so that the
features are the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Protocol, cast

import numpy as np

from openended.harness.backends.ray.chunks import cut, gathered, in_waiting_order, picked, renumbered
from openended.harness.backends.ray.worker import AnyModel, ModelElsewhere, Outline
from openended.harness.backends.transformers import TransformersBackend
from openended.harness.core import F64, Advance, NextToken, digest
from openended.harness.decoders import Emit, GenerationRequest
from openended.harness.generation import batches_of, check_rows
from openended.harness.models import (
    BUNDLED,
    EmbedderSpec,
    ForwardRow,
    ModelSpec,
    Pool,
    QStatisticsRequest,
    load_tokenizer,
    vectors_for,
)

MOST_BATCHES = 4  # of generated texts in a chunk: long enough that a text which ends gives its place to another
MOST_PASSES = 16  # batches of features in a chunk


class Workers(Protocol):
    """Who holds the models."""

    @property
    def count(self) -> int:
        """How many there are when all live."""
        ...

    def map(self, task: str, chunks: Sequence[Sequence[Any]]) -> Iterator[tuple[int, Any]]:
        """Do `task` with each chunk's arguments; yields (number of the chunk, answer) as they come."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class SpreadBackend(TransformersBackend):
    """A `Backend` whose weights are elsewhere."""

    workers: Workers
    outline: Outline
    source: ModelElsewhere
    """What workers load."""

    @property
    def start_id(self) -> int:
        """What stands before an empty prompt."""
        return self.outline.start_id

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        """Continue every prompt; a worker makes a chunk of them, which is emitted whole."""
        waiting = in_waiting_order(request.prompts)
        unit = max(min(request.batch_size, -(-len(waiting) // self.workers.count)), 1)
        others = {name: elsewhere(cast("ModelSpec", lm.spec)) for name, lm in request.companions.items()}
        parts = cut(len(waiting), unit=unit, workers=self.workers.count, most=MOST_BATCHES)
        # The workers load the companions themselves.
        chunks = [(self.source, others, replace(request, prompts=waiting[part], companions={})) for part in parts]
        for _, made in self.workers.map("generate", chunks):
            emit(made)
            if advance is not None:
                advance(sum(len(one.token_ids) for one in made))

    def forward(
        self,
        jobs: Sequence[ForwardRow],
        *,
        rows: int,
        pool: Pool | None,
        nll: F64 | None,
        batch_size: int,
        advance: Advance | None = None,
    ) -> None:
        """Run the model over sequences, in the batches that one pass over all of them would have."""
        order = np.argsort(-np.array([len(job.ids) for job in jobs], dtype=np.int64), kind="stable")
        parts = cut(len(jobs), unit=batch_size, workers=self.workers.count, most=MOST_PASSES)
        numbered = [renumbered([jobs[i] for i in order[part]]) for part in parts]
        empty = None if pool is None else replace(pool, vectors=[])  # it fills while chunks are still sent
        chunks = [
            (self.source, part, empty, None if nll is None else len(places), batch_size) for part, _, places in numbered
        ]
        for number, (vectors, scores) in self.workers.map("forward", chunks):
            part, targets, places = numbered[number]
            if pool is not None and vectors:
                if not pool.vectors:
                    pool.vectors.extend(vectors_for(rows, v.shape[1]) for v in vectors)
                for whole, made in zip(pool.vectors, vectors, strict=True):
                    whole[targets] = made
            if nll is not None:
                nll[places] = scores
            if advance is not None:
                advance(len(part))

    def q_statistics(self, request: QStatisticsRequest, advance: Advance | None = None) -> list[NextToken]:
        """Statistics of each decoder's Q, in the batches that one pass over all texts would have."""
        prompts, continuations = request.prompts, request.continuations
        read = np.array([len(self.lead(row)) for row in prompts], dtype=np.int64) + prompts.lengths
        check_rows(self.context_length, read, continuations)
        batches = list(batches_of(read, continuations.lengths, request.batch_size))
        groups = [batches[part] for part in cut(len(batches), unit=1, workers=self.workers.count, most=MOST_PASSES)]
        rows = [[row for batch in group for row in batch] for group in groups] or [[]]
        chunks = [
            (self.source, replace(request, prompts=picked(prompts, part), continuations=picked(continuations, part)))
            for part in rows
        ]
        answers: list[list[NextToken]] = [[] for _ in chunks]
        for number, made in self.workers.map("q_statistics", chunks):
            answers[number] = made
            if advance is not None:
                advance(int(continuations.lengths[rows[number]].sum()))
        return [
            gathered([(part, made[i]) for part, made in zip(rows, answers, strict=True)], prompts, continuations)
            for i in range(len(request.decoders))
        ]


def elsewhere(source: AnyModel) -> ModelElsewhere:
    """Return a model as a worker is asked for it, which may stand in another folder."""
    spec = source.model_spec() if isinstance(source, EmbedderSpec) else source
    folder = None if spec.path.startswith(BUNDLED) else spec.folder
    placed = replace(source, path=str(folder.resolve())) if folder is not None else source
    return ModelElsewhere(placed, digest(source.identity()))


def spread(workers: Workers, source: AnyModel) -> SpreadBackend:
    """Let a worker load a model, and return the backend that sends rows to it and to all others.

    Raises:
        DataError: If the worker's files are not those that are here, or cannot be loaded.
    """
    import torch

    model = elsewhere(source)
    ((_, outline),) = workers.map("outline", [(model,)])
    spec = source.model_spec() if isinstance(source, EmbedderSpec) else source
    special = SimpleNamespace(openended_before=list(outline.before), openended_after=list(outline.after))
    return SpreadBackend(
        model=special, tokenizer=load_tokenizer(spec), device=torch.device(outline.device),
        dtype=getattr(torch, outline.dtype), eos_ids=outline.eos_ids, vocab_size=outline.vocab_size,
        context_length=outline.context_length, spec=spec, workers=workers, outline=outline, source=model,
    )  # fmt: skip


__all__ = ["SpreadBackend", "Workers", "spread"]
