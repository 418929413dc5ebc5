"""MAUVE's curve and divergences, cell by cell in plain Python, from the papers' formulas."""

import itertools
import math


def kl(p, q):
    total = 0.0
    for a, b in zip(p, q, strict=True):
        if a > 0:
            if b == 0:
                return math.inf
            total += a * math.log(a / b)
    return total


def mauve(p, q, *, c=5.0, weights):
    points = [(1.0, 0.0)]
    for w in weights:
        r = [w * a + (1 - w) * b for a, b in zip(p, q, strict=True)]
        points.append((math.exp(-c * kl(q, r)), math.exp(-c * kl(p, r))))
    points.append((0.0, 1.0))
    area = 0.0
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        area += (x0 - x1) * (y0 + y1) / 2
    return area


def frontier_integral(p, q, steps=20_000):
    """The integral itself, by the midpoint rule."""
    total = 0.0
    for i in range(steps):
        w = (i + 0.5) / steps
        r = [w * a + (1 - w) * b for a, b in zip(p, q, strict=True)]
        total += 2 * (w * kl(p, r) + (1 - w) * kl(q, r)) / steps
    return total


def prd(p, q, slope):
    precision = sum(min(slope * a, b) for a, b in zip(p, q, strict=True))
    recall = sum(min(a, b / slope) for a, b in zip(p, q, strict=True))
    return precision, recall
