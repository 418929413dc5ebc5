"""Runners for models that take no rows of different lengths.

One runs on the cache classes of transformers, and one reads the whole text again at each step.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from openended.harness.core import copy_to_device
from openended.harness.generation.kv_cache.base import CacheRunner
from openended.harness.models import LanguageModel, get_body


class RereadRunner(CacheRunner):
    """Reads the whole text again at each step; keeps the token ids and nothing else."""

    def __init__(self, lm: LanguageModel, rows: int, length: int) -> None:
        super().__init__(lm, rows)
        self._body = get_body(lm.model)
        self._ids = torch.zeros((rows, length), dtype=torch.int64, device=self._device)

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], *, every: bool = True) -> list[Tensor]:
        del every
        for row, prompt in zip(rows, prompts, strict=True):
            self._ids[row, : len(prompt)] = copy_to_device(prompt, self._device, np.int64)
            self.lengths[row] = len(prompt)
        return self._read(rows)

    def extend(self, ids: Tensor, rows: Sequence[int]) -> Tensor:
        index = np.asarray(rows)
        self._ids[copy_to_device(index, self._device), copy_to_device(self.lengths[index], self._device)] = ids
        self.lengths[index] += 1
        return torch.stack([hidden[-1] for hidden in self._read(rows)])

    def _read(self, rows: Sequence[int]) -> list[Tensor]:
        """Last hidden states of all positions of each row; rows of one length go through together."""
        states: dict[int, Tensor] = {}
        for length in sorted({int(self.lengths[row]) for row in rows}):
            part = [row for row in rows if self.lengths[row] == length]
            missing = self._round_up_count(len(part)) - len(part)
            filled = part + part[:1] * missing  # kernels for few rows round otherwise
            ids = self._ids[copy_to_device(filled, self._device), :length]
            with torch.inference_mode():
                states.update(zip(part, self._body(input_ids=ids, use_cache=False)[0], strict=False))
        return [states[row] for row in rows]

    def _copy_rows(self, source: list[int], target: list[int], since: int) -> None:
        del since
        to, origin = (copy_to_device(rows, self._device) for rows in (target, source))
        self._ids[to] = self._ids[origin]


class SameLengthRunner(CacheRunner):
    """All rows have one length, and those in use are the first ones."""

    ragged = False

    def __init__(self, lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> None:
        super().__init__(lm, rows)
        self._once, self._room, self._body = once, length, get_body(lm.model)
        self._cache: Any = None

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], *, every: bool = True) -> list[Tensor]:
        del every
        states: dict[int, Tensor] = {}
        for length in sorted({len(p) for p in prompts}, reverse=True):
            part = [i for i, p in enumerate(prompts) if len(p) == length]
            if not self._once:
                full = self._round_up_count(len(self.lengths))
                count = self._lm.model.config.get_text_config(decoder=True).num_hidden_layers
                self._cache = Cache(layers=[FixedLayer(full, self._room) for _ in range(count)])
            ids = copy_to_device([tuple(prompts[i]) for i in part], self._device, np.int64)
            states.update(zip(part, self._run(ids, 0).unbind(0), strict=True))
            for layer in self._list_layers():
                layer.move([rows[i] for i in part], list(range(len(part))))
        self.lengths[list(rows)] = [len(p) for p in prompts]
        return [states[i] for i in range(len(prompts))]

    def extend(self, ids: Tensor, rows: Sequence[int]) -> Tensor:
        hidden = self._run(ids[:, None], int(self.lengths[0]))[:, 0]
        self.lengths[: len(rows)] += 1
        return hidden

    def _run(self, ids: Tensor, start: int) -> Tensor:
        """Last hidden states (n, t, d) of ids (n, t) after `start` positions."""
        n, t = ids.shape
        missing = self._round_up_count(n) - n
        if missing:
            ids = torch.cat([ids, ids[:1].expand(missing, t)])
        at = torch.arange(start, start + t, device=ids.device)
        for layer in self._list_layers():
            layer.used = start
        with torch.inference_mode():
            out = self._body(
                input_ids=ids, past_key_values=self._cache, use_cache=self._cache is not None, cache_position=at,
                position_ids=at.expand(len(ids), t),
            )  # fmt: skip
        hidden: Tensor = out.last_hidden_state
        return hidden[:n]

    def _copy_rows(self, source: list[int], target: list[int], since: int) -> None:
        for layer in self._list_layers():
            layer.move(target, source, since)

    def _list_layers(self) -> list[Any]:
        return [] if self._cache is None else list(self._cache.layers)


class FixedLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values in a buffer of the final length."""

    def __init__(self, rows: int, length: int) -> None:
        super().__init__()
        self.used, self._rows, self._length = 0, rows, length

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:  # noqa: ANN401
        if not self.used:
            self.dtype, self.device = key_states.dtype, key_states.device
            self.is_initialized: bool = True
            # Zeros, because unused rows are computed too.
            self.keys, self.values = (
                states.new_zeros((self._rows, states.shape[1], self._length, states.shape[3]))
                for states in (key_states, value_states)
            )
        n, end = len(key_states), self.used + key_states.shape[2]
        self.keys[:n, :, self.used : end] = key_states
        self.values[:n, :, self.used : end] = value_states
        self.used = end
        return self.keys[:n, :, :end], self.values[:n, :, :end]

    def get_seq_length(self) -> int:
        return self.used

    def get_mask_sizes(self, query: Any) -> tuple[int, int]:  # noqa: ANN401 - an int or positions, by version
        return self.used + (query if isinstance(query, int) else query.shape[0]), 0

    def move(self, to: list[int], source: list[int], since: int = 0) -> None:
        with torch.inference_mode():
            target, origin = (copy_to_device(rows, self.device) for rows in (to, source))
            for buffer in (self.keys, self.values):
                buffer[target, :, since : self.used] = buffer[origin, :, since : self.used]
