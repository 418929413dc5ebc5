"""Sample texts from Q with one uniform number per row and step, from the row's own random stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import Advance, row_uniforms
from openended.harness.decoders import Emit, GenerationRequest, Prompt, QDecoder
from openended.harness.generation.token_loop import DecodingState, decode_rows

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


class _QChooser:
    """Uniforms, log-probabilities and states of the rows; see `Chooser`."""

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
        """See `Chooser`."""
        import torch

        self._log_prob[slot] = 0.0
        if self._decoder.stochastic:
            uniforms = row_uniforms(self._request.seed, prompt.example_id, prompt.sample, self._request.max_new_tokens)
            self._uniforms[slot] = torch.from_numpy(uniforms)
        if self._state is not None:
            self._state[slot] = self._first

    def move(self, source: list[int], target: list[int]) -> None:
        """See `Chooser`."""
        for tensor in (self._uniforms, self._log_prob, self._state):
            if tensor is not None:
                tensor[target] = tensor[source]

    def choose(self, logits: list[Tensor], state: DecodingState) -> Tensor:
        """See `Chooser`."""
        import torch

        from openended.harness.decoders import apply_penalties, draw_tokens, forbid_end
        from openended.harness.generation.stopping import find_end_tokens

        scores, n = logits[0], state.n
        if self._decoder.penalizes:
            lengths = torch.from_numpy(state.lengths).to(scores.device)
            scores = apply_penalties(self._decoder, scores, state.history[:n, : int(state.lengths.max())], lengths)
        if early := state.may_not_end():
            scores = forbid_end(scores, self._lm.eos_ids, early)
        at = torch.from_numpy(np.minimum(state.steps, self._uniforms.shape[1] - 1)).to(scores.device)
        u = self._uniforms[:n].gather(1, at[:, None]).squeeze(1)
        q_state = None if self._state is None else self._state[:n]
        token, log_q, q_state = draw_tokens(self._decoder, scores, u, q_state)
        if self._state is not None and q_state is not None:
            self._state[:n] = q_state
        self._log_prob[:n] += torch.where(find_end_tokens(self._lm, token), 0.0, log_q)
        return token

    def log_prob(self, slot: int) -> float:
        """See `Chooser`."""
        return float(self._log_prob[slot])


def sample_texts(lm: CausalModel, decoder: QDecoder, request: GenerationRequest, emit: Emit, advance: Advance) -> None:
    """Continue the request's prompts by drawing from the Q of its decoder."""
    decode_rows([lm], request, emit, advance, _QChooser(lm, decoder, request))
