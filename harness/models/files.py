"""List and digest the files of a model folder that are loaded."""

import contextlib
import json
import logging
import math
import re
import socket
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from openended.harness import core

log = logging.getLogger(__name__)

NAMES = (*core.OFFLINE_VARIABLES, "TRANSFORMERS_OFFLINE")  # and those of models
SECONDS = 5.0  # seconds that a connection may take


def is_offline() -> bool:
    """Return whether nothing can be fetched from the hub: it is switched off, or its host cannot be reached."""
    if core.is_switched_off(NAMES):
        return True
    from huggingface_hub import constants

    if is_reachable(constants.ENDPOINT):
        return False
    # The hub's client would retry for half a minute for every file, even for those in the cache.
    constants.HF_HUB_OFFLINE = True
    return True


@lru_cache
def is_reachable(endpoint: str) -> bool:
    """Return whether a host accepts connections, checked once per process; assumed behind a proxy."""
    parts = urlsplit(endpoint)
    if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(parts.hostname or ""):
        return True
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=SECONDS).close()
    except OSError as err:
        log.warning("%s cannot be reached (%s); only cached files are used", endpoint, err)
        return False
    return True


INDEX = "model.safetensors.index.json"
WEIGHTS = ("model.safetensors", INDEX)
GGUF_WEIGHTS = "model.gguf"  # in the folder of a GGUF file: a link to it
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")
_TOKENIZER_PARTS = ("merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt")
_CONFIGS = ("config.json", "generation_config.json")
ADAPTERS = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")
# Type of a part of a tokenizer.json → its options that only some versions of `tokenizers` write, with their defaults.
_UNSTATED: dict[str, dict[str, tuple[core.Json, ...]]] = {
    "ByteLevel": {"use_regex": (True,)},
    "BPE": {
        **dict.fromkeys(("dropout", "unk_token"), (None,)),
        **dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), (False,)),
        **dict.fromkeys(("continuing_subword_prefix", "end_of_word_suffix"), (None, "")),
    },
}
# What stands in place of a file that Git LFS has not fetched.
_POINTER, _POINTER_SIZE = b"version https://git-lfs", 1024
# Files of a sentence-transformers folder that are not loaded.
_UNREAD = (".md", ".lock", ".gitattributes")


def list_model_files(folder: Path, *, chat: bool) -> list[Path]:
    """List weights (shards that the index names, and the index), configs and tokenizer; with `chat` its template."""
    named = (*_CONFIGS, *TOKENIZERS, *_TOKENIZER_PARTS, *(("chat_template.jinja",) if chat else ()))
    return sorted([p for name in named if (p := folder / name).is_file()] + _list_weight_files(folder))


def suggest_inner_model(folder: Path) -> str:
    """Return a hint for a folder that is no model, but has one inside: a checkpoint, a snapshot or a GGUF."""
    inner = sorted(path for pattern in ("*/config.json", "snapshots/*/config.json") for path in folder.glob(pattern))
    paths = [*(path.parent for path in inner), *sorted(folder.glob("*.gguf"))]
    return f"; name {paths[-1]}" if paths else ""


def list_tokenizer_files(folder: Path) -> list[Path]:
    """List only the files of the tokenizer."""
    return sorted(p for name in (*TOKENIZERS, *_TOKENIZER_PARTS) if (p := folder / name).is_file())


def list_sentence_files(folder: Path) -> list[Path]:
    """List all files of a sentence-transformers folder, those of its modules included."""
    paths = [p for p in folder.rglob("*") if p.is_file() and p.suffix not in _UNREAD]
    return sorted(p for p in paths if not any(part.startswith(".") for part in p.relative_to(folder).parts))


def digest_files(folder: Path, files: Iterable[Path]) -> dict[str, core.Json]:
    """Return path in the folder → SHA-256 (hex); cached while a file's size and time stay the same.

    Of a tokenizer.json, that of what it says: who saves a tokenizer again may indent it, or state its defaults.
    """
    stats = ((path, path.stat()) for path in files)
    return {
        path.relative_to(folder).as_posix(): _digest_cached(str(path), stat.st_size, stat.st_mtime_ns)
        for path, stat in stats
    }


