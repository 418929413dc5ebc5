"""Accuracy of a linear classifier that separates model from human texts by their embeddings.

Logistic regression on standardized frozen features; both sides are split alike into train and test, the strength of the
L2 penalty is chosen by cross-validation inside the train part, and the accuracy is that on the test part, balanced over
the sides. In [0, 1], lower is better: 0.5 is chance, 1 means perfect separation. All rows of a prompt (the human text
and every sample of the model) go to the same part and the same fold, so that prompts cannot leak.

Source: Pillutla et al. 2021, appendix C (discriminator with split and cross-validated regularization).
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openended.harness import core
from openended.harness.core import F64, I64, Features, Floats, MetricResult, UndefinedMetric, check_arguments, ranged
from openended.metrics._embeddings.blocks import check_sides, limit_magnitude
from openended.metrics.families import ComparisonMetric, Mask, TwoSample, Values, sort_order

_PENALTIES = tuple(float(10.0**e) for e in range(-4, 3))  # inverse strengths that are tried


@check_arguments
def discriminator_accuracy(
    *, human: Floats, model: Floats, test_share: float = 0.2, folds: int = 5, seed: int = 25,
    human_groups: ArrayLike | None = None, model_groups: ArrayLike | None = None,
) -> Values:  # fmt: skip
    """Compute the held-out accuracy (Pillutla et al. 2021, appendix C).

    Args:
        human: Embeddings of human texts, shape (n_human, d), finite.
        model: Embeddings of model texts, shape (n_model, d).
        test_share: Share of the prompts that is held out, in (0, 1).
        folds: Folds of the cross-validation in the train part, at least 2.
        seed: Seed of the split.
        human_groups: The prompt of each human row, shape (n_human,); without it row i of both sides is of prompt i.
        model_groups: The prompt of each model row, shape (n_model,); give both or neither.

    Returns:
        `accuracy`, balanced over the sides, in [0, 1]; `inverse_penalty`, the chosen C; `n_test`, held-out texts of
        both sides.

    Raises:
        UndefinedMetric: If a side has fewer than 2 · folds texts, or too few prompts for train and test.
        ValueError: If the sides differ in dimension, or a number is not finite.
    """
    held_out = _classify(human, model, test_share, folds, seed, (human_groups, model_groups))
    return Values(accuracy=held_out.accuracy, inverse_penalty=held_out.penalty, n_test=held_out.count)


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierPredictions:
    """Predictions of a classifier on texts it was not trained on."""

    sides: tuple[tuple[I64, Mask], ...]
    """The held-out rows of the human and of the model side, and which of them are classified correctly."""
    penalty: float = math.nan  # C of a linear classifier, chosen by cross-validation

    @property
    def accuracy(self) -> float:
        return float(np.mean([correct.mean() for _, correct in self.sides]))

    @property
    def count(self) -> int:
        return sum(len(correct) for _, correct in self.sides)

    def weigh(self, human: core.Weights, model: core.Weights) -> F64:
        """Return the accuracy of weighted sets of the held-out texts, for the classifier as it is."""
        weighed = zip(self.sides, (human, model), strict=True)
        shares = [core.average(correct.astype(np.float64), weights[:, rows]) for (rows, correct), weights in weighed]
        return np.asarray((shares[0] + shares[1]) / 2)

    def align_errors(self, model: core.Side) -> F64:
        """Return for each held-out model text whether it was told from human text; NaN for the others."""
        out = np.full(len(model), np.nan)
        rows, correct = self.sides[1]
        out[sort_order(model)[rows]] = correct
        return out


def _classify(
    human: Floats, model: Floats, test_share: float, folds: int, seed: int, groups: Sequence[Any]
) -> ClassifierPredictions:
    human, model = check_sides(human=human, model=model, least=2 * folds)
    human, model = limit_magnitude(human=human, model=model)
    both = zip(groups, (human, model), strict=True)
    ids = [np.arange(len(side)) if of is None else np.asarray(of) for of, side in both]
    parts = split_by_prompt(ids, test_share, folds, seed)
    (train_h, fold_h, test_h), (train_m, fold_m, test_m) = parts
    rows = np.vstack([human[train_h], model[train_m]]).astype(np.float64)
    center, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale <= 1e-12 * np.abs(center)] = np.inf  # constant features carry no information
    rows, fold = (rows - center) / scale, np.concatenate([fold_h, fold_m])
    labels = np.repeat([0, 1], [len(train_h), len(train_m)])
    classifier, chosen = _train(rows, labels, fold)
    sides = tuple(
        (test, classifier.predict((np.asarray(side[test], dtype=np.float64) - center) / scale) == label)
        for label, side, test in ((0, human, test_h), (1, model, test_m))
    )
    return ClassifierPredictions(sides, chosen)


def _train(rows: F64, labels: I64, fold: I64) -> tuple[Any, float]:
    """Return the classifier whose penalty has the most correct answers on left-out folds, the strongest of equals."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, make_scorer
    from sklearn.model_selection import GridSearchCV, PredefinedSplit

    model = LogisticRegression(solver="lbfgs", max_iter=200, class_weight="balanced")
    count = make_scorer(accuracy_score, normalize=False)
    search = GridSearchCV(model, {"C": _PENALTIES}, scoring=count, cv=PredefinedSplit(fold))
    with warnings.catch_warnings():
        # Separable sides have no finite optimum at a weak penalty; the classes are right long before.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(rows, labels)
    return search.best_estimator_, float(search.best_params_["C"])


