"""Statistics of several texts a prompt, one pair after the other, straight from their definitions."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any


def grouped(rows: Sequence[Any], ids: Sequence[str]) -> list[list[Any]]:
    held: dict[str, list[Any]] = {}
    for row, name in zip(rows, ids, strict=True):
        held.setdefault(name, []).append(row)
    return [rows for rows in held.values() if len(rows) > 1]


def over_prompts(statistic: Callable[[list[Any]], float], rows: Sequence[Any], ids: Sequence[str]) -> float:
    values = [statistic(group) for group in grouped(rows, ids)]
    return sum(values) / len(values)


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def similarity(group: list[Any]) -> float:
    pairs = [cosine(a, b) for a, b in combinations(group, 2)]
    return sum(pairs) / len(pairs)


def similar_share(group: list[Any], threshold: float) -> float:
    pairs = [cosine(a, b) > threshold for a, b in combinations(group, 2)]
    return sum(pairs) / len(pairs)


def remote_clique(group: list[Any]) -> float:
    means = [
        sum(1 - cosine(a, b) for j, b in enumerate(group) if j != i) / (len(group) - 1) for i, a in enumerate(group)
    ]
    return sum(means) / len(means)


def chamfer(group: list[Any]) -> float:
    least = [min(1 - cosine(a, b) for j, b in enumerate(group) if j != i) for i, a in enumerate(group)]
    return sum(least) / len(least)


def classes(group: list[Any], threshold: float) -> int:
    left, found = set(range(len(group))), 0
    while left:
        found += 1
        todo = [left.pop()]
        while todo:
            one = todo.pop()
            near = {j for j in left if cosine(group[one], group[j]) >= threshold}
            left -= near
            todo += near
    return found


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
