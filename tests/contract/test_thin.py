"""The marker `thin(n)` leaves every n-th case in the daily run; the others are `long`."""

import pytest


@pytest.mark.thin(2)
@pytest.mark.parametrize("number", range(4))
def test_every_second_case_is_left(number, request):
    is_long = request.node.get_closest_marker("long") is not None
    assert is_long == bool(number % 2)
