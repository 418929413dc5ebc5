"""The interface of a loaded causal language model that decoders and generation use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from openended.harness.core.progress import Advance
from openended.harness.core.task_spec import Tokenizer
from openended.harness.core.types import F64, Json

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


class ModelInfo(Protocol):
    """Facts about a model that are available before its weights are loaded.

    `title`: name in tables and messages; `dtype`: precision of the weights.
    """

    @property
    def title(self) -> str: ...
    @property
    def dtype(self) -> str: ...

    def identity(self) -> dict[str, Json]:
        """Return the facts that identify the model, independent of its path."""
        ...


class CausalModel(Protocol):
    """A loaded causal language model.

    `model`: the PyTorch module, in eval mode; `device`: of inputs and outputs; `eos_ids`: ids of the end-of-text
    tokens, may be empty; `vocab_size`: size of the logits, which may exceed the tokenizer's; `context_length`: number
    of positions, None if unlimited; `spec`: the options that it was loaded with; `start_id`: the token that
    precedes an empty prompt.
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

    def encode(self, text: str) -> list[int]:
        """Return token ids of `text`; without special tokens."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, without clean-up of spaces."""
        ...

    def continuation(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """Return the text that `ids` add after `prompt`."""
        ...

    def bos_prefix(self, ids: Sequence[int] | NDArray[Any]) -> tuple[int, ...]:
        """Return the BOS prefix that the model expects before these token ids."""
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
        """Run the model over sequences; see `models.forward.run_forward`."""
        ...
