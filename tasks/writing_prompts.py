"""Stories that people wrote for situations that others made up (Fan et al. 2018, ACL).

Line i of `<split>.wp_source` is the situation of the story in line i of `<split>.wp_target`. The text is tokenized in
the files; here its markup is undone (`tasks._detokenize`). The document is the situation, an empty line and the story;
prompt: its first 50 tokens (MAUVE, Table 2), so the situation and the start of the story; at most 512 tokens in all;
5,000 random documents of the test split (here: by a hash of their number, so that any N are a fair sample).

Source: https://github.com/facebookresearch/fairseq (examples/stories), MIT license (code); the texts are their authors'
on reddit.com/r/WritingPrompts.
"""

from __future__ import annotations

import tarfile
import zlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO, ClassVar, Literal

from openended.harness.core import MAX_LINE, DataError, Example, Tokenizer, digest, register
from openended.tasks._detokenize import detokenize, strip_tag
from openended.tasks._files import FileTask, digest_user_file
from openended.tasks._order import sort_by_hash
from openended.tasks._prompts import Cutter, PromptUnit, check_lengths
from openended.tasks.download import Remote

ADDRESS = "https://dl.fbaipublicfiles.com/fairseq/data/writingPrompts.tar.gz"
_PARTS = ("wp_source", "wp_target")


@register("task")
@dataclass(frozen=True, kw_only=True)
class WritingPrompts(FileTask):
    """Stories of one split; `path` may be the archive or the folder it unpacks to."""

    name: ClassVar[str] = "writing_prompts"
    source: ClassVar[str] = "https://github.com/facebookresearch/fairseq/tree/main/examples/stories"
    size: ClassVar[str] = "15,000 stories (test, valid), 270,000 (train)"
    license: ClassVar[str] = "MIT (code); stories: their authors on reddit"
    obtained: ClassVar[str] = "fetched at the first use"
    command: ClassVar[str] = "openended task=writing_prompts model=gpt2-medium num_examples=5000 scoring=gpt2-large"

    split: Literal["train", "valid", "test"] = "test"  # MAUVE, section 4
    prompt_unit: PromptUnit = "tokens"
    prompt_length: int = 50  # MAUVE, Table 2
    max_length: int | None = 512  # prompt included, in the same unit; MAUVE, Table 2
    situation: bool = True  # false: the document is only the story
    order: Literal["hash", "file"] = "hash"  # `file` holds nothing in memory

    def check(self) -> None:
        """Check that the length leaves room for a continuation."""
        check_lengths(self, self.prompt_length, self.max_length)

    def remotes(self) -> list[Remote]:
        """Return the archive."""
        return [Remote(ADDRESS, "writing_prompts/writingPrompts.tar.gz")]

    def needs_tokenizer(self) -> bool:
        """Return true for prompts counted in tokens."""
        return self.prompt_unit == "tokens"

    def fingerprint(self) -> str:
        """Return the digest of the archive, or of the split's two files in a folder."""
        if self.path is not None and Path(self.path).is_dir():
            parts = [Path(self.path) / f"{self.split}.{part}" for part in _PARTS]
            return digest([digest_user_file(part, "task writing_prompts", "task.path") for part in parts])
        return super().fingerprint()

    def documents(self, skipped: Counter[str]) -> Iterator[tuple[int, str]]:
        """Yield (line from 0, document) in file order, a bounded number in memory."""
        path = self.data_paths()[0]
        with ExitStack() as stack:
            names = [f"{self.split}.{part}" for part in _PARTS]
            sources, targets = (
                _read_lines(stack.enter_context(_open(path, name)), f"{path}: {name}") for name in names
            )
            try:
                for number, pair in enumerate(zip_longest(sources, targets)):
                    text = self._document(pair, f"{path}: {self.split}, line {number + 1}", skipped)
                    if text is not None:
                        yield number, text
            except (EOFError, OSError, tarfile.TarError, zlib.error) as err:
                raise DataError(f"{path}: cannot be read to its end ({err})") from err

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield stories; the number in an id is the line, from 0."""
        pairs: Iterator[tuple[str, str]] = (
            (f"writing_prompts/{number:06d}", text) for number, text in self.documents(skipped)
        )
        if self.order == "hash":
            pairs = iter(sort_by_hash(pairs, lambda pair: pair[0]))
        cutter = Cutter(self.prompt_unit, self.prompt_length, self.max_length, tokenizer)
        for identity, text in pairs:
            parts = cutter.cut(text)
            if parts is None:
                skipped[f"no longer than {self.prompt_length} {self.prompt_unit}"] += 1
                continue
            yield Example(identity, parts.prompt, parts.human)

    def _document(self, pair: tuple[bytes | None, bytes | None], where: str, skipped: Counter[str]) -> str | None:
        source, target = pair
        if source is None or target is None:
            raise DataError(f"{where}: only one of wp_source and wp_target has this line")
        try:
            situation, story = source.decode(), target.decode()
        except UnicodeDecodeError:
            skipped["not UTF-8"] += 1
            return None
        story = detokenize(story)
        if not story:
            skipped["story is empty"] += 1
            return None
        situation = detokenize(strip_tag(situation)) if self.situation else ""
        return f"{situation}\n\n{story}" if situation else story


def _read_lines(handle: IO[bytes], where: str) -> Iterator[bytes]:
    """Yield lines, a byte order mark dropped."""
    number = 0
    while line := handle.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise DataError(f"{where}:{number}: a line of more than {MAX_LINE >> 20} MiB")
        yield line.removeprefix(BOM_UTF8) if number == 1 else line


@contextmanager
def _open(path: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a file of the folder, or a member of the archive as a stream."""
    if path.is_dir():
        if not (path / name).is_file():
            raise DataError(f"missing file: {path / name}; get {ADDRESS} and unpack it there")
        with (path / name).open("rb") as handle:
            yield handle
        return
    try:
        archive = tarfile.open(path, "r:*")  # noqa: SIM115 - closed below
    except FileNotFoundError as err:
        raise DataError(f"missing file: {path}; get it from {ADDRESS}") from err
    except (OSError, EOFError, tarfile.TarError) as err:
        raise DataError(f"{path}: not a readable archive ({err})") from err
    with archive:
        try:
            member = next((m for m in archive if m.isfile() and Path(m.name).name == name), None)
        except (OSError, EOFError, tarfile.TarError, zlib.error) as err:
            raise DataError(f"{path}: cannot be read to its end ({err})") from err
        stream = archive.extractfile(member) if member is not None else None
        if stream is None:
            raise DataError(f"{path}: holds no {name}")
        with stream:
            yield stream
