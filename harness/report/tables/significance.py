"""Is a system different from another? Paired tests on the same prompts, corrected for their number.

Where a metric is a mean over examples, both systems' values on the same prompts are compared (samples of one prompt
depend on each other: together they are one observation): a sign-flip permutation test of the mean difference, or, where
the human value is the target, a paired bootstrap of the difference of the two distances to the human value. Elsewhere
the seeds are the sample: a sign-flip test of the paired differences (runs of one seed share their random draws), whose
smallest possible p-value with n seeds is 2 / 2ⁿ. Holm's step-down method corrects all p-values of a table together.

Source: Good 2005, "Permutation, parametric and bootstrap tests"; Holm 1979.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from openended.harness.errors import SpecError, suggest
from openended.harness.report.read.fold import Folded, fold
from openended.harness.report.read.frame import Results
from openended.harness.report.read.layout import Layout
from openended.harness.report.read.systems import System, human_value, systems_of
from openended.harness.report.tables.agreement import stars
from openended.harness.report.tables.selection import check_signatures, wanted
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, column_decimals, target_of
from openended.harness.rng import stream
from openended.harness.types import F64, I64

DRAWS = 10_000
MOST_EXACT = 14  # seeds or examples for which all 2ⁿ sign patterns are counted
LEAST_SEEDS = 6  # 2 / 2⁶ = 0.03: with fewer no p-value below 0.05 is possible, and the others would pay for the test
AGREES = 1e-6  # relative: float64 means of the same numbers


UNTESTED = f"Not tested: no values by example, and under {LEAST_SEEDS} seeds no p-value below 0.05 is possible."


@dataclass(frozen=True, slots=True)
class Tested:
    """One comparison of a system with the baseline."""

    difference: float
    """System minus baseline; of the distances to the human value where that is the target."""
    p_value: float
    """NaN where there is nothing to test with."""
    over: str
    """`examples` or `seeds`."""
    n: int


def significance(results: Results, baseline: str) -> list[Table]:
    """Build two tables: the differences of every system from the baseline with stars, and the corrected p-values.

    Args:
        results: Runs of the systems.
        baseline: A system's label as it stands in the tables.

    Raises:
        SpecError: If no system has this label, or there is no other.
    """
    items = fold(results)
    systems = systems_of(items)
    labels = {s.label.replace(r"\$", "$"): s for s in systems}
    if baseline not in labels:
        raise SpecError(f"no system {baseline!r}{suggest(baseline, labels)}")
    others = [s for label, s in labels.items() if label != baseline]
    if not others:
        raise SpecError(f"there is no system beside {baseline!r} to compare with")
    pairs = wanted(items, Layout())
    for pair in pairs:
        check_signatures(
            pair[0], [i for i in items if i.system == "model" and (i.metric, i.key) == pair], "significance"
        )
    tests = {(s.label, p): compare(results, items, s, labels[baseline], p) for s in others for p in pairs}
    known = {k: t.p_value for k, t in tests.items() if t is not None and math.isfinite(t.p_value)}
    corrected = dict(zip(known, holm(list(known.values())), strict=True))
    return [
        _differences(items, others, pairs, tests, corrected, baseline),
        _p_values(items, others, pairs, corrected, baseline),
    ]


def compare(
    results: Results, items: Sequence[Folded], system: System, baseline: System, pair: tuple[str, str]
) -> Tested | None:
    """Compare one value of two systems; nothing where one of them has none."""
    a, b = system.value(*pair), baseline.value(*pair)
    if a is None or b is None or not math.isfinite(a.mean) or not math.isfinite(b.mean):
        return None
    human = human_value(items, a) if a.direction == "match_human" else None
    if a.direction == "match_human" and (human is None or not math.isfinite(human.mean)):
        return None
    rows = [_per_example(results, i) for i in (a, b)]
    if rows[0] is not None and rows[1] is not None and len(rows[0]) == len(rows[1]):
        return _over_examples(rows[0], rows[1], human, _per_example(results, human) if human else None, pair)
    return _over_seeds(a, b, human)


def _per_example(results: Results, item: Folded) -> F64 | None:
    """Return a value's parts by prompt, averaged over seeds, if it is their mean; else nothing."""
    arrays = [results.arrays(*source) for source in item.sources]
    name = f"per_example/{item.key}"
    if not arrays or any(name not in a for a in arrays):
        return None
    rows = [by_prompt(np.asarray(a[name], dtype=np.float64), a.get("arrays/prompts")) for a in arrays]
    if len({len(r) for r in rows}) > 1 or any(np.isnan(r).any() for r in rows):
        return None
    mean: F64 = np.mean(rows, axis=0)
    return mean if math.isclose(float(mean.mean()), item.mean, rel_tol=AGREES, abs_tol=1e-12) else None


