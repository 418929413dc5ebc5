"""Datasets of the Hugging Face hub, or local folders in a format that `datasets` reads; no code of a dataset is run.

A revision that is no commit is resolved at the first use, recorded in the cache folder's ledger, and kept: the same
option means the same data ever after. License: the dataset's own.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from openended.harness import core
from openended.harness.core import DataError, Example, find_cache_root, sort_by_hash, suggest
from openended.harness.imported import LEDGER, edit_ledger, find_value, is_offline, read_id, read_ledger
from openended.tasks._files import GroupTask, choose_id_field, read_usable_text
from openended.tasks._prompts import CutTask, Document, PromptUnit

_COMMIT = re.compile(r"[0-9a-f]{40}")


class _HubRow(NamedTuple):
    id: str
    text: str
    cells: dict[str, Any]


@core.task
class Hub(GroupTask, CutTask):
    """Any dataset on the Hugging Face hub; its commit is recorded at first use and kept."""

    name = "hub"
    source = "https://huggingface.co/datasets"
    size = "any"
    license = "the dataset's own"
    obtained = "fetched at the first use"
    command = (
        "openended task=hub task.path=Salesforce/wikitext task.config=wikitext-2-raw-v1 model=gpt2 scoring=gpt2-large"
    )

    path: str = core.option(core.REQUIRED, str.strip, "a hub id or a folder")
    """task.path=wikitext, or a folder."""
    config: str | None = None
    """task.config=wikitext-103-raw-v1."""
    split: str = "test"
    """A split of the dataset."""
    revision: str | None = None
    """Branch, tag or commit; null: the default branch, as first resolved."""
    text_field: str | None = "text"
    """null, if the next two are given."""
    prompt_field: str | None = None
    """The field with the prompt; null: the text is cut."""
    human_field: str | None = None
    """The field with the human continuation; null: the text is cut."""
    id_field: str | None = "auto"
    """`id` or `example_id` if present; a field name; null: the row number."""
    prompt_unit: PromptUnit = "tokens"
    """Of the model under test; `words` to compare models with different tokenizers."""
    prompt_length: int = 35
    """As for WebText."""
    max_length: int | None = 1024
    """Including the prompt, in the same unit."""
    order: Literal["hash", "file"] = "hash"
    """`hash`: in the order of the digests of the ids, so that the first N are a fair sample; `file`: as they come."""
    cache_dir: str | None = None
    """Folder of the ledger; the data are in HF_HOME."""
    offline: bool = False
    """true: download nothing."""

    def check(self) -> None:
        has_pair = self.prompt_field is not None and self.human_field is not None
        self.require(
            has_pair != (self.text_field is not None), "text_field", "null exactly if the two fields are given"
        )
        super().check()

    def needs_tokenizer(self) -> bool:
        return self.text_field is not None and super().needs_tokenizer()

    def fetch(self) -> None:
        if not self._is_folder:
            self._load(self._find_commit(ask=True))

    def fingerprint(self) -> str:
        """Return a digest of repository, commit, config and split; for a folder, of its files."""
        if self._is_folder:
            files = sorted(p for p in Path(self.path).rglob("*") if p.is_file())
            content: list[Any] = [[p.relative_to(self.path).as_posix(), core.digest_file(p)] for p in files]
        else:
            content = [self.path, self._find_commit(ask=False)]
        return core.digest([content, self.config, self.split])

    def examples(self, tokenizer: core.Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield rows as examples; rows without text are counted."""
        if self.text_field:
            documents = (Document(f"hub/{row.id}", row.text, {}) for row in self._iterate_rows(skipped))
            yield from self.cut_documents(documents, tokenizer, skipped)
            return
        for row in self._iterate_rows(skipped):
            field = str(self.prompt_field)
            prompt = find_value(row.cells, field)
            if isinstance(prompt, str):
                yield Example(f"hub/{row.id}", prompt, row.text)
            else:
                skipped[f"{field} is no text"] += 1

    def documents(self, skipped: Counter[str]) -> Iterator[tuple[str, str]]:
        """Yield id and text of the rows, without prompts; rows without text are counted."""
        return ((row.id, row.text) for row in self._iterate_rows(skipped))

    def _iterate_rows(self, skipped: Counter[str]) -> Iterator[_HubRow]:
        rows = self._load(None if self._is_folder else self._find_commit(ask=False))
        id_column = choose_id_field(dict.fromkeys(rows.column_names, True), self.id_field)
        for field in (self.text_field, self.prompt_field, self.human_field, id_column):
            if field and field not in rows.column_names and field.partition(".")[0] not in rows.column_names:
                suggestion = suggest(field, rows.column_names)
                advice = "; set task.text_field=NAME, or task.prompt_field and task.human_field"
                raise DataError(f"dataset {self.path}, split {self.split}: no field {field!r}{suggestion}{advice}")
        numbers: Any = range(len(rows))
        for number in sort_by_hash(numbers, str) if self.order == "hash" else numbers:
            row = rows[number]
            where = f"dataset {self.path}, split {self.split}, row {number}"
            identity = read_id(row, id_column, where) if id_column else f"{number:06d}"
            text = read_usable_text(row, self.text_field or str(self.human_field), where, skipped)
            if text is not None and self.is_in_group(row, where, skipped):
                yield _HubRow(identity, text, row)

    @property
    def _is_folder(self) -> bool:
        return Path(self.path).is_dir()

    def _find_commit(self, *, ask: bool) -> str:
        """Return the commit of the revision: as recorded, or with `ask` as the hub states it now."""
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
            reason = core.shorten_error(err)
            raise DataError(f"dataset {self.path}: the hub does not answer for it ({reason}); {url}") from err
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
            reason = core.shorten_error(err)
            where = f"dataset {self.path}, split {self.split}"
            raise DataError(f"{where}: cannot be loaded{state} ({reason})") from err
