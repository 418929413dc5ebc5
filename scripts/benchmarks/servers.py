"""Time generation through a server against the server's own time for the same batch.

The server sleeps as long as a text takes on an accelerator. It runs in its own thread and handles 64 texts at once.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from openended.harness.backends.openai.backend import ServerBackend
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.decoders.base import GenerationRequest, Prompt
from openended.harness.decoders.sampling import Nucleus
from scripts.benchmarks._work import Benchmark

ROWS, AT_ONCE, NEW, STEP = 512, 64, 128, 0.01
"""Texts, concurrent texts of the server, tokens per text, seconds per token."""


def _serve() -> ServerBackend:
    """Start a sleeping server; return a backend for it with the tokenizer loaded."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    slots = asyncio.Semaphore(AT_ONCE)

    async def answer(request: Request) -> Response:
        body = await request.json()
        async with slots:
            await asyncio.sleep(NEW * STEP)
        ids = list(range(100, 100 + NEW))
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
    spec = ServerSpec(path="sleeper", base_url=url, tokenizer="bundled:docs-s", probe=False, concurrency=AT_ONCE)
    return ServerBackend(spec)


def _run_harness(backend: ServerBackend) -> dict[str, float]:
    generations: list[Any] = []
    request = GenerationRequest(
        prompts=[Prompt(f"b/{i}", 0, tuple(range(10, 45))) for i in range(ROWS)],
        decoder=Nucleus(),
        seed=0,
        max_new_tokens=NEW,
        batch_size=AT_ONCE,
    )
    backend.generate(request, generations.extend)
    return {"tokens": float(sum(len(g.token_ids) for g in generations))}


def _run_server(backend: ServerBackend) -> dict[str, float]:  # noqa: ARG001 - both sides are called alike
    time.sleep(ROWS / AT_ONCE * NEW * STEP)
    return {"tokens": float(ROWS * NEW)}


def _compare_token_counts(harness: dict[str, float], peer: dict[str, float]) -> str:
    return f"{harness['tokens']:.0f} / {peer['tokens']:.0f} tokens"


WORKS = [
    Benchmark(
        name=f"{ROWS} texts of {NEW} tokens, {AT_ONCE} at once, through a server",
        prepare=_serve,
        harness=_run_harness,
        against="the server's own time",
        peer=_run_server,
        at_least=1 / 1.1,
        agree=_compare_token_counts,
    )
]
