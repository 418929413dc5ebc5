"""Time generation and scoring with models, against transformers, vLLM, a sleeping server and one worker."""

import asyncio
import hashlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from openended.harness.core import Ragged, Runtime
from openended.harness.decoders import Decoder, GenerationRequest, LogitChunk, Prompt, QDecoder, QTable, TextPosition
from openended.harness.decoders.sampling import Ancestral, Greedy, Nucleus, TopK
from openended.harness.generation import generate_texts
from openended.harness.generation.beam_search import Beam
from openended.harness.generation.teacher_forcing import CHUNK_CPU, score_chunk
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.onednn import OnednnConv1D, OnednnLinear
from openended.harness.models.requests import EmbeddingRequest
from openended.harness.models.score import embed_rows
from openended.harness.models.spec import ModelSpec
from openended.harness.models.transformers import LanguageModel, load_model
from openended.metrics.eps_ppl import eps_ppl
from openended.metrics.jensen_shannon import jensen_shannon
from openended.metrics.sparsemax_score import sparsemax_score
from scripts.bench import SIMULATED, Benchmark, choose_size, format_equality, format_relative_gap
from scripts.pages import ROOT

Counts = dict[str, float]
Backend = Any
Model = Any
VOCAB, LENGTH = 50257, choose_size(1024, 40)  # of the teacher-forced text
NUCLEUS = Nucleus(p=0.95)
DEVICE = "sim:0" if SIMULATED else "cuda:0" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Size:
    """Prompts and texts of one row of the table."""

    prompts: int
    shortest: int
    longest: int
    new: int
    slots: int
    samples: int = 1
    least: int = 0
    real: bool = False  # prompts are cut from the documentation; else their tokens are random


def compare_token_counts(harness: Counts, peer: Counts) -> str:
    """Format how many tokens both sides made."""
    return f"{harness['tokens']:.0f} / {peer['tokens']:.0f} tokens"


def _sample_rows(count: int, shortest: int, longest: int, *, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(1, 4096, rng.integers(shortest, longest + 1)).tolist() for _ in range(count)]


def cut_rows(size: Size, lm: Backend) -> list[list[int]]:
    """Return the token ids of the prompts."""
    rows = _sample_rows(size.prompts, size.shortest, size.longest)
    if not size.real:
        return rows
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    ids = lm.tokenizer.encode(text[: 40 * sum(map(len, rows))])
    starts = np.random.default_rng(1).integers(0, len(ids) - size.longest, len(rows))
    return [ids[start : start + len(row)] for start, row in zip(starts, rows, strict=True)]


def make_request(size: Size, decoder: Decoder, lm: Backend = None) -> GenerationRequest:
    """Return a request for texts of a size."""
    rows = cut_rows(size, lm)
    prompts = [Prompt(f"b/{i:04d}", s, tuple(row)) for i, row in enumerate(rows) for s in range(size.samples)]
    limits = {"max_new_tokens": size.new, "min_new_tokens": size.least, "batch_size": size.slots}
    return GenerationRequest(prompts=prompts, decoder=decoder, seed=0, **limits)


def run_harness(size: Size, decoder: Decoder, lm: LanguageModel) -> Counts:
    """Generate with the harness; count the tokens."""
    lengths: list[int] = []
    generate_texts(lm, make_request(size, decoder, lm), lambda rows: lengths.extend(len(g.token_ids) for g in rows))
    return {"tokens": float(sum(lengths))}


@contextmanager
def use_plain_layers(model: Model) -> Iterator[None]:
    """Give a model the linear layers of PyTorch and transformers within the block."""
    layers = [(layer, type(layer)) for layer in model.modules() if isinstance(layer, OnednnLinear | OnednnConv1D)]
    for layer, kind in layers:
        layer.__class__ = kind.__base__
    yield
    for layer, kind in layers:
        layer.__class__ = kind


