"""Time generation and scoring with models, against transformers, vLLM, a sleeping server and one worker."""

import asyncio
import hashlib
import importlib.util
import json
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from openended.harness.backends.transformers import load_backend
from openended.harness.core import Ragged, Runtime
from openended.harness.decoders import Decoder, GenerationRequest, Prompt, QDecoder
from openended.harness.decoders.q import LogitChunk, QTable, TextPosition
from openended.harness.decoders.sampling import Ancestral, Greedy, Nucleus, TopK
from openended.harness.generation.beam_search import Beam
from openended.harness.generation.generate import generate_texts
from openended.harness.generation.teacher_forcing import CHUNK_CPU, score_chunk
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.forward import ForwardRow, Pool, run_forward
from openended.harness.models.onednn import OnednnConv1D, OnednnLinear, pack_layers
from openended.harness.models.requests import EmbeddingRequest
from openended.harness.models.spec import ModelSpec
from openended.harness.models.transformers import LanguageModel, TextTokenizer, load_model
from openended.metrics.eps_ppl import eps_ppl
from openended.metrics.jensen_shannon import jensen_shannon
from openended.metrics.sparsemax_score import sparsemax_score
from scripts.bench import SIMULATED, Benchmark, choose_size, format_equality, format_relative_gap

Counts = dict[str, float]
Backend = Any
Model = Any
MEAN = 24  # tokens of a text that ends at random
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
    ends: bool = False  # whether texts end at random, by a token that has a probability near 1 / MEAN after any text
    least: int = 0


def _compare_token_counts(harness: Counts, peer: Counts) -> str:
    return f"{harness['tokens']:.0f} / {peer['tokens']:.0f} tokens"


def _sample_rows(count: int, shortest: int, longest: int, *, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(1, 4096, rng.integers(shortest, longest + 1)).tolist() for _ in range(count)]


def make_request(size: Size, decoder: Decoder) -> GenerationRequest:
    """Return a request for texts of a size, after made-up prompts."""
    rows = _sample_rows(size.prompts, size.shortest, size.longest)
    prompts = [Prompt(f"b/{i:04d}", s, tuple(row)) for i, row in enumerate(rows) for s in range(size.samples)]
    return GenerationRequest(
        prompts=prompts, decoder=decoder, seed=0, max_new_tokens=size.new, min_new_tokens=size.least,
        batch_size=size.slots,
    )  # fmt: skip


def run_harness(size: Size, decoder: Decoder, lm: LanguageModel) -> Counts:
    """Generate with the harness; count the tokens."""
    lengths: list[int] = []
    generate_texts(lm, make_request(size, decoder), lambda rows: lengths.extend(len(g.token_ids) for g in rows))
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
    rows, end, total = _sample_rows(size.prompts, size.shortest, size.longest), lm.eos_ids[0], 0
    each = max(size.slots // size.samples, 1)
    for start in range(0, len(rows), each):
        part = rows[start : start + each]
        width = max(map(len, part))
        ids = torch.tensor([[end] * (width - len(row)) + row for row in part], device=lm.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in part], device=lm.device)
        with use_plain_layers(lm.model):
            generated = lm.model.generate(
                ids, attention_mask=mask, max_new_tokens=size.new, eos_token_id=end, pad_token_id=end,
                num_return_sequences=size.samples, **options,
            )[:, width:].tolist()  # fmt: skip
        texts = [row[: row.index(end)] if end in row else row for row in generated]
        total += sum(map(len, texts))
        for text in texts:
            lm.decode(text)
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

    return Benchmark(
        name=name, prepare=prepare, harness=partial(run_harness, size, decoder), against="transformers generate",
        peer=partial(_run_transformers, size, decoder), agree=_compare_token_counts, target=target,
    )  # fmt: skip


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
            statistics = score_chunk(decoders, tables, chunk, lambda _: np.zeros(0, dtype=np.int64))
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
    name: str, decoders: Sequence[QDecoder], p: float, target: str, against: str = "a full pass a metric",
    peer_share: float = 1.0,
) -> Benchmark:  # fmt: skip
    return Benchmark(
        name=f"teacher-forced, {name}, V = {VOCAB:,}, T = {LENGTH:,}", prepare=_sample_logits,
        harness=partial(_teach_with_harness, decoders), peer=partial(_teach_plainly, p), target=target,
        agree=format_relative_gap, against=against, peer_share=peer_share,
    )  # fmt: skip


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
        "twenty decoders",
        TWENTY,
        0.95,
        "40×",
        against="a full pass a metric and decoder (one timed)",
        peer_share=1 / 20,
    ),
]


