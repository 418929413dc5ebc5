"""Overused words and trigrams: the share of model text in phrases that it uses more often than human text does.

    z(w) = [log((y + a) / (n + A - y - a)) - log((y' + a) / (n' + A - y' - a))] / sqrt(1 / (y + a) + 1 / (y' + a))

y and y' are the counts of phrase w in model and human text, n and n' all phrases, a = A times the share of w in both
sides together (the informative prior). A phrase is overused if z > 3. The values are the shares of the model's words
and trigrams that belong to overused ones: 0 if it writes as people do, lower is better; other human texts
(the human–human reference) are not at 0, because texts repeat their own topics. Shares grow with the number of texts,
as z does. Words are letters, digits and apostrophes in lower case; trigrams do not cross texts. The worst twenty are
named in the notes. Phrases that the model uses fewer than three times are not counted.

Source: Monroe, Colaresi and Quinn 2008, "Fightin' words: lexical feature selection and evaluation for identifying the
content of political conflict", section 3.5.1. The share as a value, and human text of the task in place of a word list,
are ours.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openended.harness.core import F64, SHARE, Features, MetricResult, Scope, UndefinedMetric, Weights, metric, ranged
from openended.metrics.families import ComparisonMetric, align_values, divide_known

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_LEAST = 3  # uses by the model, below which no phrase is overused
_NAMED = 20
ORDERS = {"overused_words": 1, "overused_trigrams": 3}


@dataclass(frozen=True, slots=True, eq=False)
class PhraseCounts:
    """Counts of the phrases that the model uses at least three times."""

    phrases: Sequence[str]
    human: Any  # sparse, shape (human texts, phrases)
    model: Any  # sparse, shape (model texts, phrases)
    human_total: F64  # all phrases of each text, shape (human texts,)
    model_total: F64


def find_overused_phrases(
    human: Sequence[str], model: Sequence[str], *, order: int = 1, prior: float = 500.0
) -> list[tuple[str, float]]:
    """List the phrases that the model uses three times or more with their z-scores (Monroe et al. 2008).

    Args:
        human: Human texts.
        model: Model texts.
        order: Number of words of a phrase, at least 1.
        prior: Number of phrases that the prior counts for, positive.

    Returns:
        Pairs of a phrase and its z-score, the largest first; above 3 a phrase is overused.

    Raises:
        UndefinedMetric: If no text of a side has that many words.
    """
    counts = _count_phrases(human, model, order)
    z = _score(counts, prior)[0][0]
    return [(counts.phrases[at], float(z[at])) for at in np.argsort(-z, kind="stable")]


def _count_phrases(human: Sequence[str], model: Sequence[str], order: int) -> PhraseCounts:
    from scipy.sparse import csr_matrix

    sides: list[list[list[str]]] = [[], []]
    for side, texts in zip(sides, (human, model), strict=True):
        for text in texts:
            words = [word.replace("’", "'") for word in _WORD.findall(text.lower())]
            side.append([" ".join(words[at : at + order]) for at in range(len(words) - order + 1)])
    if not all(any(side) for side in sides):
        raise UndefinedMetric(f"a side has no text of {order} words")
    used = Counter(phrase for text in sides[1] for phrase in text)
    phrases = sorted(phrase for phrase, count in used.items() if count >= _LEAST)
    numbers = {phrase: number for number, phrase in enumerate(phrases)}
    tables = []
    for side in sides:
        columns = [[numbers[phrase] for phrase in text if phrase in numbers] for text in side]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in columns])])
        flat = np.array([number for row in columns for number in row], dtype=np.int64)
        tables.append(csr_matrix((np.ones(len(flat)), flat, starts), shape=(len(side), len(phrases))))
        tables[-1].sum_duplicates()
    totals = [np.array([len(text) for text in side], dtype=np.float64) for side in sides]
    return PhraseCounts(phrases, tables[0], tables[1], totals[0], totals[1])


def _score(
    counts: PhraseCounts, prior: float, human_weights: F64 | None = None, model_weights: F64 | None = None
) -> tuple[F64, F64]:
    """Return the z-score of each phrase, shape (draws, phrases), and the share of overused phrases, shape (draws,)."""
    human, human_total = _sum_texts(counts.human, counts.human_total, human_weights)
    model, model_total = _sum_texts(counts.model, counts.model_total, model_weights)
    a = np.maximum(prior * (human + model) / (human_total + model_total), 1e-12)
    sides = ((model, model_total), (human, human_total))
    logs = [np.log(y + a) - np.log(np.maximum(n + prior - y - a, 1e-12)) for y, n in sides]
    z: F64 = (logs[0] - logs[1]) / np.sqrt(1 / (model + a) + 1 / (human + a))
    overused: F64 = np.where((z > 3) & (model >= _LEAST), model, 0.0).sum(axis=1) / model_total[:, 0]
    return z, overused


def _sum_texts(table: Any, total: F64, weights: F64 | None) -> tuple[F64, F64]:  # noqa: ANN401 - a CSR matrix
    weights = np.ones((1, len(total))) if weights is None else weights
    return np.asarray((table.T @ weights.T).T), (weights @ total)[:, None]


@metric
class OverusedPhrases(ComparisonMetric):
    """Share of the words and trigrams in phrases that the model uses more than people do."""

    name = "overused_phrases"
    family = "text"
    direction = "lower"
    bounds = (0.0, 1.0)
    subset_share = SHARE
    titles = {"overused_words": "Overused words", "overused_trigrams": "Overused trigrams"}

    prior: float = ranged(500.0, "(0, inf]", "a positive number")
    """Phrases that the informative prior counts for."""
    scope: Scope = "continuation"
    """What is counted: the continuation, or prompt_and_continuation."""

    def prepare(self, features: Features) -> Mapping[str, PhraseCounts]:
        human, model = self.sort_texts(features.human), self.sort_texts(features.model)
        counts = {}
        for name, order in ORDERS.items():
            try:
                counts[name] = _count_phrases(human, model, order)
            except UndefinedMetric:
                if order == 1:
                    raise
        return counts

    def evaluate(self, features: Features, prepared: Mapping[str, PhraseCounts]) -> MetricResult:
        values, notes, rows = {}, [], {}
        for name, counts in prepared.items():
            (z,), (share,) = _score(counts, self.prior)
            values[name] = float(share)
            used = np.asarray(counts.model.sum(axis=0)).ravel() >= _LEAST
            rows[name] = align_values(features.model, divide_known(counts.model @ ((z > 3) & used), counts.model_total))
            worst = [at for at in np.argsort(-z, kind="stable")[:_NAMED] if z[at] > 3]
            if worst:
                listed = ", ".join(f"{counts.phrases[at]!r} {z[at]:.1f}" for at in worst)
                notes.append(f"{name.replace('_', ' ')} (z): {listed}")
        return self.result(features, "overused_words", values, notes=notes, per_example=rows)

    def score(self, prepared: Mapping[str, PhraseCounts], human: Weights, model: Weights, /) -> dict[str, F64]:
        weights = human.astype(np.float64), model.astype(np.float64)
        return {name: _score(counts, self.prior, *weights)[1] for name, counts in prepared.items()}
