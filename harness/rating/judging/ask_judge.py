"""Ask a model to rate a study: each pair in both orders, a tie if the orders disagree, every reply logged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from openended.harness.core import DataError, read_jsonl
from openended.harness.rating.judging.questions import JudgeQuestion, build_questions, read_reply
from openended.harness.rating.key import StudyKey
from openended.metrics.judgments import JUDGE

_FLIPPED = {"a": "b", "b": "a", "tie": "tie"}
_BLOCK = 64  # questions between two writes of the log


class Asker(Protocol):
    """Replies to a prompt with a text."""

    @property
    def title(self) -> str:
        """The name in tables."""

    def ask(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """Return a reply to each prompt, drawn with its seed."""


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """The judgments of one judge and how many replies could not be used."""

    rater: str
    rows: tuple[Mapping[str, Any], ...]
    """Judgments in the columns of the file, `calibration` aside."""
    num_questions: int
    unread: int
    """Answers that could not be read: their items have no judgment on that question."""
    disagreed: int
    """Judgments that are ties because the two orders disagree."""

    def lines(self) -> Iterator[str]:
        """Return the lines that the command prints."""
        yield f"{self.num_questions:,} questions to {self.rater}, {len(self.rows):,} judgments"
        if self.disagreed:
            yield f"{self.disagreed:,} of them are ties because the two orders disagree"
        if self.unread:
            yield f"{self.unread:,} answers could not be read; their items have no judgment on that question"


def judge_study(key: StudyKey, asker: Asker, log: Path, *, limit: int | None = None, seed: int = 0) -> JudgeResult:
    """Ask a judge about a study."""
    questions = build_questions(key, limit=limit, seed=seed)
    replies = _collect_replies(questions, asker, log)
    read = [read_reply(key.protocol, reply) for reply in replies]
    num_questions = len(key.protocol.questions)
    unread = sum(num_questions - len(choices) for choices in read)
    units: dict[tuple[str, ...], list[tuple[JudgeQuestion, Mapping[str, int]]]] = {}
    for question, choices in zip(questions, read, strict=True):
        units.setdefault(question.unit, []).append((question, choices))
    rows, disagreed = [], 0
    for group in units.values():
        judgments, ties = _build_judgments(key, f"{JUDGE}{asker.title}", group)
        rows += judgments
        disagreed += ties
    return JudgeResult(f"{JUDGE}{asker.title}", tuple(rows), len(questions), unread, disagreed)


def _collect_replies(questions: Sequence[JudgeQuestion], asker: Asker, log: Path) -> list[str]:
    """Return a reply to each question: from the log, or asked now and logged."""
    replies_by_digest = _read_log(log, asker.title)
    missing = [q for q in questions if _digest(q) not in replies_by_digest]
    log.parent.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(missing), _BLOCK):
        block = missing[start : start + _BLOCK]
        replies = asker.ask([q.prompt for q in block], [q.seed for q in block])
        with log.open("a", encoding="utf-8") as handle:
            for question, reply in zip(block, replies, strict=True):
                replies_by_digest[_digest(question)] = reply
                entry = {"judge": asker.title, "example": question.example, "sides": list(question.sides),
                        "seed": question.seed, "prompt": question.prompt, "reply": reply}  # fmt: skip
                handle.write(json.dumps(entry) + "\n")  # ASCII: a text may hold separators of lines
    return [replies_by_digest[_digest(question)] for question in questions]


def _read_log(log: Path, judge: str) -> dict[str, str]:
    """Return digest of a question → logged reply; a last line cut short by a kill is dropped."""
    if not log.exists():
        return {}
    content = log.read_bytes()
    if content and not content.endswith(b"\n"):
        log.write_bytes(content[: content.rfind(b"\n") + 1])
    replies = {}
    for number, row in read_jsonl(log) if log.stat().st_size else ():
        try:
            if row["judge"] == judge:
                question = JudgeQuestion(row["example"], tuple(row["sides"]), row["prompt"], row["seed"])
                replies[_digest(question)] = str(row["reply"])
        except (KeyError, TypeError) as err:
            raise DataError(f"{log}:{number}: not a line of a judge's log ({err}); give another -o") from err
    return replies


def _digest(question: JudgeQuestion) -> str:
    return hashlib.sha256(json.dumps([question.prompt, question.seed]).encode()).hexdigest()


def _build_judgments(
    key: StudyKey, rater: str, group: Sequence[tuple[JudgeQuestion, Mapping[str, int]]]
) -> tuple[list[dict[str, Any]], int]:
    """Return the judgments of one item, and how many are ties because the orders disagree."""
    first = group[0][0]
    rows, ties = [], 0
    for criterion in key.protocol.questions:
        answers = [key.protocol.choices[choices[criterion] - 1] for _, choices in group if criterion in choices]
        if len(answers) < len(group):
            continue
        row: dict[str, Any] = {"example_id": first.example, "item": first.example}
        row |= {"criterion": criterion, "rater": rater}
        if len(first.sides) == 1:
            rows.append({**row, "system": first.sides[0], "rating": f"{answers[0].rating:g}"})
            continue
        first_outcome, second_outcome = str(answers[0].outcome), _FLIPPED[str(answers[1].outcome)]
        agree = first_outcome == second_outcome
        ties += not agree
        strength = min((answer.strength for answer in answers), key=lambda s: s == "definitely") if agree else "tie"
        a, b = first.sides
        rows.append(
            {**row, "system_a": a, "system_b": b, "outcome": first_outcome if agree else "tie", "strength": strength}
        )
    return rows, ties
