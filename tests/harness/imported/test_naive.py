"""Naive systems: what their texts are, and that they depend on seed and example alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.harness.core.types import Generation
from openended.harness.imported.naive import KINDS, NaiveSystem, NaiveTexts, parse_naive_system
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import load_tokenizer
from openended.harness.storage.rows import Row

TOKENIZER = load_tokenizer(ModelSpec(path="bundled:docs-s"))
TRAINING = [
    "The first sentence of a text. The second sentence follows it.",
    "Another text has one long sentence that does not end before the last word of it.",
    "The first sentence of a text. It comes twice in the training texts.",
]
LENGTHS = [12, 9, 20]


def examples(prompt: str = "") -> list[Row]:
    ids = tuple(TOKENIZER.encode(prompt))
    return [Row(prompt, ids, Generation(f"t/{i}", 0, "x", (), "eos", 0.0)) for i in range(len(LENGTHS))]


def make(name: str, *, seed: int = 0, training: list[str] = TRAINING, prompt: str = "") -> list[Generation]:
    system: Any = parse_naive_system(name)
    texts = NaiveTexts(system, [TOKENIZER.encode(text) for text in training], seed, TOKENIZER)
    rows = texts.rows(examples(prompt), LENGTHS)
    return [replace(row.generation, log_prob=0.0) for row in rows]  # NaN is not equal to itself


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_depends_on_seed_and_example(kind: str) -> None:
    texts = make(f"naive:{kind}")
    assert texts == make(f"naive:{kind}")
    assert any(make(f"naive:{kind}", seed=seed) != texts for seed in range(1, 9))
    assert [g.example_id for g in texts] == ["t/0", "t/1", "t/2"]
    for text, length in zip(texts, LENGTHS, strict=True):
        assert 0 < len(text.token_ids) <= length
        assert text.text == TOKENIZER.decode(text.token_ids)
        if kind not in ("memorizer", "repeated"):
            assert len(text.token_ids) == length


def test_unigrams_are_the_most_frequent_tokens_by_their_frequency() -> None:
    system = NaiveTexts(NaiveSystem("unigram", 2), [[5] * 6 + [7] * 3 + [8] * 2], 0, TOKENIZER)
    ids = [i for row in system.rows(examples() * 200, LENGTHS * 200) for i in row.generation.token_ids]
    assert set(ids) == {5, 7}
    # 41 tokens, three distinct examples: the 200 copies of an example are the same text.
    assert 0.4 < ids.count(5) / len(ids) < 0.95


def test_a_periodic_text_repeats_its_block_and_a_mirrored_one_its_half() -> None:
    for text, length in zip(make("naive:periodic:4"), LENGTHS, strict=True):
        ids = list(text.token_ids)
        assert ids == [ids[i % 4] for i in range(length)]
    for text, length in zip(make("naive:mirror"), LENGTHS, strict=True):
        half = (length + 1) // 2
        assert text.token_ids[half:] == text.token_ids[: length - half]


def test_phrases_are_the_most_frequent_sequences_of_five_tokens() -> None:
    shared = TOKENIZER.encode("The first sentence of a text.")
    for text in make("naive:phrases:1"):
        assert [text.token_ids[i] for i in range(5, 9)] == list(text.token_ids[:4])
        assert list(text.token_ids[:5]) in [shared[i : i + 5] for i in range(len(shared) - 4)]
    with pytest.raises(DataError, match="expected training texts of 5 tokens"):
        make("naive:phrases", training=["a b"])


def test_copies_and_shuffled_sentences() -> None:
    copies = make("naive:memorizer")
    assert all(any(text.startswith(g.text) for text in TRAINING) for g in copies)
    assert len({g.text[:9] for g in copies}) > 1
    assert len({g.text[:20] for g in make("naive:repeated")}) == 1
    starts = tuple(f" {s.strip()}"[:8] for text in TRAINING for s in text.replace(". ", ".|").split("|"))
    assert all(g.text.startswith(starts) for g in make("naive:shuffled"))


def test_without_a_tokenizer_the_tokens_are_words() -> None:
    texts = NaiveTexts(NaiveSystem("memorizer", None), [[0, 1, 0]], 0, None, ["red", "blue"])
    rows = list(texts.rows(examples(), [3, 2, 1]))
    assert [r.generation.text for r in rows] == ["red blue red", "red blue", "red"]
    assert all(not r.generation.token_ids for r in rows)


def test_prompts_are_kept() -> None:
    texts = NaiveTexts(NaiveSystem("unigram", 64), [[5, 6]], 0, TOKENIZER)
    assert {row.prompt for row in texts.rows(examples("A prompt"), LENGTHS)} == {"A prompt"}


def test_names() -> None:
    assert parse_naive_system("naive:unigram:32") == NaiveSystem("unigram", 32)
    assert parse_naive_system("naive:shuffled") == NaiveSystem("shuffled", None)
    assert parse_naive_system("samples.json") is None
    with pytest.raises(SpecError, match="no naive system 'unigrams'; did you mean 'unigram'"):
        parse_naive_system("naive:unigrams")
    with pytest.raises(SpecError, match="expected a whole number from 1 after naive:periodic, got '0'"):
        parse_naive_system("naive:periodic:0")
    with pytest.raises(SpecError, match="expected no number after naive:shuffled"):
        parse_naive_system("naive:shuffled:3")
