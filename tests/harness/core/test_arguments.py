"""Command lines read by argparse: one line says what is wrong."""

import pytest

from openended.harness.core.arguments import CommandParser, positive_int


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--itmes", "3"], "no option --itmes; did you mean --items?"),
        (["--wholly-unlike"], "no option --wholly-unlike"),
        (["--items", "0"], "--items: expected a whole number of 1 or more, got '0'"),
        (["--items", "-1"], "--items: expected a whole number of 1 or more, got '-1'"),
        (["--items=--"], "--items: expected a value, got '--'"),
        (["-o--"], "-o: expected a value, got '--'"),
        (["a", "b"], "expected no further words, got b"),
    ],
)
def test_errors_are_one_line_and_exit_2(words, said, capsys):
    parser = CommandParser(prog="openended test")
    parser.add_argument("name", nargs="?")
    parser.add_argument("--items", type=positive_int)
    parser.add_argument("-o", "--output")
    with pytest.raises(SystemExit) as left:
        parser.parse_args(words)
    assert left.value.code == 2
    assert capsys.readouterr().err == f"openended test: {said}; see openended test --help\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--itmes", "3"], "no option --itmes; did you mean --items?"),  # before what is missing because of it
        ([], "missing name, --items, as in openended test a --items 3"),
        (["a", "--items", "x"], "--items: expected a whole number, got 'x'"),
        (
            ["a", "--items", "3", "--kind", "pears"],
            "--kind: expected one of pairs, ratings, got 'pears'; did you mean pairs?",
        ),
    ],
)
def test_argparse_speaks_as_we_do(words, said, capsys):
    parser = CommandParser(prog="openended test", example="openended test a --items 3")
    parser.add_argument("name")
    parser.add_argument("--items", type=int, required=True)
    parser.add_argument("--kind", choices=("pairs", "ratings"))
    with pytest.raises(SystemExit):
        parser.parse_args(words)
    assert capsys.readouterr().err == f"openended test: {said}; see openended test --help\n"
