"""Drawing from Q: one uniform a row and step, from the row's own stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import Advance, row_uniforms
from openended.harness.decoders import Emit, GenerationRequest, Prompt, QDecoder
from openended.harness.generation.token_loop import Running, run_rows

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


class _Draws:
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

    def seat(self, place: int, prompt: Prompt) -> None:
        """See `Chooser`."""
        import torch

        self._log_prob[place] = 0.0
        if self._decoder.stochastic:
            drawn = row_uniforms(self._request.seed, prompt.example_id, prompt.sample, self._request.max_new_tokens)
            self._uniforms[place] = torch.from_numpy(drawn)
        if self._state is not None:
            self._state[place] = self._first

    def move(self, source: list[int], target: list[int]) -> None:
        """See `Chooser`."""
        for kept in (self._uniforms, self._log_prob, self._state):
            if kept is not None:
                kept[target] = kept[source]

    def choose(self, logits: list[Tensor], now: Running) -> Tensor:
        """See `Chooser`."""
        import torch

        from openended.harness.decoders import draw, forbid_end, penalise
        from openended.harness.generation.stopping import ends

        scores, n = logits[0], now.n
        if self._decoder.penalises:
            lengths = torch.from_numpy(now.lengths).to(scores.device)
            scores = penalise(self._decoder, scores, now.history[:n, : int(now.lengths.max())], lengths)
        if early := now.may_not_end():
            scores = forbid_end(scores, self._lm.eos_ids, early)
        at = torch.from_numpy(np.minimum(now.steps, self._uniforms.shape[1] - 1)).to(scores.device)
        u = self._uniforms[:n].gather(1, at[:, None]).squeeze(1)
        state = None if self._state is None else self._state[:n]
        token, log_q, state = draw(self._decoder, scores, u, state)
        if self._state is not None and state is not None:
            self._state[:n] = state
        self._log_prob[:n] += torch.where(ends(self._lm, token), 0.0, log_q)
        return token

    def log_prob(self, place: int) -> float:
        """See `Chooser`."""
        return float(self._log_prob[place])


def sample(lm: CausalModel, decoder: QDecoder, request: GenerationRequest, emit: Emit, advance: Advance) -> None:
    """Continue the request's prompts by drawing from the Q of its decoder."""
    run_rows([lm], request, emit, advance, _Draws(lm, decoder, request))
