"""Draw the tokens of many texts from the Q of one decoder, in any order and at any step.

Everything that a step reads or writes is kept by text and step: uniforms, states, log-probabilities and the history.
A step can therefore be done again with the same result, as vLLM does when it preempts a text or splits its prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openended.harness.backends.vllm.processor.orders import TextGroup, TextOrder, build_decoders
from openended.harness.core import row_uniforms
from openended.harness.generation import draw_next_tokens

if TYPE_CHECKING:
    import torch
    from torch import Tensor

FIRST_SLOTS = 16
"""Texts that there is room for at first; doubled whenever it is used up."""


class TextSampler:
    """The texts of one generation request."""

    def __init__(self, group: TextGroup, device: str | torch.device) -> None:
        import torch

        (self._decoder,) = build_decoders(group)
        self._group, self._device = group, device
        self._slots: dict[tuple[str, int], int] = {}
        self._free: list[int] = []
        # One column more than there are steps: a step beyond the last one, whose token nobody uses, may be asked for.
        self._columns = group["longest"] + 1
        wide, first = torch.float64, self._decoder.first_state()
        self._uniforms = self._allocate(self._columns, dtype=wide)
        self._log_q = self._allocate(self._columns, dtype=wide)
        self._history = self._allocate(0, dtype=torch.int64)
        self._prompt_lengths = self._allocate(dtype=torch.int64)
        self._first = torch.tensor(first, dtype=wide, device=device)
        self._states = self._allocate(self._columns + 1, len(first), dtype=wide)

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, order: TextOrder) -> int:
        """Return the slot of a text; a text that was preempted keeps its own."""
        import torch

        key = order["example_id"], order["sample"]
        if key in self._slots:
            return self._slots[key]
        slot = self._take_slot()
        self._slots[key] = slot
        self._states[slot, 0] = self._first
        self._prompt_lengths[slot] = len(order["prompt"])
        if self._decoder.stochastic:
            uniforms = row_uniforms(self._group["seed"], *key, self._columns)
            self._uniforms[slot] = torch.from_numpy(uniforms)
        if self._decoder.penalizes:
            self._widen_history(len(order["prompt"]) + self._columns)
            ids = torch.tensor(order["prompt"], dtype=torch.int64, device=self._history.device)
            self._history[slot, : len(ids)] = ids
        return slot

    def choose(self, logits: Tensor, slots: Sequence[int], steps: Sequence[int]) -> Tensor:
        """Draw the next tokens (n,) from logits (n, V), which may be overwritten."""
        import torch

        at = torch.tensor(slots, device=logits.device)
        step = torch.tensor(steps, device=logits.device)
        lengths = self._prompt_lengths[at] + step
        history = self._history[at, : int(lengths.max())] if self._decoder.penalizes else self._history[at]
        least = self._group["min_new_tokens"]
        token, log_q, state = draw_next_tokens(
            self._decoder, logits, self._uniforms[at, step], self._states[at, step] if len(self._first) else None,
            history=history, lengths=lengths, may_not_end=[i for i, s in enumerate(steps) if s < least],
            eos_ids=self._group["eos_ids"],
        )  # fmt: skip
        self._log_q[at, step] = log_q
        if state is not None:
            self._states[at, step + 1] = state
        if self._decoder.penalizes:
            self._history[at, lengths] = token
        return token

    def take_result(self, example_id: str, sample: int, count: int) -> list[float]:
        """Return the log-probability of a finished text of `count` tokens, end included, and free its slot."""
        slot = self._slots.pop((example_id, sample))
        self._free.append(slot)
        return [float(self._log_q[slot, :count].cumsum(0)[-1]) if count else 0.0]

    def _allocate(self, *columns: int, dtype: torch.dtype) -> Tensor:
        import torch

        return torch.zeros((FIRST_SLOTS, *columns), dtype=dtype, device=self._device)

    def _take_slot(self) -> int:
        import torch

        if self._free:
            return self._free.pop()
        if len(self._slots) == len(self._prompt_lengths):
            for name in ("_uniforms", "_log_q", "_history", "_prompt_lengths", "_states"):
                tensor = getattr(self, name)
                setattr(self, name, torch.cat([tensor, torch.zeros_like(tensor)]))
        return len(self._slots)

    def _widen_history(self, room: int) -> None:
        import torch

        if (missing := room - self._history.shape[1]) > 0:
            self._history = torch.nn.functional.pad(self._history, (0, missing))
