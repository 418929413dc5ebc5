"""Write and read the files of artifacts: arrays of features, statistics of Q and results of metrics."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness import core

HUMAN_ROWS, SPARE_ROWS = "human.arrow", "more.arrow"
VECTORS = "embeddings.npy"
_VOCABULARY = "vocab_size.npy"
_NEXT_TOKEN = ("offsets", "gold_prob", "sum_sq", "support", "argmax", "gold")
_RESULT = ("metric", "signature", "primary", "values", "sd", "n_human", "n_model", "status", "notes")


def save_ragged(folder: Path, ragged: core.Ragged, prefix: str = "") -> None:
    """Write a ragged array as two `.npy` files."""
    save_array(folder / f"{prefix}values.npy", ragged.values)
    save_array(folder / f"{prefix}offsets.npy", ragged.offsets)


def load_ragged(folder: Path, prefix: str = "") -> core.Ragged:
    """Read what `save_ragged` wrote, by memory map."""
    return core.Ragged(load_array(folder / f"{prefix}values.npy"), load_array(folder / f"{prefix}offsets.npy"))


def save_array(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Write one `.npy` file atomically."""
    with core.open_for_replacement(path, "wb") as handle:
        np.save(handle, array, allow_pickle=False)


def load_array(path: Path) -> np.ndarray[Any, Any]:
    """Map one `.npy` file into memory, read only.

    By Arrow, because `np.memmap` holds a descriptor as long as the array lives: a long grid would run out of them.
    """
    import pyarrow as pa

    core.check_regular_file(path)
    try:
        with path.open("rb") as handle:
            version = np.lib.format.read_magic(handle)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(handle)
            start = handle.tell()
        if dtype.hasobject:
            raise ValueError("it holds Python objects")
        with pa.memory_map(str(path)) as source:
            buffer = source.read_buffer()
        array: np.ndarray[Any, Any] = np.frombuffer(buffer, dtype, math.prod(shape), start)
        return array.reshape(shape, order="F" if fortran else "C")
    except Exception as err:  # a damaged header raises anything
        raise core.DataError(f"{path}: not an array ({core.shorten_error(err)})") from err


def save_next_token(folder: Path, stats: core.NextToken) -> Mapping[str, Any]:
    """Write the statistics of Q as `.npy` files; returns facts for the manifest."""
    for name in _NEXT_TOKEN:
        save_array(folder / f"{name}.npy", getattr(stats, name))
    save_ragged(folder, stats.context, "context_")
    save_array(folder / _VOCABULARY, np.array([stats.vocab_size]))
    return {"vocab_size": stats.vocab_size, "n": len(stats.offsets) - 1}


def load_next_token(folder: Path) -> core.NextToken:
    """Read what `save_next_token` wrote."""
    arrays = {name: load_array(folder / f"{name}.npy") for name in _NEXT_TOKEN}
    size = int(load_array(folder / _VOCABULARY)[0])
    return core.NextToken(**arrays, context=load_ragged(folder, "context_"), vocab_size=size)


def save_result(folder: Path, result: core.MetricResult) -> Mapping[str, Any]:
    """Write a metric's result as strict JSON and its arrays as safetensors."""
    from safetensors.numpy import save

    kinds = {"arrays": result.arrays, "per_example": result.per_example, "draws": result.draws}
    arrays = {f"{kind}/{k}": np.ascontiguousarray(v) for kind, each in kinds.items() for k, v in each.items()}
    with core.open_for_replacement(folder / "arrays.safetensors", "wb") as handle:
        handle.write(save(dict(sorted(arrays.items()))))
    row = {name: getattr(result, name) for name in _RESULT}
    row |= {name: of for name in ("intervals", "no_interval", "unranked", "invented") if (of := getattr(result, name))}
    core.write_json(folder / "result.json", row)
    return {"metric": result.metric}


def load_result(folder: Path) -> core.MetricResult:
    """Read what `save_result` wrote, without the arrays; null becomes NaN."""
    path = folder / "result.json"
    return core.decode(core.MetricResult, core.read_json(path), str(path))


def load_result_arrays(folder: Path) -> Mapping[str, np.ndarray[Any, Any]]:
    """Read the arrays that `save_result` wrote with a result, without the values of each example."""
    from safetensors.numpy import load_file

    stored: Mapping[str, np.ndarray[Any, Any]] = load_file(folder / "arrays.safetensors")
    return {name.removeprefix("arrays/"): v for name, v in stored.items() if name.startswith("arrays/")}
