"""Two-sample metrics on embeddings, pair by pair, from the papers' formulas."""

import math

import numpy as np
from scipy.spatial.distance import cdist


def knn(human, model, k, *, closed):
    within = np.less_equal if closed else np.less
    # Of the sorted distances to all rows of a side, the first is that to the row itself.
    human_balls, model_balls = (np.sort(cdist(rows, rows, "sqeuclidean"), axis=1)[:, k] for rows in (human, model))
    apart = cdist(human, model, "sqeuclidean")
    inside, reached = within(apart, human_balls[:, None]), within(apart, model_balls)
    return {
        "precision": inside.any(axis=0).mean(),
        "recall": reached.any(axis=1).mean(),
        "density": inside.sum() / (k * len(model)),
        "coverage": inside.any(axis=1).mean(),
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


def energy_distance(human, model):
    def mean(a, b):
        return math.fsum(math.dist(x, y) for x in a for y in b) / (len(a) * len(b))

    return max(2 * mean(human, model) - mean(human, human) - mean(model, model), 0.0)


def typicality(human, model, covariance):
    inverse, center = np.linalg.inv(covariance), human.mean(axis=0)
    away = [float((x - center) @ inverse @ (x - center)) for x in human]
    p = [np.mean([a >= float((x - center) @ inverse @ (x - center)) for a in away]) for x in model]
    return float(np.mean(p))


def gradient_moment(human, model):
    """The squared norm of the difference of means, less the variances of both means."""
    gap = human.mean(axis=0) - model.mean(axis=0)
    bias = sum(rows.var(axis=0, ddof=1).sum() / len(rows) for rows in (human, model))
    return float(gap @ gap - bias)


def clipped(human, model, k):
    """Density and coverage by loops; f by the sum as it is written, in logarithms of the gamma function."""

    def radius(i):
        return sorted(math.dist(human[i], x) for j, x in enumerate(human) if j != i)[k - 1]

    full = [radius(i) for i in range(len(human))]
    clipped = [min(r, float(np.median(full))) for r in full]

    def share(points, own):
        balls = list(enumerate(zip(human, clipped, strict=True)))
        found = (sum(math.dist(x, y) <= r for i, (x, r) in balls if not (own and i == j)) for j, y in enumerate(points))
        return np.mean([min(1, count / k) for count in found])

    density = min(1.0, share(model, False) / share(human, True))
    y = np.mean([min(k, sum(math.dist(x, m) < full[i] for m in model)) / k for i, x in enumerate(human)])
    expected = [expected_share(m, len(human), k) for m in range(len(model) + 1)]
    return density, sum(f < y - 1e-12 for f in expected) / (len(model) + 1)


def expected_share(m, n, k):
    from scipy.stats import betabinom

    j = np.arange(m + 1)
    return float(np.minimum(j, k) @ betabinom.pmf(j, m, k, n - k)) / k


def auth_pct(human, model):
    def nearest(point, others):
        return min(others, key=lambda j: math.dist(point, human[j]))

    authentic = 0
    for y in model:
        t = nearest(y, range(len(human)))
        own = nearest(human[t], [j for j in range(len(human)) if j != t])
        authentic += math.dist(y, human[t]) > math.dist(human[t], human[own])
    return 100 * authentic / len(model)


def mann_whitney_z(test, model):
    u = math.fsum((q > p) + 0.5 * (q == p) for q in model for p in test)
    n, m = len(test), len(model)
    return (u - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
