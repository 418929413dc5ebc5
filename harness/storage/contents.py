"""Check that the files of a store entry can be read: digests only show that bytes are unchanged."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.core import DataError, read_json
from openended.harness.storage.rows import check_rows

STAGE_FILES: Mapping[str, tuple[str, ...]] = {
    "examples": ("examples.arrow", "spare.arrow"),
    "human": ("human.arrow", "more.arrow", "prompts.arrow"),
    "chat": ("chat.arrow",),
    "generate": ("data.arrow",),
    "import": ("data.arrow",),
    "tokens": ("offsets.npy", "values.npy"),
    "embed": ("embeddings.npy",),
    "score": ("offsets.npy", "values.npy"),
    "rank": ("offsets.npy", "values.npy"),
    "gradients": ("embeddings.npy",),
    "next_token": (
        "argmax.npy", "context_offsets.npy", "context_values.npy", "gold.npy", "gold_prob.npy", "offsets.npy",
        "sum_sq.npy", "support.npy",
    ),
    "measure": ("arrays.safetensors", "result.json"),
}  # fmt: skip
"""Stage → files that each of its entries has."""
EXAMPLE_FILES = STAGE_FILES["examples"]
"""Arrow files of examples; all others hold texts."""
STAGE_FACTS: Mapping[str, Mapping[str, type]] = {
    "examples": {"n": int, "spare": int, "skipped": dict},
    "human": {"n": int, "longest_prompt": int, "more": int},
    "chat": {"n": int, "longest_prompt": int},
    "import": {"n": int, "notes": list},
    "next_token": {"vocab_size": int, "n": int},
}
"""Stage → facts that the manifest of each of its entries states, with their types."""
_RESULT_FIELDS = {"metric": str, "signature": str, "primary": str, "values": dict, "sd": dict, "n_human": int,
                  "n_model": int, "status": str, "notes": list}  # fmt: skip


def check_stage_files(stage: str, names: Collection[str]) -> None:
    """Check that an entry has all files of its stage."""
    for name in STAGE_FILES.get(stage, ()):
        if name not in names:
            raise DataError(f"an entry of stage {stage} has {name}, this one does not")


def check_stage_facts(stage: str, meta: Mapping[str, Any]) -> None:
    """Check that an entry states all facts of its stage."""
    for name, kind in STAGE_FACTS.get(stage, {}).items():
        value = meta.get(name)
        if type(value) is not kind or (isinstance(value, int) and value < 0):
            raise DataError(f"an entry of stage {stage} states {name} as {kind.__name__}, this one has {value!r:.40}")
    for name in ("skipped", "notes"):
        parts: Any = meta.get(name, ())
        numbers = parts.values() if isinstance(parts, dict) else ()
        if not isinstance(parts, (dict, list, tuple)) or not all(type(count) is int for count in numbers):
            raise DataError(f"an entry of stage {stage} has {name} {parts!r:.40}")
    if not all(isinstance(note, str) for note in meta.get("notes", ())):
        raise DataError(f"an entry of stage {stage} has notes that are not texts")


def check_contents(folder: Path, names: Collection[str]) -> None:
    """Check that the Arrow, array and result files of an entry can be read."""
    for name in names:
        path = folder / name
        if path.suffix == ".arrow":
            check_rows(path, examples=name in EXAMPLE_FILES)
        elif path.suffix == ".npy":
            _read_array(path)
        elif path.suffix == ".safetensors":
            _check_safetensors(path)
        elif name == "result.json":
            _check_result(path)
    for prefix in ("", "context_"):
        if {f"{prefix}offsets.npy", f"{prefix}values.npy"} <= set(names):
            offsets, values = (_read_array(folder / f"{prefix}{name}.npy") for name in ("offsets", "values"))
            if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 0).any():
                raise DataError(f"{prefix}offsets.npy does not fit {prefix}values.npy")


def _read_array(path: Path) -> np.ndarray[Any, Any]:
    try:
        array: np.ndarray[Any, Any] = np.load(path, mmap_mode="r" if path.stat().st_size > 4096 else None)
    except (ValueError, OSError, EOFError, SyntaxError) as err:
        raise DataError(f"{path.name}: not an array ({err})") from err
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub" or array.ndim == 0:
        raise DataError(f"{path.name}: expected an array of numbers")
    return array


def _check_safetensors(path: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="np") as arrays:
            for name in arrays.keys():  # noqa: SIM118 - not a dict
                arrays.get_slice(name).get_shape()
    except (SafetensorError, OSError, ValueError) as err:
        raise DataError(f"{path.name}: not a safetensors file ({err})") from err


def _check_result(path: Path) -> None:
    row = read_json(path)
    for name, kind in _RESULT_FIELDS.items():
        if not isinstance(row, dict) or not isinstance(row.get(name), kind):
            raise DataError(f"{path.name}: expected a result whose {name} is of type {kind.__name__}")
    numbers = [*row["values"].values(), *row["sd"].values()]
    if not all(number is None or isinstance(number, (int, float)) for number in numbers):
        raise DataError(f"{path.name}: expected numbers as values")
