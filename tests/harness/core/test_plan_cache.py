"""While a plan is made, a function that reads files is called once for equal arguments; otherwise each time."""

import pytest

from openended.harness.core import DataError, cache_in_plan, use_plan_cache

read_names: list[object] = []


@cache_in_plan
def read(name: object, *, strict: bool = False) -> str:
    read_names.append(name)
    if strict:
        raise DataError(f"no {name}")
    return str(name).upper()


def test_results_and_errors_are_kept_within_the_block_alone():
    read_names.clear()
    with use_plan_cache():
        assert [read("a"), read("a"), read("b")] == ["A", "A", "B"]
        for _ in range(2):
            with pytest.raises(DataError, match="no a"):
                read("a", strict=True)
        assert read_names == ["a", "b", "a"]
        assert [read([]), read([])] == ["[]", "[]"], "an argument without a hash is read each time"
    assert [read("a"), read("a")] == ["A", "A"]
    assert read_names == ["a", "b", "a", [], [], "a", "a"]
