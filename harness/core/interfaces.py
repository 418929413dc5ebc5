"""The interfaces of tasks, of tokenizers and of loaded language models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from openended.harness.core.spec import Spec
from openended.harness.core.terminal import Advance
from openended.harness.core.types import F64, Example, Json, SourceFile

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


class Tokenizer(Protocol):
    """The tokenizer interface of tasks and features; adds no special tokens."""

    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...


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
        """Download what is missing, or raise a `DataError` that says from where; then nothing touches the network."""

    def fingerprint(self) -> str:
        """Return a SHA-256 (hex) of the source data, for keys; a `DataError` says what file is missing."""
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
        """Return a reader of the texts of a system that the task bundles, for `generations=NAME`; None: no such system.

        It returns example id → text, or texts without prompts, matched to the human ones row by row.
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


class ModelInfo(Protocol):
    """Facts about a model that are available before its weights are loaded.

    `title`: name in tables and messages; `dtype`: precision of the weights; `identity`: the facts that identify the
    model, independent of its path.
    """

    @property
    def title(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    def identity(self) -> dict[str, Json]: ...


class CausalModel(Protocol):
    """A loaded causal language model.

    `model`: the PyTorch module, in eval mode; `device`: of inputs and outputs; `eos_ids`: ids of the end-of-text
    tokens, may be empty; `vocab_size`: size of the logits, which may exceed the tokenizer's; `context_length`: number
    of positions, None if unlimited; `spec`: the options that it was loaded with; `start_id`: the token that
    precedes an empty prompt; `encode`: without special tokens; `decode`: without clean-up of spaces; `continuation`:
    the text that ids add after a prompt; `bos_prefix`: the BOS prefix that the model expects before these token ids;
    `forward`: see `models.forward.run_forward`.
    """

    @property
    def model(self) -> Any: ...  # noqa: ANN401 - a transformers module
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def eos_ids(self) -> tuple[int, ...]: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def context_length(self) -> int | None: ...
    @property
    def spec(self) -> ModelInfo: ...
    @property
    def start_id(self) -> int: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def continuation(self, prompt: Sequence[int], ids: Sequence[int]) -> str: ...
    def bos_prefix(self, ids: Sequence[int] | NDArray[Any]) -> tuple[int, ...]: ...
    def forward(
        self,
        jobs: Sequence[Any],
        *,
        rows: int,
        pool: Any | None,  # noqa: ANN401 - `models.forward.Pool`
        nll: F64 | None,
        batch_size: int,
        advance: Advance | None = None,
    ) -> None: ...
