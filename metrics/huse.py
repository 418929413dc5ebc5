"""HUSE: how well can a classifier separate model from human text by human ratings and model probabilities?

HUSE = 2 × leave-one-out error of a k-nearest-neighbor discriminator on (mean typicality rating, log p / length), each
divided by its population standard deviation over all texts. HUSE-Q is the same on ratings alone (quality), and
HUSE-D = 1 + HUSE − HUSE-Q (diversity), not clipped. Higher is better; 1 means indistinguishable, 0 fully separable.
HUSE and HUSE-Q lie in [0, 2]: above 1 the discriminator does worse than chance. Dimensionless.

Source: Hashimoto, Zhang & Liang 2019, "Unifying Human and Statistical Evaluation for Natural Language Generation",
section 3 and Table 1. k = 16: the released code keeps every point no farther than sorted index 15.

A decoder that truncates gives some human texts probability zero. `log_prob_floor` stands in for them; HUSE then depends
on that floor as well, and a note shows how often it was used.

Ties are exact.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openended.harness import core
from openended.harness.core import F64, HUMAN, I64, DataError, Features, Need, UndefinedMetric, check_arguments, ranged
from openended.metrics import judgments as files
from openended.metrics.families import Mask, Values
from openended.metrics.judgments import Empty, FileRow, Judgments

Ties = Literal["include", "exclude"]
VoteTie = Literal["human", "model", "half"]
CountPoints = Callable[[F64], tuple[I64, I64]]
"""From a radius per query to the number of points, and of model points, in its ball."""

TIE = 1e-9  # distances within this of each other are equal (features have standard deviation 1)


@dataclass(frozen=True, slots=True, eq=False)
class HusePoints:
    """Texts in the plane of HUSE."""

    raw: F64  # mean rating and log-probability per word, finite, shape (n, 2)
    is_model: Mask  # shape (n,)
    mean: F64  # of both columns, shape (2,)
    spread: F64  # population standard deviations, positive, shape (2,)

    @classmethod
    def build(cls, judgments: F64, log_probs: F64, lengths: F64, is_model: Mask, rule: "Huse") -> Self:
        """Build the points; undefined where a text has probability zero without a floor, or a column has no spread."""
        zero = np.isneginf(log_probs)
        if zero.any():
            if rule.log_prob_floor is None:
                raise UndefinedMetric(
                    f"{int(zero.sum())} texts have probability zero under the model and no log_prob_floor is set"
                )
            log_probs = np.where(zero, rule.log_prob_floor, log_probs)
        raw = np.column_stack([judgments, log_probs / lengths])
        mean, spread = np.empty(2), np.empty(2)
        for column, name in enumerate(("rating", "log-probability a word")):
            values = raw[:, column]
            mean[column] = values.mean()
            spread[column] = np.sqrt(np.mean((values - mean[column]) ** 2))
            # Equal numbers may differ from their own mean by rounding.
            if spread[column] <= 1e-12 * max(1.0, float(np.abs(values).max())):
                raise UndefinedMetric(f"all {len(values)} texts have the same {name}; it cannot be scaled")
        return cls(raw, is_model, mean, spread)

    def errors(self, rule: "Huse", copies: I64 | None = None) -> tuple[F64, F64]:
        """Return the leave-one-out error per text on both features and on ratings only, each of shape (n,).

        An error is 0, 1, or 1/2 for a vote tie under `half`; a row never votes for its own copies in a bootstrap draw.
        """
        both = (self.raw - self.mean) / self.spread
        columns = []
        for points in (both, both[:, :1]):
            margins = _compute_margins(points, self.is_model, rule.k, rule.ties, copies=copies)
            said_model = margins > 0 if rule.vote_tie != "model" else margins >= 0
            errors: F64 = np.asarray(said_model != self.is_model, dtype=np.float64)
            if rule.vote_tie == "half":
                errors[margins == 0] = 0.5
            columns.append(errors)
        return columns[0], columns[1]

    def margins_at(self, raw: F64, rule: "Huse") -> I64:
        """Return votes for `model` less votes for `human` at points of the plane, shape (m, 2) → (m,)."""
        points, queries = ((rows - self.mean) / self.spread for rows in (self.raw, raw))
        return _compute_margins(points, self.is_model, min(rule.k, len(points)), rule.ties, queries=queries)


def summarize_errors(errors: F64, errors_q: F64) -> dict[str, float]:
    """Return HUSE and HUSE-Q, twice the mean errors on both features and on ratings, and HUSE-D."""
    value, quality = 2.0 * float(errors.mean()), 2.0 * float(errors_q.mean())
    return {"huse": value, "huse_q": quality, "huse_d": 1.0 + value - quality}


def _compute_margins(
    points: F64, is_model: Mask, k: int, ties: Ties, *, queries: F64 | None = None, copies: I64 | None = None
) -> I64:
    """Return votes for `model` less votes for `human` of the k nearest points (`exclude`: times the number tied)."""
    n = len(points)
    if queries is not None:
        own_copies = np.zeros(len(queries), dtype=np.int64)
    else:
        own_copies = np.ones(n, dtype=np.int64) if copies is None else copies
    others = n - int(own_copies.max(initial=0))
    if others < k:
        raise UndefinedMetric(f"k={k} neighbors need more than {k} other texts, got {others}")
    # A row's own copies sit at distance zero, so the k-th neighbor among the others has this index.
    last = own_copies + k - 1
    cut, count = _search_tree(points, is_model, points if queries is None else queries, last)
    own_model = own_copies * is_model if queries is None else own_copies
    voters, for_model = count(cut + TIE)
    voters, for_model = voters - own_copies, for_model - own_model
    if ties == "include":
        return np.asarray(2 * for_model - voters, dtype=np.int64)
    inner, inner_model = count(np.maximum(cut - TIE, 0.0))
    nowhere = cut <= TIE
    inner, inner_model = np.where(nowhere, 0, inner - own_copies), np.where(nowhere, 0, inner_model - own_model)
    tied, tied_model = voters - inner, for_model - inner_model
    return np.asarray(tied * (2 * inner_model - inner) + (k - inner) * (2 * tied_model - tied), dtype=np.int64)


def _search_tree(points: F64, is_model: Mask, at: F64, last: I64) -> tuple[F64, CountPoints]:
    """Return each query's distance to its `last`-th nearest point (from 0), and a counter of points in balls."""
    from scipy.spatial import KDTree

    tree, model_tree = KDTree(points), KDTree(points[is_model])
    ranks = np.arange(1, int(last.max(initial=0)) + 2)
    distances = np.asarray(tree.query(at, k=ranks)[0], dtype=np.float64)

    def count(radius: F64) -> tuple[I64, I64]:
        inside, model = (t.query_ball_point(at, radius, return_length=True) for t in (tree, model_tree))
        return np.asarray(inside, dtype=np.int64), np.asarray(model, dtype=np.int64)

    return distances[np.arange(len(at)), last], count


