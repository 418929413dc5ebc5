"""Causal language models: where one comes from (`ModelSpec`) and one in memory (`LanguageModel`).

Planning needs names, digests and context lengths, never weights: everything on `ModelSpec` is free of torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from openended.harness.contract import Spec, Tokenizer
from openended.harness.errors import DataError
from openended.harness.io import file_digest, read_json
from openended.harness.models.hub import offline
from openended.harness.models.pieces import Pieces, are_exact
from openended.harness.models.placement import DeviceMap, gather, require_accelerate
from openended.harness.registry import register
from openended.harness.signature import digest
from openended.harness.types import Json

if TYPE_CHECKING:
    import torch

BUNDLED = "bundled:"
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")
_NO_HUB = "not in the local cache and the hub is off or out of reach"
_POSITIONS = ("n_positions", "max_position_embeddings", "n_ctx", "max_sequence_length", "seq_length")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@register("model")
@dataclass(frozen=True, kw_only=True)
class ModelSpec(Spec):
    """A causal language model by Hugging Face hub id, by folder, or one that comes with the harness."""

    name: ClassVar[str] = "transformers"
    called: ClassVar[str] = "model"

    path: str
    """Hub id (`gpt2-large`), folder, or `bundled:docs-s`."""
    label: str | None = None
    """Name in tables; null: the last part of the path."""
    revision: str | None = None
    """Branch, tag or commit on the hub; pin a commit for anything that is published."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    chat_template: bool = False
    """The model under test reads each prompt through its tokenizer's chat template (see `models.chat`)."""

    def check(self) -> None:
        """Refuse what no model can be: an empty path, a revision of a folder, an unknown bundled model."""
        self.require(bool(self.path.strip()), "path", "a hub id, a folder or bundled:<name>")
        if self.path.startswith(BUNDLED):
            known = bundled_models()
            self.require(self.path.removeprefix(BUNDLED) in known, "path", f"bundled: one of {', '.join(known)}")
        self.require(self.revision is None or self.folder is None, "revision", "null for a folder")

    @property
    def title(self) -> str:
        """Name in tables."""
        name = self.label or self.path.removeprefix(BUNDLED).rstrip("/").rpartition("/")[2]
        return f"{name} (chat)" if self.chat_template else name

    @property
    def folder(self) -> Path | None:
        """The folder the model lies in, or None for a hub id."""
        if self.path.startswith(BUNDLED):
            return _assets() / self.path.removeprefix(BUNDLED)
        path = Path(self.path).expanduser()
        looks_local = self.path.startswith((".", "/", "~")) or self.path.count("/") > 1
        return path if path.is_dir() or looks_local else None

    def identity(self) -> dict[str, Json]:
        """What makes two models the same one, whatever their paths: content digests, or the hub's commit.

        Raises:
            DataError: If a file is missing or the hub cannot be asked.
        """
        made: dict[str, Json] = {"dtype": self.dtype, "chat_template": self.chat_template}
        folder = self.folder
        if folder is None:
            return {**made, "hub": self.path, "commit": self._commit()}
        self.check_ready()
        return {**made, "files": {p.name: _cached_digest(*_fingerprint(p)) for p in _model_files(folder)}}

    def context_length(self) -> int | None:
        """Number of positions by config.json; None where the config has no such limit."""
        config = self.config()
        found = [config[key] for key in _POSITIONS if isinstance(config.get(key), int)]
        return int(found[0]) if found else None

    def config(self) -> dict[str, Any]:
        """config.json as a dict.

        Raises:
            DataError: If it is missing or no JSON object.
        """
        folder = self.folder
        path = folder / "config.json" if folder is not None else self._hub_file("config.json")
        if path is None:
            raise DataError(f"model {self.path}: config.json is not in the local cache; {_how_to_get(self)}")
        if not path.is_file():
            raise DataError(f"model {self.path}: no config.json in {path.parent}")
        config = read_json(path)
        if not isinstance(config, dict):
            raise DataError(f"{path}: expected a JSON object")
        return config

    def check_ready(self) -> None:
        """Raise `DataError` if the model cannot be loaded: says which file is missing and how to get it."""
        folder = self.folder
        if folder is None:
            if offline() and (self._hub_file("config.json") is None or not self._hub_weights()):
                raise DataError(f"model {self.path}: {_NO_HUB}; {_how_to_get(self)}")
            return
        if not folder.is_dir():
            raise DataError(f"model {self.path}: no such folder")
        if not (folder / "config.json").is_file():
            raise DataError(f"model {self.path}: no config.json in the folder")
        if not any((folder / name).is_file() for name in _WEIGHTS):
            raise DataError(f"model {self.path}: no weights in the folder (expected model.safetensors)")
        if not any((folder / name).is_file() for name in _TOKENIZERS):
            raise DataError(f"model {self.path}: no tokenizer in the folder (expected tokenizer.json)")

    def _commit(self) -> str:
        """The commit that the revision names: from the local cache, else from the hub."""
        if self.revision is not None and _COMMIT.fullmatch(self.revision):
            return self.revision
        cached = self._hub_file("config.json")
        if cached is not None and _COMMIT.fullmatch(cached.parent.name):
            return cached.parent.name
        if offline():
            raise DataError(f"model {self.path}: {_NO_HUB}; {_how_to_get(self)}")
        from huggingface_hub import HfApi

        try:
            return str(HfApi().model_info(self.path, revision=self.revision).sha)
        except Exception as err:
            raise DataError(f"model {self.path}: the hub does not answer for it ({_line(err)})") from err

    def _hub_file(self, name: str) -> Path | None:
        """A file of the hub model in the local cache; fetched if the hub may be asked; None if there is none."""
        from huggingface_hub import hf_hub_download, try_to_load_from_cache

        found = try_to_load_from_cache(self.path, name, revision=self.revision)
        if isinstance(found, str):
            return Path(found)
        if offline():
            return None
        try:
            return Path(hf_hub_download(self.path, name, revision=self.revision))
        except Exception as err:
            raise DataError(f"model {self.path}: cannot fetch {name} ({_line(err)}); {_how_to_get(self)}") from err

    def _hub_weights(self) -> bool:
        from huggingface_hub import try_to_load_from_cache

        return any(isinstance(try_to_load_from_cache(self.path, w, revision=self.revision), str) for w in _WEIGHTS)