# batches: random models of 120 million parameters


class NumberTokenizer:
    """A tokenizer that decodes token ids to their numbers."""

    def decode(self, ids: list[int], **_: object) -> str:
        return " ".join(map(str, ids))


def build_gpt2(**shape: int) -> tuple[Model, torch.Tensor]:
    """Return a GPT-2, of 124 million by default, and the direction of its end token."""
    tiny = {"n_embd": 32, "n_layer": 2, "n_head": 2} if SIMULATED else {}
    model = GPT2LMHeadModel(GPT2Config(**shape | tiny))
    model.transformer.ln_f.bias.data.normal_(std=0.1)
    return model, model.transformer.ln_f.bias.data


def build_llama(**shape: int) -> tuple[Model, torch.Tensor]:
    """Return a Llama, of 120 million by default, and the direction of its end token, one that normalization keeps."""
    default = {
        "vocab_size": 32000, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 10,
        "num_attention_heads": 12, "num_key_value_heads": 12, "max_position_embeddings": 1024,
    }  # fmt: skip
    tiny = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2} if SIMULATED else {}
    config = LlamaConfig(**default | shape | tiny)
    model = LlamaForCausalLM(config)
    model.model.embed_tokens.weight.data[:, 0] = 1.0
    model.lm_head.weight.data[:, 0] = 0.0
    return model, torch.eye(config.hidden_size)[0]


def load_random_model(build: Callable[[], tuple[Model, torch.Tensor]], *, ends: bool) -> LanguageModel:
    """Build a random model; with `ends`, token 0 has a probability near 1 / MEAN after any text."""
    torch.manual_seed(0)
    model, direction = build()
    model = model.eval().requires_grad_(requires_grad=False)
    head = model.get_output_embeddings().weight.data
    weight = 0.0
    if ends and not SIMULATED:
        hidden = model.base_model(torch.randint(1, 10000, (8, 16))).last_hidden_state[:, -1]
        others, along = torch.logsumexp((hidden @ head.t())[:, 1:], -1), hidden @ direction
        weight = brentq(lambda w: float(torch.sigmoid(along * w - others).mean()) - 1 / MEAN, -1e3, 1e3)
    head[0] = direction * weight
    pack_layers(model)
    return LanguageModel(
        model=model, tokenizer=TextTokenizer(NumberTokenizer(), 0, byte_level=True), device=torch.device("cpu"),
        dtype=torch.float32, eos_ids=(0,), vocab_size=model.config.vocab_size,
        context_length=model.config.max_position_embeddings, spec=ModelSpec(path="random"),
    )  # fmt: skip


MODELS = {"GPT-2 124 M": build_gpt2, "Llama 120 M": build_llama}
GPT2, LLAMA = MODELS
ONE_LENGTH = Size(prompts=choose_size(32, 4), shortest=35, longest=35, new=choose_size(32, 4), slots=32)
MIXED = Size(prompts=choose_size(256, 8), shortest=1, longest=50, new=choose_size(128, 8), slots=64, ends=True)
MIXED_WHOLE = Size(prompts=choose_size(128, 8), shortest=1, longest=50, new=choose_size(48, 8), slots=64)
SAMPLES = Size(prompts=choose_size(64, 2), shortest=35, longest=35, new=choose_size(32, 4), slots=256, samples=4)
EMBEDDED = choose_size(128, 8)


