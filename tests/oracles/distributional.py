"""Slow, obvious versions of the distances of two sets of texts."""

import math

import numpy as np


def slow_energy_distance(human, model):
    def mean(a, b):
        return math.fsum(math.dist(x, y) for x in a for y in b) / (len(a) * len(b))

    return max(2 * mean(human, model) - mean(human, human) - mean(model, model), 0.0)


def slow_rank_divergence(human, model, divergence):
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


def slow_typicality(human, model, covariance):
    inverse, center = np.linalg.inv(covariance), human.mean(axis=0)
    away = [float((x - center) @ inverse @ (x - center)) for x in human]
    p = [np.mean([a >= float((x - center) @ inverse @ (x - center)) for a in away]) for x in model]
    return float(np.mean(p))


def slow_gradient_moment(human, model):
    """The squared norm of the difference of means, less the variances of both means."""
    gap = human.mean(axis=0) - model.mean(axis=0)
    bias = sum(rows.var(axis=0, ddof=1).sum() / len(rows) for rows in (human, model))
    return float(gap @ gap - bias)
