"""Rank correlations from their definitions, pair by pair."""

import itertools
import math


def mid_ranks(values):
    return [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]


def spearman(x, y):
    a, b = mid_ranks(x), mid_ranks(y)
    ma, mb = sum(a) / len(a), sum(b) / len(b)
    top = sum((p - ma) * (q - mb) for p, q in zip(a, b, strict=True))
    return top / math.sqrt(sum((p - ma) ** 2 for p in a) * sum((q - mb) ** 2 for q in b))


def kendall(x, y):
    concordant = discordant = tied_x = tied_y = 0
    for i, j in itertools.combinations(range(len(x)), 2):
        p, q = x[i] - x[j], y[i] - y[j]
        tied_x += p == 0
        tied_y += q == 0
        concordant += p * q > 0
        discordant += p * q < 0
    pairs = len(x) * (len(x) - 1) / 2
    return (concordant - discordant) / math.sqrt((pairs - tied_x) * (pairs - tied_y))


def permutation_p(x, y, correlation):
    observed = abs(correlation(x, y))
    orders = list(itertools.permutations(y))
    return sum(abs(correlation(x, order)) >= observed - 1e-12 for order in orders) / len(orders)
