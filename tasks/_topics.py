"""Tasks without a model: texts of some topics are the reference, other sets of topics are the systems."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from openended.harness.core import DataError, Example, Task, Tokenizer
from openended.tasks._files import sort_by_hash

SYSTEM = "topics:"


class TopicTask(Task):
    """A task whose examples have a topic each (`meta["topic"]`) and no prompt.

    No text is on both sides: the reference takes one half of the texts, by a hash of their ids, systems the other.
    """

    topics: tuple[Any, ...]
    topic_names: ClassVar[tuple[str, ...]]

    def check(self) -> None:
        self.require(bool(self.topics), "topics", f"some of {', '.join(self.topic_names)}")
        self.require(set(self.topics) <= set(self.topic_names), "topics", f"some of {', '.join(self.topic_names)}")
        self.require(len(set(self.topics)) == len(self.topics), "topics", "each topic once")

    def read_texts(self, skipped: Counter[str]) -> Iterator[Example]:
        """Yield the texts of all topics."""
        del skipped
        raise TypeError(f"{type(self).__name__} does not define read_texts()")

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield texts of the topics, by a hash of their ids: the topics come in the shares of the source."""
        del tokenizer
        yield from self._select_texts(self.topics, skipped, system=False)

    def open_bundled_system(self, name: str) -> Callable[[], list[str] | dict[str, str]] | None:
        """Return the reader of `topics:world+business`: a system of texts of these topics."""
        if not name.startswith(SYSTEM):
            return None
        topics = tuple(name.removeprefix(SYSTEM).split("+"))
        replace(self, topics=topics)  # type: ignore[type-var] # a dataclass; refuses what is no topic
        return lambda: [example.human for example in self._select_texts(topics, Counter(), system=True)]

    def _select_texts(self, topics: Sequence[str], skipped: Counter[str], *, system: bool) -> list[Example]:
        def is_chosen(example: Example) -> bool:
            in_system_half = hashlib.sha256(b"system" + example.id.encode()).digest()[0] % 2 == 0
            return example.meta["topic"] in topics and in_system_half == system

        examples = sort_by_hash(filter(is_chosen, self.read_texts(skipped)), lambda e: e.id)
        if not examples:
            raise DataError(f"task {self.name}: holds no text of {', '.join(topics)}")
        return examples
