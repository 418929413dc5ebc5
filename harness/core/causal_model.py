"""What decoders and generation need of a causal language model in memory, whoever loaded it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from openended.harness.core.progress import Advance
from openended.harness.core.task import Tokenizer
from openended.harness.core.types import F64, Json

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


class ModelInfo(Protocol):
    """What a decoder may know of a model before any weights are loaded."""

    @property
    def title(self) -> str:
        """Name in tables and messages."""
        ...

    @property
    def dtype(self) -> str:
        """Precision of the weights."""
        ...

    def identity(self) -> dict[str, Json]:
        """Return what makes two models the same one, whatever their paths."""
        ...


class CausalModel(Protocol):
    """A causal language model that is ready to run."""

    @property
    def model(self) -> Any:  # noqa: ANN401 - a transformers module
        """The module itself, in eval mode."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer."""
        ...

    @property
    def device(self) -> torch.device:
        """Where inputs and results are."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        ...

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Tokens that end a text; empty where there is none."""
        ...

    @property
    def vocab_size(self) -> int:
        """Size of the logits, which may exceed the tokenizer's."""
        ...

    @property
    def context_length(self) -> int | None:
        """Number of positions; None where there is no limit."""
        ...

    @property
    def spec(self) -> ModelInfo:
        """The options that it was loaded with."""
        ...

    @property
    def memo(self) -> dict[str, Any]:
        """What is derived from the weights once, for example a layout that suits the forward pass."""
        ...

    @property
    def start_id(self) -> int:
        """The token that stands before an empty prompt."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return token ids of `text`; no special tokens."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids; no clean-up."""
        ...

    def continuation(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """Return the text that `ids` add after `prompt`."""
        ...

    def lead(self, ids: Sequence[int] | NDArray[Any]) -> tuple[int, ...]:
        """Return the tokens that the model expects before a text of these ids."""
        ...

    def forward(
        self,
        jobs: Sequence[Any],
        *,
        rows: int,
        pool: Any | None,  # noqa: ANN401 - `models.forward.Pool`
        nll: F64 | None,
        batch_size: int,
        advance: Advance | None = None,
    ) -> None:
        """Run the model over sequences; see `models.forward.run`."""
        ...
