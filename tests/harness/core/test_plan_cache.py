"""While a plan is made, a question about files is asked once; otherwise each time."""

import pytest

from openended.harness.core import DataError, cache_in_plan, use_plan_cache

asked: list[str] = []


@cache_in_plan
def read(name: str, *, strict: bool = False) -> str:
    asked.append(name)
    if strict:
        raise DataError(f"no {name}")
    return name.upper()


def test_answers_and_errors_are_kept_within_the_block_alone():
    asked.clear()
    with use_plan_cache():
        assert [read("a"), read("a"), read("b")] == ["A", "A", "B"]
        for _ in range(2):
            with pytest.raises(DataError, match="no a"):
                read("a", strict=True)
        assert asked == ["a", "b", "a"]
    assert [read("a"), read("a")] == ["A", "A"]
    assert asked == ["a", "b", "a", "a", "a"]
