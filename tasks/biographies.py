"""Biographies of people after examples of biographies in the prompt (Le Bronnec et al. 2024, Table B.6).

The paper's set is made with Wikidata and Wikipedia and not distributed, so `path` is your own: JSON lines with `title`
and `content`. Source: https://github.com/AlexVerine/pr-4-llm. License: text of Wikipedia, CC BY-SA.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from openended.harness import core
from openended.harness.core import DataError, Example, SourceFile, sort_by_hash
from openended.harness.imported import read_records
from openended.tasks._files import UserFileTask, is_null_or_text, read_usable_text


class _Biography(NamedTuple):
    number: int
    title: str
    content: str


@core.task
class Biographies(UserFileTask):
    """Biographies after n examples in the prompt (Le Bronnec et al. 2024)."""

    name = "biographies"
    version = 2
    source = "https://github.com/AlexVerine/pr-4-llm (how to make it from Wikidata and Wikipedia)"
    size = "6,637 biographies of 80 to 350 words"
    license = "CC BY-SA (text of Wikipedia)"
    obtained = "by hand: not distributed, the source says how to make it"
    command = "openended task=biographies task.path=FILE.jsonl task.num_in_context=5 model=mistral scoring=gpt2-large"

    path: str | None = core.option(None, is_null_or_text, "a JSON-lines file with title and content")
    """Your file: JSON lines with title and content."""
    num_in_context: int = core.ranged(5, "[0, inf)", "0 or more")
    """The paper varies n."""
    header: str = "Write biographies of various people."
    """Table B.6, as the next two."""
    chat_header: str = "Here are a few examples:"
    """A second line for models with a chat template."""
    instruction: str = core.option("- Biography of", str.strip, "some text")
    """Begins each line that asks for a biography."""
    min_words: int = 80
    """Le Bronnec et al., appendix B.5."""
    max_words: int = 350
    """The same."""
    max_title_words: int = core.ranged(10, "[1, inf)", "1 or more")
    """Of an example in the prompt."""
    title_field: str = "title"
    """The field with the name of the person."""
    content_field: str = "content"
    """The field with the biography."""
    seed: int = 0
    """Draws the examples of each prompt."""

    def check(self) -> None:
        self.require(1 <= self.min_words <= self.max_words, "min_words", f"from 1 to max_words ({self.max_words})")

    def files(self) -> list[SourceFile]:
        return (
            super().files() if self.path else [SourceFile("biographies.jsonl", self.source, Path("biographies.jsonl"))]
        )

    def fingerprint(self) -> str:
        if self.path is None:
            raise DataError(f"task biographies: the set is not distributed ({self.source}); set task.path to yours")
        return super().fingerprint()

    def examples(self, tokenizer: core.Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield biographies by a hash of their line; those of another length are counted."""
        biographies = list(self._read(skipped))
        if len(biographies) <= self.num_in_context:
            needed = self.num_in_context + 1
            raise DataError(
                f"{self.path}: holds {len(biographies)} biographies of the asked length, expected {needed} or more"
            )
        # The order does not depend on which lines were skipped.
        for at in sort_by_hash(range(len(biographies)), lambda i: str(biographies[i].number)):
            biography = biographies[at]
            generator = core.make_random_stream(self.seed, "biographies", biography.number)
            chosen = generator.choice(len(biographies) - 1, size=self.num_in_context, replace=False)
            lines = []
            for i in chosen:
                other = biographies[int(i) + (int(i) >= at)]  # all but the one that is asked for
                title = " ".join(other.title.split()[: self.max_title_words])
                lines.append(f"{self.instruction} {title}: {other.content}")
            headers = [self.header.strip(), self.chat_header.strip() if lines else ""]
            user = "\n".join(filter(None, [*headers, *lines]))
            prompt = "\n".join(filter(None, [headers[0], *lines, self.instruction]))
            human = f" {biography.title}: {biography.content}"
            meta = {"user": user, "assistant": self.instruction}
            yield Example(f"biographies/{biography.number:06d}", prompt, human, meta)

    def _read(self, skipped: Counter[str]) -> Iterator[_Biography]:
        for record in read_records(Path(str(self.path))):
            title = read_usable_text(record.cells, self.title_field, record.where, skipped)
            content = read_usable_text(record.cells, self.content_field, record.where, skipped)
            if title is None or content is None:
                continue
            if not self.min_words <= len(content.split()) <= self.max_words:
                skipped[f"not of {self.min_words} to {self.max_words} words"] += 1
                continue
            yield _Biography(record.line, title.strip(), content.strip())
