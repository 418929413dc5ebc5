"""The corpus that the user names for metrics of novelty: neither the human side nor a system."""

from __future__ import annotations

from pathlib import Path

from openended.harness.core import DataError


def digest_corpus(path: Path) -> str:
    """Return the digest of the file or folder."""
    from openended.harness.imported import compute_fingerprint

    if not path.exists():
        raise DataError(f"metric.novelty.corpus: no such file: {path}; expected references, or a file of texts")
    return compute_fingerprint(path)


def load_corpus(path: Path) -> list[str]:
    """Return the texts, in the order of the file."""
    from openended.harness.imported import read_generations

    return [text.text or "" for text in read_generations(path)]
