"""KV cache for batches whose rows have equal length, by transformers' own cache classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.generation.kv_cache.base import TILE, compute_logits, round_up_to_tiles
from openended.harness.generation.kv_cache.general import FLOOR
from openended.harness.models import get_body

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


class SameLengthRunner:
    """See `CacheRunner`; all rows have one length, and those in use are the first ones."""

    ragged = False

    def __init__(self, lm: CausalModel, rows: int, length: int, *, once: bool = False) -> None:
        self._lm, self._once, self._room = lm, once, length
        self._model, self._body, self._head = lm.model, get_body(lm.model), lm.model.get_output_embeddings()
        self._steady = lm.device.type == "cpu"
        self.lengths = np.zeros(rows, dtype=np.int64)
        self._cache: Any = None

    def _round_up_count(self, rows: int) -> int:
        """Return the number of rows to run for a number of requested rows."""
        return max(round_up_to_tiles(rows, TILE), FLOOR) if self._steady else rows

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], *, every: bool = True) -> list[Tensor]:
        """See `CacheRunner`; the prompts that share a length go through together."""
        import torch

        del every
        states: dict[int, Tensor] = {}
        for length in sorted({len(p) for p in prompts}, reverse=True):
            part = [i for i, p in enumerate(prompts) if len(p) == length]
            if not self._once:
                full = self._round_up_count(len(self.lengths))
                self._cache = make_fixed_cache(self._model.config, full, self._room)
            ids = torch.tensor([tuple(prompts[i]) for i in part], dtype=torch.int64, device=self._lm.device)
            states.update(zip(part, self._run(ids, 0).unbind(0), strict=True))
            for layer in self._list_layers():
                layer.move([rows[i] for i in part], list(range(len(part))))
        self.lengths[list(rows)] = [len(p) for p in prompts]
        return [states[i] for i in range(len(prompts))]

    def extend(self, ids: Tensor, rows: Sequence[int]) -> Tensor:
        """See `CacheRunner`."""
        hidden = self._run(ids[:, None], int(self.lengths[0]))[:, 0]
        self.lengths[: len(rows)] += 1
        return hidden

    def _run(self, ids: Tensor, start: int) -> Tensor:
        """Last hidden states (n, t, d) of ids (n, t) after `start` positions."""
        import torch

        n, t = ids.shape
        missing = self._round_up_count(n) - n
        if missing:
            ids = torch.cat([ids, ids[:1].expand(missing, t)])
        at = torch.arange(start, start + t, device=ids.device)
        for layer in self._list_layers():
            layer.used = start
        with torch.inference_mode():
            out = self._body(
                input_ids=ids,
                past_key_values=self._cache,
                use_cache=self._cache is not None,
                cache_position=at,
                position_ids=at.expand(len(ids), t),
            )
        hidden: Tensor = out.last_hidden_state
        return hidden[:n]

    def logits(self, hidden: Tensor) -> Tensor:
        """See `CacheRunner`."""
        return compute_logits(self._lm, self._head, hidden, self._round_up_count)

    def copy(self, source: Sequence[int], target: Sequence[int], since: int = 0, length: int | None = None) -> None:
        """See `CacheRunner`."""
        if len(source):
            self.lengths[list(target)] = self.lengths[list(source)] if length is None else length
            for layer in self._list_layers():
                layer.move(list(target), list(source), since)

    def _list_layers(self) -> list[Any]:
        return [] if self._cache is None else list(self._cache.layers)


def make_fixed_cache(config: Any, rows: int, length: int) -> Any:  # noqa: ANN401
    """Make a transformers cache whose layers are allocated once for `rows` and `length` positions."""
    import torch
    from transformers.cache_utils import Cache, DynamicLayer

    class FixedLayer(DynamicLayer):  # type: ignore[misc]
        """Keys and values in a buffer of the final length."""

        used = 0

        def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:  # noqa: ANN401
            if not self.used:
                self.dtype, self.device = key_states.dtype, key_states.device
                self.is_initialized: bool = True
                self.keys, self.values = (_allocate(states, rows, length) for states in (key_states, value_states))
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
                for buffer in (self.keys, self.values):
                    buffer[to, :, since : self.used] = buffer[source, :, since : self.used]

    text = config.get_text_config(decoder=True)
    return Cache(layers=[FixedLayer() for _ in range(text.num_hidden_layers)])


def _allocate(states: Tensor, rows: int, length: int) -> Tensor:
    """Allocate zeros for the final length; they must be finite, because unused rows are computed too."""
    return states.new_zeros((rows, states.shape[1], length, states.shape[3]))