@check_arguments
def huse(
    *, judgments: ArrayLike, log_probs: ArrayLike, lengths: ArrayLike, is_model: ArrayLike, k: int = 16,
    ties: Ties = "include", vote_tie: VoteTie = "human", log_prob_floor: float | None = -1000.0,
    copies: ArrayLike | None = None,
) -> Values:  # fmt: skip
    """Compute HUSE, HUSE-Q and HUSE-D (Hashimoto, Zhang and Liang 2019, section 3).

    Args:
        judgments: Mean rating of each text on any scale, shape (n,), finite.
        log_probs: Total natural-log probability of each text under the model, shape (n,); −inf is allowed.
        lengths: Number of words (or tokens) of each text, positive, shape (n,).
        is_model: True for model text, shape (n,); both kinds must be there.
        k: Neighbors before ties are added, 1 <= k < n.
        ties: `include`: all points tied with the k-th vote; `exclude`: exactly k votes, shared at the cut.
        vote_tie: Who wins a vote tie; `half` counts half an error.
        log_prob_floor: Nats that replace −inf; `None`: −inf leaves HUSE undefined.
        copies: How often each row occurs in a bootstrap draw, shape (n,); a row never votes for its own copies.

    Returns:
        `huse` and `huse_q` in [0, 2], `huse_d` in [−1, 3]; `errors` of the discriminator on both features and
        `errors_q` of that on ratings alone, shape (n,).

    Raises:
        UndefinedMetric: If k >= n, if all ratings or all normalized log-probabilities are equal, or by
            `log_prob_floor`.
        ValueError: If the columns differ in shape or hold other numbers, or one side has no text.
    """
    arguments = {"judgments": judgments, "log_probs": log_probs, "lengths": lengths}
    columns = {name: np.asarray(column, dtype=np.float64) for name, column in arguments.items()}
    marks = np.asarray(is_model)
    shapes = {name: column.shape for name, column in columns.items()} | {"is_model": marks.shape}
    if len(set(shapes.values())) != 1 or marks.ndim != 1:
        raise ValueError(f"expected four columns of one shape (n,), got {shapes}")
    accepted = {
        "judgments": ("a finite number", np.isfinite(columns["judgments"])),
        "log_probs": ("a finite number or -inf", columns["log_probs"] < np.inf),
        "lengths": ("a finite positive number", (columns["lengths"] > 0) & np.isfinite(columns["lengths"])),
        "is_model": ("true/false or 1/0", np.isin(marks, (0, 1))),
    }
    for name, (what, good) in accepted.items():
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(f"{name}[{row}]: expected {what}, got {(columns | {'is_model': marks})[name][row]}")
    labels = marks.astype(np.bool_)
    if labels.all() or not labels.any():
        raise ValueError(f"expected human and model texts, got {(~labels).sum()} human and {labels.sum()} model")
    rule = Huse(k=int(k), ties=ties, vote_tie=vote_tie, log_prob_floor=log_prob_floor)
    own_copies = None if copies is None else np.asarray(copies, dtype=np.int64)
    errors, errors_q = HusePoints.build(**columns, is_model=labels, rule=rule).errors(rule, own_copies)
    return Values(**summarize_errors(errors, errors_q), errors=errors, errors_q=errors_q)


