"""Paired significance tests between two systems, with the best data available.

- `examples`: the value is a mean over examples. Both systems' values on the same prompts (samples of one prompt, and
  the seeds of a system, are one observation), signs flipped at random.
- `draws`: any other statistic with bootstrap or subsampling replicates, which share their prompts; the standard error
  of the replicates' differences gives a t test. One seed is enough. Metrics of embeddings are estimated in one space
  of all systems and all human texts, if their embeddings are in the store.
- `seeds`: sign flips of differences paired by seed; the smallest p-value with n seeds is 2 / 2ⁿ.

If the human value h is the target, the test is whether the two *values* differ. Their *distances* to h are equal where
a = b and where (a + b) / 2 = h; `nearer` is the larger of the two p-values, a test at its level everywhere (Berger
1982; Miles and Chambaz 2021). Further sources: Good 2005, "Permutation, parametric and bootstrap tests"; Holm 1979;
Tukey 1953, "The problem of multiple comparisons".
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

import numpy as np

from openended.harness import results as measured
from openended.harness.core import F64, I64, Floats, Replicates, combine_replicates, make_random_stream
from openended.harness.results import Results, SystemValue

K = TypeVar("K")
DRAWS = 10_000
MOST_EXACT = 14  # seeds or examples up to which all 2ⁿ sign patterns are enumerated
LEAST_SEEDS = 6  # 2 / 2⁶ = 0.03; with fewer, p < 0.05 is impossible, and the test would only cost the others power
LEVEL = 0.05
Z = NormalDist().inv_cdf(1 - LEVEL / 2)  # standard errors to each side in an interval of 95 %
AGREES = 1e-6  # relative tolerance between float64 means of the same numbers


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """One comparison of two systems."""

    difference: float  # first minus second; difference of the distances to the human value if that is the target
    p_value: float  # p-value of the null hypothesis that the two values are equal; NaN if it cannot be tested
    over: str  # `examples`, `draws` or `seeds`
    n: int  # number of examples or seeds; for draws, the number of replicates
    low: float = math.nan  # of the interval of the difference of the values (not of the distances); NaN over seeds
    high: float = math.nan
    nearer: float = math.nan  # p-value of equal distances to the human value; NaN if untested or not the target


def compute_clustered_error(values: F64, clusters: I64 | None = None) -> tuple[float, float]:
    """Return the standard error of a mean of values, shape (n,), and its degrees of freedom.

    Without `clusters`, numbered from 0, each value is one. NaN for a single cluster. A large cluster pulls the mean
    towards itself, so its residuals are too small: the sum of a cluster that holds the share h is divided by √(1 − h)
    (CR2). The degrees of freedom are Satterthwaite's for that estimate, m − 1 for m clusters of equal size.

    Source: Bell and McCaffrey 2002, "Bias reduction in standard errors for linear regression with multi-stage samples";
    Pustejovsky and Tipton 2018.
    """
    n, residuals = len(values), values - values.mean()
    sums = residuals if clusters is None else np.bincount(clusters, residuals)
    sizes = np.ones(n) if clusters is None else np.bincount(clusters).astype(np.float64)
    if len(sizes) < 2:
        return math.nan, 0.0
    scales = 1 / (1 - sizes / n)
    loads = sizes**2 * scales
    dof = n**2 / (float(sizes @ sizes) + (float(loads.sum()) ** 2 - float(loads @ loads)) / n**2)
    return math.sqrt(float(sums**2 @ scales)) / n, dof


def compute_student_quantile(degrees: float, level: float = 1 - LEVEL) -> float:
    """Return Student's two-sided quantile."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + level / 2))


def compute_margin_p_value(difference: float, margin: float) -> float:
    """Return the two-sided p-value of a difference with a 95 % interval of ± margin; NaN without a margin.

    For the difference of two independent values the margin is the root of the sum of the squared margins on the sides
    that face each other (Zou and Donner 2008).

    >>> round(compute_margin_p_value(1.0, 1.0), 6)
    0.05
    """
    from scipy.special import ndtr

    ratio = abs(difference) / margin if margin > 0 else math.nan
    return float(2 * ndtr(-ratio * Z))


