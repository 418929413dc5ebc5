"""Verdicts of large differences, of several tasks and without variation; `scripts/equal_systems.py` counts false ones."""

import numpy as np

from openended.harness.core.resampling import Plan, Replicates
from openended.harness.report.findings.checks import join_components
from openended.harness.report.findings.uncertainty import (
    Errors,
    Verdict,
    check_with_uncertainty,
    combine_tasks,
    draw_replicate_errors,
)
from openended.harness.results import SystemValue

PROMPTS = [f"p/{i:03d}" for i in range(60)]
PLAN = Plan(120)


def value(mean: float, *, sd: float = float("nan"), seeds: int = 1) -> SystemValue:
    return SystemValue(
        "model", "m", "m", mean, sd, seeds, "m|v:1|n:60/60", "higher", "m", "", "", True, "text", {}, ("", ""), {}, ()
    )


def replicates_of(rows: np.ndarray, kind: str) -> Replicates:
    if kind == "bootstrap":
        return PLAN.mean(PROMPTS, rows)
    inside = PLAN.halves(PROMPTS)
    return Replicates(np.stack([m @ rows / m.sum(axis=1) for m in (inside, ~inside)]))


def each_is_higher(sample):
    """The second of every pair is higher than the first: one component a pair."""
    items = sample.items
    if len(items) % 2:
        return None
    higher = [sample.means(b) > sample.means(a) for a, b in zip(items[::2], items[1::2], strict=True)]
    return join_components(str([bool(holds[0]) for holds in higher]), higher)


class DrawnErrors(Errors):
    def __init__(self, items, kinds):
        super().__init__(None)
        self._draws = {id(item): draw_replicate_errors(rows) for item, rows in zip(items, kinds, strict=True)}


def verdict_of(systems: list[np.ndarray], kind: str) -> Verdict:
    items = [value(float(rows.mean())) for rows in systems]
    errors = DrawnErrors(items, [replicates_of(rows, kind) for rows in systems])
    verdict = check_with_uncertainty(each_is_higher, items, errors)
    assert verdict is not None
    return verdict


def test_verdicts_of_a_large_difference_of_several_tasks_and_without_variation():
    rng = np.random.default_rng(3)
    low, high = rng.normal(size=60), rng.normal(size=60) + 3
    assert (verdict_of([low, high], "bootstrap").words, verdict_of([high, low], "bootstrap").words) == (
        "holds",
        "does not hold",
    )

    def failed(doubt: float) -> Verdict:
        return Verdict("m", (False,), sure=doubt <= 0.025, doubts=(doubt,))

    assert combine_tasks({"a": failed(0.005), "b": failed(0.9)}).sure
    assert combine_tasks({"a": failed(0.02), "b": failed(0.9)}).words == "undecided"
    assert combine_tasks(dict.fromkeys("abc", Verdict("m", (True,), sure=True, doubts=(0.02,)))).words == "holds"

    rng = np.random.default_rng(4)
    verdict = verdict_of([np.zeros(60), rng.normal(size=60) + 3], "bootstrap")
    assert verdict.words == "no variation seen"
