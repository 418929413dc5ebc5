"""Unconditional generation: human texts without prompts, as in the papers on diffusion language models.

MDLM drops the remainder of each group of 1,000 documents; here only the end of the whole stream is dropped. text8 is
cut by characters, as in D3PM and MDLM, and has no end tokens.
Sources: Sahoo et al. 2024 (arXiv 2406.07524); the loaders of kuleshov-group/mdlm and kuleshov-group/remdm.
"""

import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from openended.harness.core import DataError, Example, SourceFile, SpecError, Task, Tokenizer, ranged, task
from openended.tasks._files import PublicFileTask
from openended.tasks.docs import Docs
from openended.tasks.hub import Hub
from openended.tasks.texts import Texts
from openended.tasks.writing_prompts import detokenize_lm1b

TextSource = Literal["docs", "openwebtext", "lm1b", "text8", "hub", "file"]
Layout = Literal["wrapped", "documents"]
Boundaries = Literal["bos_eos", "eos", "none"]
MIN_DOCS_WORDS = 20  # words of a docstring passage; shorter ones are more often captions than prose
# First and last character of each split of text8, as in D3PM and MDLM.
TEXT8 = {"train": (0, 90_000_000), "valid": (90_000_000, 95_000_000), "test": (95_000_000, 100_000_000)}
# The hub's names of the splits. The last 100,000 documents of OpenWebText are the validation split of MDLM, SEDD,
# ReMDM, BD3-LM and Duo; LM1B is evaluated on its test split.
_HUB_IDS = {"openwebtext": "Skylion007/openwebtext", "lm1b": "billion-word-benchmark/lm1b"}
_HUB_SPLITS = {
    "openwebtext": {"train": "train[:-100000]", "valid": "train[-100000:]"},
    "lm1b": {"train": "train", "test": "test"},
}
_SPLITS = {"docs": ("train", "valid", "test"), "text8": tuple(TEXT8), **{k: tuple(v) for k, v in _HUB_SPLITS.items()}}
_DEFAULT_SPLITS = {"docs": "test", "openwebtext": "valid", "lm1b": "test", "text8": "test", "hub": "test", "file": ""}


@dataclass(frozen=True, kw_only=True)
class Text8(PublicFileTask):
    """The 100 million characters of text8, of 27 kinds."""

    name = "text8"
    address = "http://mattmahoney.net/dc/text8.zip"
    split: str = "test"

    def read_split(self) -> str:
        path = self.data_path()
        first, last = TEXT8[self.split]
        try:
            with zipfile.ZipFile(path) as archive, archive.open("text8") as handle:
                handle.seek(first)
                return handle.read(last - first).decode("ascii")
        except (OSError, KeyError, zipfile.BadZipFile, UnicodeDecodeError) as err:
            raise DataError(f"{path}: not the archive text8.zip ({err})") from err


