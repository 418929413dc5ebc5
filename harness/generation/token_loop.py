"""The loop of all decoders that keep one row a text: run, choose a token a row, let go who ended, seat who waits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from openended.harness.core import I64, Advance, Generation, Stop
from openended.harness.decoders import Emit, GenerationRequest, Prompt
from openended.harness.generation.slots import Places
from openended.harness.generation.stopping import ends

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


class Chooser(Protocol):
    """How a decoder chooses, and what it remembers of each place."""

    def seat(self, place: int, prompt: Prompt) -> None:
        """A new text begins."""
        ...

    def move(self, source: list[int], target: list[int]) -> None:
        """Texts change their places."""
        ...

    def choose(self, logits: list[Tensor], now: Running) -> Tensor:
        """Next tokens (n,) of the places in use, from the logits (n, V) of each model, which may be written to."""
        ...

    def log_prob(self, place: int) -> float:
        """Natural log of the text's probability, NaN where there is none."""
        ...


class Running:
    """The tokens of the texts that run; the first `n` places are in use."""

    def __init__(self, places: Places, request: GenerationRequest, device: object) -> None:
        import torch

        self._places, self._request = places, request
        self.history = torch.zeros((places.count, places.room), dtype=torch.int64, device=device)  # type: ignore[call-overload]
        """Token ids, prompt included."""
        self.starts: I64 = np.zeros(places.count, dtype=np.int64)
        """Tokens of each prompt."""

    @property
    def n(self) -> int:
        """Places in use."""
        return len(self._places)

    @property
    def steps(self) -> I64:
        """Tokens made so far at each place in use."""
        return self._places.made[: self.n]

    @property
    def lengths(self) -> I64:
        """Tokens so far at each place in use, prompt included."""
        return self.starts[: self.n] + self.steps

    def may_not_end(self) -> list[int]:
        """Places whose next token must not be the end of text."""
        if not self._request.min_new_tokens:
            return []
        return [i for i, step in enumerate(self.steps.tolist()) if self._request.may_not_end(step)]


def run_rows(
    lms: Sequence[CausalModel], request: GenerationRequest, emit: Emit, advance: Advance, chooser: Chooser
) -> None:
    """Continue the request's prompts; the texts are of the first model, the others give logits too."""
    import torch

    lm = lms[0]
    with torch.inference_mode():
        places = Places(lms, request)
        now = Running(places, request, lm.device)
        last = torch.zeros(places.count, dtype=torch.int64, device=lm.device)
        while True:
            _take_turn(places, now, chooser, last)
            n = len(places)
            if not n:
                return
            logits = [run.logits(hidden) for run, hidden in zip(places.runs, places.feed(last[:n]), strict=True)]
            token = chooser.choose(logits, now)
            del logits
            now.history[torch.arange(n, device=lm.device), torch.from_numpy(now.lengths).to(lm.device)] = token
            places.made[:n] += 1
            last[:n] = token
            advance(n)
            ended = ends(lm, token).tolist() if lm.eos_ids else [False] * n
            over = [i for i, step in enumerate(now.steps.tolist()) if ended[i] or step == request.max_new_tokens]
            if over:
                _let_go(lm, emit, places, now, chooser, over, ended)


def _take_turn(places: Places, now: Running, chooser: Chooser, last: Tensor) -> None:
    """Seat who waits and move what must move."""
    import torch

    turn = places.turn()
    if turn.source:
        chooser.move(turn.source, turn.target)
        now.history[turn.target] = now.history[turn.source]
        now.starts[turn.target] = now.starts[turn.source]
        last[turn.target] = last[turn.source]
    for place in turn.fresh:
        prompt = places.prompt(place)
        ids = places.ids(prompt)
        now.history[place, : len(ids)] = torch.tensor(ids, device=now.history.device)
        now.starts[place] = len(ids)
        chooser.seat(place, prompt)


def _let_go(
    lm: CausalModel, emit: Emit, places: Places, now: Running, chooser: Chooser, over: list[int], ended: list[bool]
) -> None:
    """Emit the texts that are over and free their places."""
    made = []
    for place in over:
        first = int(now.starts[place])
        end = first + int(places.made[place]) - ended[place]
        ids = now.history[place, first:end].tolist()
        made.append(finished(lm, places.prompt(place), ids, ended=ended[place], log_prob=chooser.log_prob(place)))
    emit(made)
    places.leave(over)


def finished(
    lm: CausalModel, prompt: Prompt, ids: Sequence[int], *, ended: bool, log_prob: float = math.nan
) -> Generation:
    """Make the row's record; `ids` without the end token.

    The log-probability is rounded to 1e-6: its last bits depend on where a row stands in a vector register.
    """
    stop: Stop = "eos" if ended else "length"
    kept = tuple(int(i) for i in ids)
    text = lm.continuation(prompt.token_ids, kept)
    return Generation(prompt.example_id, prompt.sample, text, kept, stop, round(log_prob, 6))
