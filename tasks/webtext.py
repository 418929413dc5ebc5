"""WebText documents as OpenAI published them; prompt: the document's first tokens or words.

MAUVE (Pillutla et al. 2021): the first 35 tokens of each line of the test split, in file order, 5,000 texts of at most
1,024 tokens, prompt included. Precision and recall (Le Bronnec et al. 2024): the first 10 words. A document that is no
longer than its prompt has no human side and is skipped and counted; the MAUVE authors fill its prompt with newlines
for generation.

Source: gpt-2-output-dataset, https://github.com/openai/gpt-2-output-dataset, MIT license. Radford et al. 2019.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from openended.harness.core import DataError, Example, Tokenizer, read_jsonl, register
from openended.tasks._files import FileTask
from openended.tasks._prompts import Cutter, PromptUnit, check_lengths
from openended.tasks._records import read_usable_text
from openended.tasks.download import Remote

ADDRESS = "https://openaipublic.blob.core.windows.net/gpt-2/output-dataset/v1"


@register("task")
@dataclass(frozen=True, kw_only=True)
class WebText(FileTask):
    """Documents of one split, in file order (which is random)."""

    name: ClassVar[str] = "webtext"
    source: ClassVar[str] = "https://github.com/openai/gpt-2-output-dataset"
    size: ClassVar[str] = "5,000 documents (test, valid), 250,000 (train)"
    license: ClassVar[str] = "MIT"
    obtained: ClassVar[str] = "fetched at the first use"
    command: ClassVar[str] = "openended task=webtext model=gpt2 num_examples=5000 scoring=gpt2-large"

    split: Literal["train", "valid", "test"] = "test"  # MAUVE, section 4
    prompt_unit: PromptUnit = "tokens"  # of the model under test; words where models of different tokenizers compare
    prompt_length: int = 35  # MAUVE, Table 2; 10 words in Le Bronnec et al. 2024
    max_length: int | None = 1024  # prompt included, in the same unit; MAUVE, Table 2

    def check(self) -> None:
        """Check that the length leaves room for a continuation."""
        check_lengths(self, self.prompt_length, self.max_length)

    def remotes(self) -> list[Remote]:
        """Return the split's file."""
        return [make_gpt2_remote(f"webtext.{self.split}")]

    def needs_tokenizer(self) -> bool:
        """Return true for prompts counted in tokens."""
        return self.prompt_unit == "tokens"

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield documents in file order; the number in an id is the line, from 0."""
        path = self.data_paths()[0]
        cutter = Cutter(self.prompt_unit, self.prompt_length, self.max_length, tokenizer)
        count = 0
        for number, row in read_jsonl(path):
            count += 1
            text = read_usable_text(row, "text", f"{path}:{number}", skipped)
            if text is None:
                continue
            parts = cutter.cut(text)
            if parts is None:
                skipped[f"no longer than {self.prompt_length} {self.prompt_unit}"] += 1
                continue
            yield Example(
                f"webtext/{number - 1:06d}", parts.prompt, parts.human, {"ended": bool(row.get("ended", True))}
            )
        if not count:
            raise DataError(f"{path}: holds no document")


def make_gpt2_remote(name: str) -> Remote:
    """Return a file of the GPT-2 output dataset: `webtext.test`, `xl-1542M-k40.valid`."""
    return Remote(f"{ADDRESS}/{name}.jsonl", f"webtext/{name}.jsonl")
