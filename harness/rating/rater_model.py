"""Simulated raters with known player strengths, for tests, forecasts and the worked example.

Simulated raters are called `simulated:…` in the judgments file, and tables note them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.core import make_random_stream, write_json
from openended.harness.rating.design import RatingTask
from openended.harness.rating.key import StudyKey
from openended.harness.rating.protocol import StudyProtocol
from openended.harness.rating.sheet import FORM, compute_seal


@dataclass(frozen=True, kw_only=True)
class RaterModel:
    """A probabilistic model of raters."""

    strengths: Mapping[str, float]
    """Player → natural-log ability (`pairs`), or shift of its typicality in steps of the scale (`ratings`)."""
    ties: float = 0.05
    """Share of pairs that a rater calls a tie, whoever wrote them."""
    text_spread: float = 0.6
    """`ratings`: standard deviation of typicality over texts, in steps."""
    noise: float = 0.7
    """`ratings`: standard deviation of a rater around a text's typicality, in steps."""
    seconds: Mapping[str, float] = field(default_factory=lambda: {"median": 60.0, "spread": 0.4})
    """Log-normal time an item."""
    seed: int = 0

    def answer(self, key: StudyKey, sheet: str, task: RatingTask) -> dict[str, int]:
        """Return question → number of the answer, from 1; depends on rater, item and seed alone."""
        answers = key.protocol.choices
        outcomes = np.array([str(answer.outcome) for answer in answers])
        chosen = {}
        for question in key.protocol.questions:
            rng = make_random_stream(self.seed, "simulated", sheet, question, task.example, *task.sides)
            if task.is_control:  # answered correctly with probability 0.95
                control = key.control(task)
                right = [
                    i for i, answer in enumerate(answers) if control.criterion != question or control.accepts(answer)
                ]
                good = rng.random() < 0.95
                number = int(rng.choice(right if good else range(len(answers))))
            elif key.protocol.kind == "pairs":
                first, second = (self.strengths[player] for player in task.sides)
                if "tie" in outcomes and rng.random() < self.ties:
                    number = int(np.argmax(outcomes == "tie"))
                else:
                    side = "a" if rng.random() < 1.0 / (1.0 + math.exp(second - first)) else "b"
                    number = int(rng.choice(np.flatnonzero(outcomes == side)))
            else:
                levels = np.array([answer.rating for answer in answers], dtype=np.float64)
                # The typicality of the text is the same for all raters.
                stream = make_random_stream(self.seed, "text", question, task.example, *task.sides)
                middle = 0.5 * (levels.min() + levels.max()) + self.strengths[task.sides[0]]
                seen = middle + stream.normal(0.0, self.text_spread) + rng.normal(0.0, self.noise)
                number = int(np.argmin(np.abs(levels - seen)))
            chosen[question] = number + 1
        return chosen

    def fill(self, key: StudyKey, sheet: str) -> dict[str, Any]:
        """Return the answers to a sheet in the form that a sheet saves, sealed, and marked as simulated."""
        rows = []
        for name in key.sheets[sheet]:
            task = key.by_id[name]
            rng = make_random_stream(self.seed, "seconds", sheet, task.example, *task.sides)
            seconds = self.seconds["median"] * math.exp(rng.normal(0.0, self.seconds["spread"]))
            rows.append({"id": name, "answers": self.answer(key, sheet, task), "ms": round(1000 * seconds)})
        return {
            "form": FORM, "study": key.study, "sheet": sheet, "started": key.created, "saved": key.created,
            "complete": True, "simulated": True, "answers": rows,
            "seal": compute_seal(key.study, sheet, key.nonce(sheet), tuple(key.protocol.questions), rows),
        }  # fmt: skip


def fill_all_sheets(key: StudyKey, folder: Path, *, strengths: Mapping[str, float] | None = None, seed: int = 0) -> int:
    """Fill every sheet of a study and return their number; strengths default to `derive_strengths_from_texts`."""
    raters = RaterModel(strengths=strengths or derive_strengths_from_texts(key), seed=seed)
    for sheet in key.sheets:
        write_json(folder / f"answers-{sheet}.json", raters.fill(key, sheet))
    return len(key.sheets)


def derive_strengths_from_texts(key: StudyKey) -> dict[str, float]:
    """Return a strength for each player from how little its texts repeat themselves.

    The mean share of 3-grams that a text does not repeat, scaled to a standard deviation of 0.6 over the players; it is
    what the simulated raters of the worked example go by, and says nothing about people.
    """
    from openended.metrics.repetition import seq_rep_n

    texts = key.material.texts
    means = {
        player: 1.0 - seq_rep_n([texts[e][player].split() for e in sorted(texts)], orders=(3,))[3]
        for player in key.material.players
    }
    values = np.array(list(means.values()))
    spread = float(values.std()) or 1.0
    return {player: 0.6 * float(value - values.mean()) / spread for player, value in means.items()}


def make_forecast_raters(protocol: StudyProtocol, players: Sequence[str], seed: int) -> RaterModel:
    """Return the raters that a forecast assumes."""
    spread = 0.5 if protocol.kind == "pairs" else 0.3
    ties = protocol.most_ties if any(answer.outcome == "tie" for answer in protocol.choices) else 0.0
    steps = np.linspace(1.0, -1.0, len(players))  # evenly spaced abilities of mean 0
    scale = spread / float(steps.std())
    strengths = {player: float(scale * step) for player, step in zip(players, steps, strict=True)}
    return RaterModel(strengths=strengths, ties=ties, seed=seed)
