"""HUSE: how well can a classifier separate model from human text by human ratings and model probabilities?

HUSE = 2 × leave-one-out error of a k-nearest-neighbor discriminator on (mean typicality rating, log p / length), each
divided by its population standard deviation over all texts. HUSE-Q is the same on ratings alone (quality), and
HUSE-D = 1 + HUSE − HUSE-Q (diversity), not clipped. Higher is better; 1 means indistinguishable, 0 fully separable.
HUSE and HUSE-Q lie in [0, 2]: above 1 the discriminator does worse than chance. Dimensionless.

Source: Hashimoto, Zhang & Liang 2019, "Unifying Human and Statistical Evaluation for Natural Language Generation",
section 3 and Table 1. k = 16: the released code keeps every point no farther than sorted index 15.

A decoder that truncates gives some human texts probability zero. `log_prob_floor` stands in for them; HUSE then depends
on that floor as well, and a note shows how often it was used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import F64, HUMAN, Features, Metric, MetricResult, Need, Plan, metric, ranged
from openended.metrics import _huse, judgments as files
from openended.metrics._common import ReplicatesByName, Values, check_choice
from openended.metrics._huse import HusePoints, PairRatings, Rule, Ties, VoteTie, example_curve, rater_curve
from openended.metrics.judgments import Empty, FileRow, Judgments

__all__ = [
    "Huse", "HusePoints", "HuseScores", "PairRatings", "Rule", "Ties", "VoteTie", "example_curve", "huse",
    "rater_curve",
]  # fmt: skip

_SUBSET_SHARE = 0.3  # of the examples; with more, neighbors change too much from subset to subset


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HuseScores(Values):
    """What `huse` returns; fields by attribute or by key."""

    huse: float
    huse_q: float
    huse_d: float
    errors: F64
    """Error per text of the discriminator on both features, shape (n,)."""
    errors_q: F64
    """Error of the discriminator on ratings only, per text, shape (n,)."""


def huse(
    *,
    judgments: ArrayLike,
    log_probs: ArrayLike,
    lengths: ArrayLike,
    is_model: ArrayLike,
    k: int = 16,
    ties: Ties = "include",
    vote_tie: VoteTie = "human",
    log_prob_floor: float | None = -1000.0,
    copies: ArrayLike | None = None,
) -> HuseScores:
    """Human Unified with Statistical Evaluation.

    Args:
        judgments: Mean rating per text on any scale, shape (n,).
        log_probs: Total natural-log probability of each text under the model, shape (n,); −inf is allowed.
        lengths: Number of words (or tokens) per text, positive, shape (n,).
        is_model: True for model text, shape (n,); both kinds must be there.
        k: Neighbors before ties are added, 1 <= k < n.
        ties: `include`: all points tied with the k-th vote. `exclude`: exactly k votes, shared at the cut.
        vote_tie: Who wins a vote tie; `half` counts half an error.
        log_prob_floor: Nats that replace −inf; none: −inf leaves HUSE undefined.
        copies: Shape (n,), for bootstrap draws: how often each row occurs; a row never votes for its own copies.

    Returns:
        HUSE and HUSE-Q in [0, 2], HUSE-D in [−1, 3], errors per text.

    Raises:
        UndefinedMetric: If k >= n, or all ratings or all normalized log-probabilities are equal.
    """
    check_choice("ties", ties, Ties)
    check_choice("vote_tie", vote_tie, VoteTie)
    arguments = {"judgments": judgments, "log_probs": log_probs, "lengths": lengths}
    columns = {name: np.asarray(column, dtype=np.float64) for name, column in arguments.items()}
    marks = np.asarray(is_model)
    shapes = {name: column.shape for name, column in columns.items()} | {"is_model": marks.shape}
    if len(set(shapes.values())) != 1 or marks.ndim != 1:
        raise ValueError(f"expected four columns of one shape (n,), got {shapes}")
    if not np.isin(marks, (0, 1)).all():
        raise ValueError("is_model: expected true/false or 1/0 for every text")
    labels = marks.astype(np.bool_)
    if labels.all() or not labels.any():
        raise ValueError(
            f"expected human and model texts, got {int((~labels).sum())} human and {int(labels.sum())} model"
        )
    for name, column in columns.items():
        good = np.isfinite(column) | (np.isneginf(column) if name == "log_probs" else False)
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(f"{name}[{row}]: expected a finite number, got {column[row]}")
    if (columns["lengths"] <= 0).any():
        row = int(np.argmax(columns["lengths"] <= 0))
        raise ValueError(f"lengths[{row}]: expected a positive number, got {columns['lengths'][row]}")
    if isinstance(k, bool) or k != int(k) or k < 1:
        raise ValueError(f"k: expected a whole number of at least 1, got {k!r}")
    rule = Rule(k=int(k), ties=ties, vote_tie=vote_tie, log_prob_floor=log_prob_floor)
    own_copies = None if copies is None else np.asarray(copies, dtype=np.int64)
    errors, errors_q = HusePoints.build(**columns, is_model=labels, rule=rule).errors(rule, own_copies)
    value, quality = _huse.compute_huse(errors), _huse.compute_huse(errors_q)
    return HuseScores(value, quality, 1.0 + value - quality, errors, errors_q)


@metric
class Huse(files.JudgmentMetric):
    """HUSE, HUSE-Q and HUSE-D from a file of ratings."""

    name = "huse"
    bounds = (0.0, 2.0)
    ranges = {"huse_d": (-1.0, 3.0), "agreement": (-np.inf, 1.0)}
    titles = {"huse": "HUSE", "huse_q": "HUSE-Q", "huse_d": "HUSE-D", "agreement": "Krippendorff α"}
    targets = {"huse": 1.0, "huse_q": 1.0, "huse_d": 1.0}  # above: worse than chance
    directions = {"agreement": "none"}
    resampling = "subsample"  # a text drawn twice is its own nearest neighbor

    # section 3.4: k = 16 (the released code's index 15 is the 16th nearest)
    k: int = ranged(16, "[1, inf)", "a whole number of at least 1")
    ties: Ties = "include"  # released code: every distance <= the k-th votes
    vote_tie: VoteTie = "human"  # released code
    log_probs: _huse.LogProbs = (
        "run"  # the generating model under the decoder's Q, as in the paper; or a column of the file
    )
    length_unit: _huse.LengthUnit = "words"  # released code: length = whitespace words
    log_prob_floor: float | None = -1000.0  # released code's stand-in for −inf
    scale_min: float | None = None  # lowest rating that is allowed, none: any; the released ratings go from 1 to 6
    scale_max: float | None = None  # highest rating that is allowed
    system: str | None = None  # the model's name in the file; none: the only one there
    empty: Empty = "refuse"  # a row without a rating; skip: left out, and counted in the notes

    def check(self) -> None:
        self.require(self.scale[0] < self.scale[1], "scale_max", "more than scale_min")

    @property
    def scale(self) -> tuple[float, float]:
        low = -np.inf if self.scale_min is None else self.scale_min
        high = np.inf if self.scale_max is None else self.scale_max
        return low, high

    def needs(self) -> tuple[Need, ...]:
        """Ratings; and log-probabilities and lengths, unless they are columns of the file."""
        if self.log_probs == "column":
            return (_huse.RATINGS,)
        return (_huse.RATINGS, _huse.NLL, _huse.WORDS) if self.length_unit == "words" else (_huse.RATINGS, _huse.NLL)

    @classmethod
    def accepts_columns(cls, columns: Sequence[str], rows: Sequence[FileRow]) -> bool:
        del rows
        return files.are_ratings(columns)

    def scores_without_run(self, columns: Sequence[str]) -> bool:
        return self.log_probs == "column" or bool(set(files.LOG_PROB) & set(columns))

    def read(self, path: Path, renamed: Mapping[str, str] | None = None) -> Judgments:
        return files.read_judgments(path, scale=self.scale, renamed=renamed, empty=self.empty)

    def from_file(self, path: Path, renamed: Mapping[str, str] | None = None) -> tuple[Metric, Features]:
        """Score the file without a run; log-probabilities come from its columns."""
        judged = self.read(path, renamed)
        human, model = judged.rows_of(HUMAN), judged.rows_of(judged.model_system(self.system))
        by_column = replace(self, log_probs="column")
        return by_column, files.build_file_features(_huse.RATINGS, judged, judged.source, tuple(human), tuple(model))

    @property
    def rule(self) -> Rule:
        return Rule(k=self.k, ties=self.ties, vote_tie=self.vote_tie, log_prob_floor=self.log_prob_floor)

    def prepare(self, features: Features) -> PairRatings:
        judged = files.get_judgments(features.model, _huse.RATINGS, Judgments)
        judged.check_scale(self.scale)
        return _huse.join_ratings(
            judged, features, system=self.system, log_probs=self.log_probs, length_unit=self.length_unit
        )

    def compute(self, features: Features, prepared: PairRatings | None = None) -> MetricResult:
        judged, rated = (
            files.get_judgments(features.model, _huse.RATINGS, Judgments),
            prepared or self.prepare(features),
        )
        scores = huse(**rated.columns(), **asdict(self.rule))
        values = {"huse": scores.huse, "huse_q": scores.huse_q, "huse_d": scores.huse_d}
        values["agreement"] = files.agreement(rated.ratings)
        features, notes = files.add_raters_fact(features, judged.raters, judged.calibration)
        notes += rated.notes
        if judged.empty:
            notes.append(f"{judged.empty} rows without a rating left out")
        if rated.n < 100:  # the paper's number of examples per task
            notes.append(f"{rated.n} examples with both texts rated; the paper uses 100")
        return self.result(
            features, "huse", values, notes=notes,
            per_example=rated.align_errors(scores.errors, scores.errors_q, features.model.ids),
            arrays=rated.arrays() | {"errors": scores.errors, "errors_q": scores.errors_q},
            unranked=("huse", "huse_d") if np.isneginf(rated.log_probs[: rated.n]).any() else (),
        )  # fmt: skip

    def replicates(
        self, features: Features, result: MetricResult, plan: Plan, prepared: PairRatings | None = None
    ) -> ReplicatesByName:
        """Score subsets of the examples: a bootstrap's copies would crowd the neighbors and move the value."""
        rated = prepared or self.prepare(features)
        draws = _huse.subsample_huse(rated, self.rule, plan.subsets(rated.ids, _SUBSET_SHARE))
        return {name: plan.build_subset_replicates(rated.ids, _SUBSET_SHARE, column) for name, column in draws.items()}
