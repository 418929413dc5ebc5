"""Ratings joined to a run's examples: pairs of a human and a model text that answer the same prompt."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, HUMAN, DataError, Features, Need, Side, UndefinedMetric
from openended.metrics.judgments import Judgments

LengthUnit = Literal["words", "tokens"]
LogProbs = Literal["run", "column"]

RATINGS = Need("judgments", by="file")
NLL = Need("token_nll", by="model")
WORDS = Need("tokens", by="words")

_NAMED = 20  # names in one note; the log has all of them
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class PairRatings:
    """Rated pairs: rows 0..n−1 are human texts, rows n..2n−1 the model texts of the same examples."""

    ids: tuple[str, ...]
    """Example ids, sorted, shape (n,)."""
    ratings: F64
    """Shape (2n, most ratings per text), NaN where there is none."""
    log_probs: F64
    """Total nats per text, shape (2n,); −inf where the model cannot produce it."""
    lengths: F64
    """Shape (2n,), positive."""
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.ids)

    def columns(self) -> dict[str, Any]:
        """Return the arguments of `huse`."""
        return {
            "judgments": np.nanmean(self.ratings, axis=1),
            "log_probs": self.log_probs,
            "lengths": self.lengths,
            "is_model": np.arange(2 * self.n) >= self.n,
        }

    def take(self, examples: NDArray[np.integer[Any]]) -> PairRatings:
        """Return the pairs of some examples."""
        rows = np.concatenate([examples, examples + self.n])
        ids = tuple(self.ids[i] for i in examples)
        return PairRatings(ids, self.ratings[rows], self.log_probs[rows], self.lengths[rows])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what the figures need."""
        return {"ratings": self.ratings, "log_probs": self.log_probs, "lengths": self.lengths}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> PairRatings:
        """Rebuild the pairs from the arrays of a result."""
        n = len(arrays["log_probs"]) // 2
        return cls(tuple(f"{i:06d}" for i in range(n)), arrays["ratings"], arrays["log_probs"], arrays["lengths"])

    def align_errors(self, errors: F64, errors_q: F64, model_ids: Sequence[str]) -> dict[str, F64]:
        """Return errors in the order of the run's examples; NaN where a text was not rated."""
        row_of = {example: i for i, example in enumerate(self.ids)}
        rows = np.array([row_of.get(example, -1) for example in model_ids], dtype=np.int64)
        columns = {
            "error_model": errors[self.n :],
            "error_human": errors[: self.n],
            "error_q_model": errors_q[self.n :],
            "error_q_human": errors_q[: self.n],
        }
        return {name: np.where(rows < 0, np.nan, column[rows]) for name, column in columns.items()}


def join_ratings(
    judged: Judgments, features: Features, *, system: str | None, log_probs: LogProbs, length_unit: LengthUnit
) -> PairRatings:
    """Pair ratings by example id and give every text its log-probability and length."""
    name = judged.model_system(system)
    rated = {HUMAN: judged.rows_of(HUMAN), "model": judged.rows_of(name)}
    sides = {HUMAN: features.human, "model": features.model}
    runs = {key: _index_rows(side) for key, side in sides.items()}
    ids, notes = _match_ids(rated, runs, judged.source)
    rows = np.array([rated[key][i] for key in sides for i in ids])
    if log_probs == "column":
        logp, lengths = _read_columns(judged, rows)
    else:
        at = {key: np.array([runs[key][i] for i in ids]) for key in sides}
        nll = {key: side.token_nll(NLL) for key, side in sides.items()}
        logp = np.array([-float(np.sum(nll[key][int(i)], dtype=np.float64)) for key in sides for i in at[key]])
        if np.isnan(logp).any():
            raise UndefinedMetric("the decoder assigns no probabilities to texts, and HUSE needs them")
        texts = nll if length_unit == "tokens" else {key: side.tokens(WORDS) for key, side in sides.items()}
        lengths = np.concatenate([texts[key].lengths[at[key]] for key in sides])
        # A text without words has log-probability 0 per word for every divisor.
        lengths = np.maximum(lengths, 1).astype(np.float64)
    zero = np.isneginf(logp)
    if zero.any():
        n = len(ids)
        notes.append(
            f"{int(zero[:n].sum())} of {n} human and {int(zero[n:].sum())} of {n} model texts have probability zero "
            "under the decoder and got log_prob_floor; HUSE needs a model that can produce every text, so the value "
            "depends on that floor and is never bold"
        )
    return PairRatings(tuple(ids), judged.ratings[rows], logp, lengths, tuple(notes))


def _index_rows(side: Side) -> dict[str, int]:
    """Return example id → row; HUSE rates one text per example and side."""
    row_of = {example: row for row, example in enumerate(side.ids)}
    if len(row_of) != len(side.ids):
        raise DataError(f"{side.system}: several texts an example; ratings are of one text each, so sample once")
    return row_of


def _match_ids(
    rated: Mapping[str, Mapping[str, int]], runs: Mapping[str, Mapping[str, int]], source: str
) -> tuple[list[str], list[str]]:
    """Return the ids that are rated on both sides and are in the run, and notes on all others."""
    ids = sorted(set(rated[HUMAN]) & set(rated["model"]) & set(runs[HUMAN]) & set(runs["model"]))
    notes = []
    for key, other in ((HUMAN, "model"), ("model", HUMAN)):
        unknown = sorted(set(rated[key]) - set(runs[key]))
        alone = sorted((set(rated[key]) - set(rated[other])) - set(unknown))
        notes += _note(unknown, f"rated {key} texts are not in the run and were left out")
        notes += _note(alone, f"rated {key} texts have no rated {other} text and were left out")
    unrated = sorted(set(runs["model"]) - set(rated["model"]))
    notes += _note(unrated, "examples of the run were not rated")
    if not ids:
        examples = ", ".join(sorted(rated["model"])[:3]), ", ".join(sorted(runs["model"])[:3])
        raise DataError(
            f"{source}: no rated example is in the run: rated {examples[0]}, …; the run has {examples[1]}, …"
        )
    return ids, notes


def _note(names: Sequence[str], what: str) -> list[str]:
    if not names:
        return []
    _log.info("%d %s: %s", len(names), what, ", ".join(names))
    more = f" and {len(names) - _NAMED} more (in the log)" if len(names) > _NAMED else ""
    return [f"{len(names)} {what}: {', '.join(names[:_NAMED])}{more}"]


def _read_columns(judged: Judgments, rows: NDArray[np.int64]) -> tuple[F64, F64]:
    """Take log-probabilities and lengths from the file."""
    if judged.log_probs is None or judged.lengths is None:
        missing = "log_prob" if judged.log_probs is None else "length"
        raise DataError(
            f"{judged.source}: no column {missing!r}; without a run, the file must bring log_prob and length"
        )
    logp, lengths = judged.log_probs[rows], judged.lengths[rows]
    bad = np.isnan(logp) | ~(lengths > 0)
    if bad.any():
        row = int(rows[np.flatnonzero(bad)[0]])
        raise DataError(
            f"{judged.source}: example {judged.example_ids[row]} ({judged.systems[row]}): expected a log_prob and a "
            f"positive length, got {judged.log_probs[row]} and {judged.lengths[row]}"
        )
    return logp, lengths
