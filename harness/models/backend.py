"""What a run needs of a model, whoever runs it.

A backend is three files: its code here (a spec registered in the group `model`, and the class that its spec loads), a
YAML in `conf/model` and a test. What a backend cannot do, its spec says while the run is planned.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from openended.harness.core.errors import SpecError
from openended.harness.core.spec import Spec
from openended.harness.core.task import Tokenizer
from openended.harness.core.types import Generation, Json, NextToken, Ragged

if TYPE_CHECKING:
    from openended.harness.core.runtime import DeviceMap
    from openended.harness.decoders.base import Decoder, Prompt, QDecoder
    from openended.harness.models.embedder import EmbedderSpec
    from openended.harness.models.spec import ModelSpec

Ability = Literal["generate", "score", "next_token", "states"]
Advance = Callable[[int], None]


class Embedded(NamedTuple):
    """Vectors of texts, and how many texts were cut."""

    vectors: NDArray[np.float32]
    """Shape (n, d), rows in the order of the texts. The model's start token stands for a text without a token."""
    truncated: int
    """Number of texts that were cut on the right."""


class Backend(Protocol):
    """A model that is ready. Rows are token ids under its own tokenizer; `advance` gets what was just done."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Whose ids the rows are; None where texts alone go to the model."""
        ...

    @property
    def device(self) -> Any:  # noqa: ANN401 - torch's, or what stands for a place that is not ours
        """Where it runs, as text for the record; its `type` is `cpu` where the number of rows at once moves digits."""
        ...

    def provenance(self) -> dict[str, Any]:
        """Return facts of who made an artefact, for its manifest; `notes` are for the readers of tables."""
        ...

    def generate(
        self,
        prompts: Sequence[Prompt],
        decoder: Decoder,
        *,
        seed: int,
        max_new_tokens: int,
        min_new_tokens: int = 0,
        batch_size: int,
        emit: Callable[[list[Generation]], None],
        advance: Advance | None = None,
        companions: Mapping[str, Any] | None = None,
    ) -> None:
        """Continue every prompt; `companions` are the models that the decoder asks for beside this one, loaded."""
        ...

    def score(
        self,
        prompts: Ragged,
        continuations: Ragged,
        *,
        include_prompt: bool = False,
        bos: bool = False,
        batch_size: int,
        advance: Advance | None = None,
    ) -> Ragged:
        """-log p of the continuations' tokens in nats, float64, under the full softmax."""
        ...

    def next_token(
        self,
        prompts: Ragged,
        continuations: Ragged,
        decoders: Sequence[QDecoder],
        *,
        min_new_tokens: int = 0,
        batch_size: int,
        advance: Advance | None = None,
    ) -> list[NextToken]:
        """Statistics of each decoder's Q on the continuations."""
        ...

    def states(
        self,
        prompts: Ragged,
        continuations: Ragged,
        embedder: EmbedderSpec,
        *,
        batch_size: int,
        advance: Advance | None = None,
    ) -> dict[int | None, Embedded]:
        """Embed prompt + continuation: maximum length → vectors, for each length that the embedder lists."""
        ...

    def states_and_score(
        self,
        prompts: Ragged,
        continuations: Ragged,
        embedder: EmbedderSpec,
        *,
        include_prompt: bool = False,
        batch_size: int,
        advance: Advance | None = None,
    ) -> tuple[Embedded, Ragged]:
        """Do what `states` and `score` do in one pass, where this model is the embedder's too."""
        ...


class BackendSpec(Spec):
    """Base of the specs in the registry's group `model`: where a model comes from, and what runs it."""

    error_name: ClassVar[str] = "model"
    loader: ClassVar[str]
    """`module:function` that loads: (spec, device, device_map) → `Backend`; imported when the model is needed."""
    abilities: ClassVar[frozenset[Ability]] = frozenset({"generate", "score", "next_token", "states"})

    carried: ClassVar[frozenset[str]] = frozenset()
    """Options that say how the model is reached and change no text: they tell no two systems apart."""

    @property
    def chat_template(self) -> bool:
        """Whether the model under test reads each prompt through a chat template."""
        raise NotImplementedError

    @property
    def dtype(self) -> str:
        """Precision of the weights."""
        raise NotImplementedError

    @property
    def mark(self) -> str:
        """What the signature of every number must say of the model, in a few words; empty for most."""
        return ""

    @property
    def title(self) -> str:
        """Name in tables."""
        raise NotImplementedError

    def identity(self) -> dict[str, Json]:
        """What makes two models the same one, whatever their paths."""
        raise NotImplementedError

    def context_length(self) -> int | None:
        """Number of positions; None where there is no limit."""
        raise NotImplementedError

    def check_ready(self) -> None:
        """Raise `DataError` if the model cannot be loaded: says what is missing and how to get it."""
        raise NotImplementedError

    def tokenizer_spec(self) -> ModelSpec | None:
        """Return whose tokenizer cuts this model's texts; None: texts alone go to the model."""
        raise NotImplementedError

    def cannot(self, ability: Ability, decoder: Decoder | None = None) -> str | None:
        """Return why the model cannot do this (with this decoder), None where it can; no weights are loaded."""
        del decoder
        return None if ability in self.abilities else f"the backend {self.name} cannot do {ability}"

    def demand(self, ability: Ability, decoder: Decoder | None = None) -> None:
        """Refuse, at planning, what the model cannot do.

        Raises:
            SpecError: Names the model and the reason.
        """
        reason = self.cannot(ability, decoder)
        if reason is not None:
            raise SpecError(f"{self.error_name} {self.title}: {reason}")

    def check_lengths(self, decoder: Decoder, *, max_new_tokens: int, min_new_tokens: int) -> None:
        """Refuse, at planning, lengths that the backend cannot keep.

        Raises:
            SpecError: Names the option.
        """
        del decoder, max_new_tokens, min_new_tokens

    def load(self, *, device: str = "cpu", device_map: DeviceMap | None = None) -> Backend:
        """Load the model.

        Raises:
            DataError: If files are missing or cannot be read, or the device is not there.
            MissingExtra: If an optional package is needed and not installed.
        """
        module, _, function = self.loader.partition(":")
        made: Backend = getattr(importlib.import_module(module), function)(self, device=device, device_map=device_map)
        return made
