"""KV cache for batches whose rows have equal length, by transformers' own cache classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from openended.harness.generation.kv_cache.base import CacheRunner
from openended.harness.models import get_body

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


class SameLengthRunner(CacheRunner):
    """All rows have one length, and those in use are the first ones."""

    ragged = False

    def __init__(self, lm: CausalModel, rows: int, length: int, *, once: bool = False) -> None:
        super().__init__(lm, rows)
        self._once, self._room, self._body = once, length, get_body(lm.model)
        self._cache: Any = None

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], *, every: bool = True) -> list[Tensor]:
        import torch

        del every
        states: dict[int, Tensor] = {}
        for length in sorted({len(p) for p in prompts}, reverse=True):
            part = [i for i, p in enumerate(prompts) if len(p) == length]
            if not self._once:
                full = self._round_up_count(len(self.lengths))
                self._cache = make_fixed_cache(self._lm.model.config, full, self._room)
            ids = torch.tensor([tuple(prompts[i]) for i in part], dtype=torch.int64, device=self._device)
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
                input_ids=ids, past_key_values=self._cache, use_cache=self._cache is not None, cache_position=at,
                position_ids=at.expand(len(ids), t),
            )  # fmt: skip
        hidden: Tensor = out.last_hidden_state
        return hidden[:n]

    def copy(self, source: Sequence[int], target: Sequence[int], since: int = 0, length: int | None = None) -> None:
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
