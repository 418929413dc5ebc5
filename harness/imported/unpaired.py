"""Import texts without prompts: all of a file, for comparison with any number of human texts.

The file is read twice, and never held: what is said of all its texts is known before the first row is made.
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
    """Import the texts of a file; a prompt that the file gives and that starts every text is removed.

    Args:
        path: The file, or a folder of them.
        name: Number of a text, from 0 → its example id.
        tokenizer: Makes the token ids, and cuts at `max_new_tokens`; None: texts alone.
        max_new_tokens: As for generations of our own.
        count: The first so many texts; None: all.
        field: Where a record has its text; None: guessed.

    Raises:
        DataError: If the file holds too few texts, or none that says anything.
    """
    texts = _UnpairedTexts(path, name, tokenizer, count, field)
    count_read, prompted, first = 0, True, ""
    whole, rest = False, False  # is there a text that says anything; one that does after its prompt
    for text in texts.read():
        count_read, first = count_read + 1, first or text.where
        prompted = prompted and bool(text.prompt) and (text.text or "").startswith(text.prompt or "")
        whole = whole or bool((text.text or "").strip())
        rest = rest or bool((text.text or "")[len(text.prompt or "") :].strip())
    if not count_read:
        raise DataError(f"{path}: holds no text")
    if count_read < (count or 1):
        raise DataError(f"{path}: holds {count_read} texts, got num_examples={count}; num_examples=all takes them all")
    if not (rest if prompted else whole):
        raise DataError(f"{first}: all {count_read} texts of the file are empty")
    texts = replace(texts, prompted=prompted)
    notes = ["every text began with its prompt, which was cut off"] if prompted else []
    # Names in the order of the file are in the order of rows as long as they have one length.
    sorted_by_name = len(name(count_read - 1)) == len(name(0))
    return ImportedRows(texts if sorted_by_name else sort_pairs(list(texts)), tokenizer, max_new_tokens, notes)


@dataclass(frozen=True, slots=True)
class _UnpairedTexts:
    """The texts of a file under their names, read anew each time."""

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
            nothing = Generation(self.name(i), 0, "", (), "length", float("nan"))
            yield Row("", (), nothing), replace(text, text=(text.text or "")[start:], sample=None)
