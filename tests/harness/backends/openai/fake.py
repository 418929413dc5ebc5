"""A server on the bundled docs-s with the semantics of vLLM, and one fault at a time that a test switches on."""

import asyncio
import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from openended.harness.backends.openai.backend import ServerBackend
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.models import LanguageModel, ModelSpec, load_model

ID = "docs-s"
KEY = "fake-key-4711abcdEFGH0815"
_models: dict[str, LanguageModel] = {}
_loading = threading.Lock()  # transformers cannot be imported by two threads at once
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_logits: dict[tuple[int, ...], np.ndarray] = {}


def model() -> LanguageModel:
    with _loading:
        if ID not in _models:
            _models[ID] = load_model(ModelSpec(path=f"bundled:{ID}"))
        return _models[ID]


@dataclasses.dataclass
class Fault:
    """What this server does otherwise than asked; nothing by default."""

    top_k: int = 0
    top_p: float = 1.0
    temperature: float = 1.0
    min_p: float = 0.0
    penalty: float = 1.0
    no_seed: bool = False
    bos: bool = False
    no_echo: bool = False
    processed: bool = False  # log-probabilities after temperature
    one_more: bool = False
    cut_prompt: int = 0
    other_id: bool = False
    no_ids: bool = False
    no_copies: bool = False
    most_copies: int = 512  # 400 above it, as llama.cpp answers above its number of slots
    ignores: str = ""  # a parameter of requests
    fail: int = 0  # so many requests answer 500
    busy: int = 0  # so many answer 429
    retry_after: str = "0"
    hang: int = 0  # so many never answer
    dies_after: int = -1  # answers so many completions, then none
    other_text: bool = False  # the text is not that of its ids
    no_list: bool = False  # a page in place of the list of models
    refuses: bool = False  # 400, whose text names the key


