"""Values of a YAML and the annotations that they have to fit."""

from typing import Any, Literal

import pytest

from openended.harness.core.errors import SpecError
from openended.harness.core.spec import coerce


@pytest.mark.parametrize(
    ("value", "hint", "made"),
    [
        (3, float, 3.0),
        ([1, 2], tuple[float, ...], (1.0, 2.0)),
        (None, int | None, None),
        ("auto", int | Literal["auto"], "auto"),
        ({"a": 1}, Any, {"a": 1}),
    ],
)
def test_fits(value, hint, made):
    found = coerce(value, hint, "x.y")
    assert found == made
    assert type(found) is type(made)


@pytest.mark.parametrize(
    ("value", "hint", "message"),
    [
        (True, int, "x.y: expected int, got True"),
        ("a", Literal["b", "c"], "x.y: expected one of b, c, got 'a'"),
        (True, Literal[1, 2], "x.y: expected one of 1, 2, got True"),
        ("a", int | None, "x.y: expected int or null, got 'a'"),
        ([1, "b"], tuple[int, ...], r"x.y\[1\]: expected int, got 'b'"),
    ],
)
def test_refuses(value, hint, message):
    with pytest.raises(SpecError, match=message):
        coerce(value, hint, "x.y")
