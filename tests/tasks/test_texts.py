"""Human texts without prompts."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from openended.harness.core.errors import DataError
from openended.harness.core.types import Example
from openended.tasks.texts import Texts


def read(path, **options):
    return list(Texts(path=str(path), **options).examples(None, Counter()))


def test_the_field_is_told_by_the_file_or_by_the_user(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"human": "h", "text": "t"}) + "\n")
    assert read(path) == [Example("texts/000000", "", "h")]
    assert read(path, field="text") == [Example("texts/000000", "", "t")]


def test_a_folder_is_one_side_in_the_order_of_its_names(tmp_path):
    for name, text in (("b.txt", "second\nline"), ("a.txt", "first")):
        (tmp_path / name).write_text(text)
    assert [e.human for e in read(tmp_path)] == ["first", "second\nline"]


@pytest.mark.parametrize(
    ("line", "message"), [('{"human": " "}', r"a\.jsonl:1: the text \('human'\) is empty"), ("", "holds no text")]
)
def test_what_is_no_text_is_named(tmp_path, line, message):
    path = tmp_path / "a.jsonl"
    path.write_text(line)
    with pytest.raises(DataError, match=message):
        read(path)


def test_the_fingerprint_of_a_folder_is_of_its_texts_and_names(tmp_path):
    made = []
    for folder, name, text in (("x", "a.txt", "t"), ("y", "a.txt", "t"), ("z", "b.txt", "t")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
        made.append(Texts(path=str(tmp_path / folder)).fingerprint())
    assert made[0] == made[1] != made[2]
