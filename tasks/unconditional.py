"""Unconditional generation: human texts without prompts, as in the papers on diffusion language models.

- `layout=wrapped`: every document is tokenized and followed by an end token (`boundaries=bos_eos|eos`) or a blank line
  (`none`); all are concatenated and cut into pieces of `length` tokens. The incomplete last piece is dropped.
  With `bos_eos`, a piece is a start token, `length` - 2 tokens of text, and an end token, as in MDLM's loader.
- `layout=documents`: every document is a text; the run cuts it after `max_new_tokens`.

MDLM drops the remainder of each group of 1,000 documents, so its pieces depend on that number; here only the end of the
whole stream is dropped. text8 is cut by characters, as in D3PM and MDLM, and has no end tokens.

Sources: Sahoo et al. 2024 (arXiv 2406.07524); the loaders of kuleshov-group/mdlm and kuleshov-group/remdm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from openended.harness.core import DataError, Example, SourceFile, Task, Tokenizer, register
from openended.tasks._text_sources import Documents, Text8, TextSource, open_documents

Layout = Literal["wrapped", "documents"]
Boundaries = Literal["bos_eos", "eos", "none"]
_BLANK_LINE = "\n\n"


@register("task")
@dataclass(frozen=True, kw_only=True)
class Unconditional(Task):
    """Human texts of a corpus, without prompts."""

    name: ClassVar[str] = "unconditional"
    source: ClassVar[str] = "https://github.com/kuleshov-group/mdlm"
    size: ClassVar[str] = "about 1,500 pieces of 256 tokens (docs); 100,000 documents (OpenWebText, valid)"
    license: ClassVar[str] = "the corpus's own"
    obtained: ClassVar[str] = "none (docs); fetched at the first use (openwebtext, lm1b, text8, hub)"
    command: ClassVar[str] = "openended task=unconditional"
    paired: ClassVar[bool] = False
    prompted: ClassVar[bool] = False

    text: TextSource = "docs"
    path: str | None = None  # text=hub: its id or a folder; text=file: the file
    config: str | None = None
    split: str | None = None  # null: the one that the papers evaluate on
    field: str | None = None  # the field with the text; null: `text`, of a file: detected
    layout: Layout = "wrapped"
    length: int = 256  # of a piece; 1,024 tokens in the papers (OpenWebText), 128 (LM1B)
    boundaries: Boundaries = "eos"
    cache_dir: str | None = None
    offline: bool = False

    def check(self) -> None:
        """Check length, path and split."""
        self.require(self.length >= 3, "length", "at least 3")
        self._open_documents()

    def _open_documents(self) -> Documents:
        return open_documents(
            self.text, path=self.path, config=self.config, split=self.split, field=self.field,
            cache_dir=self.cache_dir, offline=self.offline,
        )  # fmt: skip

    def has_docs_prose(self) -> bool:
        """Return whether the texts are docstrings."""
        return self.text == "docs"

    def files(self) -> list[SourceFile]:
        """Return the files of the corpus."""
        return self._open_documents().files()

    def fetch(self) -> None:
        """Download the corpus if it is missing."""
        self._open_documents().task.fetch()

    def fingerprint(self) -> str:
        """Return the digest of the corpus."""
        return self._open_documents().task.fingerprint()

    def needs_tokenizer(self) -> bool:
        """Return whether pieces are counted in tokens."""
        return self.layout == "wrapped" and self.text != "text8"

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield the texts, without prompts."""
        documents = self._open_documents()
        texts = documents.read(skipped)
        if isinstance(documents.task, Text8):
            texts = _cut_characters(next(texts), self.length)
        elif self.layout == "wrapped":
            if tokenizer is None:
                raise TypeError("pieces counted in tokens need a tokenizer")
            texts = wrap(texts, tokenizer, self.length, self.boundaries)
        for number, text in enumerate(texts):
            yield Example(f"{self.name}/{number:06d}", "", text)


class _SpecialTokens(NamedTuple):
    """Token ids that stand between and around texts."""

    start: list[int]
    end: list[int]
    between: list[int]


def wrap(texts: Iterator[str], tokenizer: Tokenizer, length: int, boundaries: Boundaries) -> Iterator[str]:
    """Concatenate texts and yield pieces of `length` tokens, as text; the incomplete last piece is dropped."""
    special = _find_special_tokens(tokenizer, boundaries)
    room = length - len(special.start) - len(special.end)
    stream: list[int] = []
    for text in texts:
        stream += tokenizer.encode(text)
        stream += special.between
        while len(stream) >= room:
            piece = tokenizer.decode([*special.start, *stream[:room], *special.end])
            del stream[:room]
            if piece.strip():
                yield piece


def _find_special_tokens(tokenizer: Tokenizer, boundaries: Boundaries) -> _SpecialTokens:
    if boundaries == "none":
        return _SpecialTokens([], [], tokenizer.encode(_BLANK_LINE))
    ends: Any = getattr(tokenizer, "eos_ids", ())
    if not ends:
        raise DataError(
            f"task.boundaries={boundaries}: the tokenizer has no end token; set task.boundaries=none, or "
            "name the token in the model's config.json (eos_token_id)"
        )
    end = [int(ends[0])]
    if boundaries == "eos":
        return _SpecialTokens([], [], end)
    start: Any = getattr(tokenizer, "bos_prefix", ())
    return _SpecialTokens(list(start) or end, end, end)


def _cut_characters(text: str, length: int) -> Iterator[str]:
    return (text[i : i + length] for i in range(0, len(text) - length + 1, length))
