"""GGUF files: what one holds beside its weights, written once as a folder that is read as any model folder."""

import logging
import os
from collections import Counter
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from openended.harness import core
from openended.harness.models.files import GGUF_WEIGHTS, TOKENIZERS

log = logging.getLogger(__name__)

_FACTS = "gguf.json"


class GgufFacts(NamedTuple):
    """Facts about the weights of a GGUF file."""

    quantization: str  # as its name says: Q4_K_M
    parameters: int


def unpack_gguf(path: Path) -> Path:
    """Return the folder with config, tokenizer and chat template of a GGUF file, and a link to its weights."""
    if not path.is_file():
        raise core.DataError(f"model {path}: no such file")
    for package in ("gguf", "accelerate"):
        core.require_package(package, "gguf")
    state = path.stat()
    return _unpack(path.resolve(), (state.st_size, state.st_mtime_ns))


@lru_cache
def read_facts(folder: Path) -> GgufFacts:
    """Read the facts about the weights from the folder of a GGUF file."""
    return GgufFacts(**core.read_json(folder / _FACTS))


@lru_cache
def _unpack(path: Path, changed: tuple[int, int]) -> Path:
    key = core.digest([str(path), *changed, version("transformers"), version("gguf")])
    folder = core.find_cache_root() / "gguf" / key[:16]
    if folder.is_dir():
        return folder
    log.info("%s: reading its config and tokenizer, once", path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as partial:
        unpacked = Path(partial) / "model"
        unpacked.mkdir()
        (unpacked / GGUF_WEIGHTS).symlink_to(path)
        try:
            _write_folder(unpacked)
        except Exception as err:
            raise core.DataError(f"model {path}: cannot be read as GGUF ({core.shorten_error(err)})") from err
        try:
            unpacked.rename(folder)
        except OSError:  # another process was first
            if not folder.is_dir():
                raise
    return folder


def _write_folder(folder: Path) -> None:
    from gguf import GGUFReader, LlamaFileType
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, AutoTokenizer

    reader = GGUFReader(os.fspath(folder / GGUF_WEIGHTS))
    field = reader.get_field("general.file_type")
    stored: Counter[str] = Counter()
    for tensor in reader.tensors:
        stored[tensor.tensor_type.name] += int(tensor.n_elements)
    names = {kind.value: kind.name.partition("_")[2] for kind in LlamaFileType}
    name = (names.get(field.contents()) if field else None) or stored.most_common(1)[0][0]
    config = AutoConfig.from_pretrained(folder, gguf_file=GGUF_WEIGHTS)
    model_class = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    config.architectures = [model_class.__name__] if model_class is not None else None
    config.save_pretrained(folder)
    AutoTokenizer.from_pretrained(folder, gguf_file=GGUF_WEIGHTS).save_pretrained(folder)
    tokenizer = core.read_json(folder / TOKENIZERS[0])
    # transformers adds the special tokens that its class has by default, and the file lacks: no weights are theirs.
    tokenizer["added_tokens"] = [t for t in tokenizer["added_tokens"] if t["id"] < config.vocab_size]
    core.write_json(folder / TOKENIZERS[0], tokenizer)
    core.write_json(folder / _FACTS, {"quantization": name, "parameters": stored.total()})
