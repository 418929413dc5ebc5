"""Who rates what: every rating that is wanted, dealt to sheets with balanced players and sides.

No prompt comes twice on a sheet, so that nobody compares what he saw before; each pair of players stands as often one
way round as the other.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from openended.harness.core import SpecError, stream
from openended.harness.rating.controls import Control
from openended.harness.rating.protocol import StudyProtocol
from openended.harness.rating.texts import Material

CONTROL = "control/"
"""Begins the example of a control item."""


@dataclass(frozen=True, slots=True)
class RatingTask:
    """One item that one rater rates."""

    id: str
    """What sheets call it: says nothing about prompt or players."""
    example: str
    sides: tuple[str, ...]
    """`pairs`: the players shown as A and B; `ratings`: the player; of a control empty."""

    @property
    def is_control(self) -> bool:
        """True for an item whose answer is known."""
        return self.example.startswith(CONTROL)


@dataclass(frozen=True, slots=True)
class StudyDesign:
    """All ratings that are wanted, and the sheets that they are dealt to."""

    tasks: tuple[RatingTask, ...]
    sheets: tuple[tuple[RatingTask, ...], ...]


def opaque(secret: bytes, *words: str | int) -> str:
    """Return a name that only who has the secret can trace back."""
    text = "\x1f".join(map(str, words)).encode()
    return hmac.new(secret, text, hashlib.sha256).hexdigest()[:20]


def design_study(
    material: Material, protocol: StudyProtocol, *, controls: Sequence[Control], secret: bytes, seed: int
) -> StudyDesign:
    """Draw prompts, set sides, deal everything to sheets.

    Raises:
        SpecError: If there are too few prompts or players for the protocol's sizes; says what to type.
    """
    examples = sorted(material.texts)
    if protocol.items > len(examples):
        raise SpecError(f"items={protocol.items}: there are {len(examples)} prompts: items={len(examples)}")
    if len(material.players) < 2:
        raise SpecError(f"expected texts of two players or more, got {', '.join(material.players)}")
    drawn = _pairs if protocol.kind == "pairs" else _singles
    tasks = drawn(material, protocol, examples, secret, seed)
    controls_a_sheet = min(protocol.controls_a_sheet, len(controls))
    own = max(1, protocol.items_a_sheet - controls_a_sheet)
    count = max(math.ceil(len(tasks) / own), protocol.raters)
    prompts = len({task.example for task in tasks})
    if math.ceil(len(tasks) / count) > prompts:
        raise SpecError(
            f"items_a_sheet={protocol.items_a_sheet}: no prompt may come twice on a sheet, and there are {prompts}: "
            f"items_a_sheet={prompts}"
        )
    dealt = _dealt(tasks, count, own, seed)
    made = []
    for number, sheet in enumerate(dealt):
        rng = stream(seed, "sheet", number)
        chosen = rng.permutation(len(controls))[:controls_a_sheet]
        checks = [RatingTask(opaque(secret, "control", number, int(c)), f"{CONTROL}{int(c)}", ()) for c in chosen]
        made.append(_mixed(sheet, checks, rng))
    return StudyDesign(tuple(itertools.chain.from_iterable(made)), tuple(made))


def _pairs(
    material: Material, protocol: StudyProtocol, examples: Sequence[str], secret: bytes, seed: int
) -> list[RatingTask]:
    """All pairs of players, each on `items` prompts drawn without replacement; sides take turns."""
    pairs = list(itertools.combinations(material.players, 2))
    order = {pair: stream(seed, "prompts", *pair).permutation(len(examples)) for pair in pairs}
    first = {pair: int(stream(seed, "side", *pair).integers(2)) for pair in pairs}
    made = []
    for k in range(protocol.items):
        # Block by block of all pairs, so that what is dealt in turn is balanced at any time.
        for p in stream(seed, "block", k).permutation(len(pairs)):
            pair = pairs[p]
            example = examples[order[pair][k]]
            for copy in range(protocol.raters):
                sides = pair if (k + copy + first[pair]) % 2 == 0 else pair[::-1]
                made.append(RatingTask(opaque(secret, "pair", example, *pair, copy), example, sides))
    return made


def _singles(
    material: Material, protocol: StudyProtocol, examples: Sequence[str], secret: bytes, seed: int
) -> list[RatingTask]:
    """The texts of all players on `items` prompts, each rated by `raters`."""
    chosen = sorted(stream(seed, "prompts").choice(len(examples), size=protocol.items, replace=False))
    made = []
    for copy in range(protocol.raters):
        texts = [(examples[e], player) for e in chosen for player in material.players]
        for t in stream(seed, "block", copy).permutation(len(texts)):
            example, player = texts[t]
            made.append(RatingTask(opaque(secret, "text", example, player, copy), example, (player,)))
    return made


@dataclass(slots=True)
class _Sheet:
    """A sheet that is being filled."""

    number: int
    tasks: list[RatingTask] = field(default_factory=list)
    examples: set[str] = field(default_factory=set)
    players: Counter[str] = field(default_factory=Counter)
    pairs: Counter[frozenset[str]] = field(default_factory=Counter)

    def add(self, task: RatingTask) -> None:
        self.tasks.append(task)
        self.examples.add(task.example)
        self.players.update(task.sides)
        self.pairs[frozenset(task.sides)] += 1

    def remove(self, task: RatingTask) -> None:
        self.tasks.remove(task)
        self.examples.discard(task.example)
        self.players.subtract(task.sides)
        self.pairs[frozenset(task.sides)] -= 1

    def load(self, task: RatingTask) -> tuple[int, int, int]:
        """How often its players and its pair are here already, and how full the sheet is."""
        return sum(self.players[p] for p in task.sides), self.pairs[frozenset(task.sides)], len(self.tasks)


def _dealt(tasks: Sequence[RatingTask], count: int, most: int, seed: int) -> list[list[RatingTask]]:
    """Give each task to one of the emptiest sheets without its prompt, where its players are rarest.

    What fits nowhere goes onto sheets of its own: two of one prompt never meet.
    """
    sheets = [_Sheet(number) for number in range(count)]
    rng = stream(seed, "deal")
    for task in tasks:
        free = [s for s in sheets if len(s.tasks) < most and task.example not in s.examples]
        if not free:
            free = _made_free(sheets, task, most)
        if not free:
            sheets.append(_Sheet(len(sheets)))
            free = sheets[-1:]
        least = min(len(s.tasks) for s in free)
        near = [s for s in free if len(s.tasks) <= least + 1]
        draw = rng.random(len(near))
        best = min(range(len(near)), key=lambda i: (*near[i].load(task), draw[i]))
        near[best].add(task)
    return [sheet.tasks for sheet in sheets if sheet.tasks]


def _made_free(sheets: Sequence[_Sheet], task: RatingTask, most: int) -> list[_Sheet]:
    """Move a task from a full sheet without this prompt to one that has room and the prompt; returns the first."""
    for room in (s for s in sheets if len(s.tasks) < most):
        for full in (s for s in sheets if task.example not in s.examples):
            moved = next((other for other in full.tasks if other.example not in room.examples), None)
            if moved is not None:
                full.remove(moved)
                room.add(moved)
                return [full]
    return []


def _mixed(
    tasks: Sequence[RatingTask], checks: Sequence[RatingTask], rng: np.random.Generator
) -> tuple[RatingTask, ...]:
    both = [*tasks, *checks]
    return tuple(both[i] for i in rng.permutation(len(both)))
