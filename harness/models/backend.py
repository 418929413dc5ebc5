"""The interface of model backends.

A backend is three files: its code here (a spec registered in the group `model`, and the class that its spec loads), a
YAML in `conf/model` and a test. A backend's spec reports unsupported operations while the run is planned.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import Advance, Json, NextToken, Ragged, Spec, SpecError, Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from openended.harness.core import DeviceMap
    from openended.harness.decoders import Decoder, Emit, GenerationRequest, QDecoder
    from openended.harness.models.embedder import EmbedderSpec
    from openended.harness.models.sizes import ModelSize
    from openended.harness.models.spec import ModelSpec

Ability = Literal["generate", "score", "rank", "gradients", "q_statistics", "embed"]


class TextVectors(NamedTuple):
    """Vectors of texts, and how many texts were truncated."""

    vectors: NDArray[np.float32]
    """Shape (n, d), rows in the order of the texts. A text without tokens is replaced by the model's start token."""
    truncated: int
    """Number of texts that were cut on the right."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoringRequest:
    """Texts whose tokens a model scores by -log p."""

    prompts: Ragged
    """Token ids under the scorer's own tokenizer, one row a text; rows may be empty."""
    continuations: Ragged
    """Token ids to score, as many rows."""
    include_prompt: bool = False
    """Score the prompt's tokens too."""
    bos: bool = False
    """Put the model's start token before a text where the model does not read one anyway."""
    ranks: bool = False
    """Give each token's rank too: the scores then have shape (tokens, 2)."""
    window: int | None = None
    """Tokens read at once; None: the model's context."""
    stride: int | None = None
    """Tokens that each later window scores; None: half a window."""
    batch_size: int
    """Batch size; affects only float noise and time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientRequest:
    """Texts for which the gradient of the mean token loss is sketched."""

    prompts: Ragged
    """Token ids before each continuation; rows may be empty."""
    continuations: Ragged
    """Token ids whose losses count, as many rows."""
    size: int
    """Numbers a sketch."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QStatisticsRequest:
    """Human texts that are scored under the distribution Q of each decoder."""

    prompts: Ragged
    """Token ids before each continuation; rows may be empty."""
    continuations: Ragged
    """Token ids to score, as many rows."""
    decoders: Sequence[QDecoder]
    """Decoders whose Q is computed; all from the logits of one pass."""
    min_new_tokens: int = 0
    """As in generation: Q gives the end of text nothing before this many tokens."""
    batch_size: int
    """Rows of one forward pass at most."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmbeddingRequest:
    """Texts, prompt and continuation together, that a model turns into vectors."""

    prompts: Ragged
    """Token ids under the embedder's own tokenizer, one row a text; rows may be empty."""
    continuations: Ragged
    """Token ids that follow, as many rows."""
    embedder: EmbedderSpec
    """Layer, pooling, and the maximum lengths at which texts are truncated on the right."""
    batch_size: int
    """Batch size; affects only float noise (1e-5) and time."""


class ModelService(NamedTuple):
    """The servers of a model, as a plan shows them."""

    dialect: str
    """Protocol of the servers."""
    endpoints: tuple[str, ...]
    """Their addresses."""
    server: str | None
    """Product and version that answer now; None: no server does."""


class Backend(Protocol):
    """A model that is ready. Rows are token ids under its own tokenizer; `advance` gets what was just done."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of the rows' ids; None where the model reads text."""
        ...

    @property
    def device(self) -> Any:  # noqa: ANN401 - torch's, or a stand-in for a remote device
        """Device for the record; its `type` is `cpu` where the batch size changes digits."""
        ...

    def provenance(self) -> dict[str, Any]:
        """Return facts about the backend for the manifests of artifacts; `notes` are shown under tables."""
        ...

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        """Continue every prompt; `emit` gets each finished row once, in any order."""
        ...

    def score(self, request: ScoringRequest, advance: Advance | None = None) -> Ragged:
        """Return -log p of the continuations' tokens in nats, float64, under the full softmax, and ranks if needed."""
        ...

    def sketch_gradients(self, request: GradientRequest, advance: Advance | None = None) -> NDArray[np.float32]:
        """Sketch the gradient of each text's mean token loss, shape (texts, size)."""
        ...

    def q_statistics(self, request: QStatisticsRequest, advance: Advance | None = None) -> list[NextToken]:
        """Compute the statistics of each decoder's Q on the continuations."""
        ...

    def embed(self, request: EmbeddingRequest, advance: Advance | None = None) -> dict[int | None, TextVectors]:
        """Embed the texts: maximum length → vectors, for each length that the embedder lists."""
        ...

    def embed_and_score(
        self,
        request: EmbeddingRequest,
        *,
        include_prompt: bool = False,
        ranks: bool = False,
        advance: Advance | None = None,
    ) -> tuple[TextVectors, Ragged]:
        """Embed the texts and score their tokens in one pass, where this model is the embedder's too."""
        ...


