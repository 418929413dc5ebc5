"""Intervals next to values: those that a metric states, and Student's over seeds."""

import math
import statistics
from dataclasses import replace

from openended.harness.report.tables.search_trials import format_interval
from openended.harness.report.tables.systems import find_metric_interval
from openended.harness.report.tables.table import Cell
from openended.harness.results import SystemValue


def folded(key, mean, seeds=1, decoder="greedy"):
    return SystemValue(
        system="model", metric="huse", key=key, mean=mean, sd=math.nan, seeds=seeds, signature="huse|v:1",
        direction="higher", title=key, reason="", note="", primary=key == "huse", family="human",
        axes={"decoder": decoder}, titles=("m", decoder), values={"0": mean}, sources=((0, None),),
    )  # fmt: skip


def test_the_interval_is_that_of_the_value_the_signature_and_the_system():
    value = folded("huse", 0.5)
    ends = [folded("huse_low", 0.4), folded("huse_high", 0.7), folded("huse_low", 0.1, decoder="beam")]
    assert find_metric_interval(value, [value, *ends]) == (0.4, 0.7)
    assert find_metric_interval(value, [value, ends[0]]) is None
    assert find_metric_interval(replace(value, key="huse_q"), ends) is None
    assert find_metric_interval(replace(value, seeds=2), ends) is None


def test_the_interval_over_seeds_is_students():
    values = [0.1, 0.4, 0.35, 0.8]
    from scipy import stats

    low, high = stats.t.interval(0.95, 3, loc=0.4125, scale=stats.sem(values))
    cell = Cell(0.4125, statistics.stdev(values), len(values))
    assert format_interval(cell, 4).words == f"{low:.4f} to {high:.4f}"
    assert format_interval(Cell(1.0), 4).blank