def by_prompt(values: F64, prompts: I64 | None) -> F64:
    """Return one number a prompt whose mean is that of all values: the prompt's sum, times prompts over values.

    Args:
        values: Shape (n,).
        prompts: The prompt of each value, 0 to m - 1, shape (n,); nothing where each has its own.

    Returns:
        Shape (m,); where all prompts have equally many samples, the mean of each.
    """
    if prompts is None or len(prompts) != len(values):
        return values
    sums = np.bincount(prompts, weights=values).astype(np.float64)
    return sums * (len(sums) / len(values))


def _over_examples(a: F64, b: F64, human: Folded | None, human_rows: F64 | None, pair: tuple[str, str]) -> Tested:
    if human is None:
        return Tested(float((a - b).mean()), sign_flip_p(a - b, "examples", *pair), "examples", len(a))
    paired = human_rows if human_rows is not None and len(human_rows) == len(a) else None
    difference = abs(a.mean() - human.mean) - abs(b.mean() - human.mean)
    return Tested(float(difference), gap_p(a, b, human.mean, paired, *pair), "examples", len(a))


def _over_seeds(a: Folded, b: Folded, human: Folded | None) -> Tested:
    """Pair by seed; a system without seeds has the same value for each."""
    left, right = _by_seed(a, b), _by_seed(b, a)
    seeds = [s for s in left if s in right and math.isfinite(left[s]) and math.isfinite(right[s])]
    x, y = np.array([left[s] for s in seeds]), np.array([right[s] for s in seeds])
    if human is not None:
        x, y = np.abs(x - human.mean), np.abs(y - human.mean)
        difference = abs(a.mean - human.mean) - abs(b.mean - human.mean)
    else:
        difference = a.mean - b.mean
    p_value = sign_flip_p(x - y, "seeds", a.metric, a.key) if len(seeds) >= LEAST_SEEDS else math.nan
    return Tested(difference, p_value, "seeds", len(seeds))


def _by_seed(item: Folded, other: Folded) -> Mapping[str, float]:
    single = len(item.values) == 1 and len(other.values) > 1
    return dict.fromkeys(other.values, next(iter(item.values.values()))) if single else item.values


