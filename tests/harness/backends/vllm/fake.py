"""A stand-in for the package `vllm`: a small engine that schedules as badly as it may, and calls the real adapters."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, make_dataclass
from enum import Enum, auto
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from openended.harness.models.transformers import LanguageModel
from tests.lazy import torch

ADAPTER = "openended.harness.backends.vllm._adapter"


class MoveDirectionality(Enum):
    UNIDIRECTIONAL = auto()
    SWAP = auto()


@dataclass
class BatchUpdate:
    """What changed in the batch: an index that is filled again is not among the removed ones."""

    batch_size: int
    removed: list[int]
    added: list[tuple[int, Any, list[int], list[int]]]
    moved: list[tuple[int, int, MoveDirectionality]]


def process_dict_updates(entries: dict[int, Any], update: BatchUpdate | None, begin: Any) -> None:
    """Follow the changes: added rows first, then those that go, then those that move."""
    for index, params, prompt, output in update.added if update else ():
        entries[index] = begin(params, prompt, output)
    for index in update.removed if update else ():
        entries.pop(index, None)
    for a, b, direction in update.moved if update else ():
        first, second = entries.pop(a, None), entries.pop(b, None)
        entries |= {b: first} | ({a: second} if direction is MoveDirectionality.SWAP else {})
    for index in [index for index, entry in entries.items() if entry is None]:
        del entries[index]


class LogitsProcessor:
    """Base of logits processors."""

    def __init__(self, *_: Any) -> None:
        pass


@dataclass
class SamplingParams:
    temperature: float = 1.0
    max_tokens: int = 16
    stop_token_ids: list[int] = field(default_factory=list)
    ignore_eos: bool = False
    detokenize: bool = True
    prompt_logprobs: int | None = None
    extra_args: dict[str, Any] | None = None


OPTIONS = (
    "model", "revision", "skip_tokenizer_init", "dtype", "quantization", "tensor_parallel_size",
    "gpu_memory_utilization", "enforce_eager", "generation_config", "trust_remote_code", "load_format",
    "logits_processors", "worker_extension_cls", "async_scheduling", "disable_log_stats", "enable_prefix_caching",
    "use_tqdm_on_load", "enable_sleep_mode", "block_size", "max_model_len",
)  # fmt: skip
EngineArgs: Any = make_dataclass("EngineArgs", [*((n, Any, None) for n in OPTIONS), ("max_num_seqs", int, 4)])


@dataclass
class Running:
    """A request in the engine."""

    name: str
    prompt: list[int]
    params: Any
    output: list[int] = field(default_factory=list)


def compute_logits(lm: LanguageModel, ids: list[int]) -> torch.Tensor:
    """Raw logits after each of these tokens, (t, V)."""
    with torch.no_grad():
        return lm.model(torch.tensor([ids])).logits[0].float()


class LLMEngine:
    """Preempts, moves, swaps and splits prompts at random; the worker is this object too."""

    lm: LanguageModel
    fails_at: int = -1
    sleeping: list[str]

    def __init__(self, args: EngineArgs) -> None:
        self.args, self.draw = args, random.Random(0)
        self.waiting: list[Running] = []
        self.batch: list[Running] = []
        self.steps = 0
        self.model_config = SimpleNamespace(get_vocab_size=lambda: self.lm.vocab_size, max_model_len=args.max_model_len)
        self.engine_core = SimpleNamespace(shutdown=lambda: self.sleeping.append("shutdown"))
        self.processor: Any = LogitsProcessor()
        for path in args.logits_processors:
            module, _, name = path.partition(":")
            self.processor = getattr(importlib.import_module(module), name)(None, torch.device("cpu"), False)
            assert not self.processor.is_argmax_invariant(), "vLLM would skip it for greedy requests"
        module, _, name = args.worker_extension_cls.rpartition(".")
        backend = SimpleNamespace(get_name=lambda: "FAKE_ATTN")
        self.worker = getattr(importlib.import_module(module), name)()
        self.worker.model_runner = SimpleNamespace(
            input_batch=SimpleNamespace(logitsprocs=SimpleNamespace(all=[LogitsProcessor(), self.processor])),
            attn_groups=[[SimpleNamespace(backend=backend)]],
        )

    @classmethod
    def from_engine_args(cls, args: EngineArgs) -> LLMEngine:
        return cls(args)

    def add_request(self, name: str, prompt: dict[str, list[int]], params: SamplingParams) -> str:
        assert prompt["prompt_token_ids"]
        self.waiting.append(Running(name, prompt["prompt_token_ids"], params))
        return name

    def abort_request(self, names: list[str]) -> None:
        for queue in (self.waiting, self.batch):
            queue[:] = [r for r in queue if r.name not in names]

    def collective_rpc(self, method: str, args: tuple[Any, ...] = ()) -> list[Any]:
        return [getattr(self.worker, method)(*args)]

    def sleep(self, level: int) -> None:
        self.sleeping.append(f"sleep {level}")

    def wake_up(self) -> None:
        self.sleeping.append("wake")

    def step(self) -> list[Any]:
        self.steps += 1
        if self.steps == self.fails_at:
            raise RuntimeError("CPU Generator does not use offset\nsecond line")
        self.processor.update_state(self._schedule())
        rows = [compute_logits(self.lm, [*r.prompt, *r.output])[-1] for r in self.batch]
        token = self.processor.apply(torch.stack(rows)).argmax(-1).tolist()
        finished = []
        for request, chosen in zip(self.batch, token, strict=True):
            if not request.output and len(request.prompt) > 1 and self.draw.random() < 0.3:
                continue  # a part of a long prompt: what was sampled is thrown away
            request.output.append(chosen)
            stopped = chosen in request.params.stop_token_ids
            if stopped or len(request.output) == request.params.max_tokens:
                finished.append(self._finish(request, "stop" if stopped else "length"))
        return finished

    def _schedule(self) -> BatchUpdate | None:
        """Take finished and some other rows out, fill the batch, then condense and shuffle it."""
        table: dict[int, Running] = dict(enumerate(self.batch_before))
        removed = [i for i, r in table.items() if r not in self.batch]
        for i, request in list(table.items()):
            if i not in removed and self.draw.random() < 0.1:  # preempted
                removed.append(i)
                self.batch.remove(request)
                self.waiting.insert(0, request)
        for i in removed:
            del table[i]
        added = []
        free = [i for i in range(self.args.max_num_seqs) if i not in table]
        self.draw.shuffle(free)
        while self.waiting and free:
            request, index = self.waiting.pop(0), free.pop()
            table[index] = request
            added.append((index, request.params, request.prompt, request.output))
        moved = []
        while set(table) != set(range(len(table))):
            source, target = max(table), min(set(range(len(table))) - set(table))
            table[target] = table.pop(source)
            moved.append((source, target, MoveDirectionality.UNIDIRECTIONAL))
        if len(table) > 1 and self.draw.random() < 0.5:
            a, b = self.draw.sample(sorted(table), 2)
            table[a], table[b] = table[b], table[a]
            moved.append((a, b, MoveDirectionality.SWAP))
        removed = [i for i in removed if i not in [index for index, *_ in added]]
        self.batch = [table[i] for i in range(len(table))]
        self.batch_before = list(self.batch)
        return BatchUpdate(len(table), removed, added, moved) if removed or added or moved else None

    batch_before: list[Running] = []

    def _finish(self, request: Running, reason: str) -> Any:
        self.batch = [r for r in self.batch if r is not request]
        listed: list[Any] | None = None
        if request.params.prompt_logprobs is not None:
            scores = torch.log_softmax(compute_logits(self.lm, request.prompt), -1)
            pairs = zip(request.prompt[1:], scores, strict=False)
            listed = [None, *({t: SimpleNamespace(logprob=float(row[t]))} for t, row in pairs)]
        made = SimpleNamespace(token_ids=list(request.output), finish_reason=reason)
        return SimpleNamespace(finished=True, request_id=request.name, outputs=[made], prompt_logprobs=listed)


@contextmanager
def fake_vllm(lm: LanguageModel, *, platform: str = "cpu", fails_at: int = -1) -> Iterator[type[LLMEngine]]:
    """Put the stand-in in the place of `vllm`, with a model."""
    engine: Any = type("LLMEngine", (LLMEngine,), {"lm": lm, "fails_at": fails_at, "sleeping": [], "batch_before": []})
    current = SimpleNamespace(device_type=platform, is_sleep_mode_available=lambda: True)
    parts: dict[str, dict[str, Any]] = {
        "vllm": {
            "EngineArgs": EngineArgs, "LLMEngine": engine, "SamplingParams": SamplingParams,
        },
        "vllm.platforms": {"current_platform": current},
        "vllm.v1": {},
        "vllm.v1.sample": {},
        "vllm.v1.sample.logits_processor": {
            "BatchUpdate": BatchUpdate, "LogitsProcessor": LogitsProcessor,
            "process_dict_updates": process_dict_updates,
        },
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, members in parts.items():
            module: Any = ModuleType(name)
            module.__dict__.update(members)
            module.__spec__ = SimpleNamespace(name=name)
            patch.setitem(sys.modules, name, module)
        patch.delitem(sys.modules, ADAPTER, raising=False)
        yield engine
    sys.modules.pop(ADAPTER, None)
