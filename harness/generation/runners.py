"""Runners of a model, and which of them it gets: the first kind whose steps agree with the model's full forward pass.

A model reads a few tokens step by step, and its logits are compared with those of one pass over all tokens. A family
with exchangeable attention runs on rows of any lengths, as one sequence of T tokens with positions of their own: what
makes rows of it is the attention that we give it, for everything else in these models treats tokens alike. Others run
with rows of one length, on the cache classes of transformers. A family with another kind of state (recurrent and hybrid
models, custom caches) reads the whole text again at each step: slower, with the same result. A family that agrees in no
way is refused. docs/families.md lists the result for all families in transformers.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS, grouped_mm_experts_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from openended.harness.core import DataError, copy_to_device, shorten_error
from openended.harness.generation.kv_cache import (
    FLOOR,
    TILE,
    CacheRunner,
    ForwardPass,
    KeyValues,
    attend_one_token,
    split_prompts,
)
from openended.harness.models import LanguageModel, check_device, check_logits, is_batch_invariant, is_out_of_memory

log = logging.getLogger(__name__)

Option = Any  # of an attention
Module = Any  # a model of transformers, or a layer of one
NAME = "openended_rows"  # name of our attention and our experts in transformers' registries
_GROUPED = "grouped_mm"
_ATTENTION_TYPES = frozenset({"full_attention", "sliding_attention"})
_OWN_LENGTH = frozenset({"dynamic", "longrope"})  # rotary embeddings that change with the longest row of a batch
_now: ContextVar[tuple[KeyValues, ForwardPass]] = ContextVar("_now")


def takes_ragged_rows(model: Module) -> bool:
    """Return whether rows of different lengths may share a pass."""
    config = model.config.get_text_config(decoder=True)
    rope = getattr(config, "rope_parameters", None) or {}
    ropes = [rope, *(parameters for parameters in rope.values() if isinstance(parameters, dict))]
    return (
        bool(getattr(model, "_supports_attention_backend", False))
        and set(getattr(config, "layer_types", None) or ()) <= _ATTENTION_TYPES
        and not any(parameters.get("rope_type") in _OWN_LENGTH for parameters in ropes)
        and not getattr(config, "alibi", False)
        and not model.config.is_encoder_decoder
    )


class GeneralRunner(CacheRunner):
    """Runs any model of transformers with our attention, on rows of any lengths."""

    def __init__(self, lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> None:
        super().__init__(lm, rows, length, once=once)
        layers = lm.model.config.get_text_config(decoder=True).num_hidden_layers
        self.keys = KeyValues(layers, rows, length, padded=lm.device.type != "cpu", once=once)

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], *, every: bool = True) -> list[Tensor]:
        states: dict[int, Tensor] = {}
        for part in split_prompts(prompts, self._device.type):
            lengths = np.array([len(prompts[i]) for i in part], dtype=np.int64)
            size = int(lengths.sum())
            tokens = np.zeros((2, self._round_up_count(size)), dtype=np.int64)  # ids and positions, filled up
            tokens[0, :size] = np.concatenate([np.asarray(prompts[i], dtype=np.int64) for i in part])
            tokens[1, :size] = np.concatenate([np.arange(length) for length in lengths])
            ids, at = copy_to_device(tokens, self._device)
            read = slice(size) if every else copy_to_device(lengths.cumsum() - 1, self._device)
            hidden = self._run(ForwardPass(ids, at, [rows[i] for i in part], lengths, steps=False))[read]
            states.update(zip(part, torch.split(hidden, lengths.tolist() if every else 1), strict=True))
        self.lengths[list(rows)] = [len(p) for p in prompts]
        return [states[i] for i in range(len(prompts))]

    def extend(self, ids: Tensor, rows: Sequence[int]) -> Tensor:
        index, n = np.asarray(rows), len(rows)
        missing = self._round_up_count(n) - n
        at = copy_to_device(np.concatenate([self.lengths[index], np.zeros(missing, dtype=np.int64)]), ids.device)
        if missing:
            ids = torch.cat([ids, ids[:1].expand(missing)])
        hidden = self._run(ForwardPass(ids, at, list(rows), self.lengths[index] + 1, steps=True))[:n]
        self.lengths[index] += 1
        return hidden

    def _copy_rows(self, source: list[int], target: list[int], since: int) -> None:
        self.keys.copy(source, target, since, int(self.lengths[target].max()))

    def _run(self, batch: ForwardPass) -> Tensor:
        """Return the last hidden states of a pass with its filling, (T, d)."""
        with torch.inference_mode(), _install_attention(self._lm.model, self.keys, batch):
            out = self._body(input_ids=batch.ids[None], position_ids=batch.positions[None], use_cache=False)
            hidden: Tensor = out.last_hidden_state[0]
            return hidden


@contextmanager
def _install_attention(model: Module, keys: KeyValues, batch: ForwardPass) -> Iterator[None]:
    """Replace the attention and the experts of a model for one pass."""
    ALL_ATTENTION_FUNCTIONS.register(NAME, _attend)
    ALL_EXPERTS_FUNCTIONS.register(NAME, _run_experts)
    config = model.config
    before = config._attn_implementation, config._experts_implementation
    token = _now.set((keys, batch))
    config._attn_implementation = NAME
    if before[1] == _GROUPED and not keys.padded:
        config._experts_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation, config._experts_implementation = before
        _now.reset(token)


@contextmanager
def _limit_to_one_thread(needed: bool) -> Iterator[None]:
    """Limit attention to one thread: small products depend on memory addresses, which differ between threads."""
    threads = torch.get_num_threads() if needed else 1
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _run_experts(module: Module, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Run transformers' experts, each padded with tokens of weight 0 to a row count that the BLAS treats uniformly."""
    each = chosen.shape[1]
    counts = np.bincount(chosen.flatten().numpy(), minlength=module.num_experts)
    missing = np.where(counts > 0, np.maximum(-(-counts // TILE) * TILE, FLOOR) - counts, 0)
    total = int(missing.sum())
    missing[counts.argmax()] += next(TILE * j for j in range(each) if (total + TILE * j) % each == 0)
    filling = np.repeat(np.arange(len(counts)), missing)
    more = torch.from_numpy(filling.reshape(-1, each)).to(chosen.dtype)
    output: Tensor = grouped_mm_experts_forward(
        module,
        torch.cat([hidden, hidden[:1].expand(len(more), -1)]),
        torch.cat([chosen, more]),
        torch.cat([weights, weights.new_zeros(more.shape)]),
    )
    return output[: len(hidden)]


def _attend(
    module: Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Option
) -> tuple[Tensor, None]:
    """Attention in transformers' form: query (1, H, T, s), key and value (1, K, T, s) → (1, T, H, s).

    No mask is made for attention that transformers does not know.
    """
    del attention_mask
    (keys, batch), scaling = _now.get(), options.get("scaling")
    if options.get("softcap") is not None or options.get("s_aux") is not None:
        raise NotImplementedError("attention with a soft cap or sinks")

    def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        if q.shape[2] == 1 and not keys.padded:
            return attend_one_token(q, k, v, mask, scaling)
        out: Tensor = sdpa_attention_forward(module, q, k, v, mask, scaling=scaling)[0]
        return out.transpose(1, 2)

    new = [x[0].transpose(0, 1) for x in (query, key, value)]
    with _limit_to_one_thread(not keys.padded and not batch.steps):
        attended = keys.attend(module.layer_idx, new, batch, kernel, options.get("sliding_window"))
    return attended.view(1, *new[0].shape[:2], -1), None


class SameLengthRunner(CacheRunner):
    """All rows have one length, and those in use are the first ones; they share a cache of transformers."""

    ragged = False

    def __init__(self, lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> None:
        super().__init__(lm, rows, length, once=once)
        self._once = once
        self._past: dict[int, Any] = {}
        """What each row holds: the cache of the last pass that it was in, and its index there."""

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], *, every: bool = True) -> list[Tensor]:
        del every
        self.lengths[list(rows)] = 0
        return self._read(rows, [copy_to_device(prompt, self._device, np.int64) for prompt in prompts])

    def extend(self, ids: Tensor, rows: Sequence[int]) -> Tensor:
        states = torch.cat(self._read(rows, list(ids[:, None])))
        if not self.ragged:  # all rows in use are extended together: the others' texts have ended
            self._past = {row: self._past[row] for row in rows}
        return states

    def _read(self, rows: Sequence[int], new: Sequence[Tensor]) -> list[Tensor]:
        """Run new tokens (t,) of each row; returns their last hidden states (t, d)."""
        groups: dict[tuple[int, int], list[int]] = {}
        for i, row in enumerate(rows):
            groups.setdefault((int(self.lengths[row]), len(new[i])), []).append(i)
        states: dict[int, Tensor] = {}
        for (start, length), part in sorted(groups.items(), reverse=True):
            some = [rows[i] for i in part]
            missing = self._round_up_count(len(part)) - len(part)  # kernels for few rows round otherwise
            ids = torch.stack([new[i] for i in part + part[:1] * missing])
            with torch.inference_mode():
                states.update(zip(part, self._run(some, ids, start), strict=False))
            self.lengths[some] = start + length
        return [states[i] for i in range(len(rows))]

    def _run(self, rows: list[int], ids: Tensor, start: int) -> Tensor:
        """Return the last hidden states (n, t, d) of ids (n, t), filled up, after `start` positions of the rows."""
        cache = None if self._once else self._find_cache(rows, len(ids), start)
        at = torch.arange(start, start + ids.shape[1], device=ids.device)
        positions = {"cache_position": at, "position_ids": at.expand(len(ids), -1)}
        out = self._body(input_ids=ids, past_key_values=cache, use_cache=cache is not None, **positions)
        self._past.update({row: (cache, i) for i, row in enumerate(rows)})
        hidden: Tensor = out.last_hidden_state
        return hidden

    def _find_cache(self, rows: list[int], count: int, length: int) -> DynamicCache:
        """Return a cache with so many positions of the rows, filled up: that of their last pass if it is the same."""
        new = DynamicCache()
        if not length:
            return new
        pasts = [self._past[row] for row in rows]
        last: DynamicCache = pasts[0][0]
        is_same = pasts == [(last, i) for i in range(len(rows))] and last.get_seq_length() == length
        if is_same and len(last.layers[0].keys) == count:
            return last
        pasts += pasts[:1] * (count - len(rows))
        for layer in range(len(last.layers)):
            cached = [(cache.layers[layer], i) for cache, i in pasts]
            keys = torch.stack([each.keys[i, :, :length] for each, i in cached])
            new.update(keys, torch.stack([each.values[i, :, :length] for each, i in cached]), layer)
        return new

    def _copy_rows(self, source: list[int], target: list[int], since: int) -> None:
        del since
        self._past.update(zip(target, [self._past[row] for row in source], strict=True))


class RereadRunner(SameLengthRunner):
    """Reads the whole text again at each step; what a row holds are its token ids."""

    ragged = True

    def _run(self, rows: list[int], ids: Tensor, start: int) -> Tensor:
        if start:
            past = torch.stack([self._past[row][:start] for row in rows])
            ids = torch.cat([torch.cat([past, past[:1].expand(len(ids) - len(past), -1)]), ids], 1)
        self._past.update(zip(rows, ids, strict=False))
        hidden: Tensor = self._body(input_ids=ids, use_cache=False)[0]
        return hidden[:, start:]


RUNNERS: dict[str, type[CacheRunner]] = {"fixed": GeneralRunner, "equal": SameLengthRunner, "reread": RereadRunner}
"""Kind → runner, in the order in which they are tried."""
RUNNER_KINDS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""Model of transformers → the kind of its runner, once it was found."""
# Largest relative difference between steps and full pass (`measure_difference`); float noise is far smaller.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.2, "float16": 0.1}
# Tokens of the check: _FIRST are read at once, then _STEPS one by one.
_FIRST, _STEPS = 6, 4
CHECKED = 16  # room for the check of a model before it is first run
TRIED = (3, 40)  # rows with which the logits of one alone are compared


def make_runner(lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> CacheRunner:
    """Make a runner for `rows` sequences of at most `length` positions; with `once` they are never extended."""
    return RUNNERS[choose_runner_kind(lm)](lm, rows, length, once=once)


def choose_runner_kind(lm: LanguageModel) -> str:
    """Return the first kind of runner whose steps agree with the model's full pass; the answer is cached."""
    if lm.model in RUNNER_KINDS:
        return RUNNER_KINDS[lm.model]
    family = str(lm.model.config.model_type)
    ids, full_logits = _run_full_pass(lm)
    reasons = []
    for kind, runner in RUNNERS.items():
        # Recurrent and hybrid models: their past is more than keys and values by position.
        if kind != "reread" and getattr(lm.model, "_is_stateful", False):
            continue
        if kind == "fixed" and not takes_ragged_rows(lm.model):
            continue
        try:
            difference = measure_difference(lm, runner(lm, 1, CHECKED), ids, full_logits)
        except Exception as err:
            check_device(err)
            if is_out_of_memory(err):
                raise
            log.debug("model %s, %s: %s", lm.spec.title, kind, shorten_error(err))
            reasons.append(shorten_error(err))
            continue
        if difference <= TOLERANCE[lm.spec.dtype]:
            if kind == "reread":
                text = "model %s: the family %s has a cache of its own kind: each step reads the whole text again"
                log.warning(text, lm.spec.title, family)
            RUNNER_KINDS[lm.model] = kind
            return kind
        reasons.append(f"logits of single steps differ from those of one pass by {difference:.2g} of their norm")
    raise DataError(f"model {lm.spec.title}: the family {family} cannot be run from left to right: {reasons[-1]}")


def _run_full_pass(lm: LanguageModel) -> tuple[Tensor, Tensor]:
    """Return test tokens (1, t) and the float32 logits of the model's own forward pass over them (t, V)."""
    size = _FIRST + _STEPS if lm.context_length is None else min(_FIRST + _STEPS, lm.context_length)
    # Distinct tokens across the vocabulary; the first ids are often special tokens.
    ids = (torch.arange(1, size + 1) * max(1, lm.vocab_size // (size + 2)) + 1).clamp(max=lm.vocab_size - 1)
    ids = ids[None].to(lm.device)
    with torch.inference_mode():
        return ids, check_logits(lm.model(input_ids=ids, use_cache=False).logits[0].float(), lm)


def measure_difference(lm: LanguageModel, runner: CacheRunner, ids: Tensor, full_logits: Tensor) -> float:
    """Return the distance between logits of single steps and of one pass, relative to the norm of the centered logits.

    Float32 uses the maximum over positions. In half precision, rounding can flip a near-tie (for example of a router)
    at a single position, so the median is used.
    """
    first = min(_FIRST, ids.shape[1] - 1)
    logits = [runner.logits(runner.start([0], [ids[0, :first].tolist()])[0])]
    logits += [runner.logits(runner.extend(ids[0, t : t + 1], [0])) for t in range(first, ids.shape[1])]
    step_logits = torch.cat(logits).float()
    norms = (full_logits - full_logits.mean(-1, keepdim=True)).norm(dim=-1)
    differences = (step_logits - full_logits).norm(dim=-1) / norms.clamp_min(1e-12)
    value = differences.max() if lm.spec.dtype == "float32" else differences.median()
    return float(value) if bool(torch.isfinite(differences).all()) else float("inf")


def depends_on_batch(lm: LanguageModel) -> bool:
    """Return whether a text can depend on the other texts of its batch.

    On an accelerator always: attention is padded, and its kernels change with the number of rows. On a CPU never where
    all layers are packed; elsewhere by a trial, because kernels differ between processors.
    """
    if lm.device.type != "cpu" or is_batch_invariant(lm):
        return lm.device.type != "cpu"
    prompts = (torch.arange(max(TRIED) * 5) * 7 % lm.vocab_size).view(-1, 5)

    def compute_first_row(count: int) -> Tensor:
        """Return the logits of the first row after its prompt and after one more token."""
        with torch.inference_mode():
            runner = make_runner(lm, count, CHECKED)
            hidden = torch.stack([states[-1] for states in runner.start(range(count), prompts[:count].tolist())])
            more = runner.extend(prompts[:count, 0], range(count))
            return torch.cat([runner.logits(hidden)[:1], runner.logits(more)[:1]])

    alone = compute_first_row(1)
    return not all(torch.equal(compute_first_row(count), alone) for count in TRIED)
