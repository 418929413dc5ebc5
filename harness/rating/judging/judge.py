"""A model in place of people: every pair in both orders, a tie where the orders disagree; prompts and seeds kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from openended.harness.core import DataError, read_jsonl
from openended.harness.rating.judging.questions import JudgeQuestion, questions_of, read_reply
from openended.harness.rating.key import StudyKey
from openended.metrics.judgments import JUDGE

_FLIPPED = {"a": "b", "b": "a", "tie": "tie"}
_BLOCK = 64  # questions between two writes of the log


class Asker(Protocol):
    """Who answers: a text for a text."""

    @property
    def title(self) -> str:
        """What tables call it."""

    def ask(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """Return a reply to each prompt, drawn with its seed."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge said."""

    rater: str
    rows: tuple[Mapping[str, Any], ...]
    """Judgments in the columns of the file, `calibration` aside."""
    asked: int
    unread: int
    """Answers that could not be read: their items have no judgment on that question."""
    disagreed: int
    """Judgments that are ties because the two orders disagree."""

    def lines(self) -> Iterator[str]:
        """Say what came of it."""
        yield f"{self.asked:,} questions to {self.rater}, {len(self.rows):,} judgments"
        if self.disagreed:
            yield f"{self.disagreed:,} of them are ties because the two orders disagree"
        if self.unread:
            yield f"{self.unread:,} answers could not be read, and their items have no judgment there"


def judge_study(key: StudyKey, asker: Asker, log: Path, *, limit: int | None = None, seed: int = 0) -> Judged:
    """Ask a judge about a study.

    Args:
        key: The study.
        asker: The judge.
        log: JSON lines of every prompt, seed and reply; what it holds is not asked again.
        limit: Items asked about; None: all.
        seed: Of the replies.
    """
    questions = questions_of(key, limit=limit, seed=seed)
    replies = _replies(questions, asker, log)
    read = [read_reply(key.protocol, reply) for reply in replies]
    wanted = len(key.protocol.questions)
    unread = sum(wanted - len(found) for found in read)
    units: dict[tuple[str, ...], list[tuple[JudgeQuestion, Mapping[str, int]]]] = {}
    for question, found in zip(questions, read, strict=True):
        units.setdefault(question.unit, []).append((question, found))
    rows, disagreed = [], 0
    for asked in units.values():
        made, ties = _judgments(key, f"{JUDGE}{asker.title}", asked)
        rows += made
        disagreed += ties
    return Judged(f"{JUDGE}{asker.title}", tuple(rows), len(questions), unread, disagreed)


def _replies(questions: Sequence[JudgeQuestion], asker: Asker, log: Path) -> list[str]:
    """Return a reply to each question: from the log, or asked now and logged."""
    known = _logged(log, asker.title)
    missing = [q for q in questions if _digest(q) not in known]
    log.parent.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(missing), _BLOCK):
        block = missing[start : start + _BLOCK]
        replies = asker.ask([q.prompt for q in block], [q.seed for q in block])
        with log.open("a", encoding="utf-8") as handle:
            for question, reply in zip(block, replies, strict=True):
                known[_digest(question)] = reply
                told = {"judge": asker.title, "example": question.example, "sides": list(question.sides),
                        "seed": question.seed, "prompt": question.prompt, "reply": reply}  # fmt: skip
                handle.write(json.dumps(told) + "\n")  # ASCII: a text may hold separators of lines
    return [known[_digest(question)] for question in questions]


def _logged(log: Path, judge: str) -> dict[str, str]:
    """Return digest of a question → the reply that a log has; the line that a kill cut off is dropped."""
    if not log.exists():
        return {}
    whole = log.read_bytes()
    if whole and not whole.endswith(b"\n"):
        log.write_bytes(whole[: whole.rfind(b"\n") + 1])
    found = {}
    for number, row in read_jsonl(log) if log.stat().st_size else ():
        try:
            if row["judge"] == judge:
                own = JudgeQuestion(row["example"], tuple(row["sides"]), row["prompt"], row["seed"])
                found[_digest(own)] = str(row["reply"])
        except (KeyError, TypeError) as err:
            raise DataError(f"{log}:{number}: not a line of a judge's log ({err}); give another -o") from err
    return found


def _digest(question: JudgeQuestion) -> str:
    return hashlib.sha256(json.dumps([question.prompt, question.seed]).encode()).hexdigest()


def _judgments(
    key: StudyKey, rater: str, asked: Sequence[tuple[JudgeQuestion, Mapping[str, int]]]
) -> tuple[list[dict[str, Any]], int]:
    """Return the judgments of one item, and how many are ties because the orders disagree."""
    first = asked[0][0]
    rows, ties = [], 0
    for criterion in key.protocol.questions:
        answers = [key.protocol.choices[found[criterion] - 1] for _, found in asked if criterion in found]
        if len(answers) < len(asked):
            continue
        row: dict[str, Any] = {"example_id": first.example, "item": first.example}
        row |= {"criterion": criterion, "rater": rater}
        if len(first.sides) == 1:
            rows.append({**row, "system": first.sides[0], "rating": f"{answers[0].rating:g}"})
            continue
        one, other = str(answers[0].outcome), _FLIPPED[str(answers[1].outcome)]
        agree = one == other
        ties += not agree
        strength = min((answer.strength for answer in answers), key=lambda s: s == "definitely") if agree else "tie"
        a, b = first.sides
        rows.append({**row, "system_a": a, "system_b": b, "outcome": one if agree else "tie", "strength": strength})
    return rows, ties
