"""Force the tokens of human texts, and read the statistics of each decoder's Q from the logits before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.backends.vllm.processor.orders import TextGroup, TextOrder, build_decoders
from openended.harness.core import I64
from openended.harness.decoders import LogitChunk, QTable, TextPosition, forbid_end
from openended.harness.generation import count_chunk_rows, score_chunk

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class TeacherForcer:
    """The texts of one request for statistics of Q."""

    def __init__(self, group: TextGroup, device: str | torch.device) -> None:
        del device
        self._group, self._width = group, max(group["longest"], 1)
        self._decoders = build_decoders(group)
        self._tables = [QTable.empty(0) for _ in self._decoders]
        self._orders: list[TextOrder] = []
        self._slots: dict[tuple[str, int], int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, order: TextOrder) -> int:
        """Return the slot of a text; a text that was preempted keeps its own."""
        key = order["example_id"], order["sample"]
        if key in self._slots:
            return self._slots[key]
        if self._free:
            slot = self._free.pop()
            self._orders[slot] = order
        else:
            slot = len(self._orders)
            self._orders.append(order)
            for table in self._tables:
                table.extend((slot + 1) * self._width)
        self._slots[key] = slot
        return slot

    def choose(self, logits: Tensor, slots: Sequence[int], steps: Sequence[int]) -> Tensor:
        """Return the given tokens (n,) and keep the statistics of logits (n, V), which may be overwritten."""
        import torch

        positions = [
            TextPosition(slot, min(step, len(self._orders[slot]["gold"]) - 1))
            for slot, step in zip(slots, steps, strict=True)
        ]
        gold = torch.tensor([self._orders[p.row]["gold"][p.step] for p in positions], device=logits.device)
        out = np.array([p.row * self._width + p.step for p in positions], dtype=np.int64)
        size = count_chunk_rows(logits.device.type, logits.shape[1])
        for start in range(0, len(positions), size):
            part = slice(start, start + size)
            early = [i for i, p in enumerate(positions[part]) if p.step < self._group["min_new_tokens"]]
            read = forbid_end(logits[part], self._group["eos_ids"], early) if early else logits[part]
            chunk = LogitChunk(read, gold[part], positions[part], banned=bool(early))
            statistics = score_chunk(self._decoders, self._tables, chunk, self._read_history)
            for table, values in zip(self._tables, statistics, strict=True):
                table.write(out[part], values)
        return gold

    def take_result(self, example_id: str, sample: int, count: int) -> list[list[list[float]]]:
        """Return the statistics of a finished text, for each decoder, and free its slot.

        Each is a list of four: probability of the true token, sum of squares, support, most probable token.
        """
        slot = self._slots.pop((example_id, sample))
        self._free.append(slot)
        part = slice(slot * self._width, slot * self._width + count)
        for table in self._tables:
            table.states.pop((slot, count), None)
            table.states.pop((slot, count - 1), None)
        return [
            [column[part].tolist() for column in (t.gold_prob, t.sum_sq, t.support, t.argmax)] for t in self._tables
        ]

    def _read_history(self, position: TextPosition) -> I64:
        order = self._orders[position.row]
        return np.array([*order["prompt"], *order["gold"][: position.step]], dtype=np.int64)
