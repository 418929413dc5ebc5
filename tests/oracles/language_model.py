"""Slow re-derivations of metrics of a scorer's numbers, and of teacher-forced ones from whole distributions."""

import cmath
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


def spectrum(losses, frequencies):
    """Absolute values of the discrete Fourier transform, joined by straight lines."""
    n = len(losses)
    turns = (-2j * math.pi * f / n for f in range(n // 2 + 1))
    values = [abs(sum(x * cmath.exp(turn * t) for t, x in enumerate(losses))) for turn in turns]
    return np.interp(np.linspace(0, 0.5, frequencies), np.arange(n // 2 + 1) / n, values)


def rank_divergence(human, model, divergence):
    tops = [*range(1, 21), 50, 125, 312, 781, 1953, 4882, 12207, math.inf]

    def histogram(ranks):
        counts = [0.5] * len(tops)
        for rank in ranks:
            counts[next(i for i, top in enumerate(tops) if rank <= top)] += 1
        return [c / sum(counts) for c in counts]

    p, q = histogram(human), histogram(model)
    if divergence == "chi2":
        return math.fsum((b - a) ** 2 / a for a, b in zip(p, q, strict=True))
    # In logs from the largest term on: ratios to the power of 100 overflow.
    logs = [100 * math.log(b) - 99 * math.log(a) for a, b in zip(p, q, strict=True)]
    return max((max(logs) + math.log(math.fsum(math.exp(x - max(logs)) for x in logs))) / 99, 0.0)
