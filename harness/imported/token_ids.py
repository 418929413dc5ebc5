"""Token ids of imported texts: decode them, and keep those that are the text's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from openended.harness.core import DataError, Tokenizer
from openended.harness.imported.formats import ImportedText
from openended.harness.storage import Row

IdSource = Literal["generated", "mixed", "retokenized"]


def decode_text(text: ImportedText, tokenizer: Tokenizer | None) -> ImportedText:
    """Return a text decoded from its token ids, if it has only those."""
    if text.token_ids is None:
        return text
    if text.text is not None:
        return text if _are_ids_of(tokenizer, text.token_ids, text.text) else replace(text, token_ids=None)
    if tokenizer is None:
        raise DataError(f"{text.where}: token ids need a GPT-2 tokenizer; set scorer=gpt2 (or another GPT-2)")
    if not _has_all_ids(tokenizer, text.token_ids):
        raise DataError(
            f"{text.where}: token id {max(text.token_ids)} is not in the scorer's vocabulary; set scorer to a "
            "model with the tokenizer of the file (scorer=gpt2 for most)"
        )
    return replace(text, text=tokenizer.decode(text.token_ids))


def _are_ids_of(tokenizer: Tokenizer | None, ids: Sequence[int], text: str) -> bool:
    """Return whether a text has these ids under a tokenizer; the text may lack the end tokens."""
    if tokenizer is None or not _has_all_ids(tokenizer, ids):
        return False
    ends = getattr(tokenizer, "eos_ids", ())
    return tokenizer.decode(ids) == text or (
        tokenizer.decode([i for i in ids if i not in ends]).strip() == text.strip()
    )


def _has_all_ids(tokenizer: Tokenizer, ids: Sequence[int]) -> bool:
    size = getattr(getattr(tokenizer, "inner", None), "get_vocab_size", None)
    return size is None or max(ids, default=0) < size()


def find_ids(example: Row, item: ImportedText, tokenizer: Tokenizer | None) -> tuple[int, ...] | None:
    """Return the continuation's token ids as generated; None if the file has none that fit."""
    if tokenizer is None or item.token_ids is None:
        return None
    size = len(example.prompt_ids)
    if item.token_ids[:size] == example.prompt_ids:
        return item.token_ids[size:]
    return item.token_ids if _are_ids_of(tokenizer, item.token_ids, item.text or "") else None