# Ratings joined to a run's examples.

LengthUnit = Literal["words", "tokens"]
LogProbs = Literal["run", "column"]

RATINGS = Need("judgments", by="file")
NLL = Need("token_nll", by="model")
WORDS = Need("tokens", by="words")

_NAMED = 20  # names in one note


@dataclass(frozen=True, slots=True, eq=False)
class PairRatings:
    """Rated pairs: rows 0..n−1 are human texts, rows n..2n−1 the model texts of the same examples."""

    ids: tuple[str, ...]  # example ids, sorted, shape (n,)
    ratings: F64  # shape (2n, most ratings per text), NaN where there is none
    log_probs: F64  # total nats per text, shape (2n,); −inf where the model cannot produce it
    lengths: F64  # shape (2n,), positive
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        return len(self.ids)

    def columns(self) -> dict[str, Any]:
        means, is_model = np.nanmean(self.ratings, axis=1), np.arange(2 * self.n) >= self.n
        return {"judgments": means, "log_probs": self.log_probs, "lengths": self.lengths, "is_model": is_model}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"ratings": self.ratings, "log_probs": self.log_probs, "lengths": self.lengths}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "PairRatings":
        n = len(arrays["log_probs"]) // 2
        return cls(tuple(f"{i:06d}" for i in range(n)), arrays["ratings"], arrays["log_probs"], arrays["lengths"])

    def align_errors(self, errors: F64, errors_q: F64, model_ids: Sequence[str]) -> dict[str, F64]:
        """Return errors in the order of the run's examples; NaN where a text was not rated."""
        row_of = {example: i for i, example in enumerate(self.ids)}
        rows = np.array([row_of.get(example, -1) for example in model_ids], dtype=np.int64)
        (human, model), (human_q, model_q) = (np.split(column, [self.n]) for column in (errors, errors_q))
        columns = {"error_model": model, "error_human": human, "error_q_model": model_q, "error_q_human": human_q}
        return {name: np.where(rows < 0, np.nan, column[rows]) for name, column in columns.items()}


