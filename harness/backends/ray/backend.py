"""Backend whose model is loaded by Ray workers: rows are sent in chunks, and results arrive in any order.

The order of the rows, their batches and their windows are decided here as for a model in this process, so that the
features are the same bytes: no cut moves one. A generated text does not depend on its neighbors; a pass of a model
over given texts rounds by the batch that a text stands in, so it is cut between whole batches of the order that it
would have in one piece.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from openended.harness import models
from openended.harness.backends.ray.cluster import AnyModel, Cluster, RemoteModelRef
from openended.harness.backends.transformers import TransformersBackend
from openended.harness.core import I64, Advance, NextToken, Ragged, digest
from openended.harness.decoders import Emit, GenerationRequest
from openended.harness.generation import check_rows, iterate_batches, sort_prompts
from openended.harness.models import EmbedderSpec, ForwardRequest, ForwardRow, ModelSpec, load_tokenizer

MAX_TEXT_BATCHES = 4  # batches of generated texts in a chunk: enough that a finished text frees its slot for another
MAX_FEATURE_BATCHES = 16  # batches of features in a chunk
_FLAT = ("gold_prob", "sum_sq", "support", "argmax", "gold", "entropy")  # of `NextToken`: one number for each token
ROUNDS = 4  # chunks per worker if there are enough rows: small chunks shorten the wait for the last worker


@dataclass(frozen=True, eq=False, kw_only=True)
class RayBackend(TransformersBackend):
    """A `Backend` whose weights are in worker processes."""

    workers: Cluster
    source: RemoteModelRef  # what workers load
    facts: dict[str, Any] = field(default_factory=dict)  # what a worker says of the model

    def provenance(self) -> dict[str, Any]:
        return dict(self.facts)

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        """Continue every prompt; a worker makes a chunk of them, which is emitted whole."""
        waiting = sort_prompts(request.prompts)
        unit = max(min(request.batch_size, -(-len(waiting) // self.workers.count)), 1)
        others = {name: make_model_ref(cast("ModelSpec", lm.spec)) for name, lm in request.companions.items()}
        parts = cut_chunks(len(waiting), unit=unit, workers=self.workers.count, most=MAX_TEXT_BATCHES)
        # The workers load the companions themselves.
        chunks = [(self.source, others, replace(request, prompts=waiting[part], companions={})) for part in parts]
        for _, texts in self.workers.map("generate", chunks):
            emit(texts)
            if advance is not None:
                advance(sum(len(text.token_ids) for text in texts))

    def forward(self, request: ForwardRequest, advance: Advance | None = None) -> None:
        """Run the model over sequences, in the batches that one pass over all of them would have."""
        jobs, pool, nll, batch_size = request.rows, request.pool, request.nll, request.batch_size
        order = np.argsort(-np.array([len(job.ids) for job in jobs], dtype=np.int64), kind="stable")
        parts = cut_chunks(len(jobs), unit=batch_size, workers=self.workers.count, most=MAX_FEATURE_BATCHES)
        numbered = [renumber_rows([jobs[i] for i in order[part]]) for part in parts]
        empty = None if pool is None else replace(pool, vectors=[])  # filled while chunks are still being sent
        chunks = [
            (self.source, ForwardRequest(part, batch_size, empty), None if nll is None else (len(at), *nll.shape[1:]))
            for part, _, at in numbered
        ]
        for number, (vectors, scores) in self.workers.map("forward", chunks):
            part, targets, score_positions = numbered[number]
            if pool is not None and vectors:
                if not pool.vectors:
                    pool.vectors.extend(models.allocate_vectors(pool.rows, v.shape[1]) for v in vectors)
                for whole, chunk in zip(pool.vectors, vectors, strict=True):
                    whole[targets] = chunk
            if nll is not None:
                nll[score_positions] = scores
            if advance is not None:
                advance(len(part))

    def sketch_gradients(self, request: models.GradientRequest, advance: Advance | None = None) -> NDArray[np.float32]:
        count = len(request.continuations)
        parts = cut_chunks(count, unit=1, workers=self.workers.count, most=MAX_FEATURE_BATCHES)
        rows = [list(range(count))[part] for part in parts]
        out = np.zeros((count, request.size), dtype=np.float32)
        for number, sketches in self._map_rows("sketch_gradients", request, rows):
            out[rows[number]] = sketches
            if advance is not None:
                advance(len(sketches))
        return out

    def q_statistics(self, request: models.QStatisticsRequest, advance: Advance | None = None) -> list[NextToken]:
        """Statistics of each decoder's Q, in the batches that one pass over all texts would have."""
        prompts, continuations = request.prompts, request.continuations
        read = np.array([len(self.tokenizer.complete_prompt(row)) for row in prompts], dtype=np.int64)
        check_rows(self.context_length, read, continuations)
        batches = list(iterate_batches(read, continuations.lengths, request.batch_size))
        parts = cut_chunks(len(batches), unit=1, workers=self.workers.count, most=MAX_FEATURE_BATCHES)
        rows = [[row for batch in batches[part] for row in batch] for part in parts] or [[]]
        statistics: dict[int, list[NextToken]] = {}
        for number, statistics[number] in self._map_rows("q_statistics", request, rows):
            if advance is not None:
                advance(int(continuations.lengths[rows[number]].sum()))
        offsets = continuations.offsets
        ranges = [np.arange(offsets[row], offsets[row + 1]) for part in rows for row in part]
        order = np.argsort(np.concatenate([np.zeros(0, dtype=np.int64), *ranges]))

        def join(each: Sequence[NextToken]) -> NextToken:
            names = [name for name in _FLAT if getattr(each[0], name) is not None]
            columns: dict[str, Any] = {
                name: np.concatenate([getattr(part, name) for part in each])[order] for name in names
            }
            return replace(each[0], offsets=offsets, context=prompts, **columns)

        return [join(each) for each in zip(*(statistics[number] for number in range(len(rows))), strict=True)]

    def _map_rows(
        self, task: str, request: models.GradientRequest | models.QStatisticsRequest, rows: Sequence[Sequence[int]]
    ) -> Iterator[tuple[int, Any]]:
        """Run a task on parts of the rows; yield (number of the part, answer) as they finish."""
        prompts, continuations = request.prompts, request.continuations
        parts = (
            replace(request, prompts=select_rows(prompts, part), continuations=select_rows(continuations, part))
            for part in rows
        )
        return self.workers.map(task, [(self.source, part) for part in parts])


