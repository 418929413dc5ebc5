"""Boundaries against published values, and the whole procedure on simulated paths of its statistic."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from openended.harness.report.analysis.group_sequential import (
    FAILED,
    UNLIKE,
    DecisionPlan,
    PlannedComparison,
    compute_boundaries,
    judge_comparisons,
    read_decision_plan,
    save_decisions,
    spend_alpha,
)
from openended.harness.report.tables.decisions import build_decision_frame
from openended.harness.report.tables.pivot import build_tables
from openended.harness.results import DECISIONS, group_systems, read_results
from tests.harness.report.synthetic import result, write_run
from tests.helpers import change_json

COMPARISON = PlannedComparison("a", "b", "m")
MIN_DETECTABLE = 1.959964 + 0.841621  # the drift that one test at 5 % finds with a power of 80 %


def simulate(plan: DecisionPlan, drift: float, worlds: int = 100_000) -> tuple[float, float]:
    """Return the share of worlds in which a difference is decided, and the mean share of the texts that are used."""
    times = np.array(plan.looks) / plan.looks[-1]
    steps = np.diff(times, prepend=0.0)
    paths = np.cumsum(np.random.default_rng(0).normal(size=(worlds, len(times))) * np.sqrt(steps), axis=1)
    statistic = np.abs(paths + drift * times) / np.sqrt(times)
    crosses, stops = statistic >= plan.boundaries, statistic < plan.limits
    last = (crosses | stops | (times == 1)).argmax(axis=1)
    return float(crosses[np.arange(worlds), last].mean()), float(times[last].mean())


def compute_all(times: tuple[float, ...]) -> tuple[float, ...]:
    return compute_boundaries(times, tuple(spend_alpha(time, 0.05) for time in times))


def test_boundaries_are_the_published_ones():
    """Jennison and Turnbull 2000; Reboussin et al. 2000: five equal looks, 5 % two-sided, O'Brien-Fleming shape."""
    fifths = (0.2, 0.4, 0.6, 0.8, 1.0)
    assert compute_all(fifths) == pytest.approx((4.877, 3.357, 2.680, 2.290, 2.031), abs=5e-4)
    assert compute_all((1.0,)) == pytest.approx((1.959964,), abs=1e-6)
    half = compute_all((0.5, 1.0))  # the first look spends 4 (1 - Φ(2.2414 / √.5)) = .003051: 2.9626
    assert half == pytest.approx((2.9626, 1.9686), abs=5e-4)
    times = np.array((0.5, 0.50001, 1.0))  # two looks that nearly coincide
    boundaries = np.array(compute_all(tuple(times)))
    paths = multivariate_normal(np.zeros(3), np.sqrt(np.minimum.outer(times, times) / np.maximum.outer(times, times)))
    assert 1 - paths.cdf(boundaries, lower_limit=-boundaries) == pytest.approx(0.05, abs=2e-5)


@pytest.mark.parametrize("looks", [tuple(range(125, 1001, 125)), (125, 250, 500, 1000), (100, 1000)])
def test_equal_systems_are_decided_in_at_most_five_percent_of_worlds(looks):
    plan = DecisionPlan((COMPARISON,), looks)
    assert simulate(plan, 0.0)[0] < 0.05
    without_stops = DecisionPlan((COMPARISON,), looks)
    crossed = simulate_without_stops(without_stops)
    assert crossed == pytest.approx(0.05, abs=0.002), "all of alpha is spent where nothing stops early"
    both = DecisionPlan((COMPARISON, PlannedComparison("a", "c", "m")), looks)
    assert simulate_without_stops(both) == pytest.approx(0.025, abs=0.002)


def simulate_without_stops(plan: DecisionPlan) -> float:
    times = np.array(plan.looks) / plan.looks[-1]
    steps = np.random.default_rng(1).normal(size=(100_000, len(times))) * np.sqrt(np.diff(times, prepend=0.0))
    return float((np.abs(np.cumsum(steps, axis=1)) / np.sqrt(times) >= plan.boundaries).any(axis=1).mean())


def test_equal_systems_stop_early_and_little_power_is_lost():
    plan = DecisionPlan((COMPARISON,), tuple(range(125, 1001, 125)))
    assert simulate(plan, 0.0)[1] < 0.72
    power, used = simulate(plan, MIN_DETECTABLE)
    assert power > 0.765, "of 80 % with one look at all texts, and 78.7 % with eight that never stop without a decision"
    assert used < 0.76
    assert simulate(plan, 3 * MIN_DETECTABLE)[1] < 0.40


@pytest.mark.parametrize(
    "change", [{"looks": [3, 2]}, {"alpha": 2}, {"comparisons": []}, {"comparisons": [{"first": "a"}]}, {"looks": None}]
)
def test_a_damaged_file_of_decisions_is_left_aside(tmp_path, change, caplog):
    plan = DecisionPlan((COMPARISON,), (10, 20), 0.1)
    save_decisions(tmp_path, plan, [])
    assert read_decision_plan(tmp_path) == plan
    change_json(tmp_path / DECISIONS, **change)
    assert read_decision_plan(tmp_path) is None
    assert "damaged, left aside: not a file of decisions" in caplog.text


def test_values_that_cannot_be_compared_are_called_so(tmp_path):
    for decoder, n in (("greedy", 100), ("nucleus", 99)):
        lines = [result("model", "mauve", {"mauve": 0.5}, n=n, direction="higher")]
        write_run(tmp_path, decoder, 0, results=lines, axes={"num_examples": 100, "samples": 1})
    results = read_results([tmp_path])
    first, second = (system.name for system in group_systems(results.values))
    plan = DecisionPlan((PlannedComparison(first, second, "mauve"),), (100, 200))
    (decision,) = judge_comparisons(plan, results)
    assert (decision.outcome, decision.looks) == (UNLIKE, ())
    assert "n" in decision.differing.split()
    (table,) = build_tables([build_decision_frame(plan, results)])
    assert f"the values differ in {decision.differing}." in " ".join(table.list_notes("remark"))
    assert "No effect seen" not in " ".join(table.list_notes("remark"))
    (lost,) = judge_comparisons(replace(plan, looks=(50, 100)), results)
    assert (lost.outcome, lost.looks) == (FAILED, ()), "a look without any run before one that has some"
