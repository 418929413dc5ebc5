"""Import all texts of a file without prompts, for comparison with any number of human texts.

The file is read twice instead of being kept in memory: first to check all texts, then to yield the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from openended.harness.core import DataError, Generation, Tokenizer
from openended.harness.imported.formats import ImportedText, read_generations
from openended.harness.imported.pairing import ImportedRows, decode_text, sort_pairs
from openended.harness.storage import Row


def import_unpaired(
    path: Path,
    name: Callable[[int], str],
    tokenizer: Tokenizer | None,
    max_new_tokens: int | None,
    *,
    count: int | None,
    field: str | None = None,
) -> ImportedRows:
    """Import the texts of a file; if every text starts with its prompt, the prompts are removed.

    Args:
        path: The file, or a folder of them.
        name: Returns the example id of the text with a given index (from 0).
        tokenizer: Tokenizes and truncates to `max_new_tokens`; None: text only.
        max_new_tokens: Length limit, as for generated texts.
        count: Number of texts, from the start; None: all.
        field: Field with the text; None: detected.

    Raises:
        DataError: If the file has too few texts, or all are empty.
    """
    texts = _UnpairedTexts(path, name, tokenizer, count, field)
    count_read, prompted, first = 0, True, ""
    any_text, any_continuation = False, False  # whether any text is not empty, with and without its prompt
    for text in texts.read():
        count_read, first = count_read + 1, first or text.where
        prompted = prompted and bool(text.prompt) and (text.text or "").startswith(text.prompt or "")
        any_text = any_text or bool((text.text or "").strip())
        any_continuation = any_continuation or bool((text.text or "")[len(text.prompt or "") :].strip())
    if count_read < (count or 1):
        raise DataError(f"{path}: holds {count_read} texts, got num_examples={count}; num_examples=all takes them all")
    if not (any_continuation if prompted else any_text):
        raise DataError(f"{first}: all {count_read} texts of the file are empty")
    texts = replace(texts, prompted=prompted)
    notes = ["every text began with its prompt, which was cut off"] if prompted else []
    # Ids of equal length sort in file order.
    sorted_by_name = len(name(count_read - 1)) == len(name(0))
    return ImportedRows(texts if sorted_by_name else sort_pairs(list(texts)), tokenizer, max_new_tokens, notes)


@dataclass(frozen=True, slots=True)
class _UnpairedTexts:
    """The texts of a file with their example ids; every iteration reads the file again."""

    path: Path
    name: Callable[[int], str]
    tokenizer: Tokenizer | None
    count: int | None
    field: str | None
    prompted: bool = False
    """Every text begins with its prompt."""

    def read(self) -> Iterator[ImportedText]:
        return (
            decode_text(text, self.tokenizer) for text in islice(read_generations(self.path, self.field), self.count)
        )

    def __iter__(self) -> Iterator[tuple[Row, ImportedText]]:
        for i, text in enumerate(self.read()):
            start = len(text.prompt or "") if self.prompted else 0
            empty = Generation(self.name(i), 0, "", (), "length", float("nan"))
            yield Row("", (), empty), replace(text, text=(text.text or "")[start:], sample=None)