def make_model_ref(source: AnyModel) -> RemoteModelRef:
    """Return the reference by which workers load a model, with an absolute path."""
    spec = source.model_spec() if isinstance(source, EmbedderSpec) else source
    folder = None if spec.path.startswith(models.BUNDLED) else spec.folder
    placed = replace(source, path=str(folder.resolve())) if folder is not None else source
    return RemoteModelRef(placed, digest(source.identity()))


def load_ray_backend(workers: Cluster, source: AnyModel) -> RayBackend:
    """Load a model on a worker, and return the backend that sends rows to all workers."""
    model = make_model_ref(source)
    ((_, facts),) = workers.map("describe_model", [(model,)])
    spec = source.model_spec() if isinstance(source, EmbedderSpec) else source
    return RayBackend(**facts, tokenizer=load_tokenizer(spec), spec=spec, workers=workers, source=model)


def cut_chunks(count: int, *, unit: int, workers: int, most: int) -> list[slice]:
    """Cut `count` rows into contiguous chunks."""
    units = -(-count // unit)
    size = unit * min(max(units // (workers * ROUNDS), 1), most)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def renumber_rows(jobs: Sequence[ForwardRow]) -> tuple[list[ForwardRow], I64, I64]:
    """Renumber the sequences of a chunk so that they form a separate pass."""
    renumbered, rows, score_positions = list[ForwardRow](), list[int](), list[I64]()
    out = 0
    for job in jobs:
        scored = max(len(job.ids) - job.first, 0)
        renumbered.append(replace(job, row=len(rows) if job.row >= 0 else -1, out=out))
        if job.row >= 0:
            rows.append(job.row)
        score_positions.append(np.arange(job.out, job.out + scored, dtype=np.int64))
        out += scored
    return renumbered, np.array(rows, dtype=np.int64), np.concatenate([np.zeros(0, dtype=np.int64), *score_positions])


def select_rows(ragged: Ragged, rows: Sequence[int]) -> Ragged:
    """Return selected rows in the given order."""
    return Ragged.from_rows((ragged[i] for i in rows), ragged.values.dtype)