class Fake:
    """The application; counts what it was asked for."""

    def __init__(self, fault: Fault | None = None, *, context: int = 512, version: str = "0.33.0") -> None:
        self.fault, self.context, self.told = fault or Fault(), context, version
        self.bodies: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.answered = 0
        self.noise = 0
        self.stop: Callable[[], None] = lambda: None
        self._verified: dict[Any, tuple[np.ndarray, np.ndarray, np.ndarray | None]] = {}
        routes = [
            Route("/v1/models", self.models),
            Route("/version", self.version),
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/chat/completions", self.completions, methods=["POST"]),
        ]
        self.app = Starlette(routes=routes)

    async def models(self, request: Request) -> Response:
        if self.fault.no_list:
            return PlainTextResponse("<html>Welcome</html>")
        name = "another-model" if self.fault.other_id else ID
        return JSONResponse({"data": [{"id": name, "max_model_len": self.context, "owned_by": "vllm"}]})

    async def version(self, request: Request) -> Response:
        return JSONResponse({"version": self.told})

    async def completions(self, request: Request) -> Response:
        body, fault = await request.json(), self.fault
        self.bodies.append(body)
        self.keys.add(request.headers.get("authorization", ""))
        if fault.dies_after >= 0 and self.answered >= fault.dies_after:
            self.stop()
            await asyncio.sleep(60)
        if fault.hang > 0:
            fault.hang -= 1
            await asyncio.sleep(60)
        for name, code in (("fail", 500), ("busy", 429)):
            if getattr(fault, name) > 0:
                setattr(fault, name, getattr(fault, name) - 1)
                return PlainTextResponse("overloaded\nmore", code, {"Retry-After": fault.retry_after})
        if body.get("n", 1) > fault.most_copies:
            return JSONResponse({"error": {"message": f"Field 'n': Value must be <= {fault.most_copies}"}}, 400)
        if fault.refuses:
            return JSONResponse({"error": {"message": f"no: {request.headers.get('authorization')}\nmore"}}, 400)
        self.answered += 1
        return JSONResponse(self.reply(body))

    # What the server makes of a request.

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        chat, fault = "messages" in body, self.fault
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        ids = list(model().tokenizer.encode(prompt)) if isinstance(prompt, str) else list(prompt)
        ids = [0, *ids] if fault.bos else ids
        ids = ids[-fault.cut_prompt :] if fault.cut_prompt else ids
        asked = {k: v for k, v in body.items() if k != fault.ignores}
        copies = 1 if fault.no_copies else body.get("n", 1)
        choices = [self.choice(ids, asked, number, chat) for number in range(copies)]
        listed = body.get("prompt_logprobs")
        if listed is not None and not fault.no_echo:
            choices[0]["prompt_logprobs"] = self.prompt_logprobs(ids, listed, asked)
        if body.get("return_token_ids") and not fault.no_ids:
            choices[0]["prompt_token_ids"] = ids
        written = sum(c.pop("count") for c in choices)
        usage = {"prompt_tokens": len(ids), "completion_tokens": written}
        return {"model": ID, "choices": choices, "usage": usage}

    def choice(self, ids: list[int], body: dict[str, Any], number: int, chat: bool) -> dict[str, Any]:
        fault, lm = self.fault, model()
        self.noise += 1
        seed = body.get("seed")
        names = [self.noise] if fault.no_seed or seed is None else [seed, number]
        rng = np.random.default_rng(names)
        made: list[int] = []
        lists: list[dict[str, float]] = []
        most = body["max_tokens"] + fault.one_more
        reason = "length"
        while len(made) < most:
            raw, sampled, below = self.known([*ids, *made], body, len(made))
            token = int(sampled.argmax()) if below is None else int(np.searchsorted(below, rng.random(), side="right"))
            token = min(token, len(raw) - 1)
            if most_listed := body.get("top_logprobs") or body.get("logprobs"):
                shown = sampled if fault.processed else raw
                lists.append(self.listed(log_softmax(shown), most_listed, token))
            made.append(token)
            if token in lm.eos_ids:
                reason = "stop"
                break
        kept = made[:-1] if reason == "stop" else made
        out: dict[str, Any] = {"index": number, "finish_reason": reason, "count": len(made)}
        text = lm.tokenizer.decode(kept) + " and more" * fault.other_text
        out |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        if body.get("return_token_ids") and not fault.no_ids:
            out["token_ids"] = made
        if chat and body.get("logprobs"):
            top = [{"token": k, "logprob": v} for k, v in lists[0].items()]
            out["logprobs"] = {"content": [{"token": f"token_id:{made[0]}", "top_logprobs": top}]}
        elif body.get("logprobs"):
            out["logprobs"] = {"tokens": [f"token_id:{i}" for i in made], "top_logprobs": lists}
        return out

    def known(self, ids, body, step):
        """Logits, those after penalties and temperature, and the CDF that is drawn from; kept for the next draws."""
        early = step < body.get("min_tokens", 0)
        key = (tuple(ids), early, *(body.get(name) for name in _SAMPLING))
        if key not in self._verified:
            if len(self._verified) > 500:
                self._verified.clear()
            raw = logits(ids)
            sampled, q = self.distribution(raw, ids, body, step)
            self._verified[key] = raw, sampled, None if q is None else np.cumsum(q)
        return self._verified[key]

    def distribution(self, raw, seen, body, step):
        """penalties → temperature → min_p → top_k → top_p, as vLLM orders them; None: greedy."""
        fault, z = self.fault, raw.copy()
        penalty = fault.penalty if fault.penalty != 1 else body.get("repetition_penalty", 1.0)
        if penalty != 1:
            at = np.unique(seen)
            z[at] = np.where(z[at] > 0, z[at] / penalty, z[at] * penalty)
        if step < body.get("min_tokens", 0):
            z[list(model().eos_ids)] = -np.inf
        temperature = body.get("temperature", 1.0)
        if temperature == 0:
            return z, None
        z = z / (temperature * fault.temperature)
        heated = z.copy()
        p = np.exp(log_softmax(z))
        min_p = max(body.get("min_p", 0.0), fault.min_p)
        p = np.where(p >= min_p * p.max(), p, 0.0)
        ks = [k for k in (body.get("top_k", 0), fault.top_k) if k > 0]
        if ks:
            p = np.where(p >= np.sort(p)[-min(ks)], p, 0.0)
        top_p = min(body.get("top_p", 1.0), fault.top_p)
        if top_p < 1:
            p = p / p.sum()
            order = np.argsort(-p, kind="stable")
            before = np.cumsum(p[order]) - p[order]
            p[order[before >= top_p]] = 0.0
        return heated, p / p.sum()

    def listed(self, logs: np.ndarray, most: int, token: int) -> dict[str, float]:
        best = np.argsort(-logs, kind="stable")[:most].tolist()
        return {f"token_id:{i}": float(logs[i]) for i in dict.fromkeys([*best, token])}

    def prompt_logprobs(self, ids: list[int], most: int, body: dict[str, Any]) -> list[dict[str, Any] | None]:
        out: list[dict[str, Any] | None] = [None]
        rows = all_logits(ids)
        for at in range(1, len(ids)):
            z = rows[at - 1] / (body["temperature"] or 1.0) if self.fault.processed else rows[at - 1]
            logs = log_softmax(z)
            best = np.argsort(-logs, kind="stable")[:most].tolist()
            one = {str(i): {"logprob": float(logs[i]), "rank": r + 1} for r, i in enumerate(best)}
            rank = int((logs > logs[ids[at]]).sum()) + 1
            out.append({str(ids[at]): {"logprob": float(logs[ids[at]]), "rank": rank}, **one})
        return out


