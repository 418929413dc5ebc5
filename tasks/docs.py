"""Passages of the docstrings of Python and the installed packages: human prose that needs no download.

License: the text stays where it is installed (PSF, BSD, Apache-2.0 and Matplotlib licenses); nothing is copied.
"""

import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

from openended.harness import core
from openended.tasks import _passages
from openended.tasks._prompts import CutTask, Document, PromptUnit

log = logging.getLogger(__name__)

# Version of the extraction, as part of the task's fingerprint. The values are the digests of the two modules when the
# version was set; they stay as they are while the same files give the same passages (tests/tasks/test_docs.py), and
# change when the passages change.
EXTRACTION = {
    "openended.tasks._docstrings": "b9b187ee7a92d2a17ff0edf626bb5ada89cdc0d05292d845d9d90c8ccd05f93d",
    "openended.tasks._prose": "847b724dfca9fafa2c9fa055d5f8e552a1c4ecf2a7e5848fd1243d20da266bef",
}


@core.task
class Docs(CutTask):
    """Docstring prose of the installed packages: human text that needs no download."""

    name = "docs"
    source = "the installed packages"
    size = "about 1,100 passages of 60 words or more (test split)"
    license = "PSF, BSD, Apache-2.0 (text is read where it is installed)"
    obtained = "none"
    command = "openended task=docs"
    max_length = None

    split: Literal["train", "valid", "test"] = "test"
    """The bundled models were trained on `train`."""
    min_words: int = 60
    """Of a passage, including the prompt."""
    prompt_unit: PromptUnit = "tokens"
    """Of the model under test; `words` to compare models with different tokenizers."""
    prompt_length: int = 20
    """The prompt is the beginning of the passage."""

    def check(self) -> None:
        super().check()
        self.require(self.min_words > self.prompt_length, "min_words", f"more than prompt_length {self.prompt_length}")

    def has_docs_prose(self) -> bool:
        return True

    def fingerprint(self) -> str:
        """Return a digest of installed files and the extraction's version; parsing the corpus takes long."""
        try:
            installed = {package: _describe_installed(package) for package in _passages.DEFAULT_PACKAGES}
        except importlib.metadata.PackageNotFoundError as err:
            raise core.DataError(
                f"task docs: package {err.name} is not installed; the corpus is made of its texts: "
                "pip install 'openended[local]'"
            ) from err
        return core.digest({"installed": installed, "code": EXTRACTION})

    def examples(self, tokenizer: core.Tokenizer | None, skipped: Counter[str]) -> Iterator[core.Example]:
        """Yield passages of the split; the shorter ones are counted in `skipped`."""
        documents = (
            Document(passage.id, passage.text, {"package": passage.package, "words": len(passage.text.split())})
            for passage in self._iterate_passages(skipped)
        )
        return self.cut_documents(documents, tokenizer, skipped)

    def documents(self, skipped: Counter[str]) -> Iterator[tuple[int, str]]:
        """Yield number and whole text of the same passages, for training."""
        return ((number, passage.text) for number, passage in enumerate(self._iterate_passages(skipped)))

    def _iterate_passages(self, skipped: Counter[str]) -> Iterator[_passages.Passage]:
        passages = (p for p in load_corpus(self.fingerprint()) if p.split == self.split)
        for passage in core.sort_by_hash(passages, lambda p: p.id):
            if len(passage.text.split()) < self.min_words:
                skipped[f"shorter than {self.min_words} words"] += 1
            else:
                yield passage


def load_corpus(fingerprint: str) -> list[_passages.Passage]:
    """Return all passages: kept in the cache folder, since parsing the packages takes long."""
    path = core.find_cache_root() / "docs" / f"{fingerprint[:16]}.json"
    passages = _read_corpus(path)
    if passages is None:
        with _lock(path):  # a second process waits and then finds the file
            passages = _read_corpus(path) or _parse_packages(path)
    return passages


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file; none in a folder that cannot be written."""
    from filelock import FileLock

    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(f"{path}.lock"))
        except OSError as err:
            log.debug("the passages are not locked: %s", err)
        yield


def _parse_packages(path: Path) -> list[_passages.Passage]:
    """Return the passages of the installed packages, and keep them in a file."""
    from openended.tasks import _docstrings

    try:
        passages = _docstrings.load_passages(workers=min(2, os.cpu_count() or 1))
    except ModuleNotFoundError as err:
        raise core.DataError(f"task docs: {err}") from err
    data = json.dumps(passages)
    try:
        core.write_text(path, f"{core.digest_bytes(data.encode())}\n{data}")
    except core.StoreError as err:
        log.debug("the passages are not cached: %s", err)
    return passages


def _read_corpus(path: Path) -> list[_passages.Passage] | None:
    """Return the passages in a file; None if there is none, or its digest is not that in its first line."""
    try:
        stated, data = path.read_bytes().split(b"\n", maxsplit=1)
    except (OSError, ValueError):
        return None
    return [*map(_passages.Passage._make, json.loads(data))] if core.digest_bytes(data).encode() == stated else None


@cache
def _describe_installed(package: str) -> str:
    """Name the installed files of a package: version, and digest of the Python files' hashes in its RECORD."""
    if package == _passages.STDLIB:
        return f"{platform.python_implementation()} {platform.python_version()}"
    distribution = importlib.metadata.distribution(_passages.DISTRIBUTIONS.get(package, package))
    record = distribution.read_text("RECORD") or ""
    lines = sorted(re.findall(r"^[^,\n]+\.py,.*$", record, flags=re.MULTILINE))
    return f"{distribution.version} {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"
