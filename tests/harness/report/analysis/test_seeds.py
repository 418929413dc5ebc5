import math

import pytest
from scipy import stats

from openended.harness.report.analysis.seeds import compute_half_width, sample_std


def test_the_interval_is_students():
    values = [0.1, 0.4, 0.35, 0.8]
    low, high = stats.t.interval(0.95, 3, loc=0, scale=stats.sem(values))
    assert compute_half_width(values) == pytest.approx((high - low) / 2)
    assert sample_std([1.0, 3.0]) == pytest.approx(math.sqrt(2))


def test_one_value_has_no_spread():
    assert math.isnan(sample_std([1.0]))
    assert math.isnan(compute_half_width([1.0]))