def _list_weight_files(folder: Path) -> list[Path]:
    """Return the weight files that transformers would load: the one file, else the shards of the index."""
    single_file, index = folder / WEIGHTS[0], folder / INDEX
    if single_file.is_file() or not index.is_file():
        return [single_file] if single_file.is_file() else []
    files = [folder / name for name in list_shards(index)]
    missing = next((p.name for p in files if not p.is_file()), None)
    if missing is not None:
        raise core.DataError(f"{index}: names the shard {missing}, which is not in the folder")
    return [index, *files]


def list_shards(index: Path) -> list[str]:
    """Return the weight files that an index names; all must be safetensors, for transformers would unpickle others."""
    content = core.read_json(index)
    shards = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(shards, dict):
        raise core.DataError(f"{index}: expected an object with a weight_map")
    names = sorted({str(name) for name in shards.values()})
    if wrong := [name for name in names if not re.fullmatch(r"[\w.-]+\.safetensors", name)]:
        raise core.DataError(
            f"{index}: expected names of .safetensors files, got {wrong[0]!r:.80}; pickles are not read"
        )
    return names


@lru_cache(maxsize=256)
def _digest_cached(path: str, size: int, mtime: int) -> str:  # noqa: ARG001 - part of the cache's key
    if Path(path).name == TOKENIZERS[0]:
        with contextlib.suppress(ValueError, TypeError, RecursionError):  # no tokenizer; loading it says so
            content = json.loads(Path(path).read_text(encoding="utf-8"), object_hook=_normalize_part)
            return core.digest_bytes(json.dumps(content, sort_keys=True).encode())
    if size < _POINTER_SIZE and Path(path).read_bytes().startswith(_POINTER):
        raise core.DataError(f"{path}: a pointer of Git LFS, not the file itself; fetch it with `git lfs pull`")
    return core.digest_file(Path(path))


def _normalize_part(part: dict[str, Any]) -> dict[str, Any]:
    """Drop what a part of a tokenizer.json need not state; merges become pairs."""
    defaults = _UNSTATED.get(str(part.get("type")), {})
    part = {name: value for name, value in part.items() if value not in defaults.get(name, ())}
    if defaults and "merges" in part:
        part["merges"] = [merge.split(" ") if isinstance(merge, str) else merge for merge in part["merges"]]
    return part


BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Facts about a model that a plan shows without loading it."""

    parameters: int | None
    here: bool
    gated: bool | None  # whether the hub restricts access to it (gated); None if the hub could not be asked
    get: str  # the command that fetches it; empty where it is here or a folder
    memory: int | None  # bytes of the weights in the wanted precision; activations and caches come on top


@lru_cache
def describe_model_size(path: str, folder: Path | None, revision: str | None, dtype: str) -> ModelSize:
    """Return a model's size from its weights' header, else from the hub."""
    weights = folder
    if folder is None:
        from huggingface_hub import try_to_load_from_cache

        cached = (try_to_load_from_cache(path, name, revision=revision) for name in WEIGHTS)
        weights = next((Path(file).parent for file in cached if isinstance(file, str)), None)
    header = _count_in_folder(weights) if weights is not None else None
    here = header is not None
    parameters, gated = header, None
    if folder is None and not here:
        parameters, gated = _ask_hub(path, revision) if not is_offline() else (None, None)
    pin = f" --revision {revision}" if revision else ""
    get = f"hf download {path}{pin}" if folder is None and not here else ""
    memory = parameters * BYTES[dtype] if parameters else None
    return ModelSize(parameters, here, gated, get, memory)


def _count_in_folder(folder: Path) -> int | None:
    index = folder / INDEX
    if (folder / WEIGHTS[0]).is_file():
        return _count_parameters(folder / WEIGHTS[0])
    if not index.is_file():
        return None
    shards = list_shards(index)
    counts = [_count_parameters(folder / name) for name in shards if (folder / name).is_file()]
    return sum(counts) if len(counts) == len(shards) else None


def _count_parameters(path: Path) -> int:
    """Count the parameters in a safetensors file from its header; return 0 if it is damaged, which loading reports."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as weights:
            return sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118 - no dict
    except SafetensorError:
        return 0


def _ask_hub(path: str, revision: str | None) -> tuple[int | None, bool | None]:
    from huggingface_hub import HfApi

    try:
        info = HfApi().model_info(path, revision=revision, timeout=5)
    except Exception:
        return None, None
    total = getattr(info.safetensors, "total", None)
    return (int(total) if total else None), bool(info.gated)
