"""Token ids of imported texts: decoded, or kept where they are the text's own."""

from __future__ import annotations

from dataclasses import replace

from openended.harness.core.types import Generation
from openended.harness.imported.generations import ImportedText
from openended.harness.imported.pairing import decode_text, find_ids
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import load_tokenizer
from openended.harness.storage.rows import Row

TOKENIZER = load_tokenizer(ModelSpec(path="bundled:docs-s"))
PROMPT, TEXT = "Return the number", " of rows."
PROMPT_IDS, IDS = tuple(TOKENIZER.encode(PROMPT)), tuple(TOKENIZER.encode(TEXT))
EXAMPLE = Row(PROMPT, PROMPT_IDS, Generation("t/0", 0, "", (), "length", 0.0))


def test_a_text_without_words_is_decoded() -> None:
    item = ImportedText("a:1", 0, None, token_ids=IDS)
    assert decode_text(item, TOKENIZER).text == TEXT


def test_ids_of_a_continuation_or_of_prompt_and_continuation_are_found() -> None:
    item = ImportedText("a:1", 0, TEXT, token_ids=IDS)
    assert find_ids(EXAMPLE, decode_text(item, TOKENIZER), TOKENIZER) == IDS
    assert find_ids(EXAMPLE, replace(item, token_ids=PROMPT_IDS + IDS), TOKENIZER) == IDS
    assert find_ids(EXAMPLE, item, None) is None


def test_ids_of_another_text_are_dropped() -> None:
    item = ImportedText("a:1", 0, "Something else.", token_ids=IDS)
    assert decode_text(item, TOKENIZER).token_ids is None
    assert decode_text(item, None).token_ids is None
