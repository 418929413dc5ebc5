"""KV cache for causal LMs of transformers with exchangeable attention: all rows form one sequence.

To the model a pass is one text of T tokens with positions of their own; what makes rows of it is the attention that we
give it. Everything else in these models treats tokens alike.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS, grouped_mm_experts_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from openended.harness.generation.kv_cache import base
from openended.harness.models import LanguageModel, get_body

Module = Any  # a model of transformers, or a layer of one
NAME = "openended_rows"  # name of our attention and our experts in transformers' registries
_GROUPED = "grouped_mm"
_LAYERS = frozenset({"full_attention", "sliding_attention"})
_OWN_LENGTH = frozenset({"dynamic", "longrope"})  # rotary embeddings that change with the longest row of a batch
_now: ContextVar[tuple[base.KeyValues, base.ForwardPass]] = ContextVar("_now")


def takes_ragged_rows(model: Module) -> bool:
    """Return whether rows of different lengths may share a pass."""
    config = model.config.get_text_config(decoder=True)
    rope = getattr(config, "rope_parameters", None) or {}
    ropes = [rope, *(parameters for parameters in rope.values() if isinstance(parameters, dict))]
    return (
        bool(getattr(model, "_supports_attention_backend", False))
        and set(getattr(config, "layer_types", None) or ()) <= _LAYERS
        and not any(parameters.get("rope_type") in _OWN_LENGTH for parameters in ropes)
        and not getattr(config, "alibi", False)
        and not model.config.is_encoder_decoder
    )


class GeneralRunner(base.CacheRunner):
    """Runs any model of transformers with our attention, on rows of any lengths."""

    def __init__(self, lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> None:
        super().__init__(lm, rows)
        layers = lm.model.config.get_text_config(decoder=True).num_hidden_layers
        self.keys = base.KeyValues(layers, rows, length, padded=lm.device.type != "cpu", once=once)
        self._body = get_body(lm.model)

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], *, every: bool = True) -> list[Tensor]:
        states: dict[int, Tensor] = {}
        for part in base.split_prompts(prompts, self._device.type):
            sizes = [len(prompts[i]) for i in part]
            full = self._round_up_count(sum(sizes))
            batch = base.plan_prompt_pass([rows[i] for i in part], [prompts[i] for i in part], full, self._device)
            hidden = self._run(batch)
            hidden = hidden[: batch.size] if every else hidden[batch.last().to(hidden.device)]
            states.update(zip(part, torch.split(hidden, sizes if every else [1] * len(part)), strict=True))
        self.lengths[list(rows)] = [len(p) for p in prompts]
        return [states[i] for i in range(len(prompts))]

    def extend(self, ids: Tensor, rows: Sequence[int]) -> Tensor:
        index = np.asarray(rows)
        full = self._round_up_count(len(rows))
        hidden = self._run(base.plan_step_pass(rows, ids, self.lengths[index], full))[: len(rows)]
        self.lengths[index] += 1
        return hidden

    def _copy_rows(self, source: list[int], target: list[int], since: int) -> None:
        self.keys.copy(source, target, since, int(self.lengths[target].max()))

    def _run(self, batch: base.ForwardPass) -> Tensor:
        """Return the last hidden states of a pass with its filling, (T, d)."""
        with torch.inference_mode(), _install_attention(self._lm.model, self.keys, batch):
            out = self._body(input_ids=batch.ids[None], position_ids=batch.positions[None], use_cache=False)
            hidden: Tensor = out.last_hidden_state[0]
            return hidden


@contextmanager
def _install_attention(model: Module, keys: base.KeyValues, batch: base.ForwardPass) -> Iterator[None]:
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
    missing = np.where(counts > 0, np.maximum(-(-counts // base.TILE) * base.TILE, base.FLOOR) - counts, 0)
    total = int(missing.sum())
    missing[counts.argmax()] += next(base.TILE * j for j in range(each) if (total + base.TILE * j) % each == 0)
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
    module: Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, *,
    scaling: float | None = None, sliding_window: int | None = None, **options: object,
) -> tuple[Tensor, None]:  # fmt: skip
    """Attention in transformers' form: query (1, H, T, s), key and value (1, K, T, s) → (1, T, H, s).

    No mask is made for attention that transformers does not know.
    """
    del attention_mask
    keys, batch = _now.get()
    if options.get("softcap") is not None or options.get("s_aux") is not None:
        raise NotImplementedError("attention with a soft cap or sinks")

    def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        if q.shape[2] == 1 and not keys.padded:
            return base.attend_one_token(q, k, v, mask, scaling)
        out: Tensor = sdpa_attention_forward(module, q, k, v, mask, scaling=scaling)[0]
        return out.transpose(1, 2)

    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    with _limit_to_one_thread(not keys.padded and not batch.steps):
        attended = keys.attend(module.layer_idx, q, k, v, batch, kernel, window=sliding_window)
    return attended.view(1, len(q), q.shape[1], -1), None
