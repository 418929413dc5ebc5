"""Time a model of transformers: against `generate`, its matrix products alone, and vLLM.

`--model FOLDER` names it; the bundled docs-m by default. Prompts are cut from the documentation.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from openended.harness.backends.transformers import TransformersBackend, load_backend
from openended.harness.core import Ragged
from openended.harness.decoders import Decoder
from openended.harness.generation.beam_search import Beam
from openended.harness.generation.contrastive import ContrastiveSearch
from openended.harness.generation.kv_cache import PREFILL
from openended.harness.models.requests import ScoringRequest
from openended.harness.models.score import compute_token_nll
from openended.harness.models.spec import ModelSpec
from scripts.bench import MODEL, SIMULATED, Benchmark, choose_size
from scripts.benchmarks.generation import (
    NUCLEUS,
    Backend,
    Counts,
    Size,
    compare_token_counts,
    cut_rows,
    make_generation_work,
    make_request,
    run_backend,
    run_harness,
    use_plain_layers,
)

PATH = os.environ.get(MODEL, "bundled:docs-s" if SIMULATED else "bundled:docs-m")
TITLE = ModelSpec(path=PATH).title
DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"
NEW = choose_size(32, 4)
PRECISIONS = {"float32": ("0.65×", "1.8×"), "bfloat16": ("0.45×", "1×")}
"""Precision → targets: share of the limit, and against `generate`."""
CPU: dict[str, Any] = {"clock": "cpu", "threads": 1} if DEVICE == "cpu" else {}


def _make_size(prompts: int, longest: int = 35, **options: int) -> Size:
    count = choose_size(prompts, 3)
    size = Size(prompts=count, shortest=35, longest=longest, new=NEW, slots=count, least=NEW, real=True)
    return replace(size, **options)


BATCH = _make_size(64)
MIXED = _make_size(64, shortest=1, longest=100, slots=choose_size(32, 3))
SEARCH = _make_size(16)
SCORED = _make_size(64, 128, shortest=128)


def _list_products(
    lm: TransformersBackend, rows: int, head_rows: int
) -> Iterator[tuple[torch.nn.Module, torch.Tensor]]:
    head = lm.model.get_output_embeddings()
    for layer in lm.model.modules():
        weight = getattr(layer, "weight", None)
        if layer is head or (weight is not None and weight.dim() == 2 and not isinstance(layer, torch.nn.Embedding)):
            inputs = weight.shape[0] if type(layer).__name__.endswith("Conv1D") else weight.shape[1]
            count = head_rows if layer is head else rows
            yield layer, torch.ones(count, inputs, dtype=lm.dtype, device=lm.device)


def _multiply(lm: TransformersBackend, tokens: int, head_rows: int) -> None:
    """Do the products of a pass over so many tokens, a cache's worth of them at a time."""
    with torch.inference_mode():
        for start in range(0, tokens, PREFILL["cpu"]):
            rows = min(PREFILL["cpu"], tokens - start)
            for layer, states in _list_products(lm, rows, -(-head_rows * rows // tokens)):
                layer(states)


def _generate_products(size: Size, lm: TransformersBackend) -> Counts:
    """Do the matrix products of a generation, and nothing else."""
    _multiply(lm, size.prompts * size.longest, size.prompts)
    for _ in range(size.new - 1):
        _multiply(lm, size.prompts, size.prompts)
    return {"tokens": float(size.prompts * size.new)}


def _score(size: Size, lm: TransformersBackend) -> Counts:
    rows = Ragged.from_rows(cut_rows(size, lm), np.int64)
    none = Ragged.from_rows([[]] * len(rows), np.int64)
    scores = compute_token_nll(lm, ScoringRequest(prompts=none, continuations=rows, batch_size=16))
    return {"tokens": float(len(scores.values))}


def _score_products(size: Size, lm: TransformersBackend) -> Counts:
    tokens = size.prompts * size.longest
    _multiply(lm, tokens, tokens - size.prompts)
    return {"tokens": float(tokens - size.prompts)}


def _search_plainly(size: Size, decoder: ContrastiveSearch, lm: TransformersBackend) -> Counts:
    """Search contrastively as transformers 4 did: the cache is repeated for the candidates of each step."""
    k, rows = decoder.k, torch.tensor(cut_rows(size, lm))
    n, options = len(rows), {"use_cache": True, "output_hidden_states": True}
    with torch.inference_mode(), use_plain_layers(lm.model):
        out = lm.model(rows, past_key_values=DynamicCache(), **options)
        seen, cache = out.hidden_states[-1], out.past_key_values
        for _ in range(size.new):
            p, tokens = out.logits[:, -1].softmax(-1).topk(k, dim=-1)
            cache.batch_repeat_interleave(k)
            out = lm.model(tokens.view(-1, 1), past_key_values=cache, **options)
            states = out.hidden_states[-1].view(n, k, -1)
            units = (torch.nn.functional.normalize(x, dim=-1) for x in (states, seen))
            close = torch.einsum("nkd,ntd->nkt", *units).amax(-1)
            choice = ((1 - decoder.alpha) * p - decoder.alpha * close).argmax(-1)
            at = torch.arange(n) * k + choice
            cache.batch_select_indices(at)
            out.logits = out.logits[at]
            seen = torch.cat([seen, states[torch.arange(n), choice][:, None]], 1)
    return {"tokens": float(n * size.new)}


def _load(precision: str, warm_up: Callable[[TransformersBackend], object] | None = None) -> TransformersBackend:
    lm = load_backend(ModelSpec(path=PATH, dtype=precision), device=DEVICE)  # type: ignore[arg-type]
    (warm_up or partial(run_harness, _make_size(2, new=2, least=0), NUCLEUS))(lm)
    return lm


def _make_work(
    name: str, precision: str, harness: Callable[[Any], Counts], against: str, peer: Callable[[Any], Counts],
    target: str,
) -> Benchmark:  # fmt: skip
    load = partial(_load, precision)
    sides = {"harness": harness, "against": against, "peer": peer, "agree": compare_token_counts}
    return Benchmark(name=f"{TITLE} {precision}: {name}", prepare=load, **sides, target=target, **CPU)


def _describe(decoder: Decoder, size: Size) -> str:
    lengths = f"{size.shortest} to {size.longest}" if size.shortest < size.longest else f"{size.longest}"
    return f"{decoder.title}, {size.prompts} prompts of {lengths} tokens × {size.new} tokens, {size.slots} at once"


def _list_works(precision: str, share: str, ratio: str) -> Iterator[Benchmark]:
    limit = "its matrix products alone"
    nucleus = partial(run_harness, BATCH, NUCLEUS)
    yield _make_work(_describe(NUCLEUS, BATCH), precision, nucleus, limit, partial(_generate_products, BATCH), share)
    title = f"{TITLE} {precision}: {_describe(NUCLEUS, BATCH)}, against generate"
    yield replace(make_generation_work(title, partial(_load, precision), NUCLEUS, BATCH, ratio), **CPU)
    if precision == "bfloat16":
        return
    for decoder, size, target in ((NUCLEUS, MIXED, "1.6×"), (Beam(num_beams=4), SEARCH, "1.5×")):
        title = f"{TITLE} {precision}: {_describe(decoder, size)}"
        yield replace(make_generation_work(title, partial(_load, precision), decoder, size, target), **CPU)
    search = ContrastiveSearch()
    harness, peer = partial(run_harness, SEARCH, search), partial(_search_plainly, SEARCH, search)
    name, against = _describe(search, SEARCH), "the search of transformers 4"
    yield _make_work(name, precision, harness, against, peer, "1.5×")
    scored = f"token losses of {SCORED.prompts} texts of {SCORED.longest} tokens"
    yield _make_work(scored, precision, partial(_score, SCORED), limit, partial(_score_products, SCORED), "0.8×")


def _start_vllm(precision: str) -> Backend:
    from openended.harness.backends.vllm.backend import VllmBackend
    from openended.harness.backends.vllm.spec import VllmSpec

    spec = VllmSpec(path=PATH, dtype=precision, max_num_seqs=BATCH.slots, max_model_len=1024)  # type: ignore[arg-type]
    backend = VllmBackend(spec, torch.device(DEVICE).type)
    run_backend(_make_size(4, new=2), backend)
    _run_vllm_sampler(backend, rows=4)
    return backend


def _run_vllm_sampler(backend: Backend, rows: int = BATCH.prompts) -> Counts:
    from vllm import SamplingParams

    engine, tokens = backend.engine.inner, 0
    params = SamplingParams(temperature=1.0, top_p=0.95, max_tokens=BATCH.new, ignore_eos=True, detokenize=False)
    for i, prompt in enumerate(make_request(BATCH, NUCLEUS, backend).prompts[:rows]):
        engine.add_request(f"sampler {i}", {"prompt_token_ids": list(prompt.token_ids)}, params)
    while engine.has_unfinished_requests():
        tokens += sum(len(output.outputs[0].token_ids) for output in engine.step() if output.finished)
    return {"tokens": float(tokens)}


ENGINES = [
    Benchmark(
        name=f"{TITLE} {precision}: {_describe(NUCLEUS, BATCH)}, by {name}", prepare=partial(start, precision),
        harness=partial(run_backend, BATCH), against="vLLM's own sampler", prepare_peer=partial(_start_vllm, precision),
        peer=_run_vllm_sampler, target=target, agree=compare_token_counts, **CPU,
    )
    for precision in PRECISIONS
    for name, start, target in (
        ("vLLM in the process", _start_vllm, "1.8×"),
        ("the reference backend", _load, "1.5×"),
    )
    if importlib.util.find_spec("vllm") is not None
]  # fmt: skip
AREAS = {
    "engines": ENGINES,
    "models": [work for precision, targets in PRECISIONS.items() for work in _list_works(precision, *targets)],
}
