"""Texts that answer no prompt of a run: all of a file's, beside human texts of any number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from openended.harness.contract import Tokenizer
from openended.harness.errors import DataError
from openended.harness.published.forms import read_generations
from openended.harness.published.pairing import finished, with_text
from openended.harness.rows import Row
from openended.harness.types import Generation


def import_loose(
    path: Path,
    name: Callable[[int], str],
    tokenizer: Tokenizer | None,
    max_new_tokens: int | None,
    *,
    count: int | None,
    field: str | None = None,
) -> tuple[list[Row], list[str]]:
    """Take the texts of a file as they stand; a prompt that the file names and every text begins with is cut off.

    Args:
        path: The file, or a folder of them.
        name: Number of a text, from 0 → its example id.
        tokenizer: Makes the token ids, and cuts at `max_new_tokens`; None: texts alone.
        max_new_tokens: As for generations of our own.
        count: The first so many texts; None: all.
        field: Where a record has its text; None: guessed.

    Raises:
        DataError: If the file holds too few texts.
    """
    found = [with_text(one, tokenizer) for one in islice(read_generations(path, field), count)]
    if len(found) < (count or 1):
        raise DataError(f"{path}: holds {len(found)} texts, got num_examples={count}; num_examples=all takes them all")
    notes = []
    if all(one.prompt and (one.text or "").startswith(one.prompt) for one in found):
        found = [replace(one, text=(one.text or "")[len(one.prompt or "") :]) for one in found]
        notes.append("every text began with its prompt, which was cut off")
    empty = next((one for one in found if not (one.text or "").strip()), None)
    if empty is not None and all(not (one.text or "").strip() for one in found):
        raise DataError(f"{empty.where}: all {len(found)} texts of the file are empty")
    pairs = [(_example(name(i)), replace(one, sample=None)) for i, one in enumerate(found)]
    rows, more = finished(pairs, tokenizer, max_new_tokens)
    return rows, [*notes, *more]


def _example(identity: str) -> Row:
    return Row("", (), Generation(identity, 0, "", (), "length", float("nan")))
