"""Hostile servers on loopback: replies with values of any kind, and connections that never end; one line, in bounded time."""

import copy
import json
import random
import time
from typing import Any

import httpx

from openended.harness.backends.openai import client as client_module, session as session_module
from openended.harness.backends.openai.backend import ServerBackend
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.core import Generation, HarnessError
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Greedy
from tests.campaign.world import Tally, World, check_line
from tests.harness.backends.openai.fake import ID
from tests.harness.backends.openai.hostile import ENDLESS, TOO_LARGE, listening
from tests.helpers import generation

NASTY: tuple[Any, ...] = (
    None, True, -1, 2**63, 10**40, 1e308, float("nan"), float("-inf"), "", "x" * 5000, "\ud800", "\x1b[2J\n", [], {},
    [[]], [None], {"a": None}, [True], [-1], [10**9], [0.5], [10] * 5000,
)  # fmt: skip
COMPLETION: dict[str, Any] = {
    "model": ID,
    "choices": [
        {
            "index": 0, "finish_reason": "length", "text": "*+,", "token_ids": [10, 11, 12],
            "prompt_token_ids": [10, 20, 30],
            "logprobs": {"tokens": ["token_id:10"], "top_logprobs": [{"token_id:10": -0.1, "token_id:11": -3.0}]},
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 3},
}  # fmt: skip
MODELS: dict[str, Any] = {"data": [{"id": ID, "max_model_len": 512, "meta": {"n_ctx_train": 512}}]}
VERSION: dict[str, Any] = {"version": "0.33.0"}
SECONDS = 20.0  # of one case, at most


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, part in items for deeper in list_paths(part, (*path, key)))]


def corrupt(value: Any, draw: random.Random) -> Any:
    """Put a nasty value at one place."""
    value, path = copy.deepcopy(value), draw.choice(list_paths(value))
    nasty = draw.choice(NASTY)
    if not path:
        return nasty
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = nasty
    return value


def corrupt_bytes(data: bytes, draw: random.Random) -> bytes:
    """Cut, repeat, or nest the bytes of a reply, or give them another encoding."""
    cut = draw.randrange(len(data))
    return draw.choice(
        [data[:cut], data[:cut] + bytes([draw.randrange(256)]) + data[cut:], data * 2, b"[" * 50_000,
         b'{"a":' * 50_000, data.decode("utf-8", "replace").encode("utf-16"), b"", b"9" * 6000]
    )  # fmt: skip


def mock(draw: random.Random) -> httpx.MockTransport:
    """Answer with one corrupted reply out of three."""
    replies = {"/v1/completions": COMPLETION, "/v1/models": MODELS, "/version": VERSION}
    target, in_bytes = draw.choice([*replies, "/v1/completions"]), draw.random() < 0.25
    bodies = {path: json.dumps(corrupt(r, draw) if path == target else r).encode() for path, r in replies.items()}
    if in_bytes:
        bodies[target] = corrupt_bytes(json.dumps(replies[target]).encode(), draw)
    charset = draw.choice(["application/json", "text/html; charset=utf-7", "application/json; charset=nope", ""])
    status = draw.choice([200, 200, 200, 400, 500, 204])

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        return httpx.Response(
            status if path == target else 200, content=bodies.get(path, b""), headers={"Content-Type": charset}
        )

    return httpx.MockTransport(answer)


def generate(spec: ServerSpec, transport: httpx.AsyncBaseTransport | None) -> list[Generation]:
    """Three tokens after one prompt."""
    texts: list[Generation] = []
    request = generation([Prompt("t/0", 0, (10, 20, 30))], Greedy(), seed=0, max_new_tokens=3, batch_size=1)
    ServerBackend(spec, transport=transport).generate(request, texts.extend)
    return texts


def try_server(number: int, draw: random.Random) -> None:
    """Ask one hostile server for texts: right texts or an error of one line, in time."""
    sick = {**ENDLESS, **TOO_LARGE}
    options: dict[str, Any] = {"path": ID, "tokenizer": f"bundled:{ID}", "probe": False, "retries": 0, "timeout": 0.3}
    start, texts = time.monotonic(), list[Generation]()
    try:
        if number % 10 == 0:
            with listening(sick[draw.choice(list(sick))]) as address:
                spec = ServerSpec(base_url=address, **options)
                spec.describe_service()
                texts = generate(spec, None)
        else:
            texts = generate(ServerSpec(base_url="http://fake", **options), mock(draw))
    except HarnessError as err:
        check_line(err)
    for text in texts:
        text.text.encode()
        assert len(text.token_ids) <= 3, f"{len(text.token_ids)} tokens"
        assert all(type(i) is int and i >= 0 for i in text.token_ids), f"wrong tokens {text.token_ids}"
    assert time.monotonic() - start < SECONDS, "it took too long"


def hostile_servers(world: World, count: int, draw: random.Random) -> Tally:
    """Try servers that send wrong values or bytes, or never end a reply."""
    tally = Tally("hostile model servers")
    client_module.FIRST_PAUSE = 0.01
    client_module.MAX_REPLY, session_module._PLAN_TIMEOUT = 1 << 20, 0.3
    for number in range(count):
        with tally.one(f"case {number}"):
            try_server(number, draw)
    return tally