def correct_by_holm(p_values: Mapping[K, float], tests: int = 0) -> dict[K, float]:
    """Correct p-values by Holm's step-down method, which controls the family-wise error rate; non-finite are skipped.

    `tests` is the size of the family if it has more tests than these; the others count as not significant.

    >>> correct_by_holm({"a": 0.01, "b": math.nan, "c": 0.04})
    {'a': 0.02, 'c': 0.04}
    """
    order = sorted((test for test, p in p_values.items() if math.isfinite(p)), key=lambda test: p_values[test])
    corrected: dict[K, float] = {}
    highest, tests = 0.0, max(tests, len(order))
    for rank, test in enumerate(order):
        highest = max(highest, min(1.0, (tests - rank) * p_values[test]))
        corrected[test] = highest
    return corrected


def correct_best_p_values(p_values: Mapping[K, float], systems: int) -> dict[K, float]:
    """Correct the p-values of the best of some systems against others: which one is best is known only from the data.

    The smaller one of Holm's method over all pairs of systems, of which those without the best count as not
    significant, and of Tukey's (1953): the probability that any two of so many equal systems differ as significantly.
    """
    corrected = correct_by_holm(p_values, math.comb(systems, 2))
    return {at: min(p, compute_range_p_value(p_values[at], systems)) for at, p in corrected.items()}


def compute_range_p_value(p_value: float, systems: int) -> float:
    """Return the probability that some pair of equal systems has at most this p-value, if all errors are alike.

    >>> round(compute_range_p_value(0.0102, 4), 4)  # a studentized range of 3.633
    0.05
    """
    from scipy.special import ndtr, ndtri

    lowest = np.linspace(-9, 9, 1801)  # the value of the lowest system, in standard errors
    within = ndtr(lowest - math.sqrt(2) * ndtri(p_value / 2)) - ndtr(lowest)  # of another one, above it by no more
    density = systems * np.exp(-(lowest**2) / 2) / math.sqrt(2 * math.pi)
    return max(p_value, 1 - float(np.trapezoid(density * within ** (systems - 1), lowest)))


def compare_values(
    results: Results, items: Sequence[SystemValue], a: SystemValue | None, b: SystemValue | None
) -> SystemComparison | None:
    """Compare one value of two systems; None if one has no value or a required human value is missing."""
    if a is None or b is None or not math.isfinite(a.mean + b.mean):
        return None
    human = measured.find_human_value(items, a) if a.direction == "match_human" else None
    if a.direction == "match_human" and (human is None or not math.isfinite(human.mean)):
        return None
    test = _test_over_examples(results, a, b) or _test_over_replicates(results, a, b) or _test_over_seeds(a, b)
    if human is None:
        return test
    difference = abs(a.mean - human.mean) - abs(b.mean - human.mean)
    nearer = _test_distances(results, a, b, test, human, human.mean)
    return dataclasses.replace(test, difference=float(difference), nearer=nearer)


def compute_equality_p_value(results: Results, items: Sequence[SystemValue], a: SystemValue, b: SystemValue) -> float:
    """Return the p-value of the null hypothesis that two values are equally good; NaN if it cannot be tested.

    Two values are equally good if they are equal, or equally far from the target if there is one.
    """
    test = compare_values(results, items, a, b) if a.signature == b.signature else None
    if test is None:
        return math.nan
    if test.over == "draws" and a.direction != "match_human" and test.difference * (a.mean - b.mean) < 0:
        return 1.0  # the shared space orders the two differently than the printed values: nothing is certain
    if a.target is not None:
        return _test_distances(results, a, b, test, None, a.target)
    return test.nearer if a.direction == "match_human" else test.p_value


