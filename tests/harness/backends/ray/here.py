"""Workers without Ray: one in this process, who takes the chunks last first."""

from collections.abc import Iterator, Sequence
from typing import Any

from openended.harness.backends.ray.cluster import Worker
from openended.harness.core.runtime import Runtime


class Here:
    """See `spread.Workers`."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.worker = Worker(Runtime(device="cpu"))
        self.asked: list[int] = []
        """Number of chunks of each call."""

    def map(self, task: str, chunks: Sequence[Sequence[Any]]) -> Iterator[tuple[int, Any]]:
        self.asked.append(len(chunks))
        for number in reversed(range(len(chunks))):
            answer = self.worker.do(task, chunks[number])
            assert answer.error is None, answer.error
            yield number, answer.value
