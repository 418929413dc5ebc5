"""The one line of an error."""

from __future__ import annotations

from openended.harness.core.errors import first_line


def test_the_first_line_of_an_error_is_short_and_never_empty():
    assert first_line(ValueError("\n one\ntwo")) == "one"
    assert first_line(KeyError()) == "KeyError"
    assert len(first_line(ValueError("x" * 999))) == 200
