"""Sample texts from Q with one uniform number per row and step, from the row's own random stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import Advance, row_uniforms
from openended.harness.decoders import Emit, GenerationRequest, Prompt, QDecoder
from openended.harness.generation.slots import BatchSlots
from openended.harness.generation.token_loop import TokenChooser, decode_rows, find_end_tokens

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


class _QChooser(TokenChooser):
    """Uniforms, log-probabilities and states of the rows."""

    def __init__(self, lm: CausalModel, decoder: QDecoder, request: GenerationRequest) -> None:
        import torch

        self._lm, self._decoder, self._request = lm, decoder, request
        first = decoder.first_state()
        count = min(request.batch_size, len(request.prompts))
        wide, device = torch.float64, lm.device
        width = request.max_new_tokens if decoder.stochastic else 1
        self._uniforms = torch.zeros((count, width), dtype=wide, device=device)
        self._log_prob = torch.zeros(count, dtype=wide, device=device)
        self._first = torch.tensor(first, dtype=wide, device=device)
        self._state = torch.zeros((count, len(first)), dtype=wide, device=device) if first else None

    def begin(self, slot: int, prompt: Prompt) -> None:
        import torch

        self._log_prob[slot] = 0.0
        if self._decoder.stochastic:
            uniforms = row_uniforms(self._request.seed, prompt.example_id, prompt.sample, self._request.max_new_tokens)
            self._uniforms[slot] = torch.from_numpy(uniforms)
        if self._state is not None:
            self._state[slot] = self._first

    def move(self, source: list[int], target: list[int]) -> None:
        for tensor in (self._uniforms, self._log_prob, self._state):
            if tensor is not None:
                tensor[target] = tensor[source]

    def choose(self, logits: list[Tensor], slots: BatchSlots) -> Tensor:
        import torch

        scores, n, lengths = logits[0], len(slots), slots.lengths
        at = torch.from_numpy(np.minimum(slots.steps, self._uniforms.shape[1] - 1)).to(scores.device)
        u = self._uniforms[:n].gather(1, at[:, None]).squeeze(1)
        q_state = None if self._state is None else self._state[:n]
        token, log_q, q_state = draw_next_tokens(
            self._decoder, scores, u, q_state, history=slots.history[:n, 0, : int(lengths.max())],
            lengths=torch.from_numpy(lengths), may_not_end=slots.may_not_end(), eos_ids=self._lm.eos_ids,
        )  # fmt: skip
        if self._state is not None and q_state is not None:
            self._state[:n] = q_state
        self._log_prob[:n] += log_q
        return token

    def log_prob(self, slot: int) -> float:
        return float(self._log_prob[slot])


def draw_next_tokens(
    decoder: QDecoder,
    logits: Tensor,
    u: Tensor,
    state: Tensor | None,
    *,
    history: Tensor,
    lengths: Tensor,
    may_not_end: Sequence[int],
    eos_ids: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Draw the next token of each row from a model's logits; the one place where logits become tokens.

    Args:
        decoder: Any decoder with a Q.
        logits: Shape (n, V), float32, as the model gives them; may be overwritten.
        u: Shape (n,), float64 in [0, 1).
        state: Shape (n, s), float64, of decoders that have one.
        history: Token ids so far, prompt included, shape (n, t); read where the decoder penalizes.
        lengths: How many of them count in each row, shape (n,).
        may_not_end: Rows that are shorter than `min_new_tokens`.
        eos_ids: The end tokens.

    Returns:
        Token ids (n,) int64, what they add to the log-probability of their texts (n,) float64, the next state.
    """
    import torch

    from openended.harness.decoders import apply_penalties, draw_tokens, forbid_end

    if decoder.penalizes:
        logits = apply_penalties(decoder, logits, history, lengths.to(logits.device))
    if may_not_end:
        logits = forbid_end(logits, eos_ids, may_not_end)
    token, log_q, state = draw_tokens(decoder, logits, u, state)
    return token, torch.where(find_end_tokens(eos_ids, token), 0.0, log_q), state


def sample_texts(lm: CausalModel, decoder: QDecoder, request: GenerationRequest, emit: Emit, advance: Advance) -> None:
    """Continue the request's prompts by drawing from the Q of its decoder."""
    decode_rows([lm], request, emit, advance, _QChooser(lm, decoder, request))
