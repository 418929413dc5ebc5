"""What may stand in a terminal, a CSV cell and a record."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from openended.harness.core import text as core_text
from openended.harness.core.text import REDACTED, escape_controls, redact_keys


@given(st.text())
def test_plain_text_holds_no_control_character(text):
    made = escape_controls(text)
    assert all(c == "\n" or c.isprintable() or c.isspace() or ord(c) > 0x9F for c in made)
    assert "\x1b" not in made
    assert "\x9b" not in made
    assert escape_controls(made) == made
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
    assert escape_controls(text) == expected


def test_a_line_is_one_line():
    assert core_text.escape_controls_in_line("a\r\nb\u2028c") == "a b c"


@pytest.mark.parametrize("text", ["=1+1", "+A1", "-A1", "@SUM(A1)", "\tx", "\rx", " =cmd|' /C calc'!A0"])
def test_formulas_are_neutralised(text):
    assert core_text.escape_csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-1.5", "+3", "-inf", "1e-9", "", "a=b", "nucleus p=0.9", "–"])
def test_numbers_and_labels_stay(text):
    assert core_text.escape_csv_cell(text) == text


def test_homes_are_shortened_and_nothing_else():
    home = str(Path.home())
    value = {"a": [f"{home}/x", f"task.path={home}", f"{home}y/x", f"/mnt{home}/x", 3, None]}
    assert core_text.make_shareable(value) == {"a": ["~/x", "task.path=~", "…/x", "…/x", 3, None]}


@pytest.mark.parametrize("key", ["hf_" + "abCD12" * 5, "sk-" + "a1B2" * 8, "AKIA" + "A1B2" * 4, "ghp_" + "a1B2" * 9])
def test_what_looks_like_a_key_is_struck_out(key):
    assert redact_keys(f"model.label={key} and more") == f"model.label={REDACTED} and more"
    assert core_text.make_shareable({"a": [f"x/{key}"], key: 1}) == {"a": [f"x/{REDACTED}"], REDACTED: 1}


@pytest.mark.parametrize(
    "text", ["token=0f" + "3a" * 15, "API_KEY: " + "aB3/" * 8, "secret='" + "Zz9+" * 8 + "'", "password=" + "x1" * 12]
)
def test_what_stands_after_a_word_for_a_key_is_struck_out(text):
    assert REDACTED in redact_keys(text)
    assert "aB3/aB3" not in redact_keys(text)


@pytest.mark.parametrize(
    "text",
    ["measure/ab/" + "ab12" * 16, "task-1234567890abcdefghij", "tokenizer:" + "ab12" * 16, "key of generate ab12cd34",
     "max_new_tokens=64", "a token: internationalisation-of-things", "gpt2@32b71b12768566d6a5ae77b1b1e5c7cd2db6f3f1"],
)  # fmt: skip
def test_digests_and_words_stay(text):
    assert redact_keys(text) == text
