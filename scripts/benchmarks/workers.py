"""Time one run on two Ray workers against one worker (`runtime.engine=ray`), and compare the bytes.

Each worker has one thread. The workers start and load the model before the clock starts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from openended.harness.backends.ray.backend import RayBackend, load_ray_backend, make_model_ref
from openended.harness.backends.ray.cluster import Cluster
from openended.harness.core.runtime import Runtime
from openended.harness.core.types import Generation, Ragged
from openended.harness.decoders.base import GenerationRequest, Prompt
from openended.harness.decoders.sampling import Nucleus
from openended.harness.models.backend import EmbeddingRequest
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.spec import ModelSpec
from scripts.benchmarks._work import Benchmark

MODEL = ModelSpec(path="bundled:docs-m")
PROMPTS, NEW_TOKENS = 384, 64
TEXTS, TOKENS = 1_536, 128
VOCABULARY = 4_000


def start_workers(count: int) -> RayBackend:
    """Start workers and load the model in each."""
    runtime = Runtime(engine="ray", workers=count, threads=1, device="cpu", progress=False)
    cluster = Cluster(runtime)
    cluster.pool.wait(count)
    list(cluster.map("outline", [(make_model_ref(MODEL),)] * count))
    cluster.pool.wait(count)
    return load_ray_backend(cluster, MODEL)


def generate(lm: RayBackend) -> dict[str, Any]:
    """Generate texts for prompts of one length."""
    ids = np.random.default_rng(0).integers(300, VOCABULARY, (PROMPTS, 20)).tolist()
    prompts = [Prompt(f"t/{i:04d}", 0, tuple(row)) for i, row in enumerate(ids)]
    generated: list[Generation] = []
    request = GenerationRequest(
        prompts=prompts,
        decoder=Nucleus(p=0.95),
        seed=0,
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
        batch_size=64,
    )
    lm.generate(request, generated.extend)
    generated.sort(key=lambda generation: generation.example_id)
    tokens = [list(generation.token_ids) for generation in generated]
    return {"rows": len(generated), "digest": hashlib.sha256(str(tokens).encode()).hexdigest()[:12]}


def embed(lm: RayBackend) -> dict[str, Any]:
    """Embed texts of one length."""
    rng = np.random.default_rng(0)
    texts = Ragged.from_rows((rng.integers(300, VOCABULARY, TOKENS) for _ in range(TEXTS)), np.int64)
    none = Ragged.from_rows(([] for _ in range(TEXTS)), np.int64)
    request = EmbeddingRequest(prompts=none, continuations=texts, embedder=EmbedderSpec(path=MODEL.path), batch_size=64)
    (generated,) = lm.embed(request).values()
    return {"rows": len(generated.vectors), "digest": hashlib.sha256(generated.vectors.tobytes()).hexdigest()[:12]}


def compare_bytes(harness: dict[str, Any], peer: dict[str, Any]) -> str:
    """Report whether both sides produced the same bytes."""
    return "the same bytes" if harness == peer else f"differ: {harness} {peer}"


def _make_work(name: str, do: Callable[[RayBackend], dict[str, Any]]) -> Benchmark:
    return Benchmark(
        name=f"{name}, two workers of one thread",
        prepare=partial(start_workers, 2),
        harness=do,
        against="one worker of one thread",
        peer=do,
        prepare_peer=partial(start_workers, 1),
        peer_needs=("ray",),
        at_least=1.6,
        agree=compare_bytes,
        threads=1,
    )


WORKS = [
    _make_work(f"generate {PROMPTS} × {NEW_TOKENS} tokens, docs-m", generate),
    _make_work(f"embed {TEXTS:,} texts × {TOKENS} tokens, docs-m", embed),
]
