"""Slow, obvious versions of metrics of copying, spectra and overused phrases."""

import cmath
import math
from collections import Counter

import numpy as np


def slow_match_lengths(text, corpus):
    """The longest sequence of tokens from each position on that some text of the corpus contains."""

    def contains(part):
        return any(known[i : i + len(part)] == part for known in corpus for i in range(len(known) - len(part) + 1))

    return [max(n for n in range(len(text) - at + 1) if contains(text[at : at + n])) for at in range(len(text))]


def slow_novelty(texts, corpus, order):
    known = {tuple(text[i : i + order]) for text in corpus for i in range(len(text) - order + 1)}
    grams = [tuple(text[i : i + order]) for text in texts for i in range(len(text) - order + 1)]
    return sum(gram not in known for gram in grams) / len(grams) if grams else math.nan


def slow_clipped(human, model, k):
    """Density and coverage by loops; f by the sum as it is written, in logarithms of the gamma function."""

    def radius(i):
        return sorted(math.dist(human[i], x) for j, x in enumerate(human) if j != i)[k - 1]

    full = [radius(i) for i in range(len(human))]
    clipped = [min(r, float(np.median(full))) for r in full]

    def share(points, own):
        return np.mean(
            [
                min(1, sum(math.dist(human[i], y) <= clipped[i] for i in range(len(human)) if not (own and i == j)) / k)
                for j, y in enumerate(points)
            ]
        )

    density = min(1.0, share(model, False) / share(human, True))
    y = np.mean([min(k, sum(math.dist(x, m) < full[i] for m in model)) / k for i, x in enumerate(human)])
    expected = [slow_expected_share(m, len(human), k) for m in range(len(model) + 1)]
    return density, sum(f < y - 1e-12 for f in expected) / (len(model) + 1)


def slow_expected_share(m, n, k):
    def log_beta(a, b):
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    terms = [
        min(j, k) * math.comb(m, j) * math.exp(log_beta(k + j, n + m - k - j) - log_beta(k, n - k))
        for j in range(1, m + 1)
    ]
    return math.fsum(terms) / k


def slow_auth_pct(human, model):
    def nearest(point, others):
        return min(others, key=lambda j: math.dist(point, human[j]))

    authentic = 0
    for y in model:
        t = nearest(y, range(len(human)))
        own = nearest(human[t], [j for j in range(len(human)) if j != t])
        authentic += math.dist(y, human[t]) > math.dist(human[t], human[own])
    return 100 * authentic / len(model)


def slow_mann_whitney_z(test, model):
    u = math.fsum((q > p) + 0.5 * (q == p) for q in model for p in test)
    n, m = len(test), len(model)
    return (u - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)


def slow_spectrum(losses, frequencies):
    """Absolute values of the discrete Fourier transform, joined by straight lines."""
    n = len(losses)
    points = [
        (f / n, abs(sum(x * cmath.exp(-2j * math.pi * f * t / n) for t, x in enumerate(losses))))
        for f in range(n // 2 + 1)
    ]
    out = []
    for at in np.linspace(0, 0.5, frequencies):
        right = next((i for i, (f, _) in enumerate(points) if f >= at), None)
        if right is None or right == 0:
            out.append(points[-1 if right is None else 0][1])
            continue
        (a, ya), (b, yb) = points[right - 1], points[right]
        out.append(ya + (yb - ya) * (at - a) / (b - a))
    return np.array(out)


def slow_overused(human, model, order, prior):
    """Phrase → z of those that the model uses three times or more."""

    def count(side):
        return Counter(tuple(t.split()[i : i + order]) for t in side for i in range(len(t.split()) - order + 1))

    h, m = count(human), count(model)
    n_h, n_m = sum(h.values()), sum(m.values())
    out = {}
    for phrase, y in m.items():
        if y < 3:
            continue
        a = prior * (y + h[phrase]) / (n_h + n_m)
        delta = math.log((y + a) / (n_m + prior - y - a)) - math.log((h[phrase] + a) / (n_h + prior - h[phrase] - a))
        out[" ".join(phrase)] = delta / math.sqrt(1 / (y + a) + 1 / (h[phrase] + a))
    return out
