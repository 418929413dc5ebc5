"""Exit codes and the one line of a command that fails."""

from __future__ import annotations

import pytest

from openended.harness.core.errors import DataError
from openended.harness.core.exit_codes import BAD_INPUT, INTERRUPTED, OK, format_error, run_command


def raising(err: BaseException):
    def work() -> None:
        raise err

    return work


def test_work_that_ends_well_is_zero(capsys):
    assert run_command("c", lambda: 7, after_interrupt="") == OK == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("err", "said"),
    [
        (DataError("two\n  lines"), "c: two lines\n"),
        (PermissionError(13, "Permission denied", "/proc/x"), "c: /proc/x: Permission denied\n"),
    ],
)
def test_the_users_errors_are_one_line_and_2(err, said, capsys):
    assert run_command("c", raising(err), after_interrupt="") == BAD_INPUT == 2
    assert capsys.readouterr().err == said


def test_ctrl_c_is_130_and_says_what_is_kept(capsys):
    assert run_command("c", raising(KeyboardInterrupt()), after_interrupt="all is kept") == INTERRUPTED == 130
    assert capsys.readouterr().err == "\nc: interrupted; all is kept\n"


def test_what_nobody_foresaw_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        run_command("c", raising(ZeroDivisionError()), after_interrupt="")


def test_one_line():
    assert format_error(ValueError("a\n b")) == "a b"
