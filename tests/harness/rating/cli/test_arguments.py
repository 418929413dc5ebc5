"""Flags from the fields of a dataclass, and the older `name=value` words."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from openended.harness.core.arguments import CommandParser
from openended.harness.rating.cli.arguments import add_fields, collect_flag_values, parse_arguments


@dataclass(frozen=True)
class Options:
    items: int = 10
    min_words: int | None = None


def parser() -> CommandParser:
    made = CommandParser(prog="openended rate x")
    made.add_argument("words", nargs="*")
    add_fields(made, Options, "options", {"items": "how many"})
    return made


def test_only_the_flags_that_were_typed_are_given() -> None:
    assert collect_flag_values(parse_arguments(parser(), ["--items", "20"]), Options) == {"items": 20}
    assert collect_flag_values(parse_arguments(parser(), ["--min-words=null"]), Options) == {"min_words": None}


def test_an_older_word_is_read_and_its_new_form_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert collect_flag_values(parse_arguments(parser(), ["items=20"]), Options) == {"items": 20}
    assert capsys.readouterr().err == "openended rate x: items=20 is now typed as --items=20\n"


def test_a_value_that_is_no_yaml_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(parser(), ["--items", "[1"])
    assert "cannot be read as YAML" in capsys.readouterr().err
