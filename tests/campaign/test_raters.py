"""A short campaign of hostile raters and tampered databases."""

from __future__ import annotations

import pytest

from tests.campaign.raters import run_cases


@pytest.mark.campaign
def test_every_hostile_rater_and_database_ends_in_one_line():
    tally = run_cases(120, seed=0)
    assert tally["lost"] == []
    assert tally["survived"] == 120