def _run_transformers(size: Size, decoder: Decoder, lm: LanguageModel) -> Counts:
    """Generate with transformers' `generate`, its layers, left-padded prompts and the same batch size."""
    options: dict[str, Any] = {"do_sample": decoder.stochastic}
    options |= {"top_k": 0, "top_p": getattr(decoder, "p", 1.0)} if decoder.stochastic else {}
    options |= {"num_beams": decoder.num_beams} if isinstance(decoder, Beam) else {}
    options |= {"min_new_tokens": size.least} if size.least else {}
    torch.manual_seed(0)
    rows, end, total = cut_rows(size, lm), lm.eos_ids[0], 0
    options |= {"max_new_tokens": size.new, "num_return_sequences": size.samples}
    options |= {"eos_token_id": end, "pad_token_id": end}
    each = max(size.slots // size.samples, 1)
    for start in range(0, len(rows), each):
        part = rows[start : start + each]
        width = max(map(len, part))
        ids = torch.tensor([[end] * (width - len(row)) + row for row in part], device=lm.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in part], device=lm.device)
        with use_plain_layers(lm.model):
            generated = lm.model.generate(ids, attention_mask=mask, **options)[:, width:].tolist()
        texts = [row[: row.index(end)] if end in row else row for row in generated]
        total += sum(map(len, texts))
        for text in texts:
            lm.tokenizer.decode(text)
    return {"tokens": float(total)}


def make_generation_work(
    name: str, load: Callable[[], LanguageModel], decoder: Decoder, size: Size, target: str
) -> Benchmark:
    """Return the comparison of the harness with `generate` of transformers."""

    def prepare() -> LanguageModel:
        warnings.simplefilter("ignore")
        lm = load()
        small = replace(size, prompts=2, new=4, slots=2, least=0)
        for run in (run_harness, _run_transformers):
            run(small, decoder, lm)
        return lm

    runs = {"harness": partial(run_harness, size, decoder), "peer": partial(_run_transformers, size, decoder)}
    titles = {"name": name, "against": "transformers generate", "target": target}
    return Benchmark(prepare=prepare, agree=compare_token_counts, **runs, **titles)


# decoding: the bundled model, and teacher forcing


def _make_decoding_work(decoder: Decoder, target: str, *, ends_late: bool = False) -> Benchmark:
    new = choose_size(128, 8)
    size = Size(prompts=choose_size(64, 4), shortest=35, longest=35, new=new, slots=64, least=new if ends_late else 0)
    name = f"{decoder.title}, {size.prompts} × {size.new} tokens, docs-s{', no random ends' if ends_late else ''}"
    load = partial(load_model, ModelSpec(path="bundled:docs-s"))
    return make_generation_work(name, load, decoder, size, target)


def _sample_logits() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    gold = torch.randint(0, VOCAB, (LENGTH,), generator=generator)
    sharpness = 3.0 + 1.5 * torch.rand(LENGTH, 1, generator=generator)
    return torch.randn(LENGTH, VOCAB, generator=generator) * sharpness, gold


def _teach_with_harness(decoders: Sequence[QDecoder], data: tuple[torch.Tensor, torch.Tensor]) -> Counts:
    logits, gold = data
    tables = [QTable.empty(LENGTH) for _ in decoders]
    size = CHUNK_CPU // VOCAB
    with torch.inference_mode():
        for start in range(0, LENGTH, size):
            part = slice(start, start + size)
            positions = [TextPosition(0, t) for t in range(*part.indices(LENGTH))]
            chunk = LogitChunk(logits[part], gold[part], positions)
            statistics = score_chunk(decoders, tables, chunk)
            for table, values in zip(tables, statistics, strict=True):
                table.write(np.arange(LENGTH)[part], values)
    probability = tables[0].gold_prob
    return {
        "sp": sparsemax_score(probability, tables[0].sum_sq),
        "js": jensen_shannon(probability),
        "eps_ppl": eps_ppl(probability, vocab_size=VOCAB, eps=1e-5),
    }


