"""Statistics of several texts a prompt, one pair after the other, straight from their definitions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist, pdist


def grouped(rows: Sequence[Any], ids: Sequence[str]) -> list[list[Any]]:
    held: dict[str, list[Any]] = {}
    for row, name in zip(rows, ids, strict=True):
        held.setdefault(name, []).append(row)
    return [rows for rows in held.values() if len(rows) > 1]


def over_prompts(statistic: Callable[[list[Any]], float], rows: Sequence[Any], ids: Sequence[str]) -> float:
    values = [statistic(group) for group in grouped(rows, ids)]
    return sum(values) / len(values)


def compare(group: list[Any]) -> Any:
    """Cosines of all pairs; of a row with itself minus infinity."""
    cosines = 1 - cdist(group, group, "cosine")
    np.fill_diagonal(cosines, -np.inf)
    return cosines


def similarity(group: list[Any]) -> float:
    return 1 - pdist(group, "cosine").mean()


def similar_share(group: list[Any], threshold: float) -> float:
    return (1 - pdist(group, "cosine") > threshold).mean()


def chamfer(group: list[Any]) -> float:
    return (1 - compare(group).max(axis=1)).mean()


def classes(group: list[Any], threshold: float) -> int:
    return connected_components(compare(group) >= threshold)[0]


def lcs(a: Sequence[Any], b: Sequence[Any]) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def rouge_l(group: list[Any]) -> float:
    scores = []
    for i, a in enumerate(group):
        for j, b in enumerate(group):
            if i == j:
                continue
            if not a and not b:
                scores.append(1.0)
                continue
            common = lcs(a, b)
            precision, recall = common / len(a) if a else 0.0, common / len(b) if b else 0.0
            scores.append(2 * precision * recall / (precision + recall) if common else 0.0)
    return sum(scores) / len(scores)


def ngram_diversity(group: list[Any], orders: Sequence[int]) -> float:
    joined = [token for text in group for token in text]
    total = 0.0
    for n in orders:
        grams = [tuple(joined[i : i + n]) for i in range(len(joined) - n + 1)]
        total += len(set(grams)) / len(grams) if grams else 0.0
    return total
