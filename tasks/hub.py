"""Datasets of the Hugging Face hub, or local folders in a format that `datasets` reads.

A revision that is no commit is resolved at the first use, recorded in the cache folder's ledger, and kept: the same
option means the same data ever after. No code of a dataset is run. License: the dataset's own.

Either `text_field` is cut into prompt and continuation, or `prompt_field` and `human_field` name the two.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from openended.harness.core import (
    DataError,
    Example,
    Task,
    Tokenizer,
    digest,
    digest_file,
    register,
    shorten_error,
    suggest,
)
from openended.tasks._order import sort_by_hash
from openended.tasks._prompts import Cutter, PromptUnit, check_lengths
from openended.tasks._records import choose_id_field, read_id, read_usable_text
from openended.tasks.download import LEDGER, edit_ledger, find_cache_root, is_offline, read_ledger

_COMMIT = re.compile(r"[0-9a-f]{40}")


@register("task")
@dataclass(frozen=True, kw_only=True)
class Hub(Task):
    """One split of a dataset, by a hash of the row's number."""

    name: ClassVar[str] = "hub"
    source: ClassVar[str] = "https://huggingface.co/datasets"
    size: ClassVar[str] = "any"
    license: ClassVar[str] = "the dataset's own"
    obtained: ClassVar[str] = "fetched at the first use"
    command: ClassVar[str] = (
        "openended task=hub task.path=Salesforce/wikitext task.config=wikitext-2-raw-v1 model=gpt2 scoring=gpt2-large"
    )

    path: str  # hub id, or a folder
    config: str | None = None
    split: str = "test"
    revision: str | None = None  # branch, tag or commit; null: the default branch, as first resolved
    text_field: str | None = "text"
    prompt_field: str | None = None
    human_field: str | None = None
    id_field: str | None = "auto"  # `id` or `example_id` where there is one; null: the row's number
    prompt_unit: PromptUnit = "tokens"
    prompt_length: int = 35  # as for WebText
    max_length: int | None = 1024
    order: Literal["hash", "file"] = "hash"
    cache_dir: str | None = None  # folder of the ledger; the data are in HF_HOME
    offline: bool = False

    def check(self) -> None:
        """Check that there is one text field or two fields, and that the lengths leave room."""
        self.require(bool(self.path.strip()), "path", "a hub id or a folder")
        pair = self.prompt_field is not None and self.human_field is not None
        self.require(pair != (self.text_field is not None), "text_field", "null exactly if the two fields are given")
        check_lengths(self, self.prompt_length, self.max_length)

    def needs_tokenizer(self) -> bool:
        """Return true for a text field whose prompts are counted in tokens."""
        return self.text_field is not None and self.prompt_unit == "tokens"

    def fetch(self) -> None:
        """Resolve and record the revision, and download the split."""
        if not self._folder:
            self._load(self._commit(ask=True))

    def fingerprint(self) -> str:
        """Return a digest of repository, commit, config and split; for a folder, of its files."""
        if self._folder:
            files = sorted(p for p in Path(self.path).rglob("*") if p.is_file())
            content: list[Any] = [[p.relative_to(self.path).as_posix(), digest_file(p)] for p in files]
        else:
            content = [self.path, self._commit(ask=False)]
        return digest([content, self.config, self.split])

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield rows as examples; rows without text are counted."""
        cutter = Cutter(self.prompt_unit, self.prompt_length, self.max_length, tokenizer) if self.text_field else None
        for number, row, id_column in self._iterate_rows():
            example = self._make_example(row, number, id_column, cutter, skipped)
            if example is not None:
                yield example

    def documents(self, skipped: Counter[str]) -> Iterator[tuple[str, str]]:
        """Yield id and text of the rows, without prompts; rows without text are counted."""
        field = str(self.text_field)
        for number, row, id_column in self._iterate_rows():
            where = f"dataset {self.path}, split {self.split}, row {number}"
            text = read_usable_text(row, field, where, skipped)
            if text is not None:
                yield (read_id(row, id_column, where) if id_column else f"{number:06d}"), text

    def _iterate_rows(self) -> Iterator[tuple[int, dict[str, Any], str | None]]:
        """Yield number, row, and the column of the ids, in order."""
        rows = self._load(None if self._folder else self._commit(ask=False))
        id_column = choose_id_field(dict.fromkeys(rows.column_names, True), self.id_field)
        fields = [f for f in (self.text_field, self.prompt_field, self.human_field, id_column) if f]
        for field in fields:
            if field not in rows.column_names:
                suggestion = suggest(field, rows.column_names)
                advice = "; set task.text_field=NAME, or task.prompt_field and task.human_field"
                raise DataError(f"dataset {self.path}, split {self.split}: no field {field!r}{suggestion}{advice}")
        numbers: Any = range(len(rows))
        if self.order == "hash":
            numbers = sort_by_hash(numbers, str)
        for number in numbers:
            yield number, rows[number], id_column

    def _make_example(
        self, row: dict[str, Any], number: int, id_column: str | None, cutter: Cutter | None, skipped: Counter[str]
    ) -> Example | None:
        where = f"dataset {self.path}, split {self.split}, row {number}"
        identity = read_id(row, id_column, where) if id_column else f"{number:06d}"
        text = read_usable_text(row, self.text_field or str(self.human_field), where, skipped)
        if text is None:
            return None
        if cutter is None:
            prompt = row[str(self.prompt_field)]
            if not isinstance(prompt, str):
                skipped[f"{self.prompt_field} is no text"] += 1
                return None
            return Example(f"hub/{identity}", prompt, text)
        parts = cutter.cut(text)
        if parts is None:
            skipped[f"no longer than {self.prompt_length} {self.prompt_unit}"] += 1
            return None
        return Example(f"hub/{identity}", parts.prompt, parts.human)

    @property
    def _folder(self) -> bool:
        return Path(self.path).is_dir()

    def _commit(self, *, ask: bool) -> str:
        if self.revision is not None and _COMMIT.fullmatch(self.revision):
            return self.revision
        key = f"hub/{self.path}@{self.revision or 'default'}"
        ledger = find_cache_root(self.cache_dir) / LEDGER
        recorded = read_ledger(ledger).get(key)
        if recorded is not None:
            return str(recorded["commit"])
        url = f"https://huggingface.co/datasets/{self.path}"
        if not ask or is_offline(offline=self.offline):
            raise DataError(f"missing dataset: {self.path} was never fetched here; run once with a network ({url})")
        from huggingface_hub import HfApi

        try:
            commit = HfApi().dataset_info(self.path, revision=self.revision).sha
        except Exception as err:
            raise DataError(
                f"dataset {self.path}: the hub does not answer for it ({shorten_error(err)}); {url}"
            ) from err
        if not commit:
            raise DataError(f"dataset {self.path}: the hub names no commit; set task.revision")
        with edit_ledger(ledger) as entries:
            entries.setdefault(key, {"commit": commit})
            return str(entries[key]["commit"])

    def _load(self, commit: str | None) -> Any:  # noqa: ANN401 - a datasets.Dataset
        import datasets

        try:
            return datasets.load_dataset(self.path, self.config, split=self.split, revision=commit)
        except Exception as err:
            state = " and the hub is off" if is_offline(offline=self.offline) else ""
            raise DataError(
                f"dataset {self.path}, split {self.split}: cannot be loaded{state} ({shorten_error(err)})"
            ) from err
