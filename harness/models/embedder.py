"""Embed texts for metrics.

Rows keep their order; both sides go through the same functions with the same options. Texts are cut on the right, and
how many were is returned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import (
    I64,
    Advance,
    DataError,
    ExtraNotInstalled,
    Json,
    Ragged,
    Spec,
    SpecError,
    build,
    shorten_error,
)
from openended.harness.models import forward
from openended.harness.models.backend import EmbeddingRequest, TextVectors
from openended.harness.models.check_finite import check_finite
from openended.harness.models.forward import ForwardRow, Pool, Pooling
from openended.harness.models.loading.files import digest_files, list_sentence_files

if TYPE_CHECKING:
    from openended.harness.core import CausalModel
    from openended.harness.models.spec import ModelSpec

log = logging.getLogger(__name__)
# Texts handed to a batch tokenizer at once: bounds its memory.
_TOKENIZE = 1024


_VLLM_SPEC = "openended.harness.backends.vllm.spec.VllmSpec"
_LAYER_COUNTS = ("num_hidden_layers", "n_layer", "num_layers")


@dataclass(frozen=True, kw_only=True)
class EmbedderSpec(Spec):
    """An embedder of texts: a model, a layer, a pooling and a maximum length."""

    group: ClassVar[str] = "embedder"
    name: ClassVar[str] = "embedder"
    connection_fields: ClassVar[frozenset[str]] = frozenset()
    """As of a model: options that change no vector. An embedder has none."""

    path: str
    """Hub id, folder or `bundled:docs-m`, as for a model."""
    label: str | None = None
    revision: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    backend: Literal["transformers", "vllm"] = "transformers"
    """What runs the model; vLLM gives the last layer of a causal model."""
    kind: Literal["causal", "masked", "sentence"] = "causal"
    """`causal`: a GPT; `masked`: a BERT, with its special tokens; `sentence`: a sentence-transformers model."""
    layer: int = -1
    """Index of the hidden states, 0 the input embeddings, -1 the last (MAUVE, section 4: the terminal state)."""
    pooling: Pooling = "last"
    """The text's last token (MAUVE), its first, or the mean; a sentence model has its own."""
    max_length: int | None = None
    """Tokens, special ones included; equal for both sides. null: the model's context."""
    lengths: tuple[int, ...] = ()
    """All the maximum lengths of a study of length (MAUVE, Figure 4), of which `max_length` is one: embedded at once,
    in one pass where the model is causal. In the key, for the vectors are those of a pass for one length alone only up
    to float noise."""

    def check(self) -> None:
        """Lengths are positive and in order; a sentence model's own layers are not chosen here."""
        self.require(bool(self.path.strip()), "path", "a hub id, a folder or bundled:<name>")
        self.require(self.max_length is None or self.max_length >= 1, "max_length", "at least 1, or null")
        self.require(self.kind != "sentence" or self.layer == -1, "layer", "-1 for a sentence model")
        if self.backend == "vllm":
            self.require(self.kind == "causal", "kind", "causal for embedder.backend=vllm")
            self.require(self.layer == -1, "layer", "-1 for embedder.backend=vllm, which gives the last layer alone")
        if self.lengths:
            rising = list(self.lengths) == sorted({n for n in self.lengths if n >= 1})
            self.require(rising, "lengths", "lengths of 1 or more, each longer than the one before")
            self.require(self.max_length in self.lengths, "max_length", f"one of embedder.lengths, {self.lengths}")
            self.require(self.kind != "sentence", "lengths", "none for a sentence model")

    def model_spec(self) -> ModelSpec:
        """Return the spec of the underlying model."""
        from openended.harness.models.spec import ModelSpec

        model = ModelSpec(path=self.path, label=self.label, revision=self.revision, dtype=self.dtype)
        if self.backend == "vllm":
            return cast("ModelSpec", build("model", {"_target_": _VLLM_SPEC, **vars(model)}, "embedder"))
        return model

    @property
    def title(self) -> str:
        """Name in tables."""
        return self.model_spec().title

    @property
    def is_bundled(self) -> bool:
        """True for a model that comes with the harness."""
        return self.model_spec().is_bundled

    def identity(self) -> dict[str, Json]:
        """Return what identifies the embedder: the model's identity, layer, pooling and length."""
        options: dict[str, Json] = {"kind": self.kind, "layer": self.layer, "pooling": self.pooling}
        together: dict[str, Json] = {"lengths": list(self.lengths)} if self.lengths else {}
        return {**self._identify_weights(), **options, "max_length": self.max_length, **together}

    def _identify_weights(self) -> dict[str, Json]:
        """Return the identity of the model alone; for a sentence model's folder, of all files with its modules'."""
        model = self.model_spec()
        folder = model.folder
        if self.kind != "sentence" or folder is None:
            return model.identity()
        if not (folder / "modules.json").is_file():
            raise DataError(
                f"embedder {self.path}: no modules.json in the folder (expected a sentence-transformers model)"
            )
        return {"dtype": self.dtype, "files": digest_files(folder, list_sentence_files(folder))}

    def check_options(self) -> None:
        """Check the model's family, `layer` and `max_length` against config.json, as far as it states them.

        Raises:
            SpecError: If the model is of no supported family, has no such layer or cannot read so many tokens.
        """
        if self.kind == "sentence":
            return
        spec = self.model_spec()
        if self.backend == "vllm":
            spec.check_ready()
        if self.kind == "causal":
            spec.demand("embed")
        config = spec.config()
        num_layers = next((config[key] for key in _LAYER_COUNTS if isinstance(config.get(key), int)), None)
        if num_layers is not None:  # the states are the embeddings and those after each layer
            low, high = -num_layers - 1, num_layers
            self.require(low <= self.layer <= high, "layer", f"{low} … {high}")
        self.limit(spec.context_length())

    def list_limits(self, context_length: int | None) -> dict[int | None, int | None]:
        """Return each maximum length that is asked for, and the length at which texts are cut for it."""
        lengths = self.lengths or (self.max_length,)
        return {n: replace(self, max_length=n, lengths=()).limit(context_length) for n in lengths}

    def limit(self, context_length: int | None) -> int | None:
        """Return the length at which texts are cut.

        Raises:
            SpecError: If `max_length` is more than the model can read.
        """
        if self.max_length is not None and context_length is not None:
            self.require(self.max_length <= context_length, "max_length", f"at most the context, {context_length}")
        return self.max_length if self.max_length is not None else context_length


