"""Generate the texts of a request: run the models, choose a token for each row, emit finished texts, refill slots."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openended.harness import decoders
from openended.harness.core import (
    I64,
    Advance,
    Generation,
    SpecError,
    Stop,
    copy_to_device,
    row_uniforms,
    shorten_error,
)
from openended.harness.decoders import Emit, GenerationRequest, Prompt, QDecoder
from openended.harness.generation.slots import BatchSlots
from openended.harness.models import check_retry, decode_continuation, free_memory, prepare_request

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.models import Backend, LanguageModel

log = logging.getLogger(__name__)


class TokenChooser(ABC):
    """Chooses the next tokens for a decoder, and keeps the decoder's state of each slot if it has any."""

    states: Sequence[Tensor | NDArray[Any]] = ()
    """Tensors or arrays with a row for each slot; the rows move with their texts."""

    def begin(self, slot: int, prompt: Prompt) -> None:  # noqa: B027 - most decoders have no state
        """Reset the state of a slot for a new text."""

    @abstractmethod
    def choose(self, logits: list[Tensor], slots: BatchSlots) -> tuple[Tensor, I64]:
        """Return the next tokens (n,) of the slots in use, on the device and as `slots.read` returns them.

        `logits` (n, V) are those of each model and may be overwritten.
        """

    def log_prob(self, slot: int) -> float:  # noqa: ARG002 - most decoders have none
        """Return the natural log of the text's probability; NaN where there is none."""
        return math.nan


def decode_rows(
    lms: Sequence[LanguageModel], request: GenerationRequest, emit: Emit, advance: Advance, chooser: TokenChooser
) -> None:
    """Continue the request's prompts; the texts are of the first model, the others give logits too."""
    import torch

    lm = lms[0]
    with torch.inference_mode():
        slots = BatchSlots(lms, request)
        last = torch.zeros(slots.count, dtype=torch.int64, device=lm.device)
        while True:
            for slot in slots.refill(last, *chooser.states):
                chooser.begin(slot, slots.prompt(slot))
            n = len(slots)
            if not n:
                return
            states = slots.run_step(last[:n])
            logits = slots.compute_logits(states)
            last[:n], tokens = chooser.choose(logits, slots)
            del logits
            add_tokens(slots, tokens, emit, chooser)
            advance(n)


def add_tokens(slots: BatchSlots, tokens: I64, emit: Emit, chooser: TokenChooser | None = None) -> None:
    """Add the next tokens (n,) to the texts of the slots in use; emit the finished ones and free their slots."""
    n, lm, request = len(slots), slots.lms[0], slots.request
    slots.history[np.arange(n), 0, slots.lengths] = tokens
    slots.new_tokens[:n] += 1
    ended = [not request.continue_after_end and token in lm.eos_ids for token in tokens.tolist()]
    over = [i for i, step in enumerate(slots.steps.tolist()) if ended[i] or step == request.max_new_tokens]
    if not over:
        return
    generations = []
    for slot in over:
        first, length = int(slots.starts[slot]), int(slots.lengths[slot])
        ids = slots.history[slot, 0, first : length - ended[slot]].tolist()
        log_prob = chooser.log_prob(slot) if chooser is not None else math.nan
        generations.append(build_generation(lm, slots.prompt(slot), ids, ended=ended[slot], log_prob=log_prob))
    emit(generations)
    slots.free(over)


def find_end_tokens(eos_ids: Iterable[int], tokens: Tensor) -> Tensor:
    """Return a mask, true where a token ends its text; any shape."""
    import torch

    is_end = torch.zeros_like(tokens, dtype=torch.bool)
    for eos_id in eos_ids:
        is_end |= tokens == eos_id
    return is_end


def build_generation(
    lm: Backend, prompt: Prompt, ids: Sequence[int], *, ended: bool, log_prob: float = math.nan
) -> Generation:
    """Build the record of a finished text; `ids` has no end token.

    The log-probability is rounded to 1e-6: its last bits depend on the position of a row in a vector register.
    """
    token_ids = tuple(int(i) for i in ids)
    text = decode_continuation(lm.tokenizer, prompt.token_ids, token_ids)
    stop: Stop = "eos" if ended else "length"
    return Generation(prompt.example_id, prompt.sample, text, token_ids, stop, round(log_prob, 6))


