"""Diagnostic tasks without a model: texts of some topics are the reference, other sets of topics the systems.

Le Bronnec et al. 2024, section on known distributions: a subset of the topics must have high precision and low recall.
Source: AG's corpus of news articles (Gulli), in the form of Zhang et al. 2015. License: non-commercial use.
"""

import csv
import hashlib
import html
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from openended.harness.core import DataError, Example, Task, Tokenizer, sort_by_hash, task
from openended.tasks._files import PublicFileTask

SYSTEM = "topics:"


class TopicTask(Task):
    """A task of texts with a topic and no prompt; systems take one half of the texts, the reference the other."""

    topics: tuple[Any, ...]
    topic_names: ClassVar[tuple[str, ...]]

    def check(self) -> None:
        self.require(bool(self.topics), "topics", f"some of {', '.join(self.topic_names)}")
        self.require(set(self.topics) <= set(self.topic_names), "topics", f"some of {', '.join(self.topic_names)}")
        self.require(len(set(self.topics)) == len(self.topics), "topics", "each topic once")

    @abstractmethod
    def read_texts(self, skipped: Counter[str]) -> Iterator[Example]:
        """Yield all texts, each with its topic; those that are skipped are counted."""

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield texts of the topics, by a hash of their ids: the topics come in the shares of the source."""
        yield from self._select_texts(self.topics, skipped, system=False)

    def open_bundled_system(self, name: str) -> Callable[[], list[str] | dict[str, str]] | None:
        """Return the reader of `topics:world+business`: a system of texts of these topics."""
        if not name.startswith(SYSTEM):
            return None
        topics = tuple(name.removeprefix(SYSTEM).split("+"))
        replace(self, topics=topics)  # type: ignore[call-arg] # refuses what is no topic
        return lambda: [example.human for example in self._select_texts(topics, Counter(), system=True)]

    def _select_texts(self, topics: Sequence[str], skipped: Counter[str], *, system: bool) -> list[Example]:
        def is_chosen(example: Example) -> bool:
            in_system_half = hashlib.sha256(b"system" + example.id.encode()).digest()[0] % 2 == 0
            return example.meta["topic"] in topics and in_system_half == system

        examples = sort_by_hash(filter(is_chosen, self.read_texts(skipped)), lambda e: e.id)
        if not examples:
            raise DataError(f"task {self.name}: holds no text of {', '.join(topics)}")
        return examples


Topic = Literal["world", "sports", "business", "science"]
TOPICS: tuple[Topic, ...] = ("world", "sports", "business", "science")


@task
class AgNews(TopicTask, PublicFileTask):
    """Diagnostic without a model: news of two topics is the reference, other sets of topics are the systems.

    Systems: generations=topics:world, generations=topics:world+sports+business.
    """

    name = "ag_news"
    source = "https://github.com/mhjabreel/CharCnn_Keras/tree/master/data/ag_news_csv"
    size = "30,000 per topic (train), 1,900 per topic (test); half of them for the reference"
    topic_names = TOPICS
    license = "non-commercial use (AG's corpus)"
    obtained = "fetched at the first use"
    address = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/{split}.csv"
    command = (
        "openended -m task=ag_news generations=topics:world,topics:world+sports metric=[knn_precision_recall]"
        " scoring=gpt2-large"
    )

    split: Literal["train", "test"] = "train"
    """`train` or `test`."""
    topics: tuple[Topic, ...] = ("world", "sports")
    """The reference."""

    def read_texts(self, skipped: Counter[str]) -> Iterator[Example]:
        path = self.data_path()
        try:
            with path.open(encoding="utf-8-sig", newline="") as handle:
                rows = csv.reader(handle)
                for number, row in enumerate(rows):
                    if not row:
                        continue  # a blank line
                    if len(row) != 3 or row[0] not in ("1", "2", "3", "4"):
                        where = f"{path}:{rows.line_num}"
                        raise DataError(f"{where}: expected a class from 1 to 4, a title and a description")
                    text = "\n".join(html.unescape(part.replace("\\n", " ")).strip() for part in row[1:])
                    if not text.strip():
                        skipped["text is empty"] += 1
                        continue
                    yield Example(f"ag_news/{number:06d}", "", text, {"topic": TOPICS[int(row[0]) - 1]})
        except FileNotFoundError as err:
            raise DataError(f"missing file: {path}; get it from {self.remote().url}") from err
        except (csv.Error, UnicodeDecodeError, OSError) as err:
            raise DataError(f"{path}: not a CSV file in UTF-8 ({err})") from err