def load_embedder(spec: EmbedderSpec, *, device: str = "cpu") -> Any:  # noqa: ANN401 - a model or a sentence encoder
    """Load what `embed` needs: a `LanguageModel`, or a sentence encoder for `embed_texts`."""
    from openended.harness.models.transformers import load_model

    if spec.kind == "causal":
        return load_model(spec.model_spec(), device=device)
    if spec.kind == "masked":
        from openended.harness.models.masked import load_masked

        return load_masked(spec.model_spec(), device=device)
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as err:
        raise ExtraNotInstalled("sentence-transformers", "embedders") from err
    try:
        encoder = SentenceTransformer(spec.path, revision=spec.revision, device=device, trust_remote_code=False)
    except Exception as err:
        raise DataError(f"embedder {spec.path}: cannot be loaded ({shorten_error(err)})") from err
    if spec.max_length is not None:
        encoder.max_seq_length = spec.max_length
    return encoder


def embed(lm: CausalModel, request: EmbeddingRequest, advance: Advance | None = None) -> dict[int | None, TextVectors]:
    """Embed prompt + continuation, cut on the right, at every maximum length that the embedder lists.

    One pass gives all lengths where the model is causal, for its states do not see what follows.
    """
    spec = request.embedder
    limits = spec.list_limits(lm.context_length)
    if spec.kind == "causal":
        return dict(zip(limits, _embed(lm, request, tuple(limits.values()), advance), strict=True))
    return {length: _embed(lm, request, (limit,), advance)[0] for length, limit in limits.items()}


