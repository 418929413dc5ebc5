"""Run models without a usable KV cache: each step reads the whole text again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.generation.kv_cache.general import FLOOR
from openended.harness.models import check_logits, get_body, rescale_logits

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


class RereadRunner:
    """See `CacheRunner`; keeps the token ids and nothing else."""

    ragged = True

    def __init__(self, lm: CausalModel, rows: int) -> None:
        self._lm, self._body = lm, get_body(lm.model)
        self._floor = FLOOR if lm.device.type == "cpu" else 1
        self.lengths = np.zeros(rows, dtype=np.int64)
        self._texts: list[list[int]] = [[] for _ in range(rows)]

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], *, every: bool = True) -> list[Tensor]:
        """See `CacheRunner`."""
        del every
        for row, prompt in zip(rows, prompts, strict=True):
            self._texts[row] = [int(i) for i in prompt]
        return self._read(rows)

    def extend(self, ids: Tensor, rows: Sequence[int]) -> Tensor:
        """See `CacheRunner`."""
        import torch

        for row, token in zip(rows, ids.tolist(), strict=True):
            self._texts[row].append(token)
        return torch.stack([hidden[-1] for hidden in self._read(rows)])

    def _read(self, rows: Sequence[int]) -> list[Tensor]:
        """Last hidden states of all positions of each row; rows of one length go through together."""
        import torch

        states: dict[int, Tensor] = {}
        for length in sorted({len(self._texts[row]) for row in rows}):
            part = [row for row in rows if len(self._texts[row]) == length]
            texts = [self._texts[row] for row in part]
            texts += texts[:1] * (self._floor - len(texts))  # kernels for few rows round otherwise
            ids = torch.tensor(texts, dtype=torch.int64, device=self._lm.device)
            with torch.inference_mode():
                states.update(zip(part, self._body(input_ids=ids, use_cache=False)[0], strict=False))
            self.lengths[part] = length
        return [states[row] for row in rows]

    def logits(self, hidden: Tensor) -> Tensor:
        """See `CacheRunner`."""
        import torch

        flat = hidden.reshape(-1, hidden.shape[-1])
        size = len(flat)
        missing = max(self._floor - size, 0)
        if missing:
            flat = torch.cat([flat, flat[:1].expand(missing, -1)])
        model = self._lm.model
        with torch.inference_mode():
            scores = rescale_logits(model.config, model.get_output_embeddings()(flat)[:size].float())
        return check_logits(scores, self._lm).view(*hidden.shape[:-1], scores.shape[-1])

    def copy(self, source: Sequence[int], target: Sequence[int], since: int = 0, length: int | None = None) -> None:
        """See `CacheRunner`."""
        del since
        texts = [self._texts[row][:length] for row in source]
        for row, text in zip(target, texts, strict=True):
            self._texts[row] = list(text)
            self.lengths[row] = len(text)
