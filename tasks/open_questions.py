"""Open questions with many good answers and no human ones: NoveltyBench and Infinity-Chat, from their published files.

A local copy (`path`) may be JSON lines, CSV or Parquet with the same fields. Questions come in the order of the file.
Sources: Zhang et al. 2025, "NoveltyBench: evaluating language models for humanlike diversity" (arXiv 2504.05228); Jiang
et al. 2025, "Artificial Hivemind" (arXiv 2510.22954).
"""

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, Literal

from openended.harness.core import Example, Tokenizer, task
from openended.harness.imported import read_id, read_records
from openended.tasks._files import PublicFileTask, choose_id_field, read_usable_text


class OpenQuestions(PublicFileTask):
    """Questions of a file; a chat model reads each as the user's turn."""

    prompt_field: ClassVar[str]
    no_human = ": its questions have no published human answers; task=jsonl with your own has them"

    def has_human(self) -> bool:
        return False

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        for record in read_records(self.data_path()):
            field = choose_id_field(record.cells, "auto")
            identity = read_id(record.cells, field, record.where) if field else f"{record.line:06d}"
            prompt = read_usable_text(record.cells, self.prompt_field, record.where, skipped)
            if prompt is not None:
                yield Example(f"{self.name}/{identity}", prompt, "", {"user": prompt, "assistant": ""})


@task
class NoveltyBench(OpenQuestions):
    """NoveltyBench: questions with many good answers (Zhang et al. 2025), without human ones."""

    name = "novelty_bench"
    source = "https://github.com/novelty-bench/novelty-bench"
    size = "100 questions (curated), 1,000 (wildchat-1k)"
    license = "MIT; the questions of WildChat: ODC-BY"
    obtained = "fetched at the first use"
    address = "https://raw.githubusercontent.com/novelty-bench/novelty-bench/main/data/{split}.jsonl"
    prompt_field = "prompt"
    command = "openended task=novelty_bench model=llama samples=10 max_new_tokens=512 metric=[distinct_k] scoring=none"

    split: Literal["curated", "wildchat-1k"] = "curated"
    """or wildchat-1k."""


@task
class InfinityChat(OpenQuestions):
    """Infinity-Chat: the 100 questions of its evaluation (Jiang et al. 2025), without human answers."""

    name = "infinity_chat"
    source = "https://huggingface.co/datasets/liweijiang/infinite-chats-eval"
    size = "100 questions"
    license = "not stated"
    obtained = "fetched at the first use"
    address = (
        "https://huggingface.co/datasets/liweijiang/infinite-chats-eval/resolve/main/data/train-00000-of-00001.parquet"
    )
    prompt_field = "query"
    command = "openended task=infinity_chat model=llama samples=50 max_new_tokens=512 metric=[distinct_k] scoring=none"