def _teach_plainly(p: float, data: tuple[torch.Tensor, torch.Tensor]) -> Counts:
    """Truncate, renormalize and read the whole vocabulary for each of three metrics."""

    def compute_q(logits: torch.Tensor) -> torch.Tensor:
        if p < 1:
            ordered, ids = torch.sort(logits, descending=True)
            drop = ordered.softmax(-1).cumsum(-1) > p
            drop[:, 1:] = drop[:, :-1].clone()
            drop[:, 0] = False
            logits = logits.masked_fill(drop.scatter(1, ids, drop), float("-inf"))
        return logits.softmax(-1)

    logits, gold = data[0], data[1][:, None]
    with torch.inference_mode():
        first = compute_q(logits)
        sp = first.gather(1, gold).squeeze(1) + 0.5 * (1 - (first**2).sum(-1))
        second, third = (compute_q(logits).gather(1, gold).squeeze(1).double() for _ in range(2))
    return {
        "sp": float(sp.mean()),
        "js": jensen_shannon(second.clamp(max=1).numpy()),
        "eps_ppl": float(((third + 1e-5) / (1 + 1e-5 * VOCAB)).log().mean().neg().exp()),
    }


def _make_teaching_work(
    name: str, decoders: Sequence[QDecoder], p: float, target: str, **options: str | float
) -> Benchmark:
    runs = {"harness": partial(_teach_with_harness, decoders), "peer": partial(_teach_plainly, p)}
    title = f"teacher-forced, {name}, V = {VOCAB:,}, T = {LENGTH:,}"
    options = {"against": "a full pass a metric", "agree": format_relative_gap, "target": target, **options}
    return Benchmark(name=title, prepare=_sample_logits, **runs, **options)


TWENTY: list[QDecoder] = [
    NUCLEUS,
    *(Nucleus(p=round(0.5 + 0.05 * i, 2)) for i in range(9)),
    *(TopK(k=5 * 2**i) for i in range(8)),
    Ancestral(),
    Greedy(),
]
DECODING = [
    _make_decoding_work(Greedy(), "1.5×"),
    _make_decoding_work(Ancestral(), "1.5×"),
    _make_decoding_work(NUCLEUS, "1.5×"),
    # Where no text ends early there are no free slots to refill: the gain is that of the kernels alone.
    _make_decoding_work(NUCLEUS, "1×", ends_late=True),
    _make_decoding_work(Beam(num_beams=4), "1×"),
    _make_teaching_work("one untruncated Q", [Ancestral()], 1.0, "5×"),
    _make_teaching_work("one nucleus", [NUCLEUS], 0.95, "15×"),
    _make_teaching_work(
        "twenty decoders", TWENTY, 0.95, "40×", against="a full pass a metric and decoder (one timed)", peer_share=0.05
    ),
]


# servers and workers: other backends


def run_backend(size: Size, backend: Backend) -> Counts:
    """Generate with any backend; count the tokens."""
    lengths: list[int] = []
    backend.generate(make_request(size, NUCLEUS, backend), lambda rows: lengths.extend(len(g.token_ids) for g in rows))
    return {"tokens": float(sum(lengths))}


SERVER_SIZE = Size(prompts=choose_size(512, 16), shortest=35, longest=35, new=choose_size(128, 8), slots=64)
SECONDS_PER_TOKEN = 0.01  # of the sleeping server
WORKER_SIZE = Size(prompts=choose_size(384, 8), shortest=20, longest=20, new=64, slots=64, least=64)
WORKER_MODEL = ModelSpec(path="bundled:docs-m")


