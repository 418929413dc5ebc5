"""WebText documents as OpenAI published them; prompt: the document's first tokens or words.

A document that is no longer than its prompt has no human side and is skipped; MAUVE's authors fill it with newlines.
Source: gpt-2-output-dataset, https://github.com/openai/gpt-2-output-dataset, MIT license. Radford et al. 2019.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Literal

from openended.harness.core import DataError, Example, Tokenizer, ranged, task
from openended.harness.imported import GPT2_OUTPUT, read_records
from openended.tasks._files import PublicFileTask, read_usable_text
from openended.tasks._prompts import CutTask, Document, PromptUnit


@task
class WebText(CutTask, PublicFileTask):
    """WebText as OpenAI published it, with the prompts of the MAUVE paper."""

    name = "webtext"
    source = "https://github.com/openai/gpt-2-output-dataset"
    size = "5,000 documents (test, valid), 250,000 (train)"
    license = "MIT"
    obtained = "fetched at the first use"
    address = f"{GPT2_OUTPUT}/webtext.{{split}}.jsonl"
    command = "openended task=webtext model=gpt2 num_examples=5000 scoring=gpt2-large"

    split: Literal["train", "valid", "test"] = "test"
    """MAUVE, section 4."""
    prompt_unit: PromptUnit = "tokens"
    """Of the model under test; `words` to compare models with different tokenizers."""
    prompt_length: int = 35
    """MAUVE, Table 2; 10 words in Le Bronnec et al. 2024."""
    instruction: str | None = None
    """For models with a chat template: before the prompt without its last word, which opens the reply."""
    start: int = ranged(0, "[0, inf)", "0 or more")
    """Documents to pass over: another set of human texts."""
    max_length: int | None = 1024
    """Including the prompt, in the same unit; MAUVE, Table 2."""

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield documents in file order; the number in an id is the line, from 0."""
        path = self.data_path()

        def read_documents() -> Iterator[Document]:
            record = None
            for record in read_records(path):
                text = read_usable_text(record.cells, "text", record.where, skipped)
                if text is not None:
                    yield Document(f"webtext/{record.line:06d}", text, {"ended": bool(record.cells.get("ended", True))})
            if record is None:
                raise DataError(f"{path}: holds no document")

        for example in islice(self.cut_documents(read_documents(), tokenizer, skipped), self.start, None):
            *first, last = example.prompt.rsplit(maxsplit=1)
            turns = {"user": f"{self.instruction}\n{''.join(first)}", "assistant": last}
            yield replace(example, meta={**example.meta, **turns}) if self.instruction else example
