"""Newer decoders straight from their definitions: one row of logits, plain NumPy and Python, no order shared, no head."""

import numpy as np
from scipy.special import softmax

from openended.harness.core.types import F64


def renormalized(p: F64, keep: np.ndarray) -> F64:
    """What is kept of p, as a distribution."""
    return np.where(keep, p, 0.0) / p[keep].sum()


def p_less(logits: F64, *, norm: bool) -> F64:
    """Keep p >= Σp², or (V Σp² - 1) / (V - 1)."""
    p = softmax(logits)
    threshold = sum(float(x) ** 2 for x in p)
    if norm:
        threshold = (len(p) * threshold - 1) / (len(p) - 1)
    return renormalized(p, p >= threshold)


def min_k(logits: F64, tau: float) -> F64:
    """Cut after the rank with the largest weighted drop, but keep floor(tau / range) at least."""
    z = np.sort(logits[np.isfinite(logits)])[::-1]
    span = z[0] - z[-1] + 1e-8
    best, cliff = -1.0, 1
    for rank in range(1, len(z)):
        drop = (z[rank - 1] - z[rank]) / span / rank
        if drop > best:
            best, cliff = drop, rank
    kept = min(max(cliff, int(tau / span)), len(z))
    return renormalized(softmax(logits), logits >= z[kept - 1])


def xtc(logits: F64, threshold: float, probability: float, temperature: float = 1.0) -> F64:
    """The two outcomes of the coin, mixed; `temperature` comes after the cut."""
    p = softmax(logits)
    q = softmax(logits / temperature)
    order = sorted(range(len(p)), key=lambda i: (-p[i], i))
    top = [i for i in order if p[i] >= threshold]
    left = np.ones(len(p), dtype=bool)
    left[top[:-1]] = False
    return (1 - probability) * q + probability * renormalized(q, left)


def dry(tokens, size, *, multiplier, base, allowed, window, breakers):
    """The penalty of every token of the vocabulary after `tokens`."""
    seen = list(tokens)[-window:] if window else list(tokens)
    longest = [0] * size
    for at in range(1, len(seen)):
        n = 0
        while n < at and seen[at - 1 - n] == seen[-1 - n] and seen[-1 - n] not in breakers:
            n += 1
        if seen[at] not in breakers:
            longest[seen[at]] = max(longest[seen[at]], n)
    return np.array([multiplier * base ** (n - allowed) if n >= allowed else 0.0 for n in longest])
