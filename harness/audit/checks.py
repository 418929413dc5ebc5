"""Whether tokens were drawn from given distributions Q: checks that are exact or asymptotic at every token's own Q.

Under an honest engine each token is a draw from Q given what came before, so sums of `value - expectation` are
martingales: they are normal with the sum of the conditional variances, whatever the contexts are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincc, kolmogorov

from openended.harness.core import F64, I64

FALSE_ALARM_RATE = 0.05
"""Probability that an honest engine fails any of the checks (Holm 1979)."""
PRIOR = 0.003
"""Variance of the logit errors, constant for each token id, for which the check of token counts is most powerful."""
MOST_GROUPS = 128  # groups of texts whose token counts are compared
GRID = np.unique(np.geomspace(1, 10**6, 121).round().astype(np.int64))  # ranks at which the mass beyond is summed
BIG = 0.25
"""Log ratio of two probabilities that counts at most: a few large ones would make their sum skewed, not normal."""


@dataclass
class TokenFacts:
    """What the checks read of each token; every array has shape (n,)."""

    row: I64  # index of its text
    step: I64  # its position in the text, from 0
    token: I64
    log_q: F64  # natural log of Q(token)
    log_q_mean: F64  # expectation under Q
    log_q_var: F64  # variance under Q, in nats²
    by_rank: F64
    """Randomized probability integral transform with the most probable token first: uniform in [0, 1) under Q."""
    by_id: F64  # the same with the tokens in the order of their ids
    phase: F64  # a hash of the token's id, in [0, 1)
    phase_mean: np.ndarray  # expectation of exp(2πi phase) under Q, complex
    rank: I64  # tokens that are more probable
    repeats: F64  # 1 if the token occurs in the text so far, prompt included
    repeats_mean: F64  # its probability under Q
    outside: F64  # nats by which the token misses the support of Q, beyond rounding; 0: inside
    stream: F64
    """How far the known uniform of the draw is from the token's part of [0, 1), beyond rounding; NaN without one."""
    suspects: Mapping[str, tuple[F64, F64, F64]]
    """Name of a fault → log ratio of its Q and this one at the token, expectation and variance under this one."""

    def select(self, mask: np.ndarray) -> "TokenFacts":
        """Return the facts of the tokens where `mask` (n,) is true."""
        columns = {f.name: getattr(self, f.name)[mask] for f in fields(self) if f.name != "suspects"}
        suspects = {name: (a[mask], b[mask], c[mask]) for name, (a, b, c) in self.suspects.items()}
        return TokenFacts(**columns, suspects=suspects)


@dataclass
class Totals:
    """What the checks read of all positions together."""

    expected: F64  # expected number of each token by group of texts, shape (groups, V)
    variance: F64  # summed variance of each token's count, shape (V,)
    log_within: F64  # log of the probability that no token is beyond each rank of `GRID`, shape (len(GRID),)


class Finding(NamedTuple):
    """The result of one check."""

    name: str
    p_value: float
    observed: str  # what was seen, in words
    visible: str  # the smallest fault that this check finds with a power of 90 % in these texts; empty: unknown


def hash_ids(ids: I64) -> F64:
    """Spread token ids over [0, 1)."""
    return (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(11)).astype(np.float64) / 2.0**53


