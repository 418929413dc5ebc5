"""Texts that answer no prompt of a run: all of a file's, beside human texts of any number.

The file is read twice, and never held: what is said of all its texts is known before the first row is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from openended.harness.core import DataError, Generation, Tokenizer
from openended.harness.imported.formats import Published, read_generations
from openended.harness.imported.pairing import Taken, in_order, with_text
from openended.harness.storage import Row


def import_loose(
    path: Path,
    name: Callable[[int], str],
    tokenizer: Tokenizer | None,
    max_new_tokens: int | None,
    *,
    count: int | None,
    field: str | None = None,
) -> Taken:
    """Take the texts of a file as they stand; a prompt that the file names and every text begins with is cut off.

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
    texts = _Loose(path, name, tokenizer, count, field)
    found, prompted, first = 0, True, ""
    whole, rest = False, False  # is there a text that says anything; one that does after its prompt
    for one in texts.read():
        found, first = found + 1, first or one.where
        prompted = prompted and bool(one.prompt) and (one.text or "").startswith(one.prompt or "")
        whole = whole or bool((one.text or "").strip())
        rest = rest or bool((one.text or "")[len(one.prompt or "") :].strip())
    if found < (count or 1):
        raise DataError(f"{path}: holds {found} texts, got num_examples={count}; num_examples=all takes them all")
    if not (rest if prompted else whole):
        raise DataError(f"{first}: all {found} texts of the file are empty")
    texts = replace(texts, prompted=prompted)
    notes = ["every text began with its prompt, which was cut off"] if prompted else []
    # Names in the order of the file are in the order of rows as long as they have one length.
    sorted_by_name = len(name(found - 1)) == len(name(0))
    return Taken(texts if sorted_by_name else in_order(list(texts)), tokenizer, max_new_tokens, notes)


@dataclass(frozen=True, slots=True)
class _Loose:
    """The texts of a file under their names, read anew each time."""

    path: Path
    name: Callable[[int], str]
    tokenizer: Tokenizer | None
    count: int | None
    field: str | None
    prompted: bool = False
    """Every text begins with its prompt."""

    def read(self) -> Iterator[Published]:
        return (with_text(one, self.tokenizer) for one in islice(read_generations(self.path, self.field), self.count))

    def __iter__(self) -> Iterator[tuple[Row, Published]]:
        for i, one in enumerate(self.read()):
            start = len(one.prompt or "") if self.prompted else 0
            nothing = Generation(self.name(i), 0, "", (), "length", float("nan"))
            yield Row("", (), nothing), replace(one, text=(one.text or "")[start:], sample=None)
