"""Summarize a judge's ratings by system, next to its agreement with people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openended.harness.core import make_random_stream
from openended.harness.rating.judging.ask_judge import JudgeResult
from openended.harness.rating.key import StudyKey

_DRAWS = 1000


def format_summary(key: StudyKey, judged: JudgeResult, calibration: str) -> list[str]:
    """Return the judge's sheet as Markdown: mean ratings, or shares of wins, with intervals over prompts."""
    pairs = key.protocol.kind == "pairs"
    what = "share of wins, a tie is half" if pairs else "mean rating"
    out = [f"# {judged.rater} on study {key.study} ({key.protocol.label})", ""]
    out += [f"- {line}" for line in judged.lines()]
    out += [f"- agreement with people: **{calibration}**", ""]
    criteria = list(key.protocol.questions)
    out += [
        f"| {what} | {' | '.join(f'{c} ({calibration})' for c in criteria)} |",
        f"| --- |{' ---: |' * len(criteria)}",
    ]
    table = _collect_scores(judged.rows, pairs=pairs)
    for player in key.material.players:
        cells = [_format_cell(table.get((player, criterion), {})) for criterion in criteria]
        out.append(f"| {player} | {' | '.join(cells)} |")
    return [*out, "", "Intervals: 95 %, percentile bootstrap over prompts.", ""]


def _collect_scores(rows: Sequence[Mapping[str, Any]], *, pairs: bool) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Return (player, criterion) → prompt → scores."""
    scores: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if pairs:
            won = {"a": 1.0, "b": 0.0, "tie": 0.5}[row["outcome"]]
            scores[row["system_a"], row["criterion"]][row["item"]].append(won)
            scores[row["system_b"], row["criterion"]][row["item"]].append(1.0 - won)
        else:
            scores[row["system"], row["criterion"]][row["example_id"]].append(float(row["rating"]))
    return scores


def _format_cell(by_prompt: Mapping[str, Sequence[float]]) -> str:
    if not by_prompt:
        return "–"
    means = np.array([float(np.mean(by_prompt[prompt])) for prompt in sorted(by_prompt)])
    rng = make_random_stream(0, "judge-summary", len(means))
    draws = means[rng.integers(len(means), size=(_DRAWS, len(means)))].mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{means.mean():.2f} [{low:.2f}, {high:.2f}]"
