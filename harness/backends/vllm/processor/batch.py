"""The rows of vLLM's batch: added, moved, swapped and removed between steps, and processed together group by group."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openended.harness.backends.vllm.processor.orders import TextOrder
from openended.harness.backends.vllm.processor.teacher_forcer import TeacherForcer
from openended.harness.backends.vllm.processor.text_sampler import TextSampler

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(slots=True)
class TextInBatch:
    """A row of the batch."""

    texts: TextSampler | TeacherForcer
    """Its group."""
    slot: int
    """Its place in the group."""
    tokens: Sized
    """The tokens of the text so far; grows outside."""


class BatchRows:
    """Chooses the next token of every row, with one vectorized call for each group of rows.

    Rows without an order of the harness are left to vLLM.
    """

    def __init__(self, device: str | torch.device) -> None:
        self._device = device
        self._groups: dict[str, TextSampler | TeacherForcer] = {}
        self._rows: dict[int, TextInBatch] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, index: int, order: TextOrder | None, tokens: Sized = ()) -> None:
        """Put a text at an index of the batch, replacing any text there."""
        self._rows.pop(index, None)
        if order is None:
            return
        group = order["group"]
        if group["id"] not in self._groups:
            # The texts of finished calls are gone: their groups go too.
            self._groups = {name: texts for name, texts in self._groups.items() if len(texts)}
            self._groups[group["id"]] = (TeacherForcer if group["forced"] else TextSampler)(group, self._device)
        texts = self._groups[group["id"]]
        self._rows[index] = TextInBatch(texts, texts.add(order), tokens)

    def remove(self, index: int) -> None:
        """Remove a text from the batch; its state stays until its result is taken."""
        self._rows.pop(index, None)

    def move(self, source: int, target: int) -> None:
        """Move a text to another index, replacing any text there."""
        self.remove(target)
        if source in self._rows:
            self._rows[target] = self._rows.pop(source)

    def swap(self, a: int, b: int) -> None:
        """Exchange two indices."""
        rows = {b: self._rows.pop(a, None), a: self._rows.pop(b, None)}
        self._rows.update({index: row for index, row in rows.items() if row is not None})

    def choose_tokens(
        self, logits: Tensor, indices: Sequence[int] | None = None, steps: Sequence[int] | None = None
    ) -> Tensor:
        """Mask each row of logits (n, V) except for the token that the harness chooses."""
        import torch

        numbers: dict[int, list[int]] = {}
        rows = [self._rows.get(index) for index in (range(len(logits)) if indices is None else indices)]
        for number, row in enumerate(rows):
            if row is not None:
                numbers.setdefault(id(row.texts), []).append(number)
        for part in numbers.values():
            group = [row for row in (rows[number] for number in part) if row is not None]
            counts = [len(row.tokens) for row in group] if steps is None else [steps[number] for number in part]
            every = len(part) == len(logits)
            at = torch.tensor(part, device=logits.device)
            token = group[0].texts.choose(logits if every else logits[at], [row.slot for row in group], counts)
            logits[at] = float("-inf")
            logits[at, token.to(logits.device)] = 0.0
        return logits

    def take_results(self, group: str, finished: Sequence[tuple[str, int, int]]) -> list[Any]:
        """Return the results of finished texts of a group, each given by example id, sample and number of tokens."""
        return [self._groups[group].take_result(*text) for text in finished]

    def forget(self) -> None:
        """Drop all texts, finished or not, because their call failed."""
        self._rows.clear()
        self._groups.clear()
