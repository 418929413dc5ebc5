"""Check tokenizers of models: no id without an embedding, and no rules that make short texts endless."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openended.harness.core import DataError
from openended.harness.models.loading.isolated_process import run_isolated

# Characters of the trial text of a tokenizer that rewrites texts, and the most tokens per character it may give.
_PRINTABLE = "".join(map(chr, range(32, 127))) + "\n\t\u00e9\u2581"
_PROBE_LENGTH, _MOST_TOKENS = 4096, 16


def check_ids(name: str, vocabulary: Mapping[str, int], vocab_size: int) -> None:
    """Refuse a tokenizer with ids that the model has no embedding for.

    Raises:
        DataError: Names the largest id and its token.
    """
    token, largest = max(vocabulary.items(), key=lambda item: item[1], default=("", -1))
    if largest >= vocab_size:
        raise DataError(
            f"model {name}: its tokenizer has the id {largest} ({token!r:.40}), its weights have {vocab_size} "
            "embeddings; use the tokenizer that the model was trained with"
        )


def check_normalizer(name: str, path: Path, description: Mapping[str, Any]) -> None:
    """Try a tokenizer that rewrites texts in a child process: rewriting can make a short text endless."""
    rewrites = [*_find_rewrites(description.get("normalizer")), *_find_rewrites(description.get("pre_tokenizer"))]
    if not rewrites:
        return
    patterns = [pattern for rewrite in rewrites for pattern in _list_strings(rewrite)]
    probe = (_PRINTABLE + " " + " ".join(patterns))[:_PROBE_LENGTH]

    def count_tokens() -> Iterator[str]:
        from tokenizers import Tokenizer as Fast

        yield str(len(Fast.from_file(str(path)).encode(probe, add_special_tokens=False).ids))

    (count,) = run_isolated(count_tokens, f"model {name}: its tokenizer.json")
    if int(count) > _MOST_TOKENS * len(probe):
        raise DataError(f"model {name}: its tokenizer.json makes {count} tokens of {len(probe)} characters")


def _find_rewrites(part: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401 - JSON
    """Return the steps of a normalizer or pre-tokenizer that replace or add text, in nested sequences too."""
    if not isinstance(part, Mapping):
        return []
    steps = [step for name in ("normalizers", "pretokenizers") for step in part.get(name) or ()]
    matches = [part] if part.get("type") in ("Replace", "Prepend") else []
    return matches + [rewrite for step in steps for rewrite in _find_rewrites(step)]


def _list_strings(rewrite: Mapping[str, Any]) -> list[str]:
    """Return the texts that a rewriting step looks for and writes."""
    pattern = rewrite.get("pattern")
    values = [
        *(pattern.values() if isinstance(pattern, Mapping) else ()),
        rewrite.get("content"),
        rewrite.get("prepend"),
    ]
    return [value for value in values if isinstance(value, str)]
