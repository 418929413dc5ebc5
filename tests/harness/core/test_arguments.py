"""Command lines read by argparse: one line says what is wrong."""

from __future__ import annotations

import pytest

from openended.harness.core.arguments import CommandParser, RenamedOption, positive_int


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--itmes", "3"], "no option --itmes; did you mean --items?"),
        (["--wholly-unlike"], "no option --wholly-unlike"),
        (["--items", "0"], "argument --items: expected a whole number of 1 or more, got '0'"),
        (["--items", "-1"], "argument --items: expected a whole number of 1 or more, got '-1'"),
        (["a", "b"], "expected no further words, got b"),
    ],
)
def test_errors_are_one_line_and_exit_2(words, said, capsys):
    parser = CommandParser(prog="openended test")
    parser.add_argument("name", nargs="?")
    parser.add_argument("--items", type=positive_int)
    with pytest.raises(SystemExit) as left:
        parser.parse_args(words)
    assert left.value.code == 2
    assert capsys.readouterr().err == f"openended test: {said}; see openended test --help\n"


def test_a_renamed_option_works_and_prints_its_new_name(capsys):
    parser = CommandParser(prog="openended test")
    parser.add_argument("--scoring")
    parser.add_argument("--judge", dest="scoring", action=RenamedOption)
    assert parser.parse_args(["--judge", "gpt2"]).scoring == "gpt2"
    assert capsys.readouterr().err == "openended test: --judge is now --scoring\n"
