"""The specs of models: where a model comes from, what runs it, and what identifies it.

A backend is its code in `harness/backends` (a spec registered in the group `model`, and the class that its spec loads),
a line in `harness/core/members.py` and a test. Its spec reports unsupported operations while the run is planned.
Planning needs names, digests and context lengths, never weights: everything here is free of torch.
"""

import dataclasses
import importlib
import logging
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args

from openended.harness import core
from openended.harness.decoders import Decoder
from openended.harness.models import files
from openended.harness.models.families import find_refusal
from openended.harness.models.files import WEIGHTS, ModelSize, digest_files, is_offline, list_shards

if TYPE_CHECKING:
    from openended.harness.models.gguf import GgufFacts

Ability = Literal["generate", "score", "rank", "gradients", "q_statistics", "q_entropy", "embed"]

log = logging.getLogger(__name__)

BUNDLED = "bundled:"
GGUF = ".gguf"
_NO_HUB = "not in the local cache and the hub is off or out of reach"
_POSITIONS = ("n_positions", "max_position_embeddings", "n_ctx", "max_sequence_length", "seq_length")
_FIELDS: dict[str, tuple[type, str]] = {"architectures": (list, "a list"), "model_type": (str, "a text")}
_FIELDS |= dict.fromkeys(("auto_map", "quantization_config", "text_config"), (dict, "an object"))
"""Field of config.json that is read → its type."""
_CHANGING_ROPE = ("longrope", "su", "dynamic")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LARGE = 10**9  # parameters above which `dtype=auto` is the stored precision
_HUB_ID = re.compile(r"(?!.*(?:--|\.\.|\.git$))(?:\w(?:[\w.-]*\w)?/)?\w(?:[\w.-]{0,94}\w)?")


def is_address(word: str) -> bool:
    """Return whether a word names a model by its hub id, its folder or its GGUF file, not by a name of `conf/`."""
    return "/" in word or word.startswith(BUNDLED) or word.endswith(GGUF) or (Path(word) / "config.json").is_file()


class ModelService(NamedTuple):
    """The servers of a model, as a plan shows them."""

    dialect: str  # protocol of the servers
    endpoints: tuple[str, ...]  # their addresses
    server: str | None  # product and version that answer now; None: no server does
    key: str | None = None  # the environment variable whose key they receive


