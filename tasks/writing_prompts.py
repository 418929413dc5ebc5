"""Stories that people wrote for situations that others made up (Fan et al. 2018, ACL), their tokenization undone.

The document is the situation, an empty line and the story. Source: https://github.com/facebookresearch/fairseq
(examples/stories), MIT license (code); the texts are their authors' on reddit.com/r/WritingPrompts.
"""

import io
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, Literal

from openended.harness.core import DataError, Example, Tokenizer, digest, shorten_error, sort_by_hash, task
from openended.harness.imported import is_valid_text
from openended.tasks._files import PublicFileTask
from openended.tasks._prompts import CutTask, Document, PromptUnit


@task
class WritingPrompts(CutTask, PublicFileTask):
    """Stories of r/WritingPrompts with the prompts of the MAUVE paper."""

    name = "writing_prompts"
    source = "https://github.com/facebookresearch/fairseq/tree/main/examples/stories"
    size = "15,000 stories (test, valid), 270,000 (train)"
    license = "MIT (code); stories: their authors on reddit"
    obtained = "fetched at the first use"
    address = "https://dl.fbaipublicfiles.com/fairseq/data/writingPrompts.tar.gz"
    command = "openended task=writing_prompts model=gpt2-medium num_examples=5000 scoring=gpt2-large"

    split: Literal["train", "valid", "test"] = "test"
    """MAUVE, section 4."""
    prompt_unit: PromptUnit = "tokens"
    """Of the model under test; `words` to compare models with different tokenizers."""
    prompt_length: int = 50
    """MAUVE, Table 2."""
    max_length: int | None = 512
    """Including the prompt; MAUVE, Table 2."""
    situation: bool = True
    """true: the document begins with the situation."""
    order: Literal["hash", "file"] = "hash"
    """`file` holds nothing in memory."""

    @property
    def _members(self) -> list[str]:
        return [f"{self.split}.wp_source", f"{self.split}.wp_target"]

    def fingerprint(self) -> str:
        """Return the digest of the archive, or of the split's two files in a folder."""
        if self.path is not None and Path(self.path).is_dir():
            return digest([self.digest_user_file(Path(self.path) / name) for name in self._members])
        return super().fingerprint()

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield stories; the number in an id is the line, from 0."""
        documents: Iterator[Document] = (
            Document(f"writing_prompts/{number:06d}", text, {}) for number, text in self.documents(skipped)
        )
        if self.order == "hash":
            documents = iter(sort_by_hash(documents, lambda document: document.id))
        return self.cut_documents(documents, tokenizer, skipped)

    def documents(self, skipped: Counter[str]) -> Iterator[tuple[int, str]]:
        """Yield (line from 0, document) in file order, a bounded number in memory."""
        path = self.data_path()
        with ExitStack() as stack, describe_errors(path):
            sources, targets = (stack.enter_context(_open(path, name)) for name in self._members)
            for number, (source, target) in enumerate(zip_longest(sources, targets)):
                if source is None or target is None:
                    where = f"{path}: {self.split}, line {number + 1}"
                    raise DataError(f"{where}: only one of wp_source and wp_target has this line")
                story = detokenize(target)
                if not is_valid_text(source + target) or not story:
                    skipped["story is empty" if is_valid_text(source + target) else "not UTF-8"] += 1
                    continue
                situation = detokenize(strip_tag(source)) if self.situation else ""
                yield number, f"{situation}\n\n{story}" if situation else story


@contextmanager
def describe_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading into one line."""
    try:
        yield
    except FileNotFoundError as err:
        raise DataError(f"missing file: {err.filename}; get it from {WritingPrompts.address}") from err
    except (EOFError, OSError, tarfile.TarError, zlib.error) as err:
        raise DataError(f"{path}: cannot be read to its end ({shorten_error(err)})") from err


@contextmanager
def _open(path: Path, name: str) -> Iterator[IO[str]]:
    """Open a file of the folder, or a member of the archive as a stream; bytes that are no text become surrogates."""
    with ExitStack() as stack:
        if path.is_dir():
            stream: Any = stack.enter_context((path / name).open("rb"))
        else:
            archive = stack.enter_context(tarfile.open(path, "r:*"))
            member = next((m for m in archive if m.isfile() and Path(m.name).name == name), None)
            if member is None:
                raise DataError(f"{path}: holds no {name}")
            stream = archive.extractfile(member)
        yield io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="\n")


_TAG = re.compile(r"^\s*\[\s*[A-Za-z]{2,4}\s*\]\s*")
_RULES = (
    (re.compile(r"\s*``\s*"), ' "'),  # opens: nothing between it and the word that follows
    (re.compile(r"\s*''"), '"'),  # closes
    (re.compile(r"(?i)(?<=[a-z]) (n't)\b"), r"\1"),
    (re.compile(r"(?i)(?<=\w) ('(?:s|re|ve|ll|d|m))\b"), r"\1"),
    (re.compile(r"(?i)\b(gon|wan) (na)\b"), r"\1\2"),
    (re.compile(r"(?i)\b(got|gim) (ta|me)\b"), r"\1\2"),
    (re.compile(r" +([,;:!?%)\]}]|\.+(?!\w))"), r"\1"),
    (re.compile(r"([(\[{$#]) +"), r"\1"),
    (re.compile(r" {2,}"), " "),
)
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


def detokenize(text: str) -> str:
    r"""Return a text of WritingPrompts as its author may have typed it; `<newline>` is a line break.

    >>> detokenize("`` I do n't know , '' she said . <newline> <newline> It 's late .")
    '"I don\'t know," she said.\n\nIt\'s late.'
    """
    lines = []
    for line in text.split("<newline>"):
        # Plain double quotes that stand alone: the first opens, the next closes.
        parts = re.split(r'(?<!\S)"(?!\S)', line) if ' " ' in f" {line} " else [line]
        line = parts[0]
        for i, part in enumerate(parts[1:]):
            line = f'{line.rstrip()} "{part.lstrip()}' if i % 2 == 0 else f'{line.rstrip()}"{part}'
        lines.append(_substitute(_RULES, line).strip())
    return "\n".join(lines).strip()


def strip_tag(text: str) -> str:
    """Remove the bracketed tag before a situation.

    >>> strip_tag("[ WP ] You wake up .")
    'You wake up .'
    """
    return _TAG.sub("", text)


def detokenize_lm1b(text: str) -> str:
    r"""Return a sentence of LM1B with the spaces of ordinary text around punctuation, quotes and clitics.

    >>> detokenize_lm1b('He said , " It \\'s $ 5 . "')
    'He said, "It\\'s $5."'
    """
    return _substitute(_LM1B_RULES, text)


def _substitute(rules: tuple[tuple[re.Pattern[str], str], ...], text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text
