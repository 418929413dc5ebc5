"""Human texts without prompts."""

import json

import pytest

from openended.harness.core import DataError, Example
from openended.tasks.texts import Texts
from tests.tasks.reading import read


def test_the_field_is_given_by_the_file_or_by_the_user(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"human": "h", "text": "t"}) + "\n")
    assert read(Texts(path=str(path))) == [Example("texts/000000", "", "h")]
    assert read(Texts(path=str(path), field="text")) == [Example("texts/000000", "", "t")]
    for line, message in [('{"human": " "}', r"a\.jsonl:1: the text \('human'\) is empty"), ("", "holds no text")]:
        path.write_text(line)
        with pytest.raises(DataError, match=message):
            read(Texts(path=str(path)))


def test_a_folder_is_one_side_in_the_order_of_its_names(tmp_path):
    for name, text in (("b.txt", "second\nline"), ("a.txt", "first")):
        (tmp_path / name).write_text(text)
    assert [e.human for e in read(Texts(path=str(tmp_path)))] == ["first", "second\nline"]


def test_the_fingerprint_of_a_folder_is_of_its_texts_and_names(tmp_path):
    prints = []
    for folder, name in (("x", "a.txt"), ("y", "a.txt"), ("z", "b.txt")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("t")
        prints.append(Texts(path=str(tmp_path / folder)).fingerprint())
    assert prints[0] == prints[1] != prints[2]
