"""Places: a fixed number of texts run at once; one that ends gives its place to the next waiting prompt.

Prompts wait longest first, those of one text for several samples side by side: such a prompt goes through the model
once, and the others start from its keys and values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import I64
from openended.harness.decoders import GenerationRequest, Prompt

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel
    from openended.harness.generation.kv_cache.base import Runner


@dataclass(frozen=True, slots=True)
class Turn:
    """What changed before the next step."""

    fresh: list[int]
    """Places with a prompt that no model has seen yet, ascending."""
    source: list[int]
    """Places that moved, because nobody waits for those in front of them."""
    target: list[int]
    """Where they are now."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The prompt that went through the models last, and a place that still holds its keys and values."""

    ids: tuple[int, ...]
    place: int
    states: list[Tensor]


class Places:
    """The texts that run, each on `width` neighbouring rows of every model."""

    def __init__(self, lms: Sequence[CausalModel], request: GenerationRequest, width: int = 1) -> None:
        from openended.harness.generation.kv_cache.choose import runner

        prompts = request.prompts
        self._start_id = lms[0].start_id
        self.count, self.width = min(request.batch_size, len(prompts)), width
        self.room = max(len(self.ids(p)) for p in prompts) + request.max_new_tokens
        self.runs: list[Runner] = [runner(lm, self.count * width, self.room) for lm in lms]
        self._device = lms[0].device
        self._ragged = all(run.ragged for run in self.runs)
        seen: dict[tuple[int, ...], int] = {}
        for i, p in enumerate(prompts):
            seen.setdefault(p.token_ids, i)
        self._waiting = deque(sorted(prompts, key=lambda p: (-len(p.token_ids), seen[p.token_ids])))
        self._seated: list[Prompt | None] = []
        self._fresh: list[int] = []
        self._seen: _Seen | None = None
        self.made: I64 = np.zeros(self.count, dtype=np.int64)
        """Tokens made at each place."""

    def __len__(self) -> int:
        return len(self._seated)

    def ids(self, prompt: Prompt) -> tuple[int, ...]:
        """What the model reads: an empty prompt becomes the model's start token."""
        return prompt.token_ids or (self._start_id,)

    def prompt(self, place: int) -> Prompt:
        """Who sits there."""
        found = self._seated[place]
        assert found is not None  # noqa: S101 - places in use have somebody
        return found

    def leave(self, places: Sequence[int]) -> None:
        """Their texts ended."""
        for place in places:
            self._seated[place] = None

    def turn(self) -> Turn:
        """Seat who waits and close the holes that nobody fills."""
        fresh = self._seat()
        if self._seen is not None:  # before a move can take the place that holds them
            self._share([p for p in fresh if self.ids(self.prompt(p)) == self._seen.ids], self._seen)
        size = sum(p is not None for p in self._seated)
        target = [i for i in range(size) if self._seated[i] is None]
        source = [i for i in range(size, len(self._seated)) if self._seated[i] is not None]
        for old, new in zip(source, target, strict=True):
            self._seated[new] = self._seated[old]
        del self._seated[size:]
        if source:
            self.made[target] = self.made[source]
            for run in self.runs:
                run.copy(self.rows(source), self.rows(target))
        self._fresh = fresh
        return Turn(fresh, source, target)

    def _seat(self) -> list[int]:
        free = [i for i, p in enumerate(self._seated) if p is None]
        free += range(len(self._seated), self.count)
        if not self._ragged and (len(free) < self.count or not self._waiting):
            return []
        fresh = []
        first = len(self._waiting[0].token_ids) if self._waiting else 0
        for place in free:
            if not self._waiting or (not self._ragged and len(self._waiting[0].token_ids) != first):
                break
            if place == len(self._seated):
                self._seated.append(None)
            self._seated[place] = self._waiting.popleft()
            self.made[place] = 0
            fresh.append(place)
        return fresh

    def rows(self, places: Sequence[int]) -> list[int]:
        """The rows of places, in their order."""
        return [p * self.width + i for p in places for i in range(self.width)]

    def start(self, *, every: bool) -> list[list[Tensor]]:
        """Run the prompts of the fresh places.

        Args:
            every: All positions are asked for, not the last alone.

        Returns:
            For each model and each fresh place, hidden states as `Runner.start` gives them.
        """
        seen = self._seen
        states: dict[int, list[Tensor]] = {}
        new: dict[tuple[int, ...], list[int]] = {}
        for place in self._fresh:
            ids = self.ids(self.prompt(place))
            if seen is not None and ids == seen.ids:
                states[place] = seen.states
            else:
                new.setdefault(ids, []).append(place)
        firsts = [places[0] for places in new.values()]
        made = [run.start([p * self.width for p in firsts], list(new), every=every) if new else [] for run in self.runs]
        for i, (ids, places) in enumerate(new.items()):
            self._spread(places[0], len(ids))
            self._seen = _Seen(ids, places[0], [per_model[i] for per_model in made])
            self._share(places[1:], self._seen)
            states |= dict.fromkeys(places, self._seen.states)
        if not self._ragged:
            self._seen = None
        return [[states[p][m] for p in self._fresh] for m in range(len(self.runs))]

    def _share(self, places: Sequence[int], seen: _Seen) -> None:
        """Give places the keys and values of a prompt that went through before."""
        for place in places:
            if place != seen.place:
                for run in self.runs:
                    run.copy([seen.place * self.width], [place * self.width], length=len(seen.ids))
            else:
                for run in self.runs:
                    run.lengths[place * self.width] = len(seen.ids)
            self._spread(place, len(seen.ids))

    def _spread(self, place: int, length: int) -> None:
        """The first row of a place becomes all of them."""
        if self.width > 1:
            first = place * self.width
            for run in self.runs:
                run.copy([first] * (self.width - 1), list(range(first + 1, first + self.width)), length=length)

    def feed(self, tokens: Tensor) -> list[Tensor]:
        """Run prompts of fresh places, and one token more in the rows of the others.

        Args:
            tokens: Shape (rows in use,); those of fresh places are not read.

        Returns:
            For each model, hidden states from which the next token is chosen, (rows in use, d).
        """
        import torch

        fresh = set(self._fresh)
        new = self.start(every=False) if fresh else [[] for _ in self.runs]
        states = [[s[-1] for s in per_model] for per_model in new]
        if not fresh:
            rows = self.rows(range(len(self)))
            return [run.extend(tokens, rows) for run in self.runs]
        running = self.rows([i for i in range(len(self)) if i not in fresh])
        at = torch.tensor(running + self.rows(self._fresh), device=self._device)
        made = []
        for run, begun in zip(self.runs, states, strict=True):
            hidden = torch.stack(begun).repeat_interleave(self.width, 0)
            if running:
                hidden = torch.cat([run.extend(tokens[at[: len(running)]], running), hidden])
            made.append(torch.empty_like(hidden).index_copy_(0, at.to(hidden.device), hidden))
        return made