class BackendSpec(Spec):
    """Base of the specs in the registry's group `model`: where a model comes from, and what runs it."""

    error_name: ClassVar[str] = "model"
    loader: ClassVar[str]
    """`module:function` that loads: (spec, device, device_map) → `Backend`; imported when the model is needed."""
    abilities: ClassVar[frozenset[Ability]] = frozenset(get_args(Ability))

    connection_fields: ClassVar[frozenset[str]] = frozenset()
    """Options for reaching the model, which change no text; systems that differ only in them are the same."""
    runs_in_process: ClassVar[bool] = False
    """True: weights of transformers are loaded, by this process or by the workers of `runtime.engine=ray`."""

    denoises: ClassVar[bool] = False
    """True: a denoiser, which proposes tokens for positions in any order."""

    path: str
    """Hub id or folder of the model, or the id by which a server knows it."""
    revision: str | None
    """Commit on the hub; null: the newest."""

    @property
    def chat_template(self) -> bool:
        """Whether the model under test reads each prompt through a chat template."""
        raise NotImplementedError

    @property
    def dtype(self) -> str:
        """Precision of the weights."""
        raise NotImplementedError

    @property
    def folder(self) -> Path | None:
        """Folder of the model's files on this machine; None for a hub id, and for a model that a server runs."""
        return None

    @property
    def is_bundled(self) -> bool:
        """True for a model that comes with the harness."""
        return False

    @property
    def mark(self) -> str:
        """A remark about the model for the signature of every number; empty for most models."""
        return ""

    @property
    def title(self) -> str:
        """Name in tables."""
        raise NotImplementedError

    def identity(self) -> dict[str, Json]:
        """Return what identifies the model by its content, not by its path."""
        raise NotImplementedError

    def context_length(self) -> int | None:
        """Number of positions; None where there is no limit."""
        raise NotImplementedError

    def describe_size(self) -> ModelSize | None:
        """Return how large the model is and whether it is on this machine; None where a server runs it."""
        return None

    def describe_service(self) -> ModelService | None:
        """Return which servers run the model; None where this process loads it."""
        return None

    def without_label(self) -> BackendSpec:
        """Return the spec without its name in tables: in a plan, one model under two names is one."""
        return self

    def check_ready(self) -> None:
        """Raise `DataError` if the model cannot be loaded; the message has what is missing and how to get it."""
        raise NotImplementedError

    def tokenizer_spec(self) -> ModelSpec | None:
        """Return the model whose tokenizer is used for this model's texts; None: the model gets text, not ids."""
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
        if decoder is not None and decoder.denoises and not self.denoises:
            reason = f"{decoder.name} fills positions in any order; it needs model=denoiser"
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
            ExtraNotInstalled: If an optional package is needed and not installed.
        """
        module, _, function = self.loader.partition(":")
        backend: Backend = getattr(importlib.import_module(module), function)(
            self, device=device, device_map=device_map
        )
        return backend


def require_model(value: object, where: str) -> BackendSpec:
    """Return `value`, the spec of a model.

    Raises:
        SpecError: If it is anything else; names `where` it was given.
    """
    if not isinstance(value, BackendSpec):
        raise SpecError(f"{where}: expected a model, got {getattr(value, 'name', value)!s:.80}")
    return value
