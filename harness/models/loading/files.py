"""List and digest the files of a model folder that are loaded."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from openended.harness.core import DataError, Json, digest_file, read_json

INDEX = "model.safetensors.index.json"
WEIGHTS = ("model.safetensors", INDEX)
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")
_WITH_THEM = ("merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt")
_CONFIGS = ("config.json", "generation_config.json")
# Files of a sentence-transformers folder that are not loaded.
_UNREAD = (".md", ".lock", ".gitattributes")


def list_model_files(folder: Path, *, chat: bool) -> list[Path]:
    """List weights (shards that the index names, and the index), configs and tokenizer; with `chat` its template."""
    named = (*_CONFIGS, *TOKENIZERS, *_WITH_THEM, *(("chat_template.jinja",) if chat else ()))
    return sorted([p for name in named if (p := folder / name).is_file()] + _list_weight_files(folder))


def list_tokenizer_files(folder: Path) -> list[Path]:
    """List only the files of the tokenizer."""
    return sorted(p for name in (*TOKENIZERS, *_WITH_THEM) if (p := folder / name).is_file())


def list_sentence_files(folder: Path) -> list[Path]:
    """List all files of a sentence-transformers folder, those of its modules included."""
    paths = [p for p in folder.rglob("*") if p.is_file() and p.suffix not in _UNREAD]
    return sorted(p for p in paths if not any(part.startswith(".") for part in p.relative_to(folder).parts))


def digest_files(folder: Path, files: Iterable[Path]) -> dict[str, Json]:
    """Return path in the folder → SHA-256 (hex); cached while a file's size and time stay the same."""
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
    index_json = read_json(index)
    shards = index_json.get("weight_map") if isinstance(index_json, dict) else None
    if not isinstance(shards, dict):
        raise DataError(f"{index}: expected an object with a weight_map")
    files = [folder / str(name) for name in sorted(set(shards.values()))]
    missing = next((p.name for p in files if not p.is_file()), None)
    if missing is not None:
        raise DataError(f"{index}: names the shard {missing}, which is not in the folder")
    return [index, *files]


@lru_cache(maxsize=256)
def _digest_cached(path: str, size: int, mtime: int) -> str:  # noqa: ARG001 - part of the cache's key
    return digest_file(Path(path))
