"""Tokenizers: one that adds nothing and cleans nothing up; how it is loaded and identified. No weights, no torch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.contract import Tokenizer
from openended.harness.errors import DataError, first_line
from openended.harness.models.files import TOKENIZERS, digests, tokenizer_files
from openended.harness.models.pieces import Pieces, are_exact
from openended.harness.signature import digest
from openended.harness.types import Ragged

if TYPE_CHECKING:
    from openended.harness.models.spec import ModelSpec

# Texts handed to a batch tokenizer at once: bounds its memory.
_TOKENIZE = 1024
_USUAL_ENDS = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>")


@dataclass(frozen=True)
class TextTokenizer:
    """A tokenizer that adds no special tokens and cleans nothing up."""

    inner: Any
    """A `tokenizers.Tokenizer` or a transformers tokenizer."""
    eos_ids: tuple[int, ...]
    """Tokens that end a text, as the model's configs name them; empty where there is none."""
    byte_level: bool
    """True where the text of a sequence is the concatenation of the texts of its parts (up to split characters)."""
    pieces: Pieces | None = field(default=None, repr=False, compare=False)
    """Remembers the tokens of pieces, where a text's tokens are those of its pieces."""

    def vocabulary(self) -> dict[str, int]:
        """Return the id of every token."""
        return dict(self.inner.get_vocab())

    def encode(self, text: str) -> list[int]:
        """Return token ids of `text`."""
        if self.pieces is not None:
            return self.pieces.encode(text)
        made = self.inner.encode(text, add_special_tokens=False)
        return list(made if isinstance(made, list) else made.ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        options = (
            {} if type(self.inner).__module__.startswith("tokenizers") else {"clean_up_tokenization_spaces": False}
        )
        return str(self.inner.decode([int(i) for i in ids], skip_special_tokens=False, **options))


def load_tokenizer(spec: ModelSpec) -> TextTokenizer:
    """Load the tokenizer alone, without torch where a tokenizer.json is there.

    Raises:
        DataError: If there is none or it cannot be read.
    """
    folder = spec.folder
    path = folder / "tokenizer.json" if folder is not None else spec.hub_file("tokenizer.json")
    try:
        if path is not None and path.is_file():
            from tokenizers import Tokenizer as Fast

            inner = Fast.from_file(str(path))
            told = json.loads(path.read_text(encoding="utf-8"))
            byte_level = (told.get("decoder") or {}).get("type") == "ByteLevel"
            pieces = Pieces(inner) if are_exact(told) else None
            return TextTokenizer(inner, _end_ids(spec, inner.token_to_id), byte_level, pieces)
        from transformers import AutoTokenizer

        where = str(folder or spec.path)
        slow = AutoTokenizer.from_pretrained(where, revision=spec.revision, trust_remote_code=False)
    except DataError:
        raise
    except Exception as err:
        raise DataError(f"model {spec.path}: cannot load its tokenizer ({first_line(err)})") from err
    return TextTokenizer(slow, _end_ids(spec, lambda _: slow.eos_token_id), byte_level=False)


def tokenizer_digest(spec: ModelSpec) -> str:
    """SHA-256 (hex) that identifies the tokenizer: of its files for a folder, of hub id and commit otherwise."""
    folder = spec.folder
    if folder is None:
        return digest(["tokenizer", spec.path, spec.commit()])
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise DataError(f"model {spec.path}: no tokenizer in the folder (expected tokenizer.json)")
    return digest(digests(folder, tokenizer_files(folder)))


def word_ids(texts: Iterable[str]) -> Ragged:
    """Return ids of whitespace words, numbered by first occurrence over all texts; dense, from 0."""
    known: dict[str, int] = {}
    return Ragged.from_rows(([known.setdefault(w, len(known)) for w in text.split()] for text in texts), np.int64)


def first_words(text: str, most: int) -> str:
    """Return the text up to the end of its `most`-th whitespace word; all of it where it has no more.

    >>> first_words(" a b  c", 2)
    ' a b'
    """
    ends = [found.end() for found in islice(re.finditer(r"\S+", text), most + 1)]
    return text if len(ends) <= most else text[: ends[most - 1]]


def token_ids(tokenizer: Tokenizer, texts: Sequence[str]) -> Ragged:
    """Return token ids of texts, no special tokens added."""
    inner = getattr(tokenizer, "inner", None)
    batch = getattr(inner, "encode_batch_fast", None)
    if batch is None or getattr(tokenizer, "pieces", None) is not None:
        return Ragged.from_rows((tokenizer.encode(text) for text in texts), np.int64)
    parts = (texts[i : i + _TOKENIZE] for i in range(0, len(texts), _TOKENIZE))
    rows = (np.asarray(e.ids, np.int64) for part in parts for e in batch(list(part), add_special_tokens=False))
    return Ragged.from_rows(rows, np.int64)


def _end_ids(spec: ModelSpec, token_to_id: Callable[[str], int | None]) -> tuple[int, ...]:
    """The end tokens by the configs, else the first of the usual names that the tokenizer knows."""
    named = spec.end_ids()
    if named:
        return named
    found = (token_to_id(name) for name in _USUAL_ENDS)
    return tuple(i for i in [next((i for i in found if i is not None), None)] if i is not None)
