"""What `describe` and the documentation say was measured."""

import math

import pytest

from openended.harness.app.commands.describe import describe_option
from openended.harness.app.stress_reference import StressRow, describe_stress_results, find_smallest, load_stress_rows


def make_row(strength, detected, damage="negation"):
    return StressRow("mauve", "docs-m/last", damage, strength, 0.5, 0.4, 0.6, detected)


def test_smallest_strength():
    key = ("mauve", "docs-m/last", "negation")
    assert find_smallest([make_row(30, True), make_row(10, False), make_row(100, True)])[key] == "30"
    assert find_smallest([make_row(10, False), make_row(30, False)])[key] == "no"
    assert find_smallest([make_row(10, None), make_row(30, False)])[key] == "no"
    assert find_smallest([make_row(10, None)])[key] == "–"
    assert make_row(0, None, "none").resolution == pytest.approx(math.sqrt(2) * 0.1)


def test_the_packaged_table_has_every_damage():
    from openended.harness.imported import list_damages

    rows = load_stress_rows()
    assert {row.damage for row in rows} == {"none", *list_damages()}
    assert {row.embedder for row in rows} >= {"", "docs-m/last", "docs-m/mean"}
    assert "resolves differences of" in describe_stress_results("mauve")
    assert describe_stress_results("huse") == ""
    assert "does not see" in describe_option("mauve")