def sign_flip_p(differences: F64, *names: str, draws: int = DRAWS) -> float:
    """Two-sided p-value of the mean of paired differences under random signs.

    Args:
        differences: Shape (n,).
        names: Name the random stream.
        draws: Random sign patterns where there are too many to count them all.

    Returns:
        In (0, 1]; exact for n up to 14.
    """
    values = differences[differences != 0]
    if not len(values):
        return 1.0
    target = abs(values.sum()) * (1 - 1e-12)
    if len(values) <= MOST_EXACT:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(values))))
        return float((np.abs(signs @ values) >= target).mean())
    rng = stream(0, "sign_flip", *names)
    hits, block = 0, max(1, 4_000_000 // len(values))
    for start in range(0, draws, block):
        signs = rng.integers(0, 2, size=(min(block, draws - start), len(values)), dtype=np.int8) * 2.0 - 1.0
        hits += int((np.abs(signs @ values) >= target).sum())
    return (hits + 1) / (draws + 1)


def gap_p(a: F64, b: F64, human: float, human_rows: F64 | None, *names: str, draws: int = DRAWS) -> float:
    """Two-sided bootstrap p-value of |mean a − human| − |mean b − human|, examples drawn together.

    Args:
        a: One value an example, shape (n,).
        b: The same examples, shape (n,).
        human: The human value; drawn too where its parts are known.
        human_rows: Shape (n,), the same examples, or nothing.
        names: Name the random stream.
        draws: Bootstrap draws.
    """
    if np.array_equal(a, b):
        return 1.0
    rng, n = stream(0, "gap", *names), len(a)
    rows = np.stack([a, b, human_rows if human_rows is not None else np.full(n, human)], axis=1)
    low = high = 0
    block = max(1, 4_000_000 // n)
    for start in range(0, draws, block):
        weights = rng.multinomial(n, np.full(n, 1 / n), size=min(block, draws - start))
        means = weights @ rows / n
        gaps = np.abs(means[:, 0] - means[:, 2]) - np.abs(means[:, 1] - means[:, 2])
        low, high = low + int((gaps <= 0).sum()), high + int((gaps >= 0).sum())
    return min(1.0, 2 * (min(low, high) + 1) / (draws + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values by Holm's step-down method; they hold together at the family's level.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    out, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        out[i] = highest
    return out


Key = tuple[str, tuple[str, str]]


def _differences(
    items: Sequence[Folded],
    others: Sequence[System],
    pairs: Sequence[tuple[str, str]],
    tests: Mapping[Key, Tested | None],
    corrected: Mapping[Key, float],
    baseline: str,
) -> Table:
    columns, blocks = [], []
    for pair in pairs:
        cells = [_cell(tests[s.label, pair], corrected.get((s.label, pair), math.nan)) for s in others]
        first = next(i for i in items if i.system == "model" and (i.metric, i.key) == pair)
        gap = first.direction == "match_human"
        title = f"Δ|Δ {first.title}|" if gap else f"Δ {first.title}"
        direction = "lower" if gap else "none" if target_of(first.direction) is not None else first.direction
        columns.append(Column(*pair, title, direction, column_decimals(cells), first.signature, gap))
        blocks.append(cells)
    rows = [TableRow(s.label.replace(r"\$", "$"), "model", tuple(b[i] for b in blocks)) for i, s in enumerate(others)]
    seeds = sorted({t.n for t in tests.values() if t is not None and t.over == "seeds" and math.isfinite(t.p_value)})
    remarks = [
        f"Difference from {baseline}; Δ|Δ| is the difference of the distances to the human value.",
        "* p < 0.05, ** p < 0.01, *** p < 0.001, two-sided, after Holm's correction over the table.",
        "Over examples where the metric is a mean of them (sign-flip permutation; bootstrap for gaps), else seeds.",
    ]
    if seeds:
        floor = ", ".join(f"{2 / 2**n:.2g} for {n} seeds" for n in seeds)
        remarks.append(f"Smallest p-value that a test over seeds can reach, before the correction: {floor}.")
    return Table(
        "significance", f"Difference from {baseline}", tuple(columns), tuple(rows), tuple(remarks), show_seeds=False
    )


def _cell(test: Tested | None, p_value: float) -> Cell:
    if test is None:
        return Cell(note="One of the two has no value, or there is no human value to compare with.")
    if not math.isfinite(p_value):
        return Cell(test.difference, signed=True, note=UNTESTED)
    return Cell(test.difference, n=test.n, signed=True, suffix=stars(p_value))


def _p_values(
    items: Sequence[Folded],
    others: Sequence[System],
    pairs: Sequence[tuple[str, str]],
    corrected: Mapping[Key, float],
    baseline: str,
) -> Table:
    titles = {(i.metric, i.key): i.title for i in items}
    columns = tuple(Column(*p, f"p {titles[p]}", "none", 4) for p in pairs)
    rows = []
    for s in others:
        cells = [corrected.get((s.label, p), math.nan) for p in pairs]
        made = tuple(Cell(c) if math.isfinite(c) else Cell(note=UNTESTED) for c in cells)
        rows.append(TableRow(s.label.replace(r"\$", "$"), "model", made))
    remarks = ("p-values after Holm's correction over all cells.",)
    return Table("significance-p", f"p-values against {baseline}", columns, tuple(rows), remarks, show_seeds=False)
