"""Mean rating of a system's texts by people or a judge, one value per criterion.

The mean over a text's raters, then over texts, on the scale of the file; higher is better. A study with several
questions (coherence, diversity, …) has one value per criterion. Layout `correlation` compares metrics with them.

Source: Le Bronnec et al. 2024, "Exploring Precision and Recall to assess the quality and diversity of LLMs", Fig. 7b
and appendix B.2: coherence, insightfulness and plausibility of single texts from 1 to 5, diversity of ten texts 0 or 1.

The error of a file by itself is the standard error over texts; in a run the interval is a bootstrap over prompts.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import F64, HUMAN, DataError, Features, Metric, MetricResult, Need, UndefinedMetric, metric
from openended.metrics import judgments as files
from openended.metrics._common import Values
from openended.metrics.judgments import Empty, FileRow, Judgments

RATINGS = Need("judgments", by="file")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MeanRatingScores(Values):
    """What `mean_rating` returns; fields by attribute or by key."""

    mean: float
    std_error: float
    """Standard error over texts; NaN of one text."""
    per_text: F64
    """Mean over the raters of each text, shape (texts,)."""


def mean_rating(ratings: ArrayLike) -> MeanRatingScores:
    """Average over the raters of each text, then over texts.

    Args:
        ratings: Shape (texts, raters), NaN where a rater did not rate; each text has a rating.
    """
    table = np.atleast_2d(np.asarray(ratings, dtype=np.float64))
    if not table.size or np.isnan(table).all(axis=1).any():
        raise ValueError(f"ratings: expected texts × raters with a rating of each text, got shape {table.shape}")
    per_text: F64 = np.nanmean(table, axis=1)
    n = len(per_text)
    error = float(per_text.std(ddof=1) / np.sqrt(n)) if n > 1 else math.nan
    return MeanRatingScores(float(per_text.mean()), error, per_text)


@metric
class MeanRating(files.JudgmentMetric):
    """Mean rating of the run's system by criterion; of a file by itself, of every system."""

    name = "mean_rating"
    bounds = (-np.inf, np.inf)
    resampling = "bootstrap"
    titles = {"mean_rating": "Mean rating"}

    system: str | None = None  # the run's name in the file; none: the only one there that is not human
    criterion: str | None = None  # one of the file's criteria; none: each of them
    empty: Empty = "refuse"  # a row without a rating; skip: left out, and counted in the notes

    def needs(self) -> tuple[Need, ...]:
        return (RATINGS,)

    @classmethod
    def accepts_columns(cls, columns: Sequence[str], rows: Sequence[FileRow]) -> bool:
        del rows
        return files.are_ratings(columns)

    def read(self, path: Path, renamed: Mapping[str, str] | None = None) -> dict[str, Judgments]:
        judged = files.read_criteria(path, renamed=renamed, empty=self.empty, metric=self.name)
        if self.criterion is not None and self.criterion not in judged:
            names = ", ".join(filter(None, judged)) or "none"
            raise DataError(f"{path}: metric.mean_rating.criterion: no {self.criterion!r}; the file has {names}")
        return judged if self.criterion is None else {self.criterion: judged[self.criterion]}

    def check_examples(self, judged: Mapping[str, Judgments], ids: Collection[str] | None = None) -> None:
        system = self._choose_system(judged)
        for ratings in judged.values():
            if ids is not None:
                files.check_rated_examples(ratings.source, ratings.rows_of(system), ids)

    def _choose_system(self, judged: Mapping[str, Judgments]) -> str:
        """Return the run's name in the file."""
        names = sorted({name for ratings in judged.values() for name in ratings.systems})
        chosen = [self.system] if self.system is not None else [name for name in names if name != HUMAN]
        if len(chosen) != 1 or chosen[0] not in names:
            wrong = f", got {self.system}" if self.system is not None else ""
            raise DataError(f"metric.mean_rating.system: expected one of {', '.join(names)}, as rated{wrong}")
        return chosen[0]

    def from_file(self, path: Path, renamed: Mapping[str, str] | None = None) -> tuple[Metric, Features]:
        """Score the file without a run: no system is under test."""
        judged = self.read(path, renamed)
        rated = sorted({example for ratings in judged.values() for example in ratings.example_ids})
        source = next(iter(judged.values())).source
        features = files.build_file_features(RATINGS, judged, source, rated, rated)
        return self, replace(features, model=replace(features.model, system=""))

    def compute(self, features: Features) -> MetricResult:
        """Average by criterion: of the run's system, or of every system where none is under test."""
        judged = files.get_judgments(features.model, RATINGS, dict)
        ids = features.model.ids
        system = self._choose_system(judged) if features.model.system else None
        raters = (rater for ratings in judged.values() for rater in ratings.raters)
        features, notes = files.add_raters_fact(features, raters, next(iter(judged.values())).calibration)
        values: dict[str, float] = {}
        sd: dict[str, float] = {}
        per_example: dict[str, F64] = {}
        row_of_id = {example: row for row, example in reversed([*enumerate(ids)])}  # the first of several texts
        for criterion, ratings in judged.items():
            systems = list(dict.fromkeys(ratings.systems))
            for name in systems if system is None else [system]:
                rated = {row_of_id[e]: row for e, row in ratings.rows_of(name).items() if e in row_of_id}
                if not rated:
                    raise UndefinedMetric(f"{ratings.source}: no rated text of {name} is in the run")
                scores = mean_rating(ratings.ratings[[*rated.values()]])
                key = f"{criterion}/{name}".strip("/") if system is None else criterion or self.name
                values[key], sd[key] = scores.mean, scores.std_error
                per_example[key] = np.full(len(ids), np.nan)
                per_example[key][[*rated]] = scores.per_text
            left_out = f", {ratings.empty} rows without a rating left out" if ratings.empty else ""
            counted = f"{int(np.isfinite(ratings.ratings).sum())} ratings of {len(systems)} systems"
            notes.append(f"{criterion}: ".lstrip(": ") + f"{counted} ({', '.join(systems)}){left_out}")
        first = next(iter(values))
        values[self.name], sd[self.name], per_example[self.name] = values[first], sd[first], per_example[first]
        return self.result(features, self.name, values, notes=notes, per_example=per_example, sd=sd)
