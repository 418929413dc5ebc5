"""The interface of a task: a source of prompts and human continuations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Protocol

from openended.harness.core.spec import Spec
from openended.harness.core.types import Example, SourceFile


class Tokenizer(Protocol):
    """The tokenizer interface of tasks and features; adds no special tokens."""

    def encode(self, text: str) -> list[int]:
        """Return token ids of `text`."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        ...


class Task(Spec):
    """A source of prompts and human continuations."""

    group: ClassVar[str] = "task"
    source: ClassVar[str] = ""
    """Address of the data, for the README's table of tasks."""
    size: ClassVar[str] = ""
    license: ClassVar[str] = ""
    obtained: ClassVar[str] = ""
    """How its files are obtained: fetched, placed by hand, or none needed."""
    command: ClassVar[str] = ""
    """A command that runs it, with placeholders in capitals."""
    no_human: ClassVar[str] = ""
    """What to do if there is no human side (`has_human` is false)."""
    paired: ClassVar[bool] = True
    """False: a system's texts are compared with the human ones as a set, not prompt by prompt."""
    prompted: ClassVar[bool] = True
    """False: all prompts are empty, and metrics that read them are not defined."""

    def files(self) -> list[SourceFile]:
        """Return the files that the task reads, present or not; cheap, touches no network."""
        return []

    def fetch(self) -> None:
        """Download what is missing; afterwards `fingerprint` and `examples` touch no network.

        Raises:
            DataError: If a file cannot be fetched; the message shows from where, and where to put it.
        """

    def fingerprint(self) -> str:
        """Return a SHA-256 (hex) of the source data; enters keys and signatures.

        Raises:
            DataError: If a file is missing; the message shows where to get it and where to put it.
        """
        raise TypeError(f"{type(self).__name__} does not define fingerprint()")

    def has_human(self) -> bool:
        """Return whether there is a human side; without it only one-sided metrics are computed."""
        return True

    def has_docs_prose(self) -> bool:
        """Return whether the texts are docstrings, for which the bundled models were trained."""
        return False

    def remarks(self) -> Sequence[str]:
        """Return remarks about the task's texts for readers of a table; stored in the run record's notes."""
        return ()

    def open_bundled_system(self, name: str) -> Callable[[], list[str] | dict[str, str]] | None:  # noqa: ARG002 - the signature is the contract
        """Return a reader of the texts of a system that the task bundles, or None if it has no such system.

        `generations=NAME` then scores it: example id → text, or texts without prompts, matched to the human ones row by
        row.
        """
        return None

    def needs_tokenizer(self) -> bool:
        """Return whether prompts are truncated by tokens of the model under test."""
        return False

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:  # noqa: ARG002
        """Yield all examples in a canonical order; the first N of them are a fair sample.

        Args:
            tokenizer: The tokenizer of the model under test, given if `needs_tokenizer`.
            skipped: Reason → number of skipped records; filled during iteration.
        """
        raise TypeError(f"{type(self).__name__} does not define examples()")
