"""What a metric detects, from values with known errors."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from openended.harness.core.errors import DataError
from openended.harness.report.tables.detected_damage import DamageCurve, DamagedValue, detect_damage, find_damage_curves


def make_curve(values, error=1.0):
    points = [DamagedValue(percent, value, error, None, None) for percent, value in values.items()]
    detected = detect_damage(points[1:], points[0])
    return DamageCurve("mauve", "mauve", "MAUVE", "docs-m/last", "truncation", points[0], detected)


def test_detected_at_the_root_of_both_errors():
    """Errors 1 and 1: 1.96 * sqrt(2) = 2.772; second of three strengths, by Holm: 2.2414 * sqrt(2) = 3.170."""
    assert make_curve({0: 0.0, 10: 2.0, 30: 3.18, 100: 9.0}).smallest == 30
    assert make_curve({0: 0.0, 10: 2.0, 30: 3.16, 100: 9.0}).smallest == 100
    assert make_curve({0: 0.0, 10: -2.78}).smallest == 10
    assert make_curve({0: 0.0, 10: 2.77}).smallest is None


def test_an_unknown_error_is_no_error_of_0():
    unknown = make_curve({0: 0.0, 10: 9.0}, error=math.nan)
    assert [point.detected for point in unknown.points] == [None]
    assert not unknown.is_known


@pytest.mark.parametrize(
    ("values", "monotone"),
    [
        ({0: 0.0, 10: 5.0, 30: 9.0}, True),
        ({0: 9.0, 10: 5.0, 30: 0.0}, True),
        ({0: 0.0, 10: 5.0, 30: 4.0}, True),  # a step back within the error
        ({0: 0.0, 10: 9.0, 30: 1.0}, False),
        ({0: 0.0, 10: 0.0, 30: math.nan}, True),
    ],
)
def test_monotone_up_to_the_error(values, monotone):
    assert make_curve(values).is_monotone == monotone


def test_other_runs_have_no_damage():
    with pytest.raises(DataError, match="openended stress makes them"):
        find_damage_curves(cast("Any", None), [])


def test_two_signatures_of_one_value_are_refused(monkeypatch):
    """The curve of an earlier version of the metric would hide the other one."""
    monkeypatch.setattr("openended.harness.report.tables.detected_damage.find_interval", lambda *_: None)

    def make_item(version, percent):
        return SimpleNamespace(
            system="model", axes={"model": f"damage:truncation:{percent}" if percent else "damage:none"}, direction="higher", metric="kid", key="kid",
            title="KID", signature=f"kid|v:{version}", mean=0.0,
        )  # fmt: skip

    items = [make_item(2, percent) for percent in (0, 10)]
    assert len(find_damage_curves(cast("Any", None), cast("Any", items))) == 1
    items += [make_item(1, percent) for percent in (0, 100)]
    with pytest.raises(DataError, match=r"kid has two signatures \(kid\|v:2 and kid\|v:1\)"):
        find_damage_curves(cast("Any", None), cast("Any", items))