def _match_ids(
    rated: Mapping[str, Mapping[str, int]], runs: Mapping[str, Mapping[str, int]], source: str
) -> tuple[list[str], list[str]]:
    """Return the ids that are rated on both sides and are in the run, and notes on all others."""
    both = set(rated[HUMAN]) & set(rated["model"])
    files.check_rated_examples(source, both, set(runs[HUMAN]) & set(runs["model"]))
    ids = sorted(both & set(runs[HUMAN]) & set(runs["model"]))
    notes = []
    for key, other in ((HUMAN, "model"), ("model", HUMAN)):
        unknown = sorted(set(rated[key]) - set(runs[key]))
        alone = sorted((set(rated[key]) - set(rated[other])) - set(unknown))
        notes += _note(unknown, f"rated {key} texts are not in the run and were left out")
        notes += _note(alone, f"rated {key} texts have no rated {other} text and were left out")
    unrated = sorted(set(runs["model"]) - set(rated["model"]))
    notes += [f"{len(unrated)} examples of the run were not rated"] if unrated else []
    return ids, notes


def _note(names: Sequence[str], what: str) -> list[str]:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return [f"{len(names)} {what}: {', '.join(names[:_NAMED])}{more}"] if names else []


# Uncertainty: subsets of the examples, curves over raters and examples.

_MOST_TEXTS = 600_000  # texts scored over all subsets: some ten seconds


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """HUSE against a number of raters or of examples."""

    sizes: I64
    huse: F64  # mean over draws, shape (sizes,)
    huse_q: F64
    low: F64  # percentile interval of HUSE
    high: F64


def _score(columns: Mapping[str, Any], picked: NDArray[np.int64], rule: "Huse") -> dict[str, float]:
    """Score examples drawn with or without replacement; NaN where they have no value."""
    n = len(columns["judgments"]) // 2
    rows = np.concatenate([picked, picked + n])
    copies = np.bincount(picked, minlength=n)[np.concatenate([picked, picked])]
    resampled = {name: column[rows] for name, column in columns.items()}
    try:
        return summarize_errors(*HusePoints.build(**resampled, rule=rule).errors(rule, copies))
    except UndefinedMetric:
        return dict.fromkeys(("huse", "huse_q", "huse_d"), np.nan)


def draw_curve(rated: PairRatings, rule: "Huse", *, of_raters: bool, sizes: Sequence[int], draws: int = 20) -> Curve:
    """HUSE against the number of ratings per text, or of examples, drawn without replacement (HUSE Fig. 5).

    The 90 % interval over raters comes from draws in which the examples are drawn anew as well, with replacement.
    """
    columns = rated.columns()

    def score(size: int, draw: int) -> list[float]:
        rng = core.make_random_stream(0, "huse-raters" if of_raters else "huse-examples", size, draw)
        if not of_raters:
            scores = _score(columns, rng.choice(rated.n, size=size, replace=False), rule)
            return [scores["huse"], scores["huse_q"], scores["huse"]]
        shuffled = np.where(np.isnan(rated.ratings), np.inf, rng.random(rated.ratings.shape)).argsort(axis=1)
        picked = np.take_along_axis(rated.ratings, shuffled[:, :size], axis=1)  # all where there are fewer
        replicates = columns | {"judgments": np.nanmean(picked, axis=1)}
        plain = _score(replicates, np.arange(rated.n), rule)
        again = _score(replicates, rng.integers(rated.n, size=rated.n), rule)
        return [plain["huse"], plain["huse_q"], again["huse"]]

    rows = []
    for size in sizes:
        values = np.array([score(int(size), draw) for draw in range(draws)])
        finite = [column[~np.isnan(column)] for column in values.T]
        means = [column.mean() if len(column) else np.nan for column in finite[:2]]
        is_rare = 2 * len(finite[2]) < draws  # most draws have no value
        band = [np.nan] * 2 if is_rare else np.quantile(finite[2], [0.05, 0.95])
        rows.append([*means, *band])
    return Curve(np.asarray(sizes, dtype=np.int64), *np.array(rows).T)