def _make_batch_work(model: str, decoder: Decoder, size: Size, target: str) -> Benchmark:
    lengths = f"{size.shortest} to {size.longest}" if size.shortest < size.longest else f"{size.longest}"
    ends = f", ends at random, mean {MEAN}, limit {size.new}" if size.ends else f" × {size.new} tokens"
    samples = f" × {size.samples} samples" if size.samples > 1 else ""
    prompts = f"{size.prompts} prompts of {lengths} tokens"
    name = f"{model}: {decoder.title}, {prompts}{samples}{ends}, {size.slots} at once"
    load = partial(load_random_model, MODELS[model], ends=size.ends)
    return make_generation_work(name, load, decoder, size, target)


def _embed_with_harness(lm: LanguageModel) -> Counts:
    """Compute the last state of the last token, in batches of similar lengths."""
    rows = _sample_rows(EMBEDDED, 10, 256, seed=1)
    pool = Pool(-1, "last", 1024)
    jobs = [ForwardRow(i, np.array(row), len(row)) for i, row in enumerate(rows)]
    run_forward(lm, jobs, rows=len(rows), pool=pool, nll=None, batch_size=16)
    return {"mean": float(np.abs(pool.vectors[0]).mean())}


def _embed_padded(lm: LanguageModel) -> Counts:
    """Compute the same in the given order with padding, as public scripts do."""
    rows, vectors = _sample_rows(EMBEDDED, 10, 256, seed=1), []
    with torch.inference_mode(), use_plain_layers(lm.model):
        for start in range(0, len(rows), 16):
            part = rows[start : start + 16]
            width = max(map(len, part))
            mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in part])
            ids = torch.tensor([row + [0] * (width - len(row)) for row in part])
            states = lm.model.base_model(ids, attention_mask=mask).last_hidden_state
            vectors.append(states[torch.arange(len(part)), mask.sum(1) - 1])
    return {"mean": float(torch.cat(vectors).abs().mean())}


BATCHES = [
    _make_batch_work(GPT2, Greedy(), ONE_LENGTH, "1.1×"),
    _make_batch_work(GPT2, Nucleus(), ONE_LENGTH, "1.6×"),
    _make_batch_work(GPT2, Nucleus(), MIXED, "2.5×"),
    _make_batch_work(GPT2, Nucleus(), MIXED_WHOLE, "1×"),
    _make_batch_work(LLAMA, Greedy(), ONE_LENGTH, "1.1×"),
    _make_batch_work(LLAMA, Nucleus(), ONE_LENGTH, "1.1×"),
    _make_batch_work(LLAMA, Nucleus(), MIXED, "2×"),
    _make_batch_work(GPT2, Nucleus(), SAMPLES, "1.5×"),
    Benchmark(
        name=f"{GPT2}: embedding, 128 texts of 10 to 256 tokens",
        prepare=partial(load_random_model, build_gpt2, ends=False), harness=_embed_with_harness,
        against="transformers, padded batches in the order given", peer=_embed_padded, agree=format_relative_gap,
    ),
]  # fmt: skip


# engines, servers and workers: other backends


def _run_backend(size: Size, backend: Backend) -> Counts:
    """Generate with any backend; count the tokens."""
    lengths: list[int] = []
    backend.generate(make_request(size, NUCLEUS), lambda rows: lengths.extend(len(g.token_ids) for g in rows))
    return {"tokens": float(sum(lengths))}


ENGINE_SIZE = Size(prompts=128, shortest=1, longest=50, new=48, slots=64, least=48)
SERVER_SIZE = Size(prompts=choose_size(512, 16), shortest=35, longest=35, new=choose_size(128, 8), slots=64)
SECONDS = 0.01  # of the sleeping server for a token
WORKER_SIZE = Size(prompts=choose_size(384, 8), shortest=20, longest=20, new=64, slots=64, least=64)
WORKER_MODEL = ModelSpec(path="bundled:docs-m")


