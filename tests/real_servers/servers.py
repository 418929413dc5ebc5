"""vLLM's server on the bundled model, through `model=openai`.

python -m tests.real_servers.servers ENVIRONMENT
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from openended.harness.backends.openai.backend import ServerBackend
from openended.harness.backends.openai.dialects import DialectName
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.backends.transformers import load_backend
from openended.harness.core import DataError, Generation, Ragged
from openended.harness.decoders.base import GenerationRequest, Prompt, QDecoder
from openended.harness.decoders.sampling import Ancestral, Greedy, MinP, Nucleus
from openended.harness.models.requests import ScoringRequest
from openended.harness.models.spec import ModelSpec, find_assets_folder
from tests.real_servers.checks import Table, compare_losses

MODEL = "docs-s"
COUNT, NEW = 64, 24
TOLERANCE = 1e-4
STARTS = 300.0  # seconds that a server may take
VLLM_ENVIRONMENT = {
    "VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}  # fmt: skip
VLLM_FLAGS = (
    "--served-model-name", MODEL, "--host", "127.0.0.1", "--max-logprobs", "100", "--dtype", "float32",
    "--enforce-eager", "--max-num-seqs", "64", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "65536",
)  # fmt: skip


def find_free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def run_server(command: list[str], port: int, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server and wait until it answers; end it, with all its processes, afterwards."""
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **environment}, start_new_session=True
        )
        try:
            until = time.monotonic() + STARTS
            while not answers(port):
                if server.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    raise RuntimeError(f"the server did not start: {log.read()[-400:].decode(errors='replace')}")
                time.sleep(0.5)
            yield server
        finally:
            end(server)


def end(server: subprocess.Popen[bytes]) -> None:
    """Kill a server and what it started."""
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def answers(port: int) -> bool:
    """Say whether a server is ready."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def serve(environment: Path, port: int, folder: Path, *flags: str) -> Any:
    """Start vLLM's server on a model folder."""
    command = [str(environment / "bin/vllm"), "serve", str(folder), "--port", str(port), *VLLM_FLAGS, *flags]
    return run_server(command, port, VLLM_ENVIRONMENT)


def connect(port: int, dialect: DialectName = "vllm", **options: Any) -> ServerBackend:
    """Return a backend for a server on this machine."""
    spec = ServerSpec(
        path=MODEL, base_url=f"http://127.0.0.1:{port}", dialect=dialect, tokenizer=f"bundled:{MODEL}", logprobs=100,
        **{"concurrency": 64, **options},
    )  # fmt: skip
    return ServerBackend(spec)


def make_prompts() -> list[Prompt]:
    """Prompts of 4 to 40 tokens."""
    draw = np.random.default_rng(0)
    rows = (tuple(draw.integers(1, 4096, draw.integers(4, 41)).tolist()) for _ in range(COUNT))
    return [Prompt(f"t/{i}", 0, row) for i, row in enumerate(rows)]


def generate(backend: Any, decoder: QDecoder, prompts: list[Prompt], emit: Any) -> None:
    """Continue the prompts."""
    backend.generate(
        GenerationRequest(prompts=prompts, decoder=decoder, seed=1, max_new_tokens=NEW, batch_size=64), emit
    )


def collect(backend: Any, decoder: QDecoder, prompts: list[Prompt]) -> dict[str, tuple[int, ...]]:
    """Return the tokens of each text."""
    out: list[Generation] = []
    generate(backend, decoder, prompts, out.extend)
    return {g.example_id: g.token_ids for g in out}


def check_probe(port: int, decoder: QDecoder) -> tuple[str, bool]:
    """Let the probe look at the server, and generate."""
    backend = connect(port)
    texts = collect(backend, decoder, make_prompts()[:8])
    line = str(backend.provenance()["served"]["probe"])
    return line, len(texts) == 8


def check_refusal(port: int, decoder: QDecoder) -> tuple[str, bool]:
    """Expect that the probe notices what was not asked for, where OpenAI's words leave parameters out."""
    try:
        collect(connect(port, "openai"), decoder, make_prompts()[:8])
    except DataError as err:
        text = str(err)
        noticed = "failed the sampling check: hidden sampling parameters: with neutral parameters" in text
        return text[text.find("failed the") :][:240], noticed
    return "nothing was noticed", False


def compare_greedy(port: int, expected: Mapping[str, tuple[int, ...]]) -> tuple[str, bool]:
    """Compare greedy texts with the local ones."""
    texts = collect(connect(port), Greedy(), make_prompts())
    equal = sum(texts[name] == ids for name, ids in expected.items())
    return f"{equal} of {len(expected)} texts equal", equal == len(expected)


def check_death(environment, folder, expected):
    """Kill a server in the middle of a run; what is finished stays, and the rest follows from its successor."""
    port, kept, message = find_free_port(), dict[str, tuple[int, ...]](), ""
    prompts = make_prompts()
    with serve(environment, port, folder) as server:
        backend = connect(port, probe=False, patience=2.0, concurrency=4)

        def emit(texts: list[Generation]) -> None:
            kept.update((g.example_id, g.token_ids) for g in texts)
            if len(kept) >= 12:
                end(server)

        try:
            generate(backend, Greedy(), prompts, emit)
        except DataError as err:
            message = str(err)
    before = len(kept)
    with serve(environment, port, folder):
        kept.update(collect(connect(port, probe=False), Greedy(), [p for p in prompts if p.example_id not in kept]))
    right = kept == dict(expected) and 12 <= before < COUNT and "retried for 2 s (model.patience)" in message
    return f"{before} texts kept, then {COUNT - before} more; {len(kept)} in all", right


def main() -> None:
    """Print the table of a server."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers end too
    environment, folder, port = Path(sys.argv[1]), find_assets_folder() / MODEL, find_free_port()
    local = load_backend(ModelSpec(path=f"bundled:{MODEL}"))
    prompts = make_prompts()
    expected = collect(local, Greedy(), prompts)
    table = Table("vllm server")
    with serve(environment, port, folder, "--generation-config", "vllm"):
        for decoder in (Nucleus(), MinP()):
            table.check(f"probe, {decoder.title}", partial(check_probe, port, decoder))
        table.check("greedy texts", partial(compare_greedy, port, expected))
        heads = Ragged.from_rows((p.token_ids for p in prompts), np.int64)
        human = Ragged.from_rows((collect(local, Nucleus(), prompts)[p.example_id] for p in prompts), np.int64)
        losses = ScoringRequest(prompts=heads, continuations=human, batch_size=16)
        table.check("token losses", partial(compare_losses, connect(port), local, losses, TOLERANCE))
    with tempfile.TemporaryDirectory() as root:
        other, port = Path(root) / MODEL, find_free_port()
        shutil.copytree(folder, other)
        (other / "generation_config.json").write_text(json.dumps({"top_k": 5}))
        with serve(environment, port, other):
            # Ours sends every parameter: the server's default shows only where a request leaves one out.
            table.check("generation_config.json with top_k=5", partial(check_refusal, port, Ancestral()))
    table.check("the server is killed", partial(check_death, environment, folder, expected))
    table.end()


if __name__ == "__main__":
    main()