@core.metric
class Huse(core.JudgmentMetric):
    """HUSE, HUSE-Q and HUSE-D from people's ratings and the model's own probabilities (Hashimoto et al. 2019)."""

    name = "huse"
    bounds = (0.0, 2.0)
    ranges = {"huse_d": (-1.0, 3.0), "agreement": (-np.inf, 1.0)}
    titles = {"huse": "HUSE", "huse_q": "HUSE-Q", "huse_d": "HUSE-D", "agreement": "Krippendorff α"}
    shares = ("huse", "huse_q")  # twice the share of errors
    targets = {"huse": 1.0, "huse_q": 1.0, "huse_d": 1.0}  # above: worse than chance
    directions = {"agreement": "none"}
    sides = "two"
    resampling = "subsample"  # a text drawn twice is its own nearest neighbor
    subset_share = 0.3  # with more, neighbors change too much from subset to subset
    without_run = {"log_probs": "column"}
    needed_without_run = files.LOG_PROB

    k: int = ranged(16, "[1, inf)", "a whole number of at least 1")
    """The paper's; ties are added to it; section 3.4; k = 16 (the released code's index 15 is the 16th nearest)."""
    ties: Ties = "include"
    """All points tied with the k-th vote; exclude: exactly k votes; released code."""
    vote_tie: VoteTie = "human"
    """Who wins a vote tie: human (released code), model or half."""
    log_probs: LogProbs = "run"
    """From the run's model under the decoder's Q; column: from the file of ratings."""
    length_unit: LengthUnit = "words"
    """Log p is divided by whitespace words (released code); or tokens."""
    log_prob_floor: float | None = -1000.0
    """Nats for a text of probability zero (released code); null: HUSE is then undefined."""
    scale_min: float | None = None
    """Lowest and highest rating; others are refused. null: any; the released
    ratings go from 1 to 6."""
    scale_max: float | None = None
    """Highest rating that is allowed."""
    system: str | None = None
    """The model's name in the file; null: by judgment_systems; of a file alone the only one."""
    empty: Empty = "refuse"
    """A row without a rating; skip: left out, and counted in the notes."""

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
            return (RATINGS,)
        return (RATINGS, NLL, WORDS) if self.length_unit == "words" else (RATINGS, NLL)

    @classmethod
    def accepts_columns(cls, columns: Sequence[str], rows: Sequence[FileRow]) -> bool:
        return files.are_ratings(columns) and len({row.cells.get("criterion") for row in rows}) < 2

    def read(self, path: Path, renamed: Mapping[str, str] | None = None, human: Collection[str] = ()) -> Judgments:
        return files.read_judgments(path, scale=self.scale, renamed=renamed, empty=self.empty, human=human)

    def list_ids(self, judged: Judgments) -> tuple[list[str], list[str]]:
        return [*judged.rows_of(HUMAN)], [*judged.rows_of(judged.find_model_system(self.system))]

    def prepare(self, features: Features) -> PairRatings:
        """Pair ratings by example id and give every text its log-probability and length."""
        judged = features.model[RATINGS]
        judged.check_scale(self.scale)
        system = judged.find_model_system(self.system or features.model.system or None)
        rated = {HUMAN: judged.rows_of(HUMAN), "model": judged.rows_of(system)}
        sides = {HUMAN: features.human, "model": features.model}
        runs = {key: {example: row for row, example in enumerate(side.ids)} for key, side in sides.items()}
        for key, side in sides.items():
            if len(runs[key]) != len(side.ids):
                several = "several texts per example; a rating is of one text, so set samples=1"
                raise DataError(f"{side.system}: {several}")
        ids, notes = _match_ids(rated, runs, judged.source)
        rows = np.array([rated[key][i] for key in sides for i in ids])
        if self.log_probs == "column":
            if judged.log_probs is None or judged.lengths is None:
                missing = "log_prob" if judged.log_probs is None else "length"
                advice = "without a run, the file must bring log_prob and length"
                raise DataError(f"{judged.source}: no column {missing!r}; {advice}")
            logp, lengths = judged.log_probs[rows], judged.lengths[rows]
            bad = rows[np.isnan(logp) | ~(lengths > 0)]
            if bad.size:
                row = bad[0]
                raise DataError(
                    f"{judged.source}: example {judged.example_ids[row]} ({judged.systems[row]}): expected a log_prob "
                    f"and a positive length, got {judged.log_probs[row]} and {judged.lengths[row]}"
                )
        else:
            at = {key: np.array([runs[key][i] for i in ids]) for key in sides}
            nll = {key: side[NLL] for key, side in sides.items()}
            logp = np.array([-float(np.sum(nll[key][int(i)], dtype=np.float64)) for key in sides for i in at[key]])
            if np.isnan(logp).any():
                raise UndefinedMetric("the decoder assigns no probabilities to texts, and HUSE needs them")
            texts = nll if self.length_unit == "tokens" else {key: side[WORDS] for key, side in sides.items()}
            lengths = np.concatenate([texts[key].lengths[at[key]] for key in sides])
            # A text without words has log-probability 0 per word for every divisor.
            lengths = np.maximum(lengths, 1).astype(np.float64)
        zero, n = np.isneginf(logp), len(ids)
        if zero.any():
            notes.append(
                f"{int(zero[:n].sum())} of {n} human and {int(zero[n:].sum())} of {n} model texts have probability "
                "zero under the decoder and got log_prob_floor; HUSE needs a model that can produce every text, so the "
                "value depends on that floor and is never bold"
            )
        return PairRatings(tuple(ids), judged.ratings[rows], logp, lengths, tuple(notes))

    def list_rows(self, features: Features, prepared: PairRatings) -> tuple[core.Ids, core.Ids]:
        return prepared.ids, prepared.ids

    def evaluate(self, features: Features, prepared: PairRatings) -> core.MetricResult:
        judged, rated = features.model[RATINGS], prepared
        errors, errors_q = HusePoints.build(**rated.columns(), rule=self).errors(self)
        values = {**summarize_errors(errors, errors_q), "agreement": files.agreement(rated.ratings)}
        features, notes, invented = files.add_raters_fact(features, judged.raters, judged.calibration, judged.source)
        notes += rated.notes
        if judged.empty:
            notes.append(f"{judged.empty} rows without a rating left out")
        if rated.n < 100:  # the paper's number of examples per task
            notes.append(f"{rated.n} examples with both texts rated; the paper uses 100")
        by_text = rated.align_errors(errors, errors_q, features.model.ids)
        arrays = rated.arrays() | {"errors": errors, "errors_q": errors_q}
        is_floored = np.isneginf(rated.log_probs[: rated.n]).any()
        more: dict[str, Any] = {"invented": invented, "unranked": ("huse", "huse_d") if is_floored else ()}
        return self.result(features, "huse", values, notes=notes, per_example=by_text, arrays=arrays, **more)

    def rows_of(self, key: str, result: core.MetricResult) -> F64 | None:
        """Return twice the error per text: HUSE and HUSE-Q are their means, and rare errors get Wilson's interval."""
        errors = {"huse": "errors", "huse_q": "errors_q"}.get(key)
        return 2.0 * result.arrays[errors] if errors else None

    def score(self, prepared: PairRatings, human: core.Weights, model: core.Weights, /) -> Mapping[str, F64]:
        """Score subsets of the examples: a bootstrap's copies would crowd the neighbors and move the value."""
        columns, subsets = prepared.columns(), model > 0
        most = max(25, _MOST_TEXTS // (2 * max(int(subsets[0].sum()), 1)))
        scores = [_score(columns, np.flatnonzero(subset), self) for subset in subsets[:most]]
        return {name: np.array([of[name] for of in scores]) for name in scores[0]}
