"""Backend that runs a model by vLLM in this process."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from openended.harness.backends.vllm.engine import Engine, EngineRequest, EngineResult, PoolingEngine
from openended.harness.backends.vllm.rows import make_group, make_order
from openended.harness.backends.vllm.spec import VllmSpec, find_version
from openended.harness.core import Advance, DataError, DeviceMap, Generation, HarnessError, NextToken, Ragged, SpecError
from openended.harness.decoders import Emit, GenerationRequest, Prompt, QTable
from openended.harness.generation import build_generation, build_next_token, check_rows
from openended.harness.models import (
    EmbeddingRequest,
    Pooling,
    QStatisticsRequest,
    ScoringRequest,
    TextVectors,
    check_finite,
    collect_vectors,
    decode_continuation,
    find_eos_ids,
    free_memory,
    get_bos_prefix,
    join_rows,
    load_tokenizer,
    plan_scoring,
)

log = logging.getLogger(__name__)


class VllmBackend:
    """A model that vLLM runs; an engine starts when it is first needed, and is kept."""

    def __init__(self, spec: VllmSpec, device: str) -> None:
        import torch

        self.spec = spec
        self.device = torch.device(device)
        self.tokenizer = load_tokenizer(spec.tokenizer_spec())
        self.eos_ids = find_eos_ids(spec.tokenizer_spec(), self.tokenizer)
        self._engines: dict[Pooling | None, Engine] = {}
        """The engines that run: None makes tokens, each of the others vectors."""
        weakref.finalize(self, _close_engines, self._engines)
        self._last: Engine | None = None  # the engine of the last call
        self._comparison: str | None = None
        """How the texts of the last call compare with the reference backend's; None: it generated none."""

    @property
    def engine(self) -> Engine:
        """The engine that makes tokens, started if it is not running."""
        return self._start_engine(None)

    @property
    def context_length(self) -> int | None:
        """Maximum length of a scored text: vLLM makes one token after it, which needs a position too."""
        return self.engine.context_length - 1

    @property
    def start_id(self) -> int:
        bos = self.engine.start_id
        return int(bos) if isinstance(bos, int) else next(iter(self.eos_ids), 0)

    def bos_prefix(self, ids: Sequence[int] | np.ndarray[Any, Any]) -> tuple[int, ...]:
        return get_bos_prefix(self.tokenizer.bos_prefix, ids)

    def continuation(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        return decode_continuation(self.tokenizer, prompt, ids)

    def provenance(self) -> dict[str, Any]:
        if self._last is None:
            return {}
        s = self.spec
        facts = {
            "vllm": find_version(), "dtype": s.dtype, "quantization": s.quantization, "compared": self._comparison,
            **self._last.describe(),
        }  # fmt: skip
        if self._comparison is None:
            return {"engine": facts}
        return {"engine": facts, "notes": [f"{s.title}: vLLM {find_version()}; {self._comparison}"]}

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        """Continue every prompt; a text depends on (seed, example id, sample), prompt, decoder and the logits."""
        self.spec.demand("generate", request.decoder)
        reference = self._generate_reference(request)
        prompts = [replace(p, token_ids=self._read_ids(p.token_ids)) for p in request.prompts]
        longest = max((len(p.token_ids) for p in prompts), default=0)
        request.decoder.check_context_length(self.engine.context_length, request.max_new_tokens, longest)
        group = make_group(request, self.eos_ids)
        equal: list[bool] = []

        def finish(number: int, result: EngineResult) -> None:
            prompt = prompts[number]
            generation = build_generation(self, prompt, result.ids, ended=result.ended, log_prob=result.noted[0])
            emit([generation])
            if advance is not None:
                advance(len(result.ids) + result.ended)
            if (expected := reference.get((prompt.example_id, prompt.sample))) is not None:
                equal.append(expected.token_ids == generation.token_ids)

        orders = (
            EngineRequest(p.token_ids, request.max_new_tokens, self.eos_ids, make_order(group, p)) for p in prompts
        )
        self._run(orders, finish)
        if equal:
            self._comparison = f"{sum(equal)} of {len(equal)} texts equal those of model=transformers"
            log.info("%s: %s (%s)", self.spec.title, self._comparison, request.decoder.title)

    def score(self, request: ScoringRequest, advance: Advance | None = None) -> Ragged:
        """Return -log p of the continuations' tokens in nats, from the log-probabilities of given tokens."""
        self._comparison = None
        jobs, out = plan_scoring(self, request)

        def finish(number: int, result: EngineResult) -> None:
            job = jobs[number]
            values = result.log_probs[job.first - 1 :]
            out.values[job.out : job.out + len(values)] = [-value for value in values]
            if advance is not None and job.row >= 0:
                advance(1)

        self._run((EngineRequest(tuple(job.ids.tolist()), score=True) for job in jobs), finish)
        check_finite(out.values, f"token losses of {self.spec.title}")
        return out

    def q_statistics(self, request: QStatisticsRequest, advance: Advance | None = None) -> list[NextToken]:
        """Compute the statistics of each decoder's Q: the human tokens are forced, and whole rows of logits read."""
        self._comparison = None
        continuations = request.continuations
        heads = [self._read_ids(row.tolist()) for row in request.prompts]
        # Every forced token needs a position, the last one too.
        lengths = np.array([len(head) for head in heads], dtype=np.int64)
        check_rows(self.context_length, lengths, continuations)
        tables = [QTable.empty(len(continuations.values)) for _ in request.decoders]
        group = make_group(request, self.eos_ids)
        rows = [row for row, size in enumerate(continuations.lengths.tolist()) if size]

        def finish(number: int, result: EngineResult) -> None:
            start = continuations.offsets[rows[number]]
            part = slice(start, start + len(result.ids))
            for table, columns in zip(tables, result.noted, strict=True):
                table.gold_prob[part], table.sum_sq[part], table.support[part], table.argmax[part] = columns
            if advance is not None:
                advance(len(result.ids))

        def order(row: int) -> EngineRequest:
            gold = continuations[row].tolist()
            return EngineRequest(heads[row], len(gold), (), make_order(group, Prompt(str(row), 0, heads[row]), gold))

        self._run(map(order, rows), finish)
        vocab_size = self.engine.vocab_size
        return [build_next_token(table, request, vocab_size) for table in tables]

    def embed(self, request: EmbeddingRequest, advance: Advance | None = None) -> dict[int | None, TextVectors]:
        """Embed the texts by the last hidden states, pooled inside the engine; one call for each maximum length."""
        self._comparison = None
        pooling = request.embedder.pooling
        rows = join_rows(request.prompts, request.continuations, self.bos_prefix)
        out: dict[int | None, TextVectors] = {}
        context_length = self._start_engine(pooling).context_length
        for length, limit in request.embedder.list_limits(context_length).items():
            vectors: dict[int, Any] = {}

            def finish(number: int, result: EngineResult, into: dict[int, Any] = vectors) -> None:
                into[number] = result.vector
                if advance is not None:
                    advance(1)

            self._run((EngineRequest(tuple(row[:limit].tolist()) or (self.start_id,)) for row in rows), finish, pooling)
            arrays = [np.stack([vectors[i].numpy() for i in range(len(rows))])] if len(rows) else []
            out[length] = collect_vectors(self.spec.title, arrays, rows.lengths, (limit,))[0]
        return out

    def embed_and_score(self, request: EmbeddingRequest, advance: Advance | None = None) -> tuple[TextVectors, Ragged]:
        """Embed the texts, then score their tokens: vLLM has an engine for either."""
        return self.embed(request)[request.embedder.max_length], self.score(request.make_scoring_request(), advance)

    def _read_ids(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Return the ids that the model reads for a prompt; an empty one becomes the start token."""
        return (*self.bos_prefix(ids), *ids) or (self.start_id,)

    def _start_engine(self, pooling: Pooling | None) -> Engine:
        """Return the engine that makes tokens (None) or vectors, started if it is not running."""
        if pooling not in self._engines:
            kind = self.device.type
            engine = Engine(self.spec, kind) if pooling is None else PoolingEngine(self.spec, kind, pooling)
            self._engines[pooling] = engine
        self._last = self._engines[pooling]
        return self._last

    def _run(self, requests: Any, finish: Any, pooling: Pooling | None = None) -> None:  # noqa: ANN401 - as `Engine.run`
        """Run sequences, then release the GPU's memory; an engine that failed is dropped."""
        engine = self._start_engine(pooling)
        try:
            engine.run(requests, finish)
        except DataError:
            self._last = None
            self._engines.pop(pooling).close()
            free_memory()
            raise
        engine.rest()

    def _generate_reference(self, request: GenerationRequest) -> dict[tuple[str, int], Generation]:
        """Generate the first texts with the reference backend, before vLLM takes memory again."""
        first = request.prompts[: self.spec.check_texts]
        self._comparison = "its texts were not compared with those of model=transformers"
        if not first:
            return {}
        generations: list[Generation] = []
        try:
            reference = self.spec.tokenizer_spec().load(device=str(self.device))
            reference.generate(replace(request, prompts=first), generations.extend)
        except (HarnessError, MemoryError, RuntimeError) as err:
            self._comparison = f"the reference backend could not generate texts to compare with ({err!s:.100})"
            log.warning("%s: %s", self.spec.title, self._comparison)
        free_memory()
        return {(g.example_id, g.sample): g for g in generations}


def _close_engines(engines: dict[Pooling | None, Engine]) -> None:
    for engine in engines.values():
        engine.close()


def load_vllm(spec: VllmSpec, *, device: str = "cpu", device_map: DeviceMap | None = None) -> VllmBackend:
    """Check that the model can be run and load its tokenizer; the engine starts when it is needed."""
    if device_map is not None:
        raise SpecError("runtime.device_map: expected null for model=vllm; use model.tensor_parallel_size")
    spec.check_ready()
    return VllmBackend(spec, device)
