"""Mean rating of a system's texts by people or a judge, one value per criterion.

The mean over a text's raters, then over texts, on the scale of the file; higher is better. A study with several
questions (coherence, diversity, …) has one value per criterion. Layout `correlation` compares metrics with them.

Source: Le Bronnec et al. 2024, "Exploring Precision and Recall to assess the quality and diversity of LLMs", Fig. 7b
and appendix B.2: coherence, insightfulness and plausibility of single texts from 1 to 5, diversity of ten texts 0 or 1.

The error of a file by itself is the standard error over texts; in a run the interval is a bootstrap over prompts.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import F64, Features, JudgmentMetric, MetricResult, Need, UndefinedMetric, metric
from openended.metrics import judgments as files
from openended.metrics.judgments import Empty, FileRow, RatingFile

RATINGS = Need("judgments", by="file")


def mean_ratings(ratings: ArrayLike) -> F64:
    """Return the mean over the raters of each text.

    Args:
        ratings: Ratings, shape (texts, raters), NaN where a rater did not rate; each text has a rating.

    Returns:
        Means on the scale of the ratings, shape (texts,).

    Raises:
        ValueError: If the shape differs, or a text has no rating.
    """
    table = np.asarray(ratings, dtype=np.float64)
    if table.ndim != 2 or np.isnan(table).all(axis=1).any():
        raise ValueError(f"ratings: expected texts × raters with a rating of each text, got shape {table.shape}")
    return np.asarray(np.nanmean(table, axis=1))


@metric
class MeanRating(JudgmentMetric):
    """Mean ratings of a system's texts by people or a judge, by criterion (P&R Fig. 7b)."""

    name = "mean_rating"
    bounds = (-np.inf, np.inf)
    version = 2
    resampling = "bootstrap"
    titles = {"mean_rating": "Mean rating"}

    system: str | None = None
    """The run's name in the file; null: by judgment_systems."""
    empty: Empty = "refuse"
    """A row without a rating; skip: left out, and counted in the notes."""

    def needs(self) -> tuple[Need, ...]:
        return (RATINGS,)

    @classmethod
    def accepts_columns(cls, columns: Sequence[str], rows: Sequence[FileRow]) -> bool:
        del rows
        return files.are_ratings(columns)

    def read(self, path: Path, renamed: Mapping[str, str] | None = None, human: Collection[str] = ()) -> RatingFile:
        return files.read_criteria(path, renamed=renamed, empty=self.empty, metric=self.name, human=human)

    def list_ids(self, judged: RatingFile) -> tuple[list[str], list[str]]:
        rated = sorted({example for ratings in judged.criteria.values() for example in ratings.example_ids})
        return rated, rated

    def prepare(self, features: Features) -> dict[str, F64]:
        """Return the mean rating of each text: of the run's system, or of every system where none is under test."""
        judged, ids, system = features.model[RATINGS], features.model.ids, self.find_system(features)
        if system is not None and system not in judged.players:
            raise UndefinedMetric(f"system {system!r} was not rated; the file has {', '.join(judged.players)}")
        rows: dict[str, F64] = {}
        row_of_id = {example: row for row, example in reversed([*enumerate(ids)])}  # the first of several texts
        for criterion, ratings in judged.criteria.items():
            # A system may be rated by other criteria alone.
            for name in dict.fromkeys(ratings.systems) if system is None else {system} & {*ratings.systems}:
                rated = {row_of_id[e]: row for e, row in ratings.rows_of(name).items() if e in row_of_id}
                if not rated:
                    raise UndefinedMetric(f"{ratings.source}: no rated text of {name} is in the run")
                column = np.full(len(ids), np.nan)
                column[[*rated]] = mean_ratings(ratings.ratings[[*rated.values()]])
                rows[f"{criterion}/{name}".strip("/") if system is None else criterion or self.name] = column
        rows[self.name] = next(iter(rows.values()))
        return rows

    def evaluate(self, features: Features, prepared: dict[str, F64]) -> MetricResult:
        judged: RatingFile = features.model[RATINGS]
        raters = (rater for ratings in judged.criteria.values() for rater in ratings.raters)
        calibration = next(iter(judged.criteria.values())).calibration
        features, notes, invented = files.add_raters_fact(features, raters, calibration, judged.source)
        for criterion, ratings in judged.criteria.items():
            left_out = f", {ratings.empty} rows without a rating left out" if ratings.empty else ""
            systems = list(dict.fromkeys(ratings.systems))
            counted = f"{int(np.isfinite(ratings.ratings).sum())} ratings of {len(systems)} systems"
            notes.append(f"{criterion}: ".lstrip(": ") + f"{counted} ({', '.join(systems)}){left_out}")
        rated = {key: column[np.isfinite(column)] for key, column in prepared.items()}
        values = {key: float(means.mean()) for key, means in rated.items()}
        sd = {key: float(m.std(ddof=1) / math.sqrt(len(m))) if len(m) > 1 else math.nan for key, m in rated.items()}
        return self.result(features, self.name, values, notes=notes, per_example=prepared, sd=sd, invented=invented)
