"""Two-sample metrics on embeddings, pair by pair, from the papers' formulas."""

import math

import numpy as np


def squared(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def ball(rows, i, k):
    return sorted(squared(rows[i], rows[j]) for j in range(len(rows)) if j != i)[k - 1]


def knn(human, model, k, *, closed):
    within = (lambda d, r: d <= r) if closed else (lambda d, r: d < r)
    human_balls = [ball(human, i, k) for i in range(len(human))]
    model_balls = [ball(model, j, k) for j in range(len(model))]
    inside = [[within(squared(h, m), r) for m in model] for h, r in zip(human, human_balls, strict=True)]
    missed = [[within(squared(h, m), r) for m, r in zip(model, model_balls, strict=True)] for h in human]
    n, m = len(human), len(model)
    return {
        "precision": sum(any(inside[i][j] for i in range(n)) for j in range(m)) / m,
        "recall": sum(any(row) for row in missed) / n,
        "density": sum(map(sum, inside)) / (k * m),
        "coverage": sum(any(row) for row in inside) / n,
    }


def frechet(human, model):
    """With a general matrix square root."""
    from scipy.linalg import sqrtm

    a, b = np.cov(human, rowvar=False), np.cov(model, rowvar=False)
    gap = human.mean(axis=0) - model.mean(axis=0)
    return gap @ gap + np.trace(a) + np.trace(b) - 2 * np.trace(sqrtm(a @ b)).real


def kid(human, model):
    def k(x, y):
        return (sum(a * b for a, b in zip(x, y, strict=True)) / len(x) + 1) ** 3

    n, m = len(human), len(model)
    within_h = sum(k(human[i], human[j]) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    within_m = sum(k(model[i], model[j]) for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    across = sum(k(x, y) for x in human for y in model) / (n * m)
    return within_h + within_m - 2 * across


def vendi(rows):
    """From the n × n matrix of cosines, in nats."""
    unit = [row / math.sqrt(sum(v * v for v in row)) for row in rows]
    values = np.linalg.eigvalsh(np.array([[sum(a * b) for b in unit] for a in unit]) / len(rows))
    return math.exp(-sum(v * math.log(v) for v in values if v > 1e-12))
