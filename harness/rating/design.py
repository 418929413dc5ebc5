"""Study design: assign all ratings to sheets with balanced players and sides.

No prompt appears twice on a sheet. Each pair of players is shown equally often in both orders.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, SpecError, make_random_stream, suggest
from openended.harness.rating.protocol import AnswerChoice, StudyProtocol
from openended.harness.rating.texts import StudyTexts
from openended.metrics.judgments import read_rows

CONTROL = "control/"
"""Prefix of the example id of a control item."""


@dataclass(frozen=True, slots=True)
class Control:
    """One control item with its expected answer."""

    prompt: str
    texts: tuple[str, ...]
    """`pairs`: A and B; `ratings`: one."""
    expected: str
    """`pairs`: `a`, `b` or `tie`; `ratings`: `low-high`, the ratings that pass."""
    criterion: str
    """The question that is checked."""

    def accepts(self, answer: AnswerChoice) -> bool:
        """Return whether an answer to its question is correct."""
        if answer.rating is None:
            return answer.outcome == self.expected
        low, _, high = self.expected.partition("..")
        return float(low) <= answer.rating <= float(high)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**asdict(self), "texts": list(self.texts)}

    @classmethod
    def from_json(cls, node: Mapping[str, Any]) -> Control:
        """Read what `to_json` wrote."""
        return cls(node["prompt"], tuple(node["texts"]), node["expected"], node["criterion"])


def read_controls(path: Path, protocol: StudyProtocol) -> tuple[Control, ...]:
    """Read a CSV or JSON-lines file of controls.

    Columns: `prompt`; `text_a`, `text_b` (or `text`); `expected` (`a`, `b` or `tie`; a rating, or `4..5`);
    `criterion` where the protocol has several questions (else all mean the first).
    """
    columns, rows = read_rows(path)
    names = ("text_a", "text_b") if protocol.kind == "pairs" else ("text",)
    missing = [name for name in ("prompt", *names, "expected") if name not in columns]
    if missing:
        raise DataError(f"{path}: expected the columns prompt, {', '.join(names)}, expected; no {missing[0]!r} there")
    controls = []
    for row in rows:
        criterion = row.text("criterion") if "criterion" in columns else next(iter(protocol.questions))
        if criterion not in protocol.questions:
            raise DataError(
                f"{row.where}: criterion: no question {criterion!r}{suggest(criterion, protocol.questions)}"
            )
        expected = _parse_expected(row.text("expected"), protocol.choices, row.where)
        controls.append(Control(row.text("prompt"), tuple(row.text(n) for n in names), expected, criterion))
    return tuple(controls)


def _parse_expected(text: str, answers: Sequence[AnswerChoice], where: str) -> str:
    outcomes = sorted({str(answer.outcome) for answer in answers if answer.outcome})
    if outcomes:
        if text.lower() not in outcomes:
            raise DataError(f"{where}: expected: one of {', '.join(outcomes)}, got {text!r}")
        return text.lower()
    low, _, high = text.partition("..")
    try:
        ends = float(low), float(high or low)
    except ValueError as err:
        raise DataError(f"{where}: expected: a rating, or two as 4..5, got {text!r}") from err
    ratings = [answer.rating for answer in answers if answer.rating is not None]
    if not any(ends[0] <= rating <= ends[1] for rating in ratings):
        raise DataError(
            f"{where}: expected: no answer is in {text!r}; ratings go from {min(ratings):g} to {max(ratings):g}"
        )
    return f"{ends[0]:g}..{ends[1]:g}"


@dataclass(frozen=True, slots=True)
class RatingTask:
    """One item that one rater rates."""

    id: str
    """Id on sheets; it does not reveal prompt or players."""
    example: str
    sides: tuple[str, ...]
    """`pairs`: the players shown as A and B; `ratings`: the player; of a control empty."""

    @property
    def is_control(self) -> bool:
        """True for an item whose answer is known."""
        return self.example.startswith(CONTROL)


@dataclass(frozen=True, slots=True)
class StudyDesign:
    """All rating tasks and the sheets they are assigned to."""

    tasks: tuple[RatingTask, ...]
    sheets: tuple[tuple[RatingTask, ...], ...]


def derive_opaque_id(secret: bytes, *words: str | int) -> str:
    """Return an id that can be traced back only with the secret."""
    text = "\x1f".join(map(str, words)).encode()
    return hmac.new(secret, text, hashlib.sha256).hexdigest()[:20]


def design_study(
    material: StudyTexts, protocol: StudyProtocol, *, controls: Sequence[Control], secret: bytes, seed: int
) -> StudyDesign:
    """Draw prompts, choose sides, and assign all tasks to sheets."""
    examples = sorted(material.texts)
    if protocol.items > len(examples):
        raise SpecError(f"items={protocol.items}: there are {len(examples)} prompts: items={len(examples)}")
    if len(material.players) < 2:
        raise SpecError(f"expected texts of two players or more, got {', '.join(material.players)}")
    draw_tasks = _draw_pairs if protocol.kind == "pairs" else _draw_singles
    tasks = draw_tasks(material, protocol, examples, secret, seed)
    controls_a_sheet = min(protocol.controls_a_sheet, len(controls))
    rated_items = max(1, protocol.items_a_sheet - controls_a_sheet)
    count = max(math.ceil(len(tasks) / rated_items), protocol.raters)
    prompts = len({task.example for task in tasks})
    if math.ceil(len(tasks) / count) > prompts:
        raise SpecError(
            f"items_a_sheet={protocol.items_a_sheet}: no prompt may come twice on a sheet, and there are {prompts}: "
            f"items_a_sheet={prompts}"
        )
    dealt = _deal_tasks(tasks, count, rated_items, seed)
    sheets = []
    for number, sheet in enumerate(dealt):
        rng = make_random_stream(seed, "sheet", number)
        chosen = rng.permutation(len(controls))[:controls_a_sheet]
        checks = [
            RatingTask(derive_opaque_id(secret, "control", number, int(c)), f"{CONTROL}{int(c)}", ()) for c in chosen
        ]
        both = [*sheet, *checks]
        sheets.append(tuple(both[i] for i in rng.permutation(len(both))))
    return StudyDesign(tuple(itertools.chain.from_iterable(sheets)), tuple(sheets))


def _draw_pairs(
    material: StudyTexts, protocol: StudyProtocol, examples: Sequence[str], secret: bytes, seed: int
) -> list[RatingTask]:
    """Draw `items` prompts without replacement for every pair of players; the sides alternate."""
    pairs = list(itertools.combinations(material.players, 2))
    order = {pair: make_random_stream(seed, "prompts", *pair).permutation(len(examples)) for pair in pairs}
    first = {pair: int(make_random_stream(seed, "side", *pair).integers(2)) for pair in pairs}
    tasks = []
    for k in range(protocol.items):
        # In blocks of all pairs, so that any prefix of the tasks is balanced.
        for p in make_random_stream(seed, "block", k).permutation(len(pairs)):
            pair = pairs[p]
            example = examples[order[pair][k]]
            for copy in range(protocol.raters):
                sides = pair if (k + copy + first[pair]) % 2 == 0 else pair[::-1]
                tasks.append(RatingTask(derive_opaque_id(secret, "pair", example, *pair, copy), example, sides))
    return tasks


def _draw_singles(
    material: StudyTexts, protocol: StudyProtocol, examples: Sequence[str], secret: bytes, seed: int
) -> list[RatingTask]:
    """Draw `items` prompts for the texts of all players, each rated by `raters`."""
    chosen = sorted(make_random_stream(seed, "prompts").choice(len(examples), size=protocol.items, replace=False))
    tasks = []
    for copy in range(protocol.raters):
        texts = [(examples[e], player) for e in chosen for player in material.players]
        for t in make_random_stream(seed, "block", copy).permutation(len(texts)):
            example, player = texts[t]
            tasks.append(RatingTask(derive_opaque_id(secret, "text", example, player, copy), example, (player,)))
    return tasks


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
        """Return how often its players and its pair are on the sheet, and the sheet's size."""
        return sum(self.players[p] for p in task.sides), self.pairs[frozenset(task.sides)], len(self.tasks)


