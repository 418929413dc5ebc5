"""Options of a search are read with errors that name the option and its value."""

from __future__ import annotations

import pytest

from openended.harness.app.hydra import search as options
from openended.harness.core.errors import SpecError


@pytest.mark.parametrize("value", ["many", 0, 1.5, True, None])
def test_a_number_of_trials_is_a_whole_number(value: object) -> None:
    with pytest.raises(SpecError, match="trials: expected a whole number of 1 or more"):
        options._read_integer({"trials": value}, "trials", 1)
    assert options._read_integer({"trials": 3}, "trials", 1) == 3


@pytest.mark.parametrize("value", ["50", [50, "x"]])
def test_rungs_are_a_list_of_whole_numbers(value: object) -> None:
    with pytest.raises(SpecError, match="rungs: expected a list of whole numbers"):
        options._read_integers({"rungs": value}, "rungs")
    assert options._read_integers({"rungs": [50, 150]}, "rungs") == (50, 150)


def test_a_space_is_a_mapping() -> None:
    with pytest.raises(SpecError, match="spaces: expected names with their values"):
        options._read_mapping({"spaces": [1]}, "spaces")
