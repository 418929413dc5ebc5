"""Test the checks of a tokenizer's ids and of its rewriting rules."""

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from openended.harness.core import DataError
from openended.harness.models.loading.tokenizer_checks import check_ids, check_normalizer


def save_tokenizer(path, steps):
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("a", content) for content in steps])
    tokenizer.save(str(path))
    return {"normalizer": {"normalizers": [rewrite("a", content) for content in steps]}}


def rewrite(pattern, content):
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def test_the_largest_id_must_have_an_embedding():
    check_ids("m", {"a": 0, "b": 7}, 8)
    check_ids("m", {}, 8)
    with pytest.raises(DataError, match=r"model m: its tokenizer has the id 8 \('b'\), its weights have 8 embeddings"):
        check_ids("m", {"a": 0, "b": 8}, 8)


def test_rules_that_make_a_text_endless_are_refused_in_one_line(tmp_path):
    path = tmp_path / "tokenizer.json"
    description = save_tokenizer(path, ["aa"] * 64)
    with pytest.raises(DataError, match=r"model m: its tokenizer\.json") as caught:
        check_normalizer("m", path, description)
    assert "\n" not in str(caught.value)


def test_rules_that_make_far_more_tokens_than_characters_are_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    rules = [("a", "b" * 3000), ("b", "c " * 40)]
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace(*rule) for rule in rules])
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(path))
    with pytest.raises(DataError, match=r"tokenizer\.json makes \d+ tokens of \d+ characters"):
        check_normalizer("m", path, {"normalizer": {"normalizers": [rewrite(*rule) for rule in rules]}})


def test_rules_that_make_a_text_a_little_longer_are_accepted(tmp_path):
    path = tmp_path / "tokenizer.json"
    check_normalizer("m", path, save_tokenizer(path, ["aa", "aa"]))


def test_a_tokenizer_without_such_rules_is_not_run(tmp_path):
    check_normalizer("m", tmp_path / "no such file", {"normalizer": {"type": "NFC"}, "pre_tokenizer": None})