def _deal_tasks(tasks: Sequence[RatingTask], count: int, most: int, seed: int) -> list[list[RatingTask]]:
    """Assign each task to one of the emptiest sheets without its prompt, where its players are rarest.

    A task that fits on no sheet starts a new one.
    """
    sheets = [_Sheet(number) for number in range(count)]
    rng = make_random_stream(seed, "deal")
    for task in tasks:
        free = [s for s in sheets if len(s.tasks) < most and task.example not in s.examples]
        if not free:
            free = _free_a_slot(sheets, task, most)
        if not free:
            sheets.append(_Sheet(len(sheets)))
            free = sheets[-1:]
        least = min(len(s.tasks) for s in free)
        near = [s for s in free if len(s.tasks) <= least + 1]
        draw = rng.random(len(near))
        best = min(range(len(near)), key=lambda i: (*near[i].load(task), draw[i]))
        near[best].add(task)
    return [sheet.tasks for sheet in sheets if sheet.tasks]


def _free_a_slot(sheets: Sequence[_Sheet], task: RatingTask, most: int) -> list[_Sheet]:
    """Move a task from a full sheet without this prompt to one that has room and the prompt; returns the first."""
    for room in (s for s in sheets if len(s.tasks) < most):
        for full in (s for s in sheets if task.example not in s.examples):
            moved = next((other for other in full.tasks if other.example not in room.examples), None)
            if moved is not None:
                full.remove(moved)
                room.add(moved)
                return [full]
    return []