@task
class Unconditional(Task):
    """Human texts without prompts, as in the papers on diffusion language models (docs/unconditional.md)."""

    name = "unconditional"
    source = "https://github.com/kuleshov-group/mdlm"
    size = "about 1,500 pieces of 256 tokens (docs); 100,000 documents (OpenWebText, valid)"
    license = "the corpus's own"
    obtained = "none (docs); fetched at the first use (openwebtext, lm1b, text8, hub)"
    command = "openended task=unconditional"
    paired = False
    prompted = False

    text: TextSource = "docs"
    """openwebtext, lm1b, text8; hub (task.path=ID) or file (task.path=FILE.jsonl)."""
    path: str | None = None
    """text=hub: its id or a folder; text=file: the file."""
    config: str | None = None
    """text=hub."""
    split: str | None = None
    """null: the one that the papers evaluate on."""
    field: str | None = None
    """Field with the text; null: `text`; of a file: detected."""
    layout: Layout = "wrapped"
    """or documents: one text per document."""
    length: int = ranged(256, "[3, inf)", "at least 3")
    """Tokens of a piece; 1024 in the papers on OpenWebText, 128 on LM1B."""
    boundaries: Boundaries = "eos"
    """wrapped: end tokens between documents; bos_eos: also around each piece; none: blank lines."""
    start: int = ranged(0, "[0, inf)", "0 or more")
    """Texts to pass over: another set of human texts."""
    cache_dir: str | None = None
    """null: OPENENDED_CACHE, HF_HOME, XDG_CACHE_HOME or ~/.cache, the first that is set."""
    offline: bool = False
    """true: download nothing; missing files are an error."""

    def check(self) -> None:
        self.corpus()

    def corpus(self) -> Docs | Hub | Texts | Text8:
        """Return the task that reads the documents; nothing is read yet."""
        split = self.split or _DEFAULT_SPLITS[self.text]
        names = _SPLITS.get(self.text)
        if names and split not in names:
            raise SpecError(f"task.split: expected one of {', '.join(names)} of {self.text}, got {split!r}")
        if self.text == "docs":
            return Docs(split=split, min_words=MIN_DOCS_WORDS, prompt_length=1, prompt_unit="words")  # type: ignore[arg-type]
        if self.text == "text8":
            return Text8(split=split, path=self.path, cache_dir=self.cache_dir, offline=self.offline)
        path = self.path or _HUB_IDS.get(self.text)
        if not path:
            what = "hub id, or a folder" if self.text == "hub" else "file of texts"
            raise SpecError(f"task.path: expected a {what} with task.text={self.text}, got null; type task.path=…")
        if self.text == "file":
            return Texts(path=path, text_field=self.field)
        field = self.field if self.text == "hub" and self.field else "text"
        split = split if self.text == "hub" else _HUB_SPLITS[self.text][split]
        return Hub(
            path=path, config=self.config, split=split, text_field=field, cache_dir=self.cache_dir, offline=self.offline
        )

    def has_docs_prose(self) -> bool:
        return self.text == "docs"

    def files(self) -> list[SourceFile]:
        return self.corpus().files()

    def fetch(self) -> None:
        self.corpus().fetch()

    def fingerprint(self) -> str:
        return self.corpus().fingerprint()

    def needs_tokenizer(self) -> bool:
        return self.layout == "wrapped" and self.text != "text8"

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        corpus = self.corpus()
        texts: Iterator[str]
        if isinstance(corpus, Text8):
            characters = corpus.read_split()
            starts = range(0, len(characters) - self.length + 1, self.length)
            texts = (characters[i : i + self.length] for i in starts)
        elif isinstance(corpus, Texts):
            texts = (example.human for example in corpus.examples(None, skipped))
        else:
            texts = (text for _, text in corpus.documents(skipped))
        if self.text == "lm1b":
            texts = map(detokenize_lm1b, texts)
        if self.needs_tokenizer():
            if tokenizer is None:
                raise TypeError("pieces counted in tokens need a tokenizer")
            texts = wrap(texts, tokenizer, self.length, self.boundaries)
        for number, text in enumerate(islice(texts, self.start, None)):
            yield Example(f"{self.name}/{number:06d}", "", text)


def wrap(texts: Iterator[str], tokenizer: Tokenizer, length: int, boundaries: Boundaries) -> Iterator[str]:
    """Concatenate texts and yield pieces of `length` tokens, as text; the incomplete last piece is dropped."""
    start, end = list[int](), list[int]()
    if boundaries == "none":
        between = tokenizer.encode("\n\n")
    else:
        ends: Any = getattr(tokenizer, "eos_ids", ())
        if not ends:
            raise DataError(
                f"task.boundaries={boundaries}: the tokenizer has no end token; set task.boundaries=none, or "
                "name the token in the model's config.json (eos_token_id)"
            )
        between = [int(ends[0])]
    if boundaries == "bos_eos":
        start, end = list(getattr(tokenizer, "bos_prefix", ())) or between, between
    room = length - len(start) - len(end)
    stream: list[int] = []
    for text in texts:
        stream += tokenizer.encode(text)
        stream += between
        while len(stream) >= room:
            piece = tokenizer.decode([*start, *stream[:room], *end])
            del stream[:room]
            if piece.strip():
                yield piece
