"""Human documents for unconditional generation: the corpora of the papers, hub datasets, and files."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from openended.harness.core import DataError, SourceFile, SpecError
from openended.tasks._files import FileTask
from openended.tasks.docs import Docs
from openended.tasks.download import Remote
from openended.tasks.hub import Hub
from openended.tasks.texts import Texts

TextSource = Literal["docs", "openwebtext", "lm1b", "text8", "hub", "file"]
MIN_DOCS_WORDS = 20  # words of a docstring passage; shorter ones are more often captions than prose
# Name → hub id, and the hub's name of each split. The last 100,000 documents of OpenWebText are the validation split
# of MDLM, SEDD, ReMDM, BD3-LM and Duo; LM1B is evaluated on its test split.
_HUB = {
    "openwebtext": ("Skylion007/openwebtext", {"train": "train[:-100000]", "valid": "train[-100000:]"}),
    "lm1b": ("billion-word-benchmark/lm1b", {"train": "train", "test": "test"}),
}
DEFAULT_SPLITS = {"docs": "test", "openwebtext": "valid", "lm1b": "test", "text8": "test", "hub": "test", "file": ""}
# First and last character of each split of text8, as in D3PM and MDLM.
_TEXT8 = {"train": (0, 90_000_000), "valid": (90_000_000, 95_000_000), "test": (95_000_000, 100_000_000)}


@dataclass(frozen=True, kw_only=True)
class Text8(FileTask):
    """The 100 million characters of text8, of 27 kinds."""

    name: ClassVar[str] = "text8"
    split: str = "test"

    def remotes(self) -> list[Remote]:
        """Return the archive."""
        return [Remote("http://mattmahoney.net/dc/text8.zip", "text8/text8.zip")]

    def read_split(self) -> str:
        """Return the characters of the split."""
        path = self.data_paths()[0]
        first, last = _TEXT8[self.split]
        try:
            with zipfile.ZipFile(path) as archive, archive.open("text8") as handle:
                handle.seek(first)
                return handle.read(last - first).decode("ascii")
        except (OSError, KeyError, zipfile.BadZipFile, UnicodeDecodeError) as err:
            raise DataError(f"{path}: not the archive text8.zip ({err})") from err


@dataclass(frozen=True, kw_only=True)
class Documents:
    """The documents of a source, in an order in which the first N are a fair sample."""

    source: TextSource
    task: Docs | Hub | Texts | Text8
    detokenize: bool = False

    def files(self) -> list[SourceFile]:
        """Return the files of the source."""
        return self.task.files()

    def read(self, skipped: Counter[str]) -> Iterator[str]:
        """Yield the documents' texts."""
        if isinstance(self.task, Docs):
            yield from (text for _, text in self.task.documents(skipped))
        elif isinstance(self.task, Hub):
            texts = (text for _, text in self.task.documents(skipped))
            yield from map(detokenize_lm1b, texts) if self.detokenize else texts
        elif isinstance(self.task, Texts):
            yield from (example.human for example in self.task.examples(None, skipped))
        else:
            yield self.task.read_split()


def open_documents(
    source: TextSource,
    *,
    path: str | None,
    config: str | None,
    split: str | None,
    field: str | None,
    cache_dir: str | None,
    offline: bool,
) -> Documents:
    """Return the documents of a source; nothing is read yet."""
    split = split or DEFAULT_SPLITS[source]
    splits = {"docs": ("train", "valid", "test"), "text8": tuple(_TEXT8), **{n: tuple(s) for n, (_, s) in _HUB.items()}}
    if source in splits and split not in splits[source]:
        raise SpecError(f"task.split: expected one of {', '.join(splits[source])} of {source}, got {split!r}")
    if source == "docs":
        docs = Docs(split=split, min_words=MIN_DOCS_WORDS, prompt_length=1, prompt_unit="words")  # type: ignore[arg-type]
        return Documents(source=source, task=docs)
    if source == "text8":
        return Documents(source=source, task=Text8(split=split, path=path, cache_dir=cache_dir, offline=offline))
    if source in _HUB:
        hub_id, names = _HUB[source]
        hub = Hub(path=path or hub_id, config=config, split=names[split], cache_dir=cache_dir, offline=offline)
        return Documents(source=source, task=hub, detokenize=source == "lm1b")
    if not path:
        what = "hub id, or a folder" if source == "hub" else "file of texts"
        raise SpecError(f"task.path: expected a {what} with task.text={source}, got null; type task.path=…")
    if source == "hub":
        hub = Hub(
            path=path, config=config, split=split, text_field=field or "text", cache_dir=cache_dir, offline=offline
        )
        return Documents(source=source, task=hub)
    return Documents(source=source, task=Texts(path=str(Path(path)), field=field))


_LM1B_RULES = (
    (re.compile(r" (?=[,;:?!](?:\s|$))"), ""),  # no space before punctuation
    (re.compile(r" (?=\.(?:\s|$))"), ""),
    (re.compile(r" (?='\w)"), ""),  # clitics
    (re.compile(r'" ([^"]+) "'), r'"\1"'),
    (re.compile(r"\( ([^()]+) \)"), r"(\1)"),
    (re.compile(r"\[ ([^\[\]]+) \]"), r"[\1]"),
    (re.compile(r" / "), "/"),
    (re.compile(r"(?<=[$£]) "), ""),
)


def detokenize_lm1b(text: str) -> str:
    r"""Return a sentence of LM1B with the spaces of ordinary text around punctuation, quotes and clitics.

    >>> detokenize_lm1b('He said , " It \\'s $ 5 . "')
    'He said, "It\\'s $5."'
    """
    for pattern, replacement in _LM1B_RULES:
        text = pattern.sub(replacement, text)
    return text
