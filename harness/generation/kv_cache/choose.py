"""Choose a model's runner: the first one whose steps agree with the model's full forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openended.harness.generation.kv_cache.base import FLOOR, CacheRunner
from openended.harness.models import Kind, choose_kind, get_body

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel

CHECKED = 16
"""Room for the check of a model before it is first run."""


def make_runner(lm: CausalModel, rows: int, length: int, *, once: bool = False) -> CacheRunner:
    """Make a runner for `rows` sequences of at most `length` positions; with `once` they are never extended."""
    return _make_runner_of_kind(choose_runner_kind(lm), lm, rows, length, once=once)


def choose_runner_kind(lm: CausalModel) -> Kind:
    """Return the kind of runner whose steps agree with the model's own pass; see `families.choose_kind`."""
    return choose_kind(lm, lambda kind: _make_runner_of_kind(kind, lm, 1, CHECKED))


def _make_runner_of_kind(kind: Kind, lm: CausalModel, rows: int, length: int, *, once: bool = False) -> CacheRunner:
    from openended.harness.generation.kv_cache.general import GeneralRunner, takes_ragged_rows
    from openended.harness.generation.kv_cache.gpt2 import Gpt2Runner, is_plain_gpt2
    from openended.harness.generation.kv_cache.same_length import SameLengthRunner

    if kind == "reread":
        return RereadRunner(lm, rows)
    if kind == "equal":
        return SameLengthRunner(lm, rows, length, once=once)
    if is_plain_gpt2(lm.model):
        return Gpt2Runner(lm, rows, length, once=once)
    if takes_ragged_rows(lm.model):
        return GeneralRunner(lm, rows, length, once=once)
    return SameLengthRunner(lm, rows, length, once=once)


class RereadRunner(CacheRunner):
    """Reads the whole text again at each step; keeps the token ids and nothing else."""

    def __init__(self, lm: CausalModel, rows: int) -> None:
        super().__init__(lm, rows)
        self._body = get_body(lm.model)
        self._texts: list[list[int]] = [[] for _ in range(rows)]

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], *, every: bool = True) -> list[Tensor]:
        del every
        for row, prompt in zip(rows, prompts, strict=True):
            self._texts[row] = [int(i) for i in prompt]
        return self._read(rows)

    def extend(self, ids: Tensor, rows: Sequence[int]) -> Tensor:
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
            texts += texts[:1] * (self._round_up_count(len(texts)) - len(texts))  # kernels for few rows round otherwise
            ids = torch.tensor(texts, dtype=torch.int64, device=self._device)
            with torch.inference_mode():
                states.update(zip(part, self._body(input_ids=ids, use_cache=False)[0], strict=False))
            self.lengths[part] = length
        return [states[row] for row in rows]

    def _round_up_count(self, count: int) -> int:
        return max(count, FLOOR) if self._steady else count

    def copy(self, source: Sequence[int], target: Sequence[int], since: int = 0, length: int | None = None) -> None:
        del since
        texts = [self._texts[row][:length] for row in source]
        for row, text in zip(target, texts, strict=True):
            self._texts[row] = list(text)
            self.lengths[row] = len(text)