def run_checks(facts: TokenFacts, totals: Totals) -> list[Finding]:
    """Run all checks.

    Where Q leaves one token only, nothing is drawn: such tokens are checked against the support and not read further.
    """
    checks = 14 + len(facts.suspects)
    critical = NormalDist().inv_cdf(1 - FALSE_ALARM_RATE / checks / 2)
    seen = critical + 1.2816  # standard errors that are seen with a power of 90 %
    n = len(facts.token)
    findings = []

    outside = int((facts.outside > 0).sum())
    findings.append(Finding("support", 0.0 if outside else 1.0, f"{outside} of {n:,} tokens outside Q", "1 token"))
    if np.isfinite(facts.stream).any():
        wrong = int((facts.stream > 0).sum())
        text = f"{wrong} of {np.isfinite(facts.stream).sum():,} tokens differ from a draw with the same random numbers"
        findings.append(Finding("random numbers", 0.0 if wrong else 1.0, text, "1 token"))
    choices = facts.select(facts.log_q_mean < 0)
    if not len(choices.token):
        return findings
    findings.append(_check_counts(facts, totals))
    facts, n = choices, len(choices.token)

    information = float(facts.log_q_var.sum())
    if information > 0:
        excess = float((facts.log_q - facts.log_q_mean).sum())
        error = 1 / math.sqrt(information)
        text = f"inverse temperature {1 + excess * error**2:.3f} ± {error:.3f} times the requested one"
        shift = seen * error  # of the inverse temperature; the factors of the temperature to both sides
        high = f" or {1 / (1 - shift):.3f}" if shift < 1 else ""
        visible = f"temperature × {1 / (1 + shift):.3f}{high}"
        findings.append(Finding("temperature", _two_sided(excess * error), text, visible))
    findings.append(_check_repeats(facts, seen))

    u = np.clip(facts.by_rank, 1e-12, 1 - 1e-12)
    findings.append(Finding("transform", _anderson_darling(u), f"mean {u.mean():.4f} of 0.5 expected", ""))
    top = float(u.max())
    cut = math.exp(math.log(FALSE_ALARM_RATE / checks) / n)
    findings.append(Finding("largest mass", top**n, f"no token beyond a mass of {top:.5f}", f"top-p {cut:.5f}"))
    deepest = int(facts.rank.max())
    at = np.searchsorted(GRID, deepest + 1)
    within = float(np.exp(totals.log_within[at])) if at < len(GRID) else 1.0
    k = int(GRID[np.flatnonzero(totals.log_within <= math.log(FALSE_ALARM_RATE / checks))[-1:]].max(initial=0))
    text = f"no token beyond rank {deepest + 1:,}"
    findings.append(Finding("largest rank", within, text, f"top-k {k:,}" if k else ""))

    findings += _check_dependence(facts)
    findings += _check_drift(facts)
    for name, (ratio, mean, variance) in facts.suspects.items():
        total = float(variance.sum())
        z = float((ratio - mean).sum()) / math.sqrt(total) if total > 0 else 0.0
        expected = math.sqrt(total)  # of the log ratio under that fault, by tilting: its variance over its error
        text = f"{z:+.1f} standard errors toward it; {expected:+.1f} expected of it"
        findings.append(Finding(name, _two_sided(z), text, name if expected > seen else ""))
    return findings


def find_failures(findings: Sequence[Finding], alarm_rate: float = FALSE_ALARM_RATE) -> list[Finding]:
    """Return the findings that an honest engine gives with probability `alarm_rate` or less together (Holm 1979)."""
    failed = []
    for done, finding in enumerate(sorted(findings, key=lambda f: f.p_value)):
        if finding.p_value > alarm_rate / (len(findings) - done):
            break
        failed.append(finding)
    return failed


def _check_repeats(facts: TokenFacts, seen: float) -> Finding:
    """Compare how often tokens of the text so far occur again with the expected number: a repetition penalty."""
    variance = float((facts.repeats_mean * (1 - facts.repeats_mean)).sum())
    excess = float((facts.repeats - facts.repeats_mean).sum())
    z = excess / math.sqrt(variance) if variance > 0 else 0.0
    text = f"{facts.repeats.mean():.2%} repeated tokens, {facts.repeats_mean.mean():.2%} expected"
    shift = seen / math.sqrt(variance) if variance > 0 else math.inf  # of the logits of all repeated tokens
    return Finding("repetition", _two_sided(z), text, f"repeated logits {shift:.3f} lower" if shift < 9 else "")


def _check_counts(facts: TokenFacts, totals: Totals) -> Finding:
    """Compare how often each token occurs with its expected number, in all texts alike.

    The score test of logit errors that are constant per token id: products of two groups' deviations, summed over
    pairs, so that its mean is 0 under Q whatever the variances are.
    """
    groups = facts.row * len(totals.expected) // (int(facts.row.max()) + 1)
    deviations = -totals.expected
    np.add.at(deviations, (groups, facts.token), 1.0)
    weighted = deviations / np.sqrt(1 + PRIOR * totals.variance)
    p_value = compute_shift_p_value(weighted)
    total = deviations.sum(0)
    worst = int(np.argmax(np.abs(total) / np.sqrt(totals.variance + 1)))
    seen = total[worst] + totals.expected[:, worst].sum()
    text = f"token {worst}: {seen:.0f} times, {totals.expected[:, worst].sum():.0f} expected"
    return Finding("token counts", p_value, text, "")