def embed_texts(encoder: Any, spec: EmbedderSpec, texts: Sequence[str], *, batch_size: int) -> TextVectors:  # noqa: ANN401
    """Embed with a sentence-transformers model (`spec.kind == "sentence"`), which tokenizes and pools itself."""
    if spec.kind != "sentence":
        raise SpecError("embedder.kind: embed_texts is for sentence models; use embed")
    vectors = np.asarray(encoder.encode(list(texts), batch_size=batch_size, show_progress_bar=False), np.float32)
    limit = encoder.max_seq_length
    lengths = [len(encoder.tokenizer(text, truncation=False)["input_ids"]) for text in texts]
    truncated = sum(length > limit for length in lengths) if limit else 0
    return TextVectors(vectors, truncated)


def _embed(
    lm: CausalModel, request: EmbeddingRequest, limits: tuple[int | None, ...], advance: Advance | None
) -> list[TextVectors]:
    spec = request.embedder
    causal = spec.kind == "causal"
    before, after = ((), ()) if causal else (lm.model.openended_before, lm.model.openended_after)
    special = len(before) + len(after)
    rows = join_rows(request.prompts, request.continuations, lm.bos_prefix if causal else lambda _: ())
    lengths = rows.lengths + special
    longest = int(lengths.max(initial=special))
    cuts = tuple(longest if limit is None else limit for limit in limits)
    room = max(cuts, default=0) - special
    if room < 1:
        raise SpecError(f"embedder.max_length: expected more than the {special} special tokens, got {max(cuts)}")
    if special:
        rows = Ragged.from_rows((np.concatenate([before, row[:room], after]) for row in rows), rows.values.dtype)
    jobs = []
    for i, row in enumerate(rows):
        ids = row[: room + special] if len(row) else np.array([lm.start_id])
        jobs.append(ForwardRow(i, ids, len(ids)))
    pool = Pool(spec.layer, spec.pooling, cuts, causal=causal)
    lm.forward(jobs, rows=len(jobs), pool=pool, nll=None, batch_size=request.batch_size, advance=advance)
    return collect_vectors(lm.spec.title, pool.vectors, lengths, limits)


def collect_vectors(
    title: str, vectors: Sequence[NDArray[np.float32]], lengths: I64, limits: Sequence[int | None]
) -> list[TextVectors]:
    """Check and return the vectors of a pass; `lengths` are those of the texts before truncation."""
    if empty := int((lengths == 0).sum()):
        log.warning("%d of %d texts have no token; the start token stands for each", empty, len(lengths))
    vectors = vectors or [np.zeros((0, 0), dtype=np.float32) for _ in limits]
    for array in vectors:
        check_finite(array, f"embeddings of {title}")
    cut = [0 if limit is None else int((lengths > limit).sum()) for limit in limits]
    return [TextVectors(v, c) for v, c in zip(vectors, cut, strict=True)]


def join_rows(prompts: Ragged, continuations: Ragged, find_prefix: Callable[[I64], Sequence[int]]) -> Ragged:
    """Concatenate prefix, prompt and continuation, row by row.

    All rows lie in one array: as arrays of their own those of a million texts would leave gigabytes in small pieces.
    """
    if len(prompts) != len(continuations):
        raise ValueError(f"{len(prompts)} prompts, {len(continuations)} continuations: the rows must pair")
    whole = (forward.as_ids(np.concatenate(pair)) for pair in zip(prompts, continuations, strict=True))
    dtype = np.result_type(prompts.values, continuations.values)
    return Ragged.from_rows((np.concatenate([find_prefix(row), row]) for row in whole), dtype)
