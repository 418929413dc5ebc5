"""Text and terminal: escaped and redacted words, widths, tables, messages of the command line, signals."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from openended.harness import core
from openended.harness.core import DataError, run_command, shorten_error, show_progress, terminal
from openended.harness.core.text import REDACTED, escape_controls, redact_keys
from tests.helpers import ROOT, cases, run_process

# What may stand in a terminal, a CSV cell and a record


@given(st.text())
def test_plain_text_holds_no_control_character(text):
    made = escape_controls(text)
    assert all(c == "\n" or c.isprintable() or c.isspace() or ord(c) > 0x9F for c in made)
    assert "\x1b" not in made
    assert "\x9b" not in made
    assert escape_controls(made) == made
    made.encode()


@cases(
    "escape, text, expected",
    (escape_controls, "\x1b[31mred\x07", r"\x1b[31mred\x07"), (escape_controls, "a\tb", "a b"),
    (escape_controls, "\u202egnp.exe", r"\u202egnp.exe"), (escape_controls, "\ud800", r"\ud800"),
    (escape_controls, "naïve – Ünïcode 漢字 🙂", "naïve – Ünïcode 漢字 🙂"),
    (core.text.escape_controls_in_line, "a\r\nb\u2028c", "a b c"),
    *((core.text.escape_csv_cell, formula, f"'{formula}")
      for formula in ("=1+1", "+A1", "-A1", "@SUM(A1)", "\tx", "\rx", " =cmd|' /C calc'!A0")),
    *((core.text.escape_csv_cell, label, label) for label in ("-1.5", "+3", "-inf", "1e-9", "", "a=b", "nucleus p=0.9", "–")),
    *((redact_keys, words, words) for words in (
        "measure/ab/" + "ab12" * 16, "task-1234567890abcdefghij", "tokenizer:" + "ab12" * 16, "key of generate ab12cd34",
        "max_new_tokens=64", "a token: internationalisation-of-things", "gpt2@32b71b12768566d6a5ae77b1b1e5c7cd2db6f3f1")),
)  # fmt: skip
def test_what_steers_is_written_out_and_what_reads_stays(escape, text, expected):
    assert escape(text) == expected


def test_homes_are_shortened_and_nothing_else():
    home = str(Path.home())
    value = {"a": [f"{home}/x", f"task.path={home}", f"{home}y/x", f"/mnt{home}/x", 3, None]}
    assert core.text.make_shareable(value) == {"a": ["~/x", "task.path=~", "…/x", "…/x", 3, None]}


@pytest.mark.parametrize("key", ["hf_" + "abCD12" * 5, "sk-" + "a1B2" * 8, "AKIA" + "A1B2" * 4, "ghp_" + "a1B2" * 9])
def test_what_looks_like_a_key_is_struck_out(key):
    assert redact_keys(f"model.label={key} and more") == f"model.label={REDACTED} and more"
    assert core.text.make_shareable({"a": [f"x/{key}"], key: 1}) == {"a": [f"x/{REDACTED}"], REDACTED: 1}


@cases("text", "token=0f" + "3a" * 15, "API_KEY: " + "aB3/" * 8, "secret='" + "Zz9+" * 8 + "'", "password=" + "x1" * 12)
def test_what_stands_after_a_word_for_a_key_is_struck_out(text):
    assert REDACTED in redact_keys(text)
    assert "aB3/aB3" not in redact_keys(text)


# Output into a pipe that closes, a full disk or nothing at all; a terminal that must not be steered; arguments

ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
SPEAK = (
    "import sys, logging\n"
    "from openended.harness.core import terminal\n"
    "terminal.set_up()\n"
    "logging.warning('a line \\x1b[31m of the log')\n"
    "for i in range(20000): print(f'line {i} \\u2248')\n"
    "logging.warning('the end')\n"
)


def run(code: str, redirect: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return run_process("bash", "-c", f'"$0" -c "$1" {redirect}', sys.executable, code, code=None, **env)


def test_a_log_line_steers_no_terminal():
    done = run(SPEAK)
    assert done.returncode == 0
    assert r"a line \x1b[31m of the log" in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stdout.count("\n") == 20000


@cases(
    "redirect, code, message",
    (">&-", 0, "the end"), ("2>&-", 0, ""), (">&- 2>&-", 0, ""), ("<&- >&- 2>&-", 0, ""),
    (">/dev/full", 2, "cannot write to standard output: No space left on device"), ("2>/dev/full", 0, ""),
    (">/dev/full 2>/dev/full", 2, ""), ("| head -1; exit ${PIPESTATUS[0]}", 141, ""),
)  # fmt: skip
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_that_goes_nowhere_ends_cleanly(redirect, code, message):
    done = run(SPEAK, redirect)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("env", [{"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX"}])
def test_an_output_of_ascii_alone_is_no_error(env):
    done = run(SPEAK, **env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("line 0 ")


def test_a_closed_descriptor_is_not_given_to_the_next_file(tmp_path):
    code = (
        "from openended.harness.core import terminal\nterminal.set_up()\n"
        f"handle = open({str(tmp_path / 'data')!r}, 'w')\nprint('astray')\nhandle.write('mine')\nhandle.close()\n"
    )
    assert run(code, ">&-").returncode == 0
    assert (tmp_path / "data").read_text() == "mine"


def test_sigterm_says_what_ctrl_c_says():
    code = (
        "import sys, time\nfrom openended.harness.core import terminal\nterminal.set_up()\n"
        "def work():\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "sys.exit(terminal.run_command('it', work, after_interrupt='everything is kept'))\n"
    )
    for number, expected in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with subprocess.Popen(
            [sys.executable, "-c", code], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            _, error = process.communicate(timeout=60)
        assert process.returncode == expected
        assert error == "\nit: interrupted; everything is kept\n"


def raising(err: BaseException):
    def work() -> None:
        raise err

    return work


@cases(
    "work, code, message",
    (lambda: 7, 0, ""),
    (raising(DataError("two\n  lines")), 2, "c: two lines\n"),
    (raising(PermissionError(13, "Permission denied", "/proc/x")), 2, "c: /proc/x: Permission denied\n"),
    (raising(KeyboardInterrupt()), 130, "\nc: interrupted; all is kept\n"),
)
def test_expected_errors_are_one_line_and_an_exit_code(work, code, message, capsys):
    assert run_command("c", work, after_interrupt="all is kept") == code
    assert capsys.readouterr().err == message


def test_the_first_line_of_an_error_is_short_and_no_fault_is_hidden():
    with pytest.raises(ZeroDivisionError):
        run_command("c", raising(ZeroDivisionError()), after_interrupt="")

    assert shorten_error(ValueError("\n one\ntwo")) == "one"
    assert shorten_error(KeyError()) == "KeyError"
    assert len(shorten_error(ValueError("x" * 999))) == 200


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch) -> Terminal:
    """Put a terminal in the place of standard error; in the test itself, for pytest puts its own before each."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    made = Terminal()
    monkeypatch.setattr("sys.stderr", made)
    return made


