"""Pairs of a context and a response, of any origin: a file with both, or two text files with one line for each pair."""

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from openended.harness.core import REQUIRED, DataError, Example, SourceFile, Tokenizer, digest, open_text, option, task
from openended.harness.imported import digest_files, read_records
from openended.tasks._files import UserFileTask, is_null_or_text, read_usable_text, sort_by_hash


@task
class Pairs(UserFileTask):
    """Contexts and human responses, by a hash of their line."""

    name = "pairs"
    source = "your own file"
    size = "any"
    license = "the file's own"
    obtained = "yours; see conf/task/gigaword.yaml, roc_stories.yaml and reddit.yaml for three public sets"
    command = "openended task=pairs task.path=FILE.csv task.prompt_fields=[question] task.human_field=answer model=gpt2"

    path: str = option(REQUIRED, bool, "the path of a file of pairs, or of its contexts")
    human_path: str | None = option(None, is_null_or_text, "a file of responses or null")  # a line for each of `path`
    prompt_fields: tuple[str, ...] = ("prompt",)  # joined by a space
    human_field: str = option("human", bool, "a field name")
    template: str = option("{prompt}", lambda text: "{prompt}" in text, "a text with {prompt} in it")

    def files(self) -> list[SourceFile]:
        paths = map(Path, filter(None, (self.path, self.human_path)))
        return [SourceFile(path.name, "", path) for path in paths]

    def fingerprint(self) -> str:
        if self.human_path is None:
            return digest_files(Path(self.path))
        human = self.digest_user_file(Path(self.human_path), "task.human_path")
        return digest([super().fingerprint(), human])

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield the pairs; those with an empty side are counted. The human text begins with a space."""
        del tokenizer
        pairs = sort_by_hash(self._read(skipped), lambda pair: pair[0])
        if not pairs:
            raise DataError(f"{self.path}: holds no pair")
        for line, prompt, human in pairs:
            yield Example(f"pairs/{line}", self.template.replace("{prompt}", prompt), f" {human}")

    def _read(self, skipped: Counter[str]) -> Iterator[tuple[str, str, str]]:
        if self.human_path is not None:
            with open_text(Path(self.path)) as contexts, open_text(Path(self.human_path)) as responses:
                for number, (context, response) in enumerate(zip_longest(contexts, responses), 1):
                    if context is None or response is None:
                        raise DataError(f"{self.path}:{number}: only one of it and {self.human_path} has this line")
                    if context.strip() and response.strip():
                        yield f"{number:08d}", context.strip(), response.strip()
                    else:
                        skipped["one side is empty"] += 1
            return
        for record in read_records(Path(self.path)):
            fields = (*self.prompt_fields, self.human_field)
            texts = [read_usable_text(record.cells, field, record.where, skipped) for field in fields]
            if None not in texts:
                *context, response = (str(text).strip() for text in texts)
                yield f"{record.line:08d}", " ".join(context), response
