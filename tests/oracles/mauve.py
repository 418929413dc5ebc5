"""MAUVE's curve and divergences, from the papers' formulas."""

import itertools
import math

import numpy as np
from scipy.special import rel_entr


def mauve(p, q, *, c=5.0, weights):
    points = [(1.0, 0.0)]
    for w in weights:
        r = w * np.array(p) + (1 - w) * np.array(q)
        points.append((math.exp(-c * rel_entr(q, r).sum()), math.exp(-c * rel_entr(p, r).sum())))
    points.append((0.0, 1.0))
    return sum((x0 - x1) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in itertools.pairwise(points))


def frontier_integral(p, q, steps=20_000):
    """The integral itself, by the midpoint rule."""
    w = ((np.arange(steps) + 0.5) / steps)[:, None]
    r = w * np.array(p) + (1 - w) * np.array(q)
    return 2 * float((w * rel_entr(p, r) + (1 - w) * rel_entr(q, r)).sum()) / steps


def prd(p, q, slope):
    precision = sum(min(slope * a, b) for a, b in zip(p, q, strict=True))
    recall = sum(min(a, b / slope) for a, b in zip(p, q, strict=True))
    return precision, recall