@dataclass(frozen=True)
class TextTokenizer:
    """A tokenizer that adds no special tokens and cleans nothing up."""

    inner: Any
    """A `tokenizers.Tokenizer` or a transformers tokenizer."""
    eos_id: int | None
    byte_level: bool
    """True where the text of a sequence is the concatenation of the texts of its parts (up to split characters)."""
    pieces: Pieces | None = field(default=None, repr=False, compare=False)
    """Remembers the tokens of pieces, where a text's tokens are those of its pieces."""

    def vocabulary(self) -> dict[str, int]:
        """Return the id of every token."""
        return dict(self.inner.get_vocab())

    def encode(self, text: str) -> list[int]:
        """Return token ids of `text`."""
        if self.pieces is not None:
            return self.pieces.encode(text)
        made = self.inner.encode(text, add_special_tokens=False)
        return list(made if isinstance(made, list) else made.ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        options = (
            {} if type(self.inner).__module__.startswith("tokenizers") else {"clean_up_tokenization_spaces": False}
        )
        return str(self.inner.decode([int(i) for i in ids], skip_special_tokens=False, **options))


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A model in memory, ready to score and to generate."""

    model: Any
    """A transformers causal LM in eval mode."""
    tokenizer: TextTokenizer
    device: torch.device
    dtype: torch.dtype
    eos_id: int | None
    vocab_size: int
    """Size of the logits, which may exceed the tokenizer's."""
    context_length: int | None
    spec: ModelSpec
    memo: dict[str, Any] = field(default_factory=dict)
    """What is derived from the weights once, for example a layout that suits the forward pass."""

    def encode(self, text: str) -> list[int]:
        """Return token ids of `text`; no special tokens."""
        return self.tokenizer.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids; no clean-up."""
        return self.tokenizer.decode(ids)

    def continuation(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """Return the text that `ids` add after `prompt`: keeps the space that some tokenizers drop at a start."""
        if self.tokenizer.byte_level or not len(prompt):
            return self.decode(ids)
        before, whole = self.decode(prompt), self.decode([*prompt, *ids])
        return whole[len(before) :] if whole.startswith(before) else self.decode(ids)

    @property
    def start_id(self) -> int:
        """What stands before an empty prompt: the beginning-of-text token, else the end-of-text token, else 0."""
        bos = getattr(self.model.config, "bos_token_id", None)
        return int(bos) if isinstance(bos, int) else int(self.eos_id or 0)


def load_tokenizer(spec: ModelSpec) -> TextTokenizer:
    """Load the tokenizer alone, without torch where a tokenizer.json is there.

    Raises:
        DataError: If there is none or it cannot be read.
    """
    folder = spec.folder
    path = folder / "tokenizer.json" if folder is not None else spec._hub_file("tokenizer.json")
    try:
        if path is not None and path.is_file():
            from tokenizers import Tokenizer as Fast

            inner = Fast.from_file(str(path))
            told = json.loads(path.read_text(encoding="utf-8"))
            byte_level = (told.get("decoder") or {}).get("type") == "ByteLevel"
            pieces = Pieces(inner) if are_exact(told) else None
            return TextTokenizer(inner, _eos_id(spec, inner.token_to_id), byte_level, pieces)
        from transformers import AutoTokenizer

        where = str(folder or spec.path)
        slow = AutoTokenizer.from_pretrained(where, revision=spec.revision, trust_remote_code=False)
    except DataError:
        raise
    except Exception as err:
        raise DataError(f"model {spec.path}: cannot load its tokenizer ({_line(err)})") from err
    return TextTokenizer(slow, slow.eos_token_id, byte_level=False)


def tokenizer_digest(spec: ModelSpec) -> str:
    """SHA-256 (hex) that identifies the tokenizer: of its files for a folder, of hub id and commit otherwise."""
    folder = spec.folder
    if folder is None:
        return digest(["tokenizer", spec.path, spec._commit()])
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise DataError(f"model {spec.path}: no tokenizer in the folder (expected tokenizer.json)")
    return digest({p.name: _cached_digest(*_fingerprint(p)) for p in _model_files(folder) if _is_tokenizer(p.name)})


def load_model(spec: ModelSpec, *, device: str = "cpu", device_map: DeviceMap | None = None) -> LanguageModel:
    """Load weights and tokenizer; eval mode, no gradients, the model's own generation_config put aside.

    Args:
        spec: Which model.
        device: `cpu`, `cuda` or `cuda:<i>`; with a `device_map`, what stands there is left to accelerate.
        device_map: How accelerate spreads the weights over all devices there are; null: `device` holds them all.

    Raises:
        DataError: If files are missing or cannot be read, or the device is not there.
        MissingExtra: If a device map is asked for and accelerate is not installed.
    """
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig
    from transformers.utils import logging as transformers_logging

    spec.check_ready()
    if device_map is not None:
        require_accelerate()
    elif device.startswith("cuda") and not torch.cuda.is_available():
        raise DataError(f"device {device}: no CUDA device is visible; use runtime.device=cpu")
    transformers_logging.disable_progress_bar()
    dtype = getattr(torch, spec.dtype)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            str(spec.folder or spec.path),
            revision=None if spec.folder else spec.revision,
            dtype=dtype,
            trust_remote_code=False,
            use_safetensors=True,
            attn_implementation="sdpa",
            device_map=device_map,
        )
    except Exception as err:
        raise DataError(f"model {spec.path}: cannot be loaded ({_line(err)})") from err
    place = torch.device(device) if device_map is None else gather(model)
    model = (model.to(place) if device_map is None else model).eval().requires_grad_(requires_grad=False)
    model.generation_config = GenerationConfig()
    tokenizer = load_tokenizer(spec)
    return LanguageModel(
        model=model,
        tokenizer=tokenizer,
        device=place,
        dtype=dtype,
        eos_id=_end_of_turn(spec, tokenizer.eos_id) if spec.chat_template else tokenizer.eos_id,
        vocab_size=int(model.get_output_embeddings().weight.shape[0]),
        context_length=spec.context_length(),
        spec=spec,
    )


def bundled_models() -> tuple[str, ...]:
    """Names of the models that come with the harness."""
    root = _assets()
    return tuple(sorted(p.name for p in root.iterdir() if (p / "config.json").is_file())) if root.is_dir() else ()


def _end_of_turn(spec: ModelSpec, eos_id: int | None) -> int | None:
    """Instruction models end a turn, not a document: with the token that their template writes there."""
    from openended.harness.models.chat import load_template

    end = load_template(spec).end()
    return eos_id if end is None else end


def _assets() -> Path:
    from importlib.resources import files

    return Path(str(files("openended.harness"))) / "assets"


def _model_files(folder: Path) -> list[Path]:
    """Files that decide what the model does: weights, config, tokenizer."""
    kept = [p for p in folder.iterdir() if p.is_file()]
    return sorted(p for p in kept if p.suffix == ".safetensors" or p.name == "config.json" or _is_tokenizer(p.name))


def _is_tokenizer(name: str) -> bool:
    return name in (*_TOKENIZERS, "merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")


def _fingerprint(path: Path) -> tuple[str, int, int]:
    stat = path.stat()
    return str(path), stat.st_size, stat.st_mtime_ns


@lru_cache(maxsize=256)
def _cached_digest(path: str, size: int, mtime: int) -> str:  # noqa: ARG001 - part of the cache's key
    return file_digest(Path(path))


def _eos_id(spec: ModelSpec, token_to_id: Any) -> int | None:  # noqa: ANN401 - a bound method of `tokenizers`
    """The end token by the config, else by the tokenizer's usual names."""
    eos = spec.config().get("eos_token_id")
    if isinstance(eos, list):
        eos = eos[0] if eos else None
    if isinstance(eos, int):
        return eos
    found = (token_to_id(name) for name in ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>"))
    return next((i for i in found if i is not None), None)


def _how_to_get(spec: ModelSpec) -> str:
    pin = f" --revision {spec.revision}" if spec.revision else ""
    return f"get it where there is a network with `hf download {spec.path}{pin}`, or set model.path to a folder"


def _line(err: Exception) -> str:
    """The first line of an error, short."""
    return (str(err).strip().splitlines() or [type(err).__name__])[0][:200]


__all__ = [
    "BUNDLED",
    "LanguageModel",
    "ModelSpec",
    "TextTokenizer",
    "Tokenizer",
    "bundled_models",
    "load_model",
    "load_tokenizer",
    "tokenizer_digest",
]
