"""The spec of an embedder: a model, a layer, a pooling and a maximum length."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, cast

from openended.harness.core import REQUIRED, DataError, Json, Spec, SpecError, construct, load_member, option, ranged
from openended.harness.models.families import find_direction
from openended.harness.models.files import digest_files, list_sentence_files
from openended.harness.models.forward import Pooling
from openended.harness.models.spec import ModelSpec

_PICKLED = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
_LAYER_COUNTS = ("num_hidden_layers", "n_layer", "num_layers")


@dataclass(frozen=True, kw_only=True)
class EmbedderSpec(Spec):
    """An embedder of texts: a model, a layer, a pooling and a maximum length."""

    group = name = "embedder"
    connection_fields: ClassVar[frozenset[str]] = frozenset()
    """As of a model: options that change no vector. An embedder has none."""

    path: str = option(REQUIRED, str.strip, "a hub id, a folder or bundled:<name>")
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
    max_length: int | None = ranged(None, "[1, inf)", "at least 1, or null")
    """Tokens, special ones included; equal for both sides. null: the model's context."""
    lengths: tuple[int, ...] = ()
    """All the maximum lengths of a study of length (MAUVE, Figure 4), of which `max_length` is one: embedded at once,
    in one pass where the model is causal. In the key, for the vectors are those of a pass for one length alone only up
    to float noise."""

    def check(self) -> None:
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
        return self._model_spec

    @cached_property
    def _model_spec(self) -> ModelSpec:
        options = {name: getattr(self, name) for name in ("path", "label", "revision", "dtype")}
        model = construct(ModelSpec, options, "embedder")
        if self.backend == "vllm":
            return cast("ModelSpec", load_member("model", "vllm")(**vars(model)))
        return model

    @property
    def title(self) -> str:
        return self.model_spec().title

    @property
    def is_bundled(self) -> bool:
        return self.model_spec().is_bundled

    def identity(self) -> dict[str, Json]:
        options: dict[str, Json] = {"kind": self.kind, "layer": self.layer, "pooling": self.pooling}
        together: dict[str, Json] = {"lengths": list(self.lengths)} if self.lengths else {}
        return {**self._identify_weights(), **options, "max_length": self.max_length, **together}

    def _identify_weights(self) -> dict[str, Json]:
        """Return the identity of the model alone; for a sentence model's folder, of all files with its modules'."""
        model = self.model_spec()
        model.check_adapter()
        folder = model.folder
        if self.kind != "sentence" or folder is None:
            return model.identity()
        if not (folder / "modules.json").is_file():
            raise DataError(
                f"embedder {self.path}: no modules.json in the folder (expected a sentence-transformers model)"
            )
        files = list_sentence_files(folder)
        pickles = [p for p in files if p.suffix in _PICKLED and not p.with_name("model.safetensors").is_file()]
        if pickles:
            raise DataError(f"embedder {self.path}: {pickles[0].name}: pickled weights are not read; use safetensors")
        return {"dtype": self.dtype, "files": digest_files(folder, files)}

    def check_options(self) -> None:
        if self.kind == "sentence":
            return
        spec = self.model_spec()
        if self.backend == "vllm":
            spec.check_ready()
        if self.kind == "causal" and (reason := spec.cannot("embed")):
            raise SpecError(f"embedder {self.title}: {reason}; set embedder.kind=masked")
        config = spec.config()
        if self.kind == "masked" and (reason := find_direction(config)):
            raise SpecError(f"embedder {self.title}: {reason}; set embedder.kind=causal")
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
        """Return the length at which texts are cut."""
        if self.max_length is not None and context_length is not None:
            self.require(
                self.max_length <= context_length,
                "max_length",
                f"at most the context, {context_length} (a preset, compat=…, sets it unless it is typed)",
            )
        return self.max_length if self.max_length is not None else context_length