def _write_vllm_model() -> str:
    """Write a folder of GPT-2's shape, unless it is there; its tokens are the bytes and made-up words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    folder = Path(tempfile.gettempdir()) / "openended-bench-gpt2"
    if not (folder / "complete.json").is_file():
        config = GPT2Config(bos_token_id=0, eos_token_id=0)
        letters = ["<|endoftext|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
        words = letters + [f"w{i}" for i in range(config.vocab_size - len(letters))]
        tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(folder)  # noqa: S106
        torch.manual_seed(0)
        GPT2LMHeadModel(config).save_pretrained(folder)
        (folder / "complete.json").write_text(json.dumps({"vocab_size": config.vocab_size}))
    return str(folder)


def _start_vllm() -> Backend:
    from openended.harness.backends.vllm.backend import VllmBackend
    from openended.harness.backends.vllm.spec import VllmSpec

    spec = VllmSpec(path=_write_vllm_model(), max_num_seqs=ENGINE_SIZE.slots)
    backend = VllmBackend(spec, torch.device(DEVICE).type)
    _run_vllm_sampler(backend, rows=4)
    return backend


def _run_vllm_sampler(backend: Backend, rows: int = ENGINE_SIZE.prompts) -> Counts:
    from vllm import SamplingParams

    engine, tokens = backend.engine.inner, 0
    params = SamplingParams(temperature=1.0, top_p=0.95, max_tokens=ENGINE_SIZE.new, ignore_eos=True, detokenize=False)
    for i, prompt in enumerate(make_request(ENGINE_SIZE, NUCLEUS).prompts[:rows]):
        engine.add_request(f"sampler {i}", {"prompt_token_ids": list(prompt.token_ids)}, params)
    while engine.has_unfinished_requests():
        tokens += sum(len(output.outputs[0].token_ids) for output in engine.step() if output.finished)
    return {"tokens": float(tokens)}


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
            await asyncio.sleep(SERVER_SIZE.new * SECONDS)
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
    time.sleep(SERVER_SIZE.prompts / SERVER_SIZE.slots * SERVER_SIZE.new * SECONDS)
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
    return hashlib.sha256(backend.embed(request).vectors.tobytes()).hexdigest()[:12]


ENGINE_NAME = (
    f"nucleus p=0.95, {ENGINE_SIZE.prompts} prompts of 1 to 50 tokens × {ENGINE_SIZE.new} tokens, GPT-2 124 M, "
    f"{ENGINE_SIZE.slots} at once"
)
ENGINES = [
    Benchmark(
        name=f"{ENGINE_NAME}, by {name}", prepare=start, harness=partial(_run_backend, ENGINE_SIZE),
        against="vLLM's own sampler", prepare_peer=_start_vllm, peer=_run_vllm_sampler, target=target,
        agree=_compare_token_counts,
    )
    for name, start, target in (
        ("vLLM in the process", _start_vllm, "0.87×"),
        ("the reference backend", lambda: load_backend(ModelSpec(path=_write_vllm_model())), "–"),
    )
    if importlib.util.find_spec("vllm") is not None
]  # fmt: skip
SERVERS = [
    Benchmark(
        name=f"{SERVER_SIZE.prompts} texts of {SERVER_SIZE.new} tokens, {SERVER_SIZE.slots} at once, through a server",
        prepare=_start_server, harness=partial(_run_backend, SERVER_SIZE), against="the server's own time",
        peer=_sleep_like_server, target="0.91×", agree=_compare_token_counts,
    )
]  # fmt: skip
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
AREAS = {
    "batches": BATCHES, "decoding": DECODING, "engines": ENGINES, "servers": SERVERS, "workers": WORKERS,
}  # fmt: skip
