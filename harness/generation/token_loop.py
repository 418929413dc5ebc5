"""The generation loop of decoders with one row per text.

Each step runs the model, chooses one token per row, emits finished texts and fills their slots with waiting prompts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from openended.harness.core import I64, Advance, Generation, Stop
from openended.harness.decoders import Emit, GenerationRequest, Prompt
from openended.harness.generation.slots import BatchSlots
from openended.harness.generation.stopping import find_end_tokens

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


class TokenChooser(Protocol):
    """Chooses the next tokens for a decoder, and keeps the decoder's state of each slot."""

    def begin(self, slot: int, prompt: Prompt) -> None:
        """Reset the state of a slot for a new text."""
        ...

    def move(self, source: list[int], target: list[int]) -> None:
        """Move the state of texts that changed their slots."""
        ...

    def choose(self, logits: list[Tensor], state: DecodingState) -> Tensor:
        """Return the next tokens (n,) of the slots in use from the logits (n, V) of each model; may overwrite them."""
        ...

    def log_prob(self, slot: int) -> float:
        """Return the natural log of the text's probability; NaN where there is none."""
        ...


class DecodingState:
    """The tokens of the running texts; the first `n` slots are in use."""

    def __init__(self, slots: BatchSlots, request: GenerationRequest, device: object) -> None:
        import torch

        self._slots, self._request = slots, request
        self.history = torch.zeros((slots.count, slots.room), dtype=torch.int64, device=device)  # type: ignore[call-overload]
        """Token ids, prompt included."""
        self.starts: I64 = np.zeros(slots.count, dtype=np.int64)
        """Tokens of each prompt."""

    @property
    def n(self) -> int:
        """Number of slots in use."""
        return len(self._slots)

    @property
    def steps(self) -> I64:
        """Tokens generated so far in each slot in use."""
        return self._slots.new_tokens[: self.n]

    @property
    def lengths(self) -> I64:
        """Tokens so far in each slot in use, prompt included."""
        return self.starts[: self.n] + self.steps

    def may_not_end(self) -> list[int]:
        """Return the slots whose next token must not be the end of text."""
        if not self._request.min_new_tokens:
            return []
        return [i for i, step in enumerate(self.steps.tolist()) if self._request.may_not_end(step)]


def decode_rows(
    lms: Sequence[CausalModel], request: GenerationRequest, emit: Emit, advance: Advance, chooser: TokenChooser
) -> None:
    """Continue the request's prompts; the texts are of the first model, the others give logits too."""
    import torch

    lm = lms[0]
    stops = bool(lm.eos_ids) and not request.continue_after_end
    with torch.inference_mode():
        slots = BatchSlots(lms, request)
        state = DecodingState(slots, request, lm.device)
        last = torch.zeros(slots.count, dtype=torch.int64, device=lm.device)
        while True:
            _refill_slots(slots, state, chooser, last)
            n = len(slots)
            if not n:
                return
            logits = [run.logits(hidden) for run, hidden in zip(slots.runs, slots.run_step(last[:n]), strict=True)]
            token = chooser.choose(logits, state)
            del logits
            state.history[torch.arange(n, device=lm.device), torch.from_numpy(state.lengths).to(lm.device)] = token
            slots.new_tokens[:n] += 1
            last[:n] = token
            advance(n)
            ended = find_end_tokens(lm.eos_ids, token).tolist() if stops else [False] * n
            over = [i for i, step in enumerate(state.steps.tolist()) if ended[i] or step == request.max_new_tokens]
            if over:
                _emit_finished(lm, emit, slots, state, chooser, over, ended)


def _refill_slots(slots: BatchSlots, state: DecodingState, chooser: TokenChooser, last: Tensor) -> None:
    """Fill free slots with waiting prompts, and move the state of texts that changed their slots."""
    import torch

    changes = slots.refill()
    if changes.source:
        chooser.move(changes.source, changes.target)
        state.history[changes.target] = state.history[changes.source]
        state.starts[changes.target] = state.starts[changes.source]
        last[changes.target] = last[changes.source]
    for slot in changes.fresh:
        prompt = slots.prompt(slot)
        ids = slots.ids(prompt)
        state.history[slot, : len(ids)] = torch.tensor(ids, device=state.history.device)
        state.starts[slot] = len(ids)
        chooser.begin(slot, prompt)


def _emit_finished(
    lm: CausalModel,
    emit: Emit,
    slots: BatchSlots,
    state: DecodingState,
    chooser: TokenChooser,
    over: list[int],
    ended: list[bool],
) -> None:
    """Emit finished texts and free their slots."""
    generations = []
    for slot in over:
        first = int(state.starts[slot])
        end = first + int(slots.new_tokens[slot]) - ended[slot]
        ids = state.history[slot, first:end].tolist()
        generations.append(
            build_generation(lm, slots.prompt(slot), ids, ended=ended[slot], log_prob=chooser.log_prob(slot))
        )
    emit(generations)
    slots.free(over)


class ContinuationDecoder(Protocol):
    """Turns the tokens of a continuation into text."""

    def continuation(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """Return the text that `ids` add after `prompt`."""
        ...


def build_generation(
    lm: ContinuationDecoder, prompt: Prompt, ids: Sequence[int], *, ended: bool, log_prob: float = math.nan
) -> Generation:
    """Build the record of a finished text; `ids` has no end token.

    The log-probability is rounded to 1e-6: its last bits depend on the position of a row in a vector register.
    """
    stop: Stop = "eos" if ended else "length"
    token_ids = tuple(int(i) for i in ids)
    text = lm.continuation(prompt.token_ids, token_ids)
    return Generation(prompt.example_id, prompt.sample, text, token_ids, stop, round(log_prob, 6))