def split_by_prompt(
    groups: Sequence[NDArray[Any]], test_share: float, folds: int, seed: int
) -> list[tuple[I64, I64, I64]]:
    """Return train rows, their folds and test rows of each side: prompts are drawn, once for all sides."""
    names, group = np.unique(np.concatenate(groups), return_inverse=True)
    order = core.make_random_stream(seed, "discriminator_accuracy").permutation(len(names))
    test_size = max(1, round(len(names) * test_share))
    fold = np.full(len(names), -1)
    fold[order[test_size:]] = np.arange(len(names) - test_size) % folds
    parts = []
    for side_folds in np.split(fold[group], [len(groups[0])]):
        train, test = np.flatnonzero(side_folds >= 0), np.flatnonzero(side_folds < 0)
        if not len(test) or len(np.unique(side_folds[train])) < 2:
            raise UndefinedMetric(
                f"{len(names)} prompts are too few to hold some out and to cross-validate on the rest"
            )
        parts.append((train, side_folds[train], test))
    return parts


class AccuracyMetric(ComparisonMetric):
    """Held-out accuracy, model against human: `prepare` returns the name of each value and its predictions."""

    direction: ClassVar[core.Direction] = "lower"
    bounds = (0.0, 1.0)
    resampling: ClassVar[core.Scheme] = "bootstrap"
    targets = {"accuracy*": 0.5}  # chance

    def evaluate(self, features: Features, prepared: Mapping[str, ClassifierPredictions]) -> MetricResult:
        values = {name: predictions.accuracy for name, predictions in prepared.items()}
        rows = {name: predictions.align_errors(features.model) for name, predictions in prepared.items()}
        first = next(iter(prepared.values()))
        chosen = "" if math.isnan(first.penalty) else f" C={first.penalty:g} by cross-validation;"
        notes = [f"{first.count} held-out texts;{chosen} 0.5 is chance"]
        return self.result(features, next(iter(values)), values, notes=notes, per_example=rows)

    def rows_of(self, key: str, result: MetricResult) -> None:
        """A classifier's answers to held-out texts are few, and vary on both sides."""

    def score(
        self, prepared: Mapping[str, ClassifierPredictions], human: core.Weights, model: core.Weights, /
    ) -> dict[str, F64]:
        return {name: predictions.weigh(human, model) for name, predictions in prepared.items()}


@core.metric
class DiscriminatorAccuracy(AccuracyMetric, TwoSample):
    """Held-out accuracy of a linear classifier, model against human (Pillutla et al. 2021, appendix C)."""

    name = "discriminator_accuracy"
    synonyms = ("c2st", "classifier_two_sample")
    version = 3
    titles = {"accuracy": "Disc. acc."}

    most = 100_000  # float64 copies of all rows, and hundreds of passes over them
    test_share: float = ranged(0.2, "(0, 1)", "a share in (0, 1)")
    """Share of the prompts that is held out; the paper's split depends on its data sets."""
    folds: int = ranged(5, "[2, inf)", "at least 2")
    """Folds of the cross-validation that chooses the penalty; scikit-learn's default."""
    seed: int = ranged(25, "[0, inf)", "at least 0")
    """Seed of the split; as MAUVE."""

    def prepare(self, features: Features) -> Mapping[str, ClassifierPredictions]:
        human, model = self.pair(features)
        groups = self.list_rows(features, None)
        return {"accuracy": _classify(human, model, self.test_share, self.folds, self.seed, groups)}
