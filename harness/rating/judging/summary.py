"""What a judge said, by system; every line of it stands beside its agreement with people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openended.harness.core import stream
from openended.harness.rating.judging.judge import Judged
from openended.harness.rating.key import StudyKey

_DRAWS = 1000


def summary_lines(key: StudyKey, judged: Judged, calibration: str) -> list[str]:
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
    table = _scores(judged.rows, pairs=pairs)
    for player in key.material.players:
        cells = [_cell(table.get((player, criterion), {})) for criterion in criteria]
        out.append(f"| {player} | {' | '.join(cells)} |")
    return [*out, "", "Intervals: 95 %, percentile bootstrap over prompts.", ""]


def _scores(rows: Sequence[Mapping[str, Any]], *, pairs: bool) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Return (player, criterion) → prompt → scores."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if pairs:
            won = {"a": 1.0, "b": 0.0, "tie": 0.5}[row["outcome"]]
            found[row["system_a"], row["criterion"]][row["item"]].append(won)
            found[row["system_b"], row["criterion"]][row["item"]].append(1.0 - won)
        else:
            found[row["system"], row["criterion"]][row["example_id"]].append(float(row["rating"]))
    return found


def _cell(by_prompt: Mapping[str, Sequence[float]]) -> str:
    if not by_prompt:
        return "–"
    means = np.array([float(np.mean(by_prompt[prompt])) for prompt in sorted(by_prompt)])
    rng = stream(0, "judge-summary", len(means))
    draws = means[rng.integers(len(means), size=(_DRAWS, len(means)))].mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{means.mean():.2f} [{low:.2f}, {high:.2f}]"
