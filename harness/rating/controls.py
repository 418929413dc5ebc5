"""Control items with known answers, which raters cannot distinguish from other items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, suggest
from openended.harness.rating.protocol import AnswerChoice, StudyProtocol
from openended.metrics.judgments import read_rows


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
