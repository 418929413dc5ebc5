"""The live line: on a terminal alone, one line at a time, with rate and time left."""

from __future__ import annotations

import io

import pytest

from openended.harness.core import progress as live
from openended.harness.core.progress import format_duration, show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch) -> Terminal:
    """Put a terminal in the place of standard error; in the test itself, for pytest puts its own before each."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    made = Terminal()
    monkeypatch.setattr("sys.stderr", made)
    return made


def test_no_terminal_no_line(monkeypatch):
    monkeypatch.setattr("sys.stderr", quiet := io.StringIO())
    with show_progress("a step", 10, unit="tokens", enabled=True) as advance:
        advance(5)
    assert quiet.getvalue() == ""


def test_switched_off(monkeypatch):
    screen = terminal(monkeypatch)
    with show_progress("a step", 10, unit="tokens", enabled=False) as advance:
        advance(5)
    assert screen.getvalue() == ""


def test_the_innermost_step_has_the_line(monkeypatch):
    screen = terminal(monkeypatch)
    with show_progress("the job [3/4]", enabled=True):
        with show_progress("generate", 10, unit="tokens", enabled=True) as advance:
            advance(5)
        with show_progress("score", 8, unit="texts", enabled=True) as advance:
            advance(8)
            (bar,) = live._shown
            assert [task.description for task in bar.tasks if task.visible] == ["the job [3/4] › score"]
            bar.refresh()
    said = screen.getvalue()
    assert "8 of 8 texts" in said
    assert not live._shown, "the next job has a display of its own"


@pytest.mark.parametrize(("seconds", "said"), [(0.4, "0 s"), (59, "59 s"), (150, "2 min"), (9000, "2.5 h")])
def test_duration(seconds, said):
    assert format_duration(seconds) == said
