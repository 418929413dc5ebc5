"""Say whether a value was computed on the token ids of a sample file or on re-tokenized text."""

from __future__ import annotations

from openended.harness.core import Metric
from openended.harness.models import ModelSpec, tokenizer_digest
from openended.harness.run.artifacts import TextRows
from openended.harness.run.resolve import ScoringPart

_TEXTS = {
    "generated": "token ids as generated",
    "retokenized": "re-tokenized text",
    "mixed": "token ids as generated where the file has them, else on re-tokenized text",
}


def describe_token_ids(metric: Metric, source: TextRows, scoring: ScoringPart) -> str | None:
    """Name the tokens of a sample file that a metric reads; None if it reads none or the texts come from elsewhere."""
    ids = source.entry.meta.get("ids") if source.entry is not None else None
    tokenizers = [spec for need in metric.needs() if (spec := _find_tokenizer(need.kind, need.by, scoring)) is not None]
    if ids is None or not tokenizers:
        return None
    is_same = all(tokenizer_digest(spec) == source.tokenizer for spec in tokenizers)
    return _TEXTS[str(ids) if is_same else "retokenized"]


def _find_tokenizer(kind: str, by: str, scoring: ScoringPart) -> ModelSpec | None:
    """Return the model whose tokens a feature consists of; None if it is read from text or words."""
    if kind in ("tokens", "token_nll") and by == "scorer":
        return scoring.counter
    embedder = scoring.embedder
    if kind == "embeddings" and embedder is not None and scoring.user_embeddings is None:
        return embedder.model_spec() if embedder.kind != "sentence" else None
    return None