class BackendSpec(core.Spec):
    """Base of the specs in the registry's group `model`: where a model comes from, and what runs it."""

    error_name: ClassVar[str] = "model"
    loader: ClassVar[str]
    """`module:function` that loads: (spec, device, device_map) → `Backend`; imported when the model is needed."""
    abilities: ClassVar[frozenset[Ability]] = frozenset(get_args(Ability))

    connection_fields: ClassVar[frozenset[str]] = frozenset()
    """Options for reaching the model, which change no text; systems that differ only in them are the same."""
    runs_in_process: ClassVar[bool] = False
    """True: weights of transformers are loaded, by this process or by the workers of `runtime.engine=ray`."""

    denoises: ClassVar[bool] = False  # true: a denoiser, which proposes tokens for positions in any order

    # Options that every subclass declares as its own fields:
    path: str  # hub id or folder of the model, or the id by which a server knows it
    revision: str | None  # commit on the hub; null: the newest

    @property
    def chat_template(self) -> bool | Literal["vicuna"]:
        """Whether the model under test reads each prompt through a chat template; a server applies its own."""
        return False

    @property
    def reads_messages(self) -> bool:
        """Whether a server applies the chat template to the turns of a prompt."""
        return False

    @property
    def thinking(self) -> core.Thinking:
        """What is scored of texts with reasoning: the answer, the whole text, or the reasoning."""
        return "drop"

    @property
    def dtype(self) -> str:
        return "as served"

    @property
    def folder(self) -> Path | None:
        """Folder of the model's files on this machine; None for a hub id, and for a model that a server runs."""
        return None

    @property
    def is_bundled(self) -> bool:
        return False

    @property
    def signature_note(self) -> str:
        """A remark about the model for the signature of every number; empty for most models."""
        return ""

    @property
    def title(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]

    def identity(self) -> dict[str, core.Json]:
        """Return what identifies the model; by default all options but those of the connection."""
        names = {f.name for f in dataclasses.fields(self)} - self.connection_fields - {"label"}  # type: ignore[arg-type]
        return {"backend": self.name, **{name: core.canonicalize(getattr(self, name)) for name in sorted(names)}}

    def context_length(self) -> int | None:
        """Number of positions; None where there is no limit."""
        return None

    def describe_size(self) -> ModelSize | None:
        """Return how large the model is and whether it is on this machine; None where a server runs it."""
        return None

    def describe_service(self) -> ModelService | None:
        """Return which servers run the model; None where this process loads it."""
        return None

    def explain_change(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
        """Return what the facts of earlier texts and of new ones say of another model; None if it is the same."""
        del before, now
        return None

    def without_label(self) -> "BackendSpec":
        """Return the spec without its name in tables: in a plan, one model under two names is one."""
        return self

    def check_ready(self) -> None:
        """Raise `DataError` if the model cannot be loaded; the message has what is missing and how to get it."""

    def tokenizer_spec(self) -> "ModelSpec | None":
        """Return the model whose tokenizer is used for this model's texts; None: the model gets text, not ids."""
        return None

    def cannot(self, ability: Ability, decoder: Decoder | None = None) -> str | None:
        """Return why the model cannot do this (with this decoder), None where it can; no weights are loaded."""
        del decoder
        return None if ability in self.abilities else f"the backend {self.name} cannot do {ability}"

    def demand(self, ability: Ability, decoder: Decoder | None = None) -> None:
        """Refuse, at planning, what the model cannot do."""
        reason = self.cannot(ability, decoder)
        if decoder is not None and decoder.denoises and not self.denoises:
            reason = f"{decoder.name} fills positions in any order; it needs model=denoiser"
        if reason is not None:
            raise core.SpecError(f"{self.error_name} {self.title}: {reason}")

    def check_lengths(self, decoder: Decoder, *, max_new_tokens: int, min_new_tokens: int) -> None:
        """Refuse, at planning, lengths that the backend cannot keep."""
        del decoder, max_new_tokens, min_new_tokens

    def load(self, *, device: str = "cpu", device_map: core.DeviceMap | None = None) -> Any:  # noqa: ANN401 - a `backend.Backend`, whose requests name specs
        module, _, function = self.loader.partition(":")
        return getattr(importlib.import_module(module), function)(self, device=device, device_map=device_map)


@core.model
class ModelSpec(BackendSpec):
    """A causal language model by Hugging Face hub id, by folder, or one that comes with the harness."""

    name = "transformers"
    synonyms = ("hf", "huggingface", "local")
    option_synonyms = {"torch_dtype": "dtype", "precision": "dtype", "apply_chat_template": "chat_template"}
    loader = "openended.harness.backends.transformers:load_backend"
    runs_in_process = True

    path: str = core.option(core.REQUIRED, str.strip, "a hub id, a folder, a GGUF file or bundled:<name>")
    """Hub id (`gpt2-large`), folder, GGUF file, or `bundled:docs-s`."""
    label: str | None = None
    """Name in tables; null: the last part of the path."""
    revision: str | None = None
    """Branch, tag or commit on the hub; pin a commit for anything that is published."""
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """bfloat16 and float16 give other numbers than float32. auto: of more than a billion parameters the precision in
    which they are stored, else float32; the identity has what it is."""
    chat_template: bool | Literal["vicuna"] = False
    """The model under test reads each prompt through its tokenizer's chat template, or Vicuna's (see `models.chat`)."""
    bos: bool | None = None
    """The beginning-of-text token before every text that the model reads; null: as its tokenizer does."""

    thinking: core.Thinking = "drop"
    """What is scored of texts with reasoning: `drop` the answer, `keep` the whole text, `only` the reasoning."""
    chat_template_kwargs: core.JsonOptions | None = None
    """Arguments of the chat template, such as `enable_thinking`."""

    def check(self) -> None:
        is_read = not self.chat_template_kwargs or bool(self.chat_template)
        self.require(is_read, "chat_template_kwargs", "null where chat_template is false")
        names, is_local = list_bundled_models(), self.is_gguf or self.folder is not None
        if self.is_gguf:
            self.require(self.name == "transformers", "path", "a folder or a hub id; model=folder reads GGUF files")
        elif self.path.startswith(BUNDLED):
            self.require(self.path.removeprefix(BUNDLED) in names, "path", f"bundled: one of {', '.join(names)}")
        elif not is_local and (name := core.find_spelling(self.path, names)):
            self.require(False, "path", f"{BUNDLED}{name}")
        is_other_file = Path(self.path).expanduser().is_file() and not self.is_gguf
        self.require(not is_other_file, "path", "a folder, a GGUF file or a hub id, not another file")
        self.require(is_local or bool(_HUB_ID.fullmatch(self.path)), "path", "a folder or a hub id, as OWNER/NAME")
        self.require(self.revision is None or not is_local, "revision", "null for a folder or file (revision=null)")
        if self.dtype == "auto":
            object.__setattr__(self, "dtype", _choose_precision(dataclasses.replace(self, dtype="float32")))

    @property
    def title(self) -> str:
        name = self.label or self.path.removeprefix(BUNDLED).rstrip("/").rpartition("/")[2]
        if (facts := self.gguf_facts()) and not self.label:
            name = name.removesuffix(GGUF)
            name = name if facts.quantization.lower() in name.lower() else f"{name} {facts.quantization}"
        return f"{name} (chat)" if self.chat_template else name

    @property
    def folder(self) -> Path | None:
        if self.path.startswith(BUNDLED):
            return find_assets_folder() / self.path.removeprefix(BUNDLED)
        path = Path(self.path).expanduser()
        if self.is_gguf:
            from openended.harness.models.gguf import unpack_gguf

            return unpack_gguf(path)
        looks_local = self.path.startswith((".", "/", "~")) or self.path.count("/") > 1
        return path if path.is_dir() or looks_local else None

    @property
    def is_bundled(self) -> bool:
        return self.path.startswith(BUNDLED)

    @property
    def is_gguf(self) -> bool:
        """Whether the model is one GGUF file; its folder then is that of what the file holds beside its weights."""
        return self.path.endswith(GGUF)

    def gguf_facts(self) -> "GgufFacts | None":
        if not self.is_gguf or self.folder is None:
            return None
        from openended.harness.models.gguf import read_facts

        return read_facts(self.folder)

    def describe_size(self) -> ModelSize:
        if facts := self.gguf_facts():
            return ModelSize(facts.parameters, True, None, "", facts.parameters * files.BYTES[self.dtype])
        return files.describe_model_size(self.path, self.folder, self.revision, self.dtype)

    @core.cache_in_plan
    def without_label(self) -> "ModelSpec":
        """Return the spec without its label and `bos`, so that models with equal weights and prompts are equal."""
        return dataclasses.replace(self, label=None, bos=None)

    @core.cache_in_plan
    def identity(self) -> dict[str, core.Json]:
        """Return the model's identity independent of its path: content digests, or the hub's commit."""
        fields: dict[str, core.Json] = {"dtype": self.dtype, "chat_template": self.chat_template}
        if self.bos is not None:
            fields["bos"] = self.bos
        if self.chat_template_kwargs:
            fields["chat_template_kwargs"] = core.canonicalize(self.chat_template_kwargs)
        folder = self.folder
        if folder is None:
            return {**fields, "hub": self.path, "commit": self.commit()}
        if self.is_bundled:
            return {**fields, "files": dict(_digest_bundled_files(folder, chat=bool(self.chat_template)))}
        self.check_ready()
        if facts := self.gguf_facts():
            weights = digest_files(folder, [folder / files.GGUF_WEIGHTS])
            return {**fields, "files": weights, "quantization": facts.quantization}
        return {**fields, "files": digest_files(folder, files.list_model_files(folder, chat=bool(self.chat_template)))}

    def context_length(self) -> int | None:
        """Number of positions by config.json; None where the config has no such limit.

        Rotary embeddings of type `longrope` and `dynamic` change all positions once a text is longer than the original
        context, so that a token's distribution depends on what follows it: there the original context is the limit.
        """
        parts = _list_parts(self.config())
        lengths = [part[key] for part in parts for key in _POSITIONS if isinstance(part.get(key), int)]
        original = [n for part in parts for n in _find_original_lengths(part)]
        return min([int(lengths[0]), *original]) if lengths else None

    def end_ids(self) -> tuple[int, ...]:
        """Return the tokens that end a text: all that config.json and generation_config.json name, each once."""
        named = [part.get("eos_token_id") for part in _list_parts(self.config())]
        named.append((self.read_optional("generation_config.json") or {}).get("eos_token_id"))
        flat = [i for value in named for i in (value if isinstance(value, list) else [value])]
        return tuple(dict.fromkeys(i for i in flat if isinstance(i, int)))

    def bos_id(self) -> int | None:
        """Return the beginning-of-text token that config.json names."""
        named = (part.get("bos_token_id") for part in _list_parts(self.config()))
        return next((token for token in named if type(token) is int and token >= 0), None)

    def tokenizer_spec(self) -> "ModelSpec":
        """Return the model without the options of another backend, for its tokenizer and for reference texts."""
        if type(self) is ModelSpec:
            return self
        return ModelSpec(**{f.name: getattr(self, f.name) for f in dataclasses.fields(ModelSpec)})

    def config(self) -> dict[str, Any]:
        path = self.find_file("config.json")
        if path is None:
            raise core.UnavailableModelError(
                f"model {self.path}: config.json is not in the local cache; {_format_download_advice(self)}"
            )
        if not path.parent.is_dir():
            raise core.DataError(f"model {self.path}: no such folder")
        if not path.is_file():
            hint = files.suggest_inner_model(path.parent)
            raise core.DataError(f"model {self.path}: no config.json in the folder{hint}")
        config: dict[str, Any] = _read_json(path, dict)
        for name, (kind, words) in _FIELDS.items():
            if not isinstance(config.get(name), kind | None):
                raise core.DataError(f"{path}: {name}: expected {words}, got {config[name]!r:.40}")
        return config

    def tokenizer_config(self) -> dict[str, Any]:
        return self.read_optional("tokenizer_config.json") or {}

    def read_optional(self, name: str, kind: type = dict) -> Any:  # noqa: ANN401 - JSON
        """Return the content of an optional JSON file of the model; None if there is no such file."""
        path = self.find_file(name, optional=True)
        return _read_json(path, kind) if path is not None and path.is_file() else None

    def cannot(self, ability: Ability, decoder: Decoder | None = None) -> str | None:
        self.check_adapter()
        return find_refusal(self.config()) or super().cannot(ability, decoder)

    @core.cache_in_plan
    def check_adapter(self) -> None:
        """Refuse an adapter, which transformers would load with the base weights if `peft` is installed."""
        paths = (self.find_file(name, optional=True) for name in files.ADAPTERS)
        if adapter := next((path for path in paths if path is not None and path.is_file()), None):
            raise core.DataError(
                f"model {self.path}: {adapter.name} belongs to an adapter (LoRA), which is not read; merge it into its "
                "base model with merge_and_unload of peft, save that with its tokenizer, and name the new folder"
            )

    @core.cache_in_plan
    def check_ready(self) -> None:
        self.check_adapter()
        folder = self.folder
        if folder is None:
            if is_offline():
                from huggingface_hub import try_to_load_from_cache

                cached = [try_to_load_from_cache(self.path, name, revision=self.revision) for name in WEIGHTS]
                if self.hub_file("config.json") is None or not any(isinstance(path, str) for path in cached):
                    raise core.UnavailableModelError(f"model {self.path}: {_NO_HUB}; {_format_download_advice(self)}")
            if index := self.hub_file(files.INDEX, optional=True):
                list_shards(index)
            return
        if not folder.is_dir():
            raise core.DataError(f"model {self.path}: no such folder")
        self.end_ids()
        if not self.is_gguf and not any((folder / name).is_file() for name in WEIGHTS):
            advice = "; pickled weights (.bin) are not read: convert them with save_pretrained of transformers"
            hint = advice if any(folder.glob("*.bin")) else files.suggest_inner_model(folder)
            raise core.DataError(f"model {self.path}: no weights in the folder (expected model.safetensors){hint}")
        if (folder / files.INDEX).is_file():
            list_shards(folder / files.INDEX)
        if not any((folder / name).is_file() for name in files.TOKENIZERS):
            raise core.DataError(f"model {self.path}: no tokenizer in the folder (expected tokenizer.json)")

    def commit(self) -> str:
        """Return the commit that the revision names: from the local cache, else from the hub."""
        if self.revision is not None and _COMMIT.fullmatch(self.revision):
            return self.revision
        cached = self.hub_file("config.json")
        if cached is not None and _COMMIT.fullmatch(cached.parent.name):
            return cached.parent.name
        if is_offline():
            raise core.UnavailableModelError(f"model {self.path}: {_NO_HUB}; {_format_download_advice(self)}")
        from huggingface_hub import HfApi

        try:
            return str(HfApi().model_info(self.path, revision=self.revision).sha)
        except Exception as err:
            raise core.DataError(
                f"model {self.path}: the hub does not answer for it ({core.shorten_error(err)})"
            ) from err

    @property
    def source(self) -> tuple[str, str | None]:
        """Folder or hub id, and the revision on the hub, as transformers takes them."""
        return (self.path, self.revision) if self.folder is None else (str(self.folder), None)

    @core.cache_in_plan
    def find_file(self, name: str, *, optional: bool = False) -> Path | None:
        """Return the path of a file in the folder, which may lack it, or of the hub model."""
        return self.folder / name if self.folder is not None else self.hub_file(name, optional=optional)

    def hub_file(self, name: str, *, optional: bool = False) -> Path | None:
        """Return the path of a file of the hub model in the local cache, fetched if allowed; None if there is none."""
        from huggingface_hub import hf_hub_download, try_to_load_from_cache
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        cached = try_to_load_from_cache(self.path, name, revision=self.revision)
        if isinstance(cached, str):
            return Path(cached)
        if is_offline() or (optional and cached is not None):  # the hub has said before that there is none
            return None
        try:
            return Path(hf_hub_download(self.path, name, revision=self.revision))
        except Exception as err:
            if optional and isinstance(err, EntryNotFoundError):
                return None
            kind = core.UnavailableModelError if isinstance(err, LocalEntryNotFoundError) else core.DataError
            raise kind(
                f"model {self.path}: cannot fetch {name} ({core.shorten_error(err)}); {_format_download_advice(self)}"
            ) from err


@lru_cache
def _choose_precision(spec: ModelSpec) -> str:
    """Return what `dtype=auto` stands for, and say it once."""
    count = spec.describe_size().parameters
    if count is None:
        raise core.SpecError(f"model.dtype: auto needs the weights of {spec.path} or the hub; set float32 or bfloat16")
    named = (part.get(key) for part in _list_parts(spec.config()) for key in ("dtype", "torch_dtype"))
    stored = next((name for name in named if name in files.BYTES), "float32")
    precision = stored if count > _LARGE else "float32"
    log.info("dtype      %-34s %s (%.2g billion parameters, stored in %s)", spec.title, precision, count / 1e9, stored)
    return precision


def _list_parts(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return config.json and its part about the text model, which may be empty."""
    return config, config.get("text_config") or {}


def _find_original_lengths(config: Mapping[str, Any]) -> list[int]:
    """Return the original context lengths of rotary embeddings whose frequencies depend on the length of the text."""
    field = "original_max_position_embeddings"
    ropes = [config.get(name) for name in ("rope_parameters", "rope_scaling")]
    ropes += [rope for group in ropes if isinstance(group, Mapping) for rope in group.values()]
    changing = [
        rope
        for rope in ropes
        if isinstance(rope, Mapping) and (rope.get("rope_type") or rope.get("type")) in _CHANGING_ROPE
    ]
    lengths = [part.get(field) for rope in changing for part in (rope, config)]
    return [n for n in lengths if isinstance(n, int) and n > 0]


@cache
def list_bundled_models() -> tuple[str, ...]:
    """List the names of the models that come with the harness."""
    root = find_assets_folder()
    return tuple(sorted(p.name for p in root.iterdir() if (p / "config.json").is_file())) if root.is_dir() else ()


@cache
def find_assets_folder() -> Path:
    """Return the folder of the bundled models."""
    from importlib.resources import files

    return Path(str(files("openended.harness"))) / "assets"


def _read_json(path: Path, kind: type) -> Any:  # noqa: ANN401
    state = path.stat()
    return _parse_json(path, kind, (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=64)  # every job of a grid asks several times
def _parse_json(path: Path, kind: type, changed: tuple[int, int]) -> Any:  # noqa: ANN401, ARG001 - of the key
    content = core.read_json(path)
    if not isinstance(content, kind):
        raise core.DataError(f"{path}: expected a JSON {'array' if kind is list else 'object'}")
    return content


def _format_download_advice(spec: ModelSpec) -> str:
    pin = f" --revision {spec.revision}" if spec.revision else ""
    return f"get it where there is a network with `hf download {spec.path}{pin}`, or name a folder"


def require_model(value: object, where: str) -> BackendSpec:
    """Return `value`, the spec of a model."""
    if not isinstance(value, BackendSpec):
        raise core.SpecError(f"{where}: expected a model, got {getattr(value, 'name', value)!s:.80}")
    return value


@cache
def _digest_bundled_files(folder: Path, *, chat: bool) -> dict[str, core.Json]:
    """Return the digests of a bundled model, whose files stay as they are while a process runs."""
    return digest_files(folder, files.list_model_files(folder, chat=chat))
