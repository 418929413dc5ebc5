"""The spec of an embedder: a model, a layer, a pooling and a maximum length."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

from openended.harness.core import REQUIRED, DataError, Json, Spec, SpecError, cache_in_plan, construct, option, ranged
from openended.harness.models.families import find_direction, is_encoder
from openended.harness.models.files import digest_files, list_sentence_files
from openended.harness.models.forward import Pooling
from openended.harness.models.spec import ModelSpec

_PICKLED = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
_LAYER_COUNTS = ("num_hidden_layers", "n_layer", "num_layers")
_MODULES = "modules.json"
_POOLINGS: dict[str, Pooling] = {"cls": "first", "mean": "mean", "lasttoken": "last"}

Kind = Literal["causal", "masked", "sentence"]


class EmbedderTraits(NamedTuple):
    """How an embedder reads a text: what its options say, else what its files say."""

    kind: Kind
    pooling: Pooling
    normalize: bool
    max_length: int | None


class _Modules(NamedTuple):
    """What the files of a sentence-transformers model say; `pooling` is None where only that library can run it."""

    pooling: Pooling | None
    normalize: bool
    max_length: int | None


@dataclass(frozen=True, kw_only=True)
class EmbedderSpec(Spec):
    """An embedder of texts: a model, a layer, a pooling and a maximum length."""

    group = name = "embedder"
    connection_fields: ClassVar[frozenset[str]] = frozenset()
    """As of a model: options that change no vector. An embedder has none."""

    path: str = option(REQUIRED, str.strip, "a hub id, a folder or bundled:<name>")
    """Hub id, folder or `bundled:docs-m`, as for a model."""
    label: str | None = None
    """Name in tables; null: the last part of the path."""
    revision: str | None = None
    """Commit on the hub (branches change); null for a folder, which is identified by the digests of its files."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """As published."""
    kind: Kind | None = None
    """`causal`: a GPT; `masked`: a BERT, with its special tokens; `sentence`: run by sentence-transformers. null: as
    the model's files say (modules.json, then config.json)."""
    layer: int = -1
    """Index of the hidden states, 0 the input embeddings, -1 the last (MAUVE, section 4: the terminal state)."""
    pooling: Pooling | None = None
    """The text's last token (MAUVE), its first, or the mean. null: as modules.json says, else the last token of a
    causal model and the mean of a masked one."""
    normalize: bool | None = None
    """Scale vectors to length 1; null: as modules.json says."""
    max_length: int | None = ranged(None, "[1, inf)", "at least 1, or null")
    """Tokens, special ones included; equal for both sides. null: sentence_bert_config.json's, else the context."""

    def check(self) -> None:
        self.require(self.kind != "sentence" or self.layer == -1, "layer", "-1 for a sentence model")

    def model_spec(self) -> ModelSpec:
        return self._model_spec

    @cached_property
    def _model_spec(self) -> ModelSpec:
        options = {name: getattr(self, name) for name in ("path", "label", "revision", "dtype")}
        return construct(ModelSpec, options, "embedder")

    @cached_property
    def traits(self) -> EmbedderTraits:
        """How texts become vectors; reads the model's small files unless the options say it all."""
        kind, modules = self.kind, None
        if kind != "sentence" and None in (kind, self.pooling):
            modules = _read_modules(self.model_spec())
        if kind is None:
            can_run = modules is None or modules.pooling is not None
            encoder = can_run and is_encoder(self.model_spec().config())
            kind = "masked" if encoder else "causal" if modules is None else "sentence"
        usual: Pooling = "last" if kind == "causal" else "mean"
        published = modules or _Modules(None, normalize=False, max_length=None)
        return EmbedderTraits(
            kind,
            self.pooling or published.pooling or usual,
            published.normalize if self.normalize is None else self.normalize,
            published.max_length if self.max_length is None else self.max_length,
        )

    def read_kind(self) -> Kind:
        """Return how texts become vectors; raises `DataError` where the model's files say it and cannot be read."""
        return self.traits.kind

    @property
    def title(self) -> str:
        return self.model_spec().title

    @property
    def is_bundled(self) -> bool:
        return self.model_spec().is_bundled

    @cache_in_plan
    def identity(self) -> dict[str, Json]:
        # On the hub, a commit fixes what the options leave to the files, which may not be on this machine yet.
        is_here = self.model_spec().folder is not None
        traits = self.traits._asdict() if is_here else {name: getattr(self, name) for name in EmbedderTraits._fields}
        return {**self._identify_weights(), **traits, "layer": self.layer}

    def _identify_weights(self) -> dict[str, Json]:
        """Return the identity of the model alone; for a sentence model's folder, of all files with its modules'."""
        model = self.model_spec()
        model.check_adapter()
        folder = model.folder
        if folder is None or self.traits.kind != "sentence":
            return model.identity()
        if not (folder / _MODULES).is_file():
            raise DataError(
                f"embedder {self.path}: no modules.json in the folder (expected a sentence-transformers model)"
            )
        files = list_sentence_files(folder)
        pickles = [p for p in files if p.suffix in _PICKLED and not p.with_name("model.safetensors").is_file()]
        if pickles:
            raise DataError(f"embedder {self.path}: {pickles[0].name}: pickled weights are not read; use safetensors")
        return {"dtype": self.dtype, "files": digest_files(folder, files)}

    def check_options(self) -> None:
        kind = self.traits.kind
        if kind == "sentence":
            return
        spec = self.model_spec()
        config = spec.config()
        if reason := spec.cannot("embed") if kind == "causal" else find_direction(config):
            raise SpecError(f"embedder {self.title}: {reason}; leave embedder.kind out")
        num_layers = next((config[key] for key in _LAYER_COUNTS if isinstance(config.get(key), int)), None)
        if num_layers is not None:  # the states are the embeddings and those after each layer
            low, high = -num_layers - 1, num_layers
            self.require(low <= self.layer <= high, "layer", f"{low} … {high}")
        self.limit(spec.context_length())

    def limit(self, context_length: int | None) -> int | None:
        """Return the length at which texts are cut."""
        length = self.traits.max_length
        if length is not None and context_length is not None:
            if self.max_length is None:
                return min(length, context_length)
            self.require(
                length <= context_length,
                "max_length",
                f"at most the context, {context_length} (a preset, compat=…, sets it unless it is typed)",
            )
        return length if length is not None else context_length