class OtherModel(Fake):
    """Another model under the same name: it reads one more token than it shows."""

    def known(self, ids: list[int], body: dict[str, Any], step: int) -> Any:
        return super().known([77, *ids], body, step)

    def prompt_logprobs(self, ids: list[int], most: int, body: dict[str, Any]) -> list[dict[str, Any] | None]:
        return [None, *super().prompt_logprobs([77, *ids], most, body)[2:]]


def all_logits(ids: list[int]) -> np.ndarray:
    import torch

    with torch.inference_mode():
        return model().model(torch.tensor([ids])).logits[0].double().numpy()


def logits(ids: list[int]) -> np.ndarray:
    """Of the next token; kept, for a probe draws from few prompts many times."""
    key = tuple(ids)
    if key not in _logits:
        if len(_logits) > 4000:
            _logits.clear()
        _logits[key] = all_logits(ids)[-1]
    return _logits[key]


def log_softmax(z: np.ndarray) -> np.ndarray:
    z = z - z.max()
    return z - np.log(np.exp(z).sum())


def within(fake: Fake) -> httpx.ASGITransport:
    """In place of the network: no socket, no thread."""
    return httpx.ASGITransport(app=fake.app)


class QuickServer(uvicorn.Server):
    """Ends as soon as it is told to; uvicorn looks ten times in a second."""

    async def main_loop(self) -> None:
        while not self.should_exit:
            await asyncio.sleep(0.005)


@contextlib.contextmanager
def served(*fakes: Fake) -> Iterator[list[str]]:
    """Serve over loopback; yields the addresses."""
    options = {"host": "127.0.0.1", "port": 0, "log_level": "critical", "timeout_graceful_shutdown": 1}
    servers = [QuickServer(uvicorn.Config(f.app, **options)) for f in fakes]
    for fake, server in zip(fakes, servers, strict=True):
        fake.stop = lambda server=server: vars(server).update(should_exit=True, force_exit=True)
    threads = [threading.Thread(target=s.run, daemon=True) for s in servers]
    for thread in threads:
        thread.start()
    while not all(s.started for s in servers):
        time.sleep(0.01)
    try:
        yield [f"http://127.0.0.1:{s.servers[0].sockets[0].getsockname()[1]}" for s in servers]
    finally:
        for s in servers:
            s.should_exit = s.force_exit = True
        for thread in threads:
            thread.join(5)


def server(fake: Fake | None = None, **options: Any) -> ServerBackend:
    """Return the bundled model behind such a server, which is not probed unless asked."""
    spec = ServerSpec(**{"path": ID, "base_url": "http://fake", "tokenizer": f"bundled:{ID}", "probe": False} | options)
    return ServerBackend(spec, transport=within(fake or Fake()))
