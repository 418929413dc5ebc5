"""The one line of an error."""

from __future__ import annotations

from openended.harness.core.errors import shorten_error


def test_the_first_line_of_an_error_is_short_and_never_empty():
    assert shorten_error(ValueError("\n one\ntwo")) == "one"
    assert shorten_error(KeyError()) == "KeyError"
    assert len(shorten_error(ValueError("x" * 999))) == 200
