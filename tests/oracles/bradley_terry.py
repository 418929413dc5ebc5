"""Bradley-Terry by Zermelo's iteration (Hunter 2004's MM), and its errors by numerical second derivatives."""

import math


def fit(wins, rounds=200_000, tolerance=1e-13):
    n = len(wins)
    strength = [1.0] * n
    for _ in range(rounds):
        new = []
        for i in range(n):
            won = sum(wins[i])
            met = sum((wins[i][j] + wins[j][i]) / (strength[i] + strength[j]) for j in range(n) if j != i)
            new.append(won / met)
        mean = math.exp(sum(map(math.log, new)) / n)
        new = [s / mean for s in new]
        moved = max(abs(math.log(a / b)) for a, b in zip(new, strength, strict=True))
        strength = new
        if moved < tolerance:
            break
    return [math.log(s) for s in strength]


def log_likelihood(wins, scores):
    n = len(wins)
    return sum(-wins[i][j] * math.log1p(math.exp(scores[j] - scores[i])) for i in range(n) for j in range(n) if i != j)
