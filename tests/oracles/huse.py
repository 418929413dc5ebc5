"""HUSE by brute force: every text against every other."""

import math

import numpy as np


def leave_one_out_error(points, labels, k, *, ties="include", vote_tie=0):
    """Share of points whose k nearest others vote for the wrong label; `vote_tie` wins a vote tie (0 human)."""
    wrong = 0
    for i, point in enumerate(points):
        others = sorted((math.dist(point, p), labels[j]) for j, p in enumerate(points) if j != i)
        cut = others[k - 1][0]
        nearer = [label for d, label in others if d < cut - 1e-9]
        tied = [label for d, label in others if abs(d - cut) <= 1e-9]
        for_model, votes = sum(nearer) + sum(tied), len(nearer) + len(tied)
        if ties == "exclude":
            for_model, votes = sum(nearer) + (k - len(nearer)) * sum(tied) / len(tied), k
        margin = 2 * for_model - votes
        prediction = vote_tie if abs(margin) < 1e-9 else int(margin > 0)
        wrong += prediction != labels[i]
    return wrong / len(points)


def huse(judgments, log_probs, lengths, is_model, k, **options):
    rating = np.divide(judgments, np.std(judgments))
    logp = np.divide(log_probs, lengths)
    logp /= logp.std()
    labels = [int(b) for b in is_model]
    value = 2 * leave_one_out_error(list(zip(rating, logp, strict=True)), labels, k, **options)
    quality = 2 * leave_one_out_error([(r,) for r in rating], labels, k, **options)
    return value, quality, 1 + value - quality
