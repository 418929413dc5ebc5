"""What a value says about the token ids that it was computed on."""

from __future__ import annotations

from typing import Any

import pytest

from openended.harness.core.registry import load_members
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import tokenizer_digest
from openended.harness.run.artifacts import TextRows
from openended.harness.run.resolve import ScoringPart
from openended.harness.run.token_ids import describe_token_ids

SCORER = ModelSpec(path="bundled:docs-m")


def describe(metric: str, ids: str | None, tokenizer: str | None = None) -> str | None:
    entry: Any = type("Entry", (), {"meta": {"ids": ids} if ids else {}})()
    source = TextRows("model", entry, "data.arrow", tokenizer or tokenizer_digest(SCORER))
    scoring = ScoringPart(SCORER, None, None, SCORER, cut_by_words=False)
    return describe_token_ids(load_members("metric")[metric](), source, scoring)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ("generated", "token ids as generated"),
        ("retokenized", "re-tokenized text"),
        ("mixed", "token ids as generated where the file has them, else on re-tokenized text"),
        (None, None),
    ],
)
def test_a_value_over_tokens_says_which_tokens(ids: str | None, said: str | None) -> None:
    assert describe("gen_ppl", ids) == said


def test_a_scorer_with_another_tokenizer_reads_re_tokenized_text() -> None:
    assert describe("gen_ppl", "generated", "another tokenizer") == "re-tokenized text"


def test_a_value_over_bytes_says_nothing() -> None:
    assert describe("compression_ratio", "generated") is None
