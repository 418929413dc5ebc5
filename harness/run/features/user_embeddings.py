"""The user's own vectors in place of an embedder's: a `.npy` file, a row a text, in the order of the texts' file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import DataError, digest, digest_file
from openended.harness.run.artifact_files import MORE, load_array
from openended.harness.run.artifacts import ArtifactBuilder, TextRows
from openended.harness.run.resolve import UserEmbeddings
from openended.harness.storage import RowFile


def find_user_embeddings(
    files: UserEmbeddings, source: TextRows, builder: ArtifactBuilder
) -> tuple[str | None, Callable[[], Any]]:
    """Return the digest of a source's vectors (None while that is not known), and what loads them."""
    path = files.model if source.role == "model" else files.human
    content = builder.try_or_note(partial(_digest_vectors, path))
    if content is None or source.entry is None:
        return None, dict
    whole = files.whole and source.file != MORE
    vectors = _load_rows(path, [int(name.rpartition("/")[2]) for name in RowFile(source.path).ids], whole=whole)
    return digest(["own vectors", content, source.digest]), lambda: vectors


def _digest_vectors(path: Path) -> str:
    if not path.is_file():
        raise DataError(f"features: no such file: {path}")
    return digest_file(path)


def _load_rows(path: Path, numbers: list[int], *, whole: bool) -> NDArray[np.float32]:
    try:
        array = load_array(path)
    except DataError as err:
        raise DataError(f"features: {path}: not a .npy file of plain numbers ({err})") from err
    if array.ndim != 2 or array.dtype.kind != "f":
        raise DataError(
            f"features: {path}: expected floats of shape (texts, dimensions), got {array.dtype} {array.shape}"
        )
    needed = max(numbers, default=-1) + 1
    if len(array) < needed or (whole and len(array) != needed):
        raise DataError(
            f"features: {path}: {len(array)} rows for {needed} texts; expected a row a text, in their order"
        )
    rows = np.asarray(numbers, dtype=np.int64)
    # All texts of a file in its order: the vectors are then read from the disk as needed.
    selected = array[: len(rows)] if bool((rows == np.arange(len(rows))).all()) else array[rows]
    vectors: NDArray[np.float32] = np.asarray(selected, dtype=np.float32)
    return vectors
