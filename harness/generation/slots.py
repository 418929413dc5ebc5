"""The slots of a running batch: a finished text frees its slot for the next waiting prompt.

Prompts wait in order of length, longest first. Several samples of one prompt are neighbors in this order: the prompt
goes through the model once, and the other samples start from a copy of its keys and values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import I64, DataError, copy_to_device, copy_to_host
from openended.harness.decoders import GenerationRequest, PenalizingDecoder, Prompt, apply_penalties, forbid_end
from openended.harness.models import are_finite, check_logits, describe_broken_weights

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.generation.kv_cache import CacheRunner
    from openended.harness.models import LanguageModel


@dataclass(frozen=True, slots=True)
class _LastPrompt:
    """The prompt that went through the models last, and a slot that still holds its keys and values."""

    ids: tuple[int, ...]
    slot: int
    states: list[Tensor]


def sort_prompts(prompts: Iterable[Prompt]) -> list[Prompt]:
    """Sort prompts as batches take them: longest first, the samples of one prompt side by side."""
    seen: dict[tuple[int, ...], int] = {}
    return sorted(prompts, key=lambda p: (-len(p.token_ids), seen.setdefault(p.token_ids, len(seen))))


class BatchSlots:
    """The running texts, each on `width` adjacent rows of every model."""

    def __init__(self, lms: Sequence[LanguageModel], request: GenerationRequest, width: int = 1) -> None:
        from openended.harness.generation.runners import make_runner

        prompts, self.request, self.lms = request.prompts, request, lms
        self._start_id = lms[0].tokenizer.start_id
        self.count, self.width = min(request.batch_size, len(prompts)), width
        self.room = max(len(self.ids(p)) for p in prompts) + request.max_new_tokens
        self.runners: list[CacheRunner] = [make_runner(lm, self.count * width, self.room) for lm in lms]
        self._device = lms[0].device
        self._unchecked: list[Tensor] = []
        """Whether the logits of a step are finite, shape () each, which an accelerator's host has not read yet."""
        self._ragged = all(runner.ragged for runner in self.runners)
        self._waiting = deque(sort_prompts(prompts))
        self._prompts: list[Prompt | None] = []
        self._fresh: list[int] = []
        self._last_prompt: _LastPrompt | None = None
        self.new_tokens: I64 = np.zeros(self.count, dtype=np.int64)
        """Tokens generated so far in each slot."""
        self.starts: I64 = np.zeros(self.count, dtype=np.int64)
        """Tokens of the prompt in each slot."""
        self.history: I64 = np.zeros((self.count, width, self.room), dtype=np.int64)
        """Token ids of each row, prompt included."""

    def __len__(self) -> int:
        return len(self._prompts)

    def ids(self, prompt: Prompt) -> tuple[int, ...]:
        """Return the ids that the model reads; an empty prompt becomes the model's start token."""
        return prompt.token_ids or (self._start_id,)

    def prompt(self, slot: int) -> Prompt:
        """Return the prompt of an occupied slot."""
        prompt = self._prompts[slot]
        assert prompt is not None  # noqa: S101 - slots in use have a prompt
        return prompt

    @property
    def steps(self) -> I64:
        """Tokens generated so far in each slot in use."""
        return self.new_tokens[: len(self)]

    @property
    def lengths(self) -> I64:
        """Tokens so far in each slot in use, prompt included."""
        return self.starts[: len(self)] + self.steps

    def penalize(self, decoder: PenalizingDecoder, logits: Tensor) -> Tensor:
        """Apply a decoder's penalties to the logits (rows, V), and forbid the end of texts that are too short."""
        if decoder.penalizes:
            lengths = np.repeat(self.lengths, self.width)
            past = self.history[: len(self), :, : lengths.max()].reshape(len(lengths), -1)
            past_ids, counts = (copy_to_device(part, logits.device) for part in (past, lengths))
            logits = apply_penalties(decoder, logits, past_ids, counts)
        return self.forbid_end(logits)

    def forbid_end(self, logits: Tensor) -> Tensor:
        """Forbid the end of texts that are too short, in logits with the same number of rows for each slot in use."""
        steps = np.repeat(self.steps, len(logits) // len(self))
        return forbid_end(logits, self.lms[0].eos_ids, steps, self.request.min_new_tokens)

    def free(self, slots: Sequence[int]) -> None:
        """Free the slots of finished texts."""
        for slot in slots:
            self._prompts[slot] = None

    def refill(self, *states: Tensor | NDArray[Any]) -> list[int]:
        """Assign waiting prompts to free slots, and move texts to close the gaps that remain, with their states.

        Returns the slots with a prompt that has not gone through the models yet, ascending.
        """
        self._fresh = fresh = self._assign_slots()
        if self._last_prompt is not None:  # before a move overwrites the slot that holds them
            same = [slot for slot in fresh if self.ids(self.prompt(slot)) == self._last_prompt.ids]
            self._copy_prompt(same, self._last_prompt)
        size = sum(p is not None for p in self._prompts)
        target = [i for i in range(size) if self._prompts[i] is None]
        source = [i for i in range(size, len(self._prompts)) if self._prompts[i] is not None]
        for old, new in zip(source, target, strict=True):
            self._prompts[new] = self._prompts[old]
        del self._prompts[size:]
        if source:
            for state in (self.new_tokens, self.starts, self.history, *states):
                if isinstance(state, np.ndarray):
                    state[target] = state[source]
                else:
                    to, origin = (copy_to_device(slots, state.device) for slots in (target, source))
                    state[to] = state[origin]
            for runner in self.runners:
                runner.copy(self.rows(source), self.rows(target))
        return fresh

    def _assign_slots(self) -> list[int]:
        free = [i for i, p in enumerate(self._prompts) if p is None]
        free += range(len(self._prompts), self.count)
        if not self._ragged and (len(free) < self.count or not self._waiting):
            return []
        fresh = []
        first = len(self._waiting[0].token_ids) if self._waiting else 0
        for slot in free:
            if not self._waiting or (not self._ragged and len(self._waiting[0].token_ids) != first):
                break
            if slot == len(self._prompts):
                self._prompts.append(None)
            self._prompts[slot] = self._waiting.popleft()
            ids = self.ids(self.prompt(slot))
            self.new_tokens[slot] = 0
            self.starts[slot] = len(ids)
            self.history[slot, :, : len(ids)] = ids
            fresh.append(slot)
        return fresh

    def rows(self, slots: Sequence[int]) -> list[int]:
        """Return the rows of slots, in their order."""
        return [slot * self.width + i for slot in slots for i in range(self.width)]

    def run_prompts(self, *, every: bool) -> list[list[Tensor]]:
        """Run the prompts of the fresh slots."""
        last = self._last_prompt
        states: dict[int, list[Tensor]] = {}
        new: dict[tuple[int, ...], list[int]] = {}
        for slot in self._fresh:
            ids = self.ids(self.prompt(slot))
            if last is not None and ids == last.ids:
                states[slot] = last.states
            else:
                new.setdefault(ids, []).append(slot)
        firsts = [slots[0] for slots in new.values()]
        rows = [slot * self.width for slot in firsts]
        hidden = [runner.start(rows, list(new), every=every) if new else [] for runner in self.runners]
        for i, (ids, slots) in enumerate(new.items()):
            self._last_prompt = _LastPrompt(ids, slots[0], [per_model[i] for per_model in hidden])
            self._copy_prompt(slots, self._last_prompt)
            states |= dict.fromkeys(slots, self._last_prompt.states)
        if not self._ragged:
            self._last_prompt = None
        return [[states[slot][model] for slot in self._fresh] for model in range(len(self.runners))]

    def _copy_prompt(self, slots: Sequence[int], last: _LastPrompt) -> None:
        """Copy the keys and values of the last prompt into all rows of slots."""
        rows = self.rows(slots)
        for runner in self.runners:
            runner.copy([last.slot * self.width] * len(rows), rows, length=len(last.ids))

    def run_step(self, tokens: Tensor) -> list[Tensor]:
        """Run the prompts of newly filled slots and one more token in all other slots."""
        import torch

        fresh = set(self._fresh)
        if not fresh:
            rows = self.rows(range(len(self)))
            return [runner.extend(tokens, rows) for runner in self.runners]
        states = [[s[-1] for s in per_model] for per_model in self.run_prompts(every=False)]
        running = self.rows([i for i in range(len(self)) if i not in fresh])
        at = copy_to_device(running + self.rows(self._fresh), self._device)
        states_per_model = []
        for runner, begun in zip(self.runners, states, strict=True):
            hidden = torch.stack(begun).repeat_interleave(self.width, 0)
            if running:
                hidden = torch.cat([runner.extend(tokens[at[: len(running)]], running), hidden])
            states_per_model.append(torch.empty_like(hidden).index_copy_(0, at.to(hidden.device), hidden))
        return states_per_model

    def compute_logits(self, states: Sequence[Tensor]) -> list[Tensor]:
        """Return the logits of each model; `read` checks those of an accelerator, so that the host waits once."""
        logits = [runner.compute_logits(hidden) for runner, hidden in zip(self.runners, states, strict=True)]
        if self._device.type == "cpu":
            return [check_logits(scores, lm) for scores, lm in zip(logits, self.lms, strict=True)]
        self._unchecked = [are_finite(scores).to(self._device) for scores in logits]
        return [scores.nan_to_num_() for scores in logits]  # NaN could become an index, which ends the process on CUDA

    def read(self, *tensors: Tensor) -> list[NDArray[Any]]:
        """Return tensors as arrays, and check the logits of the step."""
        arrays = copy_to_host(*tensors, *self._unchecked)
        for lm, is_finite in zip(self.lms, arrays[len(tensors) :], strict=False):
            if not is_finite:
                raise DataError(describe_broken_weights(lm))
        self._unchecked = []
        return arrays[: len(tensors)]