def compute_shift_p_value(deviations: F64) -> float:
    """Return the p-value that independent rows (n, d) with expectation 0 deviate in one direction.

    The statistic is the sum of the products of different rows. Its null distribution is that under random signs of the
    rows, approximated by a shifted gamma distribution with the same first three moments (Pearson's type III).
    """
    products = deviations @ deviations.T
    np.fill_diagonal(products, 0.0)
    second = 2 * float((products**2).sum())
    third = 8 * float(np.einsum("ij,ij->", products @ products, products))
    if second <= 0:
        return 1.0
    z = float(products.sum()) / math.sqrt(second)
    skewness = third / second**1.5
    if skewness < 1e-3:
        return math.erfc(z / math.sqrt(2)) / 2
    shape = 4 / skewness**2
    return _upper_gamma(shape, shape + z * math.sqrt(shape))


def _check_dependence(facts: TokenFacts) -> list[Finding]:
    """Check that the draws of different texts at one step, and of one text at different steps, are independent."""
    angles = {"order of probability": facts.by_rank, "order of ids": facts.by_id}
    unit = {name: np.exp(2j * np.pi * u) for name, u in angles.items()}
    centered = np.exp(2j * np.pi * facts.phase) - facts.phase_mean
    spread = 1 - np.abs(facts.phase_mean) ** 2
    out = []
    for name, index in (("rows", facts.step), ("steps", facts.row)):
        terms = {**unit, "same tokens": centered} if name == "rows" else unit
        for how, values in terms.items():
            weights = spread if how == "same tokens" else np.ones(len(index))
            out.append(_check_resultants(f"{name}, {how}", values, weights, index))
    follows = np.flatnonzero((facts.row[1:] == facts.row[:-1]) & (facts.step[1:] == facts.step[:-1] + 1))
    turn = (unit["order of probability"][follows + 1] * unit["order of probability"][follows].conj()).real
    z = float(turn.sum()) / math.sqrt(max(len(turn), 1) / 2)
    out.append(Finding("neighbors", _two_sided(z), f"correlation {2 * turn.mean() if len(turn) else 0:+.4f}", ""))
    return out


def _check_resultants(name: str, values: np.ndarray, weights: F64, index: I64) -> Finding:
    """Check that unit vectors of one index point in unrelated directions (Rayleigh 1919, summed over the indices)."""
    size = int(index.max()) + 1
    total = np.bincount(index, values.real, size) + 1j * np.bincount(index, values.imag, size)
    variance = np.bincount(index, weights, size)
    used = (variance > 1e-9) & (np.bincount(index, minlength=size) > 1)
    lengths = np.abs(total[used]) ** 2 / variance[used]  # exponential with mean 1
    if not used.any():
        return Finding(name, 1.0, "one token only", "")
    text = f"squared resultants {lengths.mean():.2f} of 1 expected"
    return Finding(name, _upper_gamma(len(lengths), float(lengths.sum())), text, "")


def _check_drift(facts: TokenFacts) -> list[Finding]:
    """Check that nothing changes between the first and the last text: bridges of cumulative sums (Kolmogorov)."""
    scale = np.sqrt(np.maximum(facts.log_q_var, 1e-12))
    scores = {"log Q": (facts.log_q - facts.log_q_mean) / scale, "transform": facts.by_rank - 0.5}
    out = []
    for name, score in scores.items():
        walk = np.cumsum(score - score.mean()) / (score.std() * math.sqrt(len(score)) + 1e-12)
        at, peak = int(np.abs(walk).argmax()), float(np.abs(walk).max())
        p_value = float(kolmogorov(peak))
        text = f"largest change after text {int(facts.row[at]) + 1:,}"
        out.append(Finding(f"drift, {name}", p_value, text, ""))
    return out


def _two_sided(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2))


def _upper_gamma(shape: float, x: float) -> float:
    return float(gammaincc(shape, max(x, 0.0)))


def _anderson_darling(u: F64) -> float:
    """Return the p-value that values are uniform on (0, 1); the limit of Marsaglia and Marsaglia (2004)."""
    u, n = np.sort(u), len(u)
    odd = 2 * np.arange(1, n + 1) - 1
    z = -n - float((odd * (np.log(u) + np.log1p(-u[::-1]))).sum()) / n
    if z < 2:
        series = 2.00012 + (0.247105 - (0.0649821 - (0.0347962 - (0.0116720 - 0.00168691 * z) * z) * z) * z) * z
        return 1 - math.exp(-1.2337141 / z) / math.sqrt(z) * series
    series = 1.0776 - (2.30695 - (0.43424 - (0.082433 - (0.008056 - 0.0003146 * z) * z) * z) * z) * z
    return -math.expm1(-math.exp(series))