def estimate_difference(results: Results, a: SystemValue, b: SystemValue) -> tuple[float, float, float]:
    """Return the difference of two values, its standard error and the degrees of freedom of Student's test.

    The last two are NaN where they cannot be estimated.
    """
    if (sides := _load_examples(results, a, b)) is not None:
        apart = sides[0] - sides[1]
        n = len(apart)
        error = float(apart.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
        return float(apart.mean()), error, n - 1 if n > 1 else math.nan
    (first, second), parts = load_estimates(results, a, b)
    both = _combine((1.0, -1.0), parts)
    if both is None or not both.varies:
        return first - second, math.nan, math.nan
    return first - second, both.std_error(), both.dof


def estimate_middle(
    results: Results, a: SystemValue, b: SystemValue, human: SystemValue | None, center: float
) -> tuple[float, float, float]:
    """Return a + b - 2 center, 0 where both are equally far from it, with standard error and degrees of freedom."""
    middle, both = _combine_middle(results, a, b, human, center)
    if both is None or not both.varies:
        return math.nan, math.nan, math.nan
    return middle, both.std_error(), both.dof


def _combine_middle(
    results: Results, a: SystemValue, b: SystemValue, human: SystemValue | None, center: float
) -> tuple[float, Replicates | None]:
    """Return a + b - 2 center and its replicates; None without those of a human value, which is not known exactly."""
    (first, second), parts = load_estimates(results, a, b)
    if human is not None:
        parts = [*parts, measured.load_replicates(results, human)]
    return first + second - 2 * center, _combine((1.0, 1.0, -2.0)[: len(parts)], parts)


def _test_over_examples(results: Results, a: SystemValue, b: SystemValue) -> SystemComparison | None:
    sides = _load_examples(results, a, b)
    if sides is None:
        return None
    apart = sides[0] - sides[1]
    n, mean = len(apart), float(apart.mean())
    error = float(apart.std(ddof=1)) / math.sqrt(n) if np.ptp(apart) > 0 else math.nan
    margin = compute_student_quantile(n - 1) * error
    p_value = compute_sign_flip_p(apart, a.metric, a.key)
    return SystemComparison(mean, p_value, "examples", n, mean - margin, mean + margin)


def _test_over_replicates(results: Results, a: SystemValue, b: SystemValue) -> SystemComparison | None:
    (first, second), parts = load_estimates(results, a, b)
    both = _combine((1.0, -1.0), parts)
    if both is None or not both.varies:
        return None
    apart = first - second
    interval = both.interval(apart)
    return SystemComparison(apart, both.p_value(apart), "draws", both.draws.size, interval.low, interval.high)


def load_estimates(
    results: Results, a: SystemValue, b: SystemValue
) -> tuple[tuple[float, float], list[Replicates | None]]:
    """Return values and replicates of two systems.

    They are those of a space that both share where both have printed replicates, else the printed ones.
    """
    printed = [measured.load_replicates(results, item) for item in (a, b)]
    if a.signature == b.signature and None not in printed:
        first, second = (measured.find_joint_estimate(results, item) for item in (a, b))
        if first is not None and second is not None:
            return (first[0], second[0]), [first[1], second[1]]
    return (a.mean, b.mean), printed


def describe_estimates(results: Results, items: Iterable[SystemValue]) -> tuple[list[str], list[str]]:
    """Return lines that say what the differences of metrics of embeddings rest on, and their signatures."""
    lines: dict[str, dict[str, None]] = {}
    signatures = []
    for item in {(i.metric, i.signature): i for i in items if i.system == "model"}.values():
        space = measured.find_joint_space(results, item)
        if space.values:
            signatures.append(f"signature of differences: {space.signature}")
            clusterings = f" ({space.num_clusterings} clusterings)" if space.num_clusterings else ""
            sets = f"{space.num_systems} sets of texts and {space.num_human:,} human texts"
            lines.setdefault(f"in one space of {sets}; printed values in a space of the system's own", {})[
                item.metric + clusterings
            ] = None
        elif space.reason:
            lines.setdefault(f"from each system's own values, which need more texts: {space.reason}", {})[
                item.metric
            ] = None
    return [f"Differences of {', '.join(names)} are computed {basis}." for basis, names in lines.items()], signatures


def _combine(weights: Sequence[float], parts: Sequence[Replicates | None]) -> Replicates | None:
    """Return the weighted sum of replicates; None if some are missing or do not fit."""
    present = [part for part in parts if part is not None]
    return combine_replicates(weights, present) if len(present) == len(parts) else None


def _test_over_seeds(a: SystemValue, b: SystemValue) -> SystemComparison:
    """Test differences paired by seed; a system without seeds has the same value for each."""
    left, right = a.values, b.values
    if len(left) == 1 < len(right):
        left = dict.fromkeys(right, next(iter(left.values())))
    elif len(right) == 1 < len(left):
        right = dict.fromkeys(left, next(iter(right.values())))
    apart = np.array([left[s] - right[s] for s in left if s in right and math.isfinite(left[s] + right[s])])
    p_value = compute_sign_flip_p(apart, a.metric, a.key) if len(apart) >= LEAST_SEEDS else math.nan
    return SystemComparison(a.mean - b.mean, p_value, "seeds", len(apart))


def _test_distances(
    results: Results, a: SystemValue, b: SystemValue, test: SystemComparison, human: SystemValue | None, center: float
) -> float:
    """Return the p-value of equal distances to a center, the human value or a constant; NaN if it cannot be tested.

    Seeds share prompts and human texts, whose errors cancel in the difference of two systems but not here.
    """
    middle, both = _combine_middle(results, a, b, human, center)
    if both is not None and both.varies:
        return float(np.maximum(test.p_value, both.p_value(middle)))  # NaN if one is
    sides = _load_examples(results, a, b)
    humans = _load_examples(results, a, human) if human is not None else (center, center)
    if sides is None or humans is None:
        return math.nan
    return max(test.p_value, compute_sign_flip_p(sides[0] + sides[1] - 2 * humans[1], "middle", a.metric, a.key))


def _load_examples(results: Results, a: SystemValue, b: SystemValue) -> tuple[F64, F64] | None:
    """Return the values of two systems on the same prompts; None if there are none."""
    left, right = per_example(results, a), per_example(results, b)
    return (left, right) if left is not None and right is not None and len(left) == len(right) else None


def per_example(results: Results, item: SystemValue) -> F64 | None:
    """Return the per-prompt values whose mean is the value, averaged over seeds; None if it is not such a mean."""
    arrays = [results.arrays(*source) for source in item.sources]
    name = f"per_example/{item.key}"
    if not arrays or any(name not in a for a in arrays):
        return None
    rows = [by_prompt(np.asarray(a[name], dtype=np.float64), a.get("arrays/prompts")) for a in arrays]
    if len({len(r) for r in rows}) > 1 or any(np.isnan(r).any() for r in rows):
        return None
    # Metrics with halves or subsamples compare texts with each other, so their per-example values are dependent.
    interval = measured.find_interval(results, item)
    schemes = {row.resampling for run, artifact in item.sources for row in run.results if row.artifact == artifact}
    if {interval.method} & {"halves", "subsample"} if interval is not None else schemes - {"bootstrap", "none"}:
        return None
    mean: F64 = np.mean(rows, axis=0)
    return mean if math.isclose(float(mean.mean()), item.mean, rel_tol=AGREES, abs_tol=1e-12) else None


def by_prompt(values: F64, prompts: I64 | None) -> F64:
    """Return one number per prompt so that their mean is the mean of all values."""
    if prompts is None or len(prompts) != len(values):
        return values
    sums = np.bincount(prompts, weights=values).astype(np.float64)
    return sums * (len(sums) / len(values))


def compute_sign_flip_p(differences: F64, *names: str, draws: int = DRAWS) -> float:
    """Return the two-sided p-value of the mean of paired differences under random signs.

    Signs that give the same mean as the observed ones count one half (mid-p), the observed ones themselves and their
    opposites whole: differences of shares have few means, and without it 2 % of equal systems are called different.
    """
    values = differences[differences != 0]
    total, slack = abs(values.sum()), 1e-12 * np.abs(values).sum()
    if total <= slack:
        return 1.0
    most = 2 * math.exp(-(total**2) / (2 * float(values @ values)))  # Hoeffding's bound of the exact p-value
    if most < 1 / (draws + 1) and len(values) > MOST_EXACT:
        return most

    def count(signs: Floats) -> float:
        above = np.abs(signs @ values) - total
        return float(np.count_nonzero(above > slack) + np.count_nonzero(np.abs(above) <= slack) / 2)

    if len(values) <= MOST_EXACT:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(values))))
        return (count(signs) + 1) / len(signs)
    rng, hits = make_random_stream(0, "sign_flip", *names), 0.0
    block = max(1, 4_000_000 // len(values))
    for start in range(0, draws, block):
        signs = rng.integers(0, 2, size=(min(block, draws - start), len(values)), dtype=np.int8) * 2.0 - 1.0
        hits += count(signs)
    return (hits + 1) / (draws + 1)
