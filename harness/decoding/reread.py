"""Running a model whose past is no cache of keys and values that we know: each step reads the whole text again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openended.harness.models.families import body_of, rescaled
from openended.harness.models.finite import finite_logits

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.models.transformers import LanguageModel


class RereadRunner:
    """See `Runner`; keeps the token ids and nothing else."""

    def __init__(self, lm: LanguageModel, rows: int, *, floor: int) -> None:
        self._lm, self._model, self._body = lm, lm.model, body_of(lm.model)
        self._floor = floor if lm.device.type == "cpu" else 1
        self.rows = rows
        self._ids: Tensor | None = None

    def feed(self, ids: Tensor, *, every: bool = False) -> Tensor:
        """See `Runner`."""
        import torch

        n, t = ids.shape
        whole = ids if self._ids is None else torch.cat([self._ids, ids], dim=1)
        self._ids = whole
        missing = max(self._floor - n, 0)
        if missing:  # kernels for few rows round otherwise
            whole = torch.cat([whole, whole[:1].expand(missing, -1)])
        with torch.inference_mode():
            out = self._body(input_ids=whole, use_cache=False)
        hidden: Tensor = out[0][:n, -t:]
        return hidden if every else hidden[:, -1]

    def logits(self, hidden: Tensor) -> Tensor:
        """See `Runner`."""
        import torch

        flat = hidden.reshape(-1, hidden.shape[-1])
        size = len(flat)
        missing = max(self._floor - size, 0)
        if missing:
            flat = torch.cat([flat, flat[:1].expand(missing, -1)])
        with torch.inference_mode():
            made = rescaled(self._model.config, self._model.get_output_embeddings()(flat)[:size].float())
        return finite_logits(made, self._lm).view(*hidden.shape[:-1], made.shape[-1])

    def keep(self, kept: Sequence[int]) -> list[int]:
        """See `Runner`."""
        import torch

        order = list(kept)
        self.reorder(torch.tensor(order, dtype=torch.int64))
        return order

    def reorder(self, parents: Tensor, since: int = 0) -> None:
        """See `Runner`."""
        del since
        if self._ids is not None:
            self._ids = self._ids[parents.to(self._ids.device)]
        self.rows = len(parents)

    def rewind(self, length: int) -> None:
        """See `Runner`."""
        self._ids = None if self._ids is None else self._ids[:, :length]
