"""The live line: on a terminal alone, one line at a time, with rate and time left."""

from __future__ import annotations

import io

import pytest

from openended.harness.progress import duration, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    made = Terminal()
    monkeypatch.setattr("sys.stderr", made)
    return made


def test_no_terminal_no_line(monkeypatch):
    monkeypatch.setattr("sys.stderr", quiet := io.StringIO())
    with progress("a step", 10, unit="tokens", enabled=True) as advance:
        advance(5)
    assert quiet.getvalue() == ""


def test_switched_off(terminal):
    with progress("a step", 10, unit="tokens", enabled=False) as advance:
        advance(5)
    assert terminal.getvalue() == ""


def test_the_innermost_step_has_the_line(terminal):
    with progress("the job [3/4]", enabled=True):
        with progress("generate", 10, unit="tokens", enabled=True) as advance:
            advance(5)
        terminal.truncate(0)
        with progress("score", 8, unit="texts", enabled=True) as advance:
            advance(8)
            from openended.harness.progress import _shown

            (bar,) = _shown
            assert [task.description for task in bar.tasks if task.visible] == ["score"]
            bar.refresh()
    said = terminal.getvalue()
    assert "8 of 8 texts" in said
    assert "[3/4]" not in said.split("score")[1].split("\n")[0]
    assert not _shown, "the next job has a display of its own"


@pytest.mark.parametrize(("seconds", "said"), [(0.4, "0 s"), (59, "59 s"), (150, "2 min"), (9000, "2.5 h")])
def test_duration(seconds, said):
    assert duration(seconds) == said
