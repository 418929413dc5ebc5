"""What may stand in a terminal, a CSV cell and a record."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openended.harness.text import csv_cell, homeless, plain, plain_line


@given(st.text())
def test_plain_text_holds_no_control_character(text):
    made = plain(text)
    assert all(c == "\n" or c.isprintable() or c.isspace() or ord(c) > 0x9F for c in made)
    assert "\x1b" not in made
    assert "\x9b" not in made
    assert plain(made) == made
    made.encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\tb", "a b"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("naïve – Ünïcode 漢字 🙂", "naïve – Ünïcode 漢字 🙂"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_steers_is_written_out_and_what_reads_stays(text, expected):
    assert plain(text) == expected


def test_a_line_is_one_line():
    assert plain_line("a\r\nb\u2028c") == "a b c"


@pytest.mark.parametrize("text", ["=1+1", "+A1", "-A1", "@SUM(A1)", "\tx", "\rx", " =cmd|' /C calc'!A0"])
def test_formulas_are_neutralised(text):
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-1.5", "+3", "-inf", "1e-9", "", "a=b", "nucleus p=0.9", "–"])
def test_numbers_and_labels_stay(text):
    assert csv_cell(text) == text


def test_homes_are_shortened_and_nothing_else():
    home = str(Path.home())
    value = {"a": [f"{home}/x", f"task.path={home}", f"{home}y/x", f"/mnt{home}/x", 3, None]}
    assert homeless(value) == {"a": ["~/x", "task.path=~", f"{home}y/x", f"/mnt{home}/x", 3, None]}
