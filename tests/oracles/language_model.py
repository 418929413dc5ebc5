"""Slow re-derivations of the teacher-forced metrics, from whole distributions."""

import math

import numpy as np


def sparsemax_score(q: np.ndarray, gold: np.ndarray) -> float:
    """One minus half the squared Euclidean distance to the one-hot, turned as the paper has it."""
    total = 0.0
    for row, y in zip(q, gold, strict=True):
        one_hot = np.zeros(len(row))
        one_hot[y] = 1.0
        total += 1 - 0.5 * sum((row - one_hot) ** 2)
    return total / len(gold)


def jensen_shannon(q: np.ndarray, gold: np.ndarray) -> float:
    total = 0.0
    for row, y in zip(q, gold, strict=True):
        one_hot = np.zeros(len(row))
        one_hot[y] = 1.0
        middle = (row + one_hot) / 2
        total += 0.5 * sum(a * math.log(a / m) for a, m in zip(row, middle, strict=True) if a > 0)
        total += 0.5 * sum(a * math.log(a / m) for a, m in zip(one_hot, middle, strict=True) if a > 0)
    return total / len(gold)


def eps_ppl(q: np.ndarray, gold: np.ndarray, eps: float) -> float:
    logs = []
    for row, y in zip(q, gold, strict=True):
        smoothed = row + eps
        logs.append(math.log(smoothed[y] / smoothed.sum()))
    return math.exp(-sum(logs) / len(logs))


def rep(best: list[int], gold: list[int], context: list[int], length: int, *, wrong: bool) -> float:
    """One text."""
    hits = 0
    for t, candidate in enumerate(best):
        before = (context + gold[:t])[-length:]
        hits += candidate in before and not (wrong and candidate == gold[t])
    return hits / len(best)
