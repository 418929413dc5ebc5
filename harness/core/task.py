"""The contract of a task: where prompts and human continuations come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Protocol

from openended.harness.core.spec import Spec
from openended.harness.core.types import Example, SourceFile


class Tokenizer(Protocol):
    """The part of a tokenizer that tasks and features use; no special tokens are added."""

    def encode(self, text: str) -> list[int]:
        """Return token ids of `text`."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        ...


class Task(Spec):
    """Where prompts and human continuations come from."""

    group: ClassVar[str] = "task"
    source: ClassVar[str] = ""
    """Address of the data, for the README's table of tasks."""
    size: ClassVar[str] = ""
    licence: ClassVar[str] = ""
    obtained: ClassVar[str] = ""
    """How its files come to be there: fetched, made by hand, none needed."""
    command: ClassVar[str] = ""
    """A command that runs it; what the user puts in is written in capitals."""
    no_human: ClassVar[str] = ""
    """What to do about a missing human side, where `has_human` can be false."""
    paired: ClassVar[bool] = True
    """False: nothing is generated for one text; a system's texts stand beside the human ones as a whole."""

    def files(self) -> list[SourceFile]:
        """Return the files that the task reads, present or not; cheap, touches no network."""
        return []

    def fetch(self) -> None:
        """Download what is missing; afterwards `fingerprint` and `examples` touch no network.

        Raises:
            DataError: If a file cannot be had; says from where, and where to put it by hand.
        """

    def fingerprint(self) -> str:
        """Return a SHA-256 (hex) of the source data; enters keys and signatures.

        Raises:
            DataError: If a file is missing; says where to get it and where to put it.
        """
        raise TypeError(f"{type(self).__name__} has no fingerprint")

    def has_human(self) -> bool:
        """Return false if there is no human side: then only metrics of one side can be made."""
        return True

    def remarks(self) -> Sequence[str]:
        """Return what the reader of a table must know of this task's texts; goes into the run record's notes."""
        return ()

    def own_system(self, name: str) -> Callable[[], list[str]] | None:  # noqa: ARG002 - the signature is the contract
        """Return what reads the texts of a system that the task itself holds, or None if it knows none of the name.

        `generations=NAME` then scores it; the texts answer no prompt and stand beside the human ones row by row.
        """
        return None

    def needs_tokenizer(self) -> bool:
        """Return true if prompts are cut by tokens of the model under test."""
        return False

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:  # noqa: ARG002
        """Yield all examples in a canonical order; the first N of them are a fair sample.

        Args:
            tokenizer: The tokenizer of the model under test, given if `needs_tokenizer`.
            skipped: Reason → count of records passed over; filled while the examples are drawn.
        """
        raise TypeError(f"{type(self).__name__} has no examples")
