"""Model size, local availability and download command for plans; loads no weights."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from openended.harness.core import list_bundled_choices, read_full_yaml, read_json
from openended.harness.models.loading.files import INDEX, WEIGHTS
from openended.harness.models.loading.hub import is_offline

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_TOLD = re.compile(r"([\d.]+) ([MG]) parameters")
_UNITS = {"M": 10**6, "G": 10**9}
_HEADER = 100 << 20  # bytes; the greatest header that safetensors accepts


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Facts about a model that a plan shows without loading it."""

    parameters: int | None
    here: bool
    gated: bool | None
    """Whether the hub restricts access to it (gated); None if the hub could not be asked."""
    get: str
    """The command that fetches it; empty where it is here or a folder."""
    memory: int | None
    """Bytes of the weights in the wanted precision; activations and caches come on top."""


@lru_cache
def describe_model_size(path: str, folder: Path | None, revision: str | None, dtype: str) -> ModelSize:
    """Return a model's size from its weights' header, else from the hub, else from `conf/model`."""
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
        stated, is_gated = _read_config_comment(path)
        parameters = parameters or stated
        gated = is_gated if gated is None else gated
    pin = f" --revision {revision}" if revision else ""
    get = f"hf download {path}{pin}" if folder is None and not here else ""
    memory = parameters * _BYTES[dtype] if parameters else None
    return ModelSize(parameters, here, gated, get, memory)


def _count_in_folder(folder: Path) -> int | None:
    index = folder / INDEX
    if (folder / WEIGHTS[0]).is_file():
        return _count_parameters(folder / WEIGHTS[0])
    if not index.is_file():
        return None
    shards = sorted(set(read_json(index).get("weight_map", {}).values()))
    counts = [_count_parameters(folder / name) for name in shards if (folder / name).is_file()]
    return sum(counts) if len(counts) == len(shards) else None


def _count_parameters(path: Path) -> int:
    """Count the numbers of a safetensors file by its header: a length in 8 bytes, then JSON of names and shapes."""
    with path.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if length > _HEADER:
            return 0
        header = json.loads(handle.read(length))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def _ask_hub(path: str, revision: str | None) -> tuple[int | None, bool | None]:
    from huggingface_hub import HfApi

    try:
        info = HfApi().model_info(path, revision=revision, timeout=5)
    except Exception:
        return None, None
    total = getattr(info.safetensors, "total", None)
    return (int(total) if total else None), bool(info.gated)


@lru_cache
def _read_config_comment(path: str) -> tuple[int | None, bool | None]:
    """Return parameters and gate as the comment of an option of `conf/model` has them."""
    for name in list_bundled_choices("model"):
        text = read_full_yaml("model", name)
        if f"path: {path}\n" in text:
            size = _TOLD.search(text)
            return (int(float(size[1]) * _UNITS[size[2]]) if size else None), "gated on the hub" in text or None
    return None, None
