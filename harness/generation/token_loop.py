"""The generation loop of decoders with one row per text.

Each step runs the model, chooses one token per row, emits finished texts and fills their slots with waiting prompts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from openended.harness.core import I64, Advance, Generation, Stop
from openended.harness.decoders import Emit, GenerationRequest, Prompt
from openended.harness.generation.slots import BatchSlots

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


class TokenChooser:
    """Chooses the next tokens for a decoder, and keeps the decoder's state of each slot; this one has no state."""

    def begin(self, slot: int, prompt: Prompt) -> None:
        """Reset the state of a slot for a new text."""

    def move(self, source: list[int], target: list[int]) -> None:
        """Move the state of texts that changed their slots."""

    def choose(self, logits: list[Tensor], state: DecodingState) -> Tensor:
        """Return the next tokens (n,) of the slots in use from the logits (n, V) of each model; may overwrite them."""
        raise NotImplementedError

    def log_prob(self, slot: int) -> float:  # noqa: ARG002 - most decoders have none
        """Return the natural log of the text's probability; NaN where there is none."""
        return math.nan


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
        return list_unfinished(self.steps, self._request)


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
            changes = slots.refill()
            if changes.source:
                chooser.move(changes.source, changes.target)
                for rows in (state.history, state.starts, last):
                    rows[changes.target] = rows[changes.source]
            for slot in changes.fresh:
                ids = slots.ids(slots.prompt(slot))
                state.history[slot, : len(ids)] = torch.tensor(ids, device=lm.device)
                state.starts[slot] = len(ids)
                chooser.begin(slot, slots.prompt(slot))
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
            generations, over = [], []
            for slot, step in enumerate(state.steps.tolist()):
                if ended[slot] or step == request.max_new_tokens:
                    first = int(state.starts[slot])
                    ids_of = state.history[slot, first : first + step - ended[slot]].tolist()
                    log_prob = chooser.log_prob(slot)
                    generations.append(
                        build_generation(lm, slots.prompt(slot), ids_of, ended=ended[slot], log_prob=log_prob)
                    )
                    over.append(slot)
            if over:
                emit(generations)
                slots.free(over)


def find_end_tokens(eos_ids: Iterable[int], tokens: Tensor) -> Tensor:
    """Return a mask, true where a token ends its text; any shape."""
    import torch

    is_end = torch.zeros_like(tokens, dtype=torch.bool)
    for eos_id in eos_ids:
        is_end |= tokens == eos_id
    return is_end


def list_unfinished(steps: I64, request: GenerationRequest) -> list[int]:
    """Return the slots, by their tokens so far, that are shorter than `min_new_tokens`."""
    return [i for i, step in enumerate(steps.tolist()) if request.may_not_end(step)] if request.min_new_tokens else []


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