class QChooser(TokenChooser):
    """Draws each token from the Q of a `QDecoder`; keeps uniforms, log-probability and state of each slot."""

    def __init__(self, lm: LanguageModel, decoder: QDecoder, request: GenerationRequest) -> None:
        import torch

        self._lm, self._decoder, self._request = lm, decoder, request
        first = decoder.first_state()
        count = min(request.batch_size, len(request.prompts))
        wide, device = torch.float64, lm.device
        # A decoder that draws nothing has one column of uniforms, which is read at every step and not used.
        self._uniforms = np.zeros((count, request.max_new_tokens if decoder.stochastic else 1))
        self._log_prob = np.zeros(count)
        self._first = copy_to_device(first, device, np.float64)
        self._state = torch.zeros((count, len(first)), dtype=wide, device=device) if first else None
        self.states = [state for state in (self._uniforms, self._log_prob, self._state) if state is not None]

    def begin(self, slot: int, prompt: Prompt) -> None:
        self._log_prob[slot] = 0.0
        if self._decoder.stochastic:
            uniforms = row_uniforms(self._request.seed, prompt.example_id, prompt.sample, self._request.max_new_tokens)
            self._uniforms[slot] = uniforms
        if self._state is not None:
            self._state[slot] = self._first

    def choose(self, logits: list[Tensor], slots: BatchSlots) -> tuple[Tensor, I64]:
        decoder, n, device = self._decoder, len(slots), logits[0].device
        scores = slots.penalize(decoder, logits[0])
        at = np.minimum(slots.steps, self._uniforms.shape[1] - 1)
        u = copy_to_device(self._uniforms[np.arange(n), at], device)
        q_state = None if self._state is None else self._state[:n]
        if device.type == "cpu" or decoder.one_hot:
            token, log_q, q_state = decoders.draw_tokens(decoder, scores, u, q_state)
            tokens, log_probs = slots.read(token, log_q)
        else:  # the host waits once, unless a row leaves its head
            draw = decoders.start_draw(decoder, scores, u, q_state)
            token = draw.find_tokens()
            tokens, log_probs, outside_head = slots.read(token, draw.log_q, draw.outside_head)
            if outside_head.any():
                draw.redraw(copy_to_device(np.flatnonzero(outside_head), device))
                token = draw.find_tokens()
                tokens, log_probs = slots.read(token, draw.log_q)
            q_state = draw.find_next_state()
        if self._state is not None and q_state is not None:
            self._state[:n] = q_state
        self._log_prob[:n] += np.where(np.isin(tokens, self._lm.eos_ids), 0.0, log_probs)
        return token, tokens

    def log_prob(self, slot: int) -> float:
        return float(self._log_prob[slot])


def generate_texts(lm: Any, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:  # noqa: ANN401
    """Continue every prompt of a request.

    A text depends only on (seed, example id, sample), prompt, decoder and model: not on the batch size, the order of
    the prompts or which of them are left after a resume (exact on CPU in float32).

    Args:
        lm: The model: one of transformers, or what the decoder runs on.
        request: What to make. A finished text frees its slot for the next; the batch size is halved when memory runs
            out.
        emit: Gets rows as soon as they are finished, in any order, each once.
        advance: Gets the number of tokens just made.
    """
    decoder = request.decoder
    if request.batch_size < 1:
        raise SpecError(f"runtime.batch_size: expected at least 1, got {request.batch_size}")
    request = prepare_request(request, lm.tokenizer, lm.context_length)
    advance = advance or (lambda _: None)
    done: set[tuple[str, int]] = set()

    def note(rows: list[Generation]) -> None:
        done.update((g.example_id, g.sample) for g in rows)
        emit(rows)

    while request.prompts:
        size = min(request.batch_size, len(request.prompts))
        try:
            if isinstance(decoder, QDecoder):
                decode_rows([lm], request, note, advance, QChooser(lm, decoder, request))
            else:
                decoder.run(lm, request, note, advance)
            return
        except (RuntimeError, MemoryError) as err:
            check_retry(err, size)
            message = shorten_error(err)
        free_memory()
        left = [p for p in request.prompts if (p.example_id, p.sample) not in done]
        request = replace(request, prompts=left, batch_size=max(size // 2, 1))
        log.warning("out of memory with %d rows; continuing with %d: %s", size, request.batch_size, message)