def _start_server() -> Backend:
    """Start a sleeping server; return a backend for it with the tokenizer loaded."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    from openended.harness.backends.openai.backend import ServerBackend
    from openended.harness.backends.openai.spec import ServerSpec

    slots = asyncio.Semaphore(SERVER_SIZE.slots)

    async def answer(request: Request) -> Response:
        body = await request.json()
        async with slots:
            await asyncio.sleep(SERVER_SIZE.new * SECONDS_PER_TOKEN)
        ids = list(range(100, 100 + SERVER_SIZE.new))
        choice = {"token_ids": ids, "prompt_token_ids": body["prompt"], "finish_reason": "length", "text": ""}
        return JSONResponse({"choices": [choice], "usage": {"prompt_tokens": len(body["prompt"])}})

    async def models(_: Request) -> Response:
        return JSONResponse({"data": [{"id": "sleeper"}]})

    app = Starlette(routes=[Route("/v1/completions", answer, methods=["POST"]), Route("/v1/models", models)])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    slots_count = SERVER_SIZE.slots
    spec = ServerSpec(path="sleeper", base_url=url, tokenizer="bundled:docs-s", probe=False, concurrency=slots_count)
    return ServerBackend(spec)


def _sleep_like_server(_: Backend) -> Counts:
    """Take the server's own time for the same texts."""
    time.sleep(SERVER_SIZE.prompts / SERVER_SIZE.slots * SERVER_SIZE.new * SECONDS_PER_TOKEN)
    return {"tokens": float(SERVER_SIZE.prompts * SERVER_SIZE.new)}


def _start_workers(count: int) -> Backend:
    from openended.harness.backends.ray.backend import load_ray_backend, make_model_ref
    from openended.harness.backends.ray.cluster import Cluster

    cluster = Cluster(Runtime(engine="ray", workers=count, threads=1, device="cpu", progress=False))
    cluster.pool.wait(count)
    list(cluster.map("describe_model", [(make_model_ref(WORKER_MODEL),)] * count))
    cluster.pool.wait(count)
    return load_ray_backend(cluster, WORKER_MODEL)


def _digest_worker_texts(backend: Backend) -> str:
    generated: list[Any] = []
    backend.generate(make_request(WORKER_SIZE, NUCLEUS), generated.extend)
    tokens = [list(g.token_ids) for g in sorted(generated, key=lambda g: str(g.example_id))]
    return hashlib.sha256(str(tokens).encode()).hexdigest()[:12]


def _digest_worker_vectors(backend: Backend) -> str:
    texts = Ragged.from_rows(_sample_rows(choose_size(1_536, 8), 128, 128), np.int64)
    none = Ragged.from_rows([[]] * len(texts), np.int64)
    spec = EmbedderSpec(path=WORKER_MODEL.path)
    request = EmbeddingRequest(prompts=none, continuations=texts, embedder=spec, batch_size=64)
    return hashlib.sha256(embed_rows(backend, request).vectors.tobytes()).hexdigest()[:12]


SERVERS = [
    Benchmark(
        name=f"{SERVER_SIZE.prompts} texts of {SERVER_SIZE.new} tokens, {SERVER_SIZE.slots} at once, through a server",
        prepare=_start_server,
        harness=partial(run_backend, SERVER_SIZE),
        against="the server's own time",
        peer=_sleep_like_server,
        target="0.91×",
        agree=compare_token_counts,
    )
]
WORKERS = [
    Benchmark(
        name=f"{name}, two workers of one thread", prepare=partial(_start_workers, 2), harness=run,
        against="one worker of one thread", peer=run, prepare_peer=partial(_start_workers, 1), peer_imports=("ray",),
        target="1.6×", agree=format_equality, threads=1,
    )
    for name, run in (
        (f"generate {WORKER_SIZE.prompts} × {WORKER_SIZE.new} tokens, docs-m", _digest_worker_texts),
        ("embed 1,536 texts × 128 tokens, docs-m", _digest_worker_vectors),
    )
]  # fmt: skip
AREAS = {"decoding": DECODING, "servers": SERVERS, "workers": WORKERS}