@pytest.mark.parametrize(("screen", "enabled"), [(io.StringIO(), True), (Terminal(), False)])
def test_without_a_terminal_or_switched_off_there_is_no_line(screen, enabled, monkeypatch):
    monkeypatch.setattr("sys.stderr", screen)
    with show_progress("a step", 10, unit="tokens", enabled=enabled) as advance:
        advance(5)
    assert screen.getvalue() == ""


def test_without_a_terminal_the_innermost_step_is_logged_again_and_again(monkeypatch, caplog):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    monkeypatch.setattr(terminal, "_LOG_SECONDS", 0.01)
    caplog.set_level("INFO", logger=terminal.__name__)

    def wait_for(pattern):
        for _ in range(1000):
            lines = [record.getMessage() for record in caplog.records]
            if found := [line for line in lines if re.fullmatch(pattern, line)]:
                return found
            time.sleep(0.01)
        raise AssertionError(lines)

    with show_progress("job 1 of 2", enabled=True):
        wait_for(r"progress   job 1 of 2: since 0 s")
        with show_progress("greedy", 100, unit="tokens", enabled=True) as advance:
            wait_for(r"progress   job 1 of 2 › greedy: 0 of 100 tokens.*")
            advance(25)
            advance(25)
            wait_for(r"progress   job 1 of 2 › greedy: 50 of 100 tokens, [\d,]+ tokens/s, \d+ s left")
        with show_progress("score", 4, unit="texts", tokens=80, enabled=True) as advance:
            advance(1)
            advance(1)
            wait_for(r"progress   job 1 of 2 › score: 2 of 4 texts, about 40 tokens, [\d,]+ tokens/s, \d+ s left")
    count = len(caplog.records)
    time.sleep(0.05)
    assert len(caplog.records) <= count + 1, "the thread ends with the outermost step"
    assert not terminal._shown


def test_the_innermost_step_has_the_line(monkeypatch):
    screen = open_terminal(monkeypatch)
    with show_progress("the job [3/4]", enabled=True):
        with show_progress("generate", 10, unit="tokens", enabled=True) as advance:
            advance(5)
        with show_progress("score", 8, unit="texts", enabled=True) as advance:
            advance(8)
            (bar,) = terminal._shown
            assert [task.description for task in bar.tasks if task.visible] == ["the job [3/4] › score"]
            bar.refresh()
    output = screen.getvalue()
    assert "8 of 8 texts" in output
    assert not terminal._shown, "the next job has a display of its own"


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (150, "2 min"), (9000, "2.5 h")])
def test_duration(seconds, text):
    assert core.format_duration(seconds) == text