def _read_modules(spec: ModelSpec) -> _Modules | None:
    """Read the files of a sentence-transformers model; None where the model has none."""
    modules = spec.read_optional(_MODULES, list)
    if modules is None:
        return None
    parts = [(str(m.get("type")).rpartition(".")[2], str(m.get("path"))) for m in modules if isinstance(m, dict)]
    transformer = spec.read_optional("sentence_bert_config.json") or {}
    prompts = spec.read_optional("config_sentence_transformers.json") or {}
    length = transformer.get("max_seq_length")
    names = [name for name, _ in parts]
    pooling = None
    is_usual = names in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]) and parts[0][1] == ""
    if is_usual and not transformer.get("do_lower_case") and not prompts.get("default_prompt_name"):
        options = spec.read_optional(f"{parts[1][1]}/config.json") or {}
        mode = options.get("pooling_mode")
        modes = {name[13:].partition("_")[0] for name, on in options.items() if name.startswith("pooling_mode_") and on}
        modes |= set(map(str, mode)) if isinstance(mode, list) else {str(mode)} if mode else set()
        is_whole = options.get("include_prompt", True) is True
        pooling = _POOLINGS.get(next(iter(modes))) if len(modes) == 1 and is_whole else None
    return _Modules(pooling, "Normalize" in names, length if isinstance(length, int) else None)
