"""Checks and row normalization of embeddings; rows are read in blocks, so a memory map never has to fit in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from openended.harness.core import F64, I64, Floats, UndefinedMetric

Rows = Literal["l2", "l1", "none"]
"""How each row is scaled: to unit L2 norm, to unit L1 norm, or not at all; an all-zero row stays zero."""

_BLOCK = 4096
_TINY = 1e-140  # below, squares of a row's numbers lose digits
_LARGEST = 1e45  # the cube of a product of two rows stays below 1e308


def check_sides(*, human: Floats, model: Floats, least: int = 2) -> tuple[Floats, Floats]:
    """Return both sides as float arrays of shape (n, d)."""
    human, model = check_side(human, "human"), check_side(model, "model")
    if human.shape[1] != model.shape[1]:
        raise ValueError(f"expected one dimension on both sides, got human {human.shape} and model {model.shape}")
    for name, side in (("human", human), ("model", model)):
        if len(side) < least:
            raise UndefinedMetric(f"needs at least {least} texts a side; the {name} side has {len(side)}")
    return human, model


def check_side(rows: Floats, name: str) -> Floats:
    """Return one side as a float array of shape (n, d), not copied where it is one already."""
    array = np.asanyarray(rows)
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.dtype.kind != "f" or array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name}: expected floats of shape (n, d), got {array.dtype} of shape {array.shape}")
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    for start in range(0, len(array), _BLOCK):
        if not np.isfinite(array[start : start + _BLOCK]).all():
            bad = start + int(np.argmin(np.isfinite(array[start : start + _BLOCK]).all(axis=1)))
            raise ValueError(f"{name}: expected finite numbers, row {bad} has NaN or infinity")
    return array


def blocks(rows: Floats, scale: Rows, size: int = _BLOCK) -> Iterator[tuple[slice, F64]]:
    """Yield (where, rows there as float64, scaled) in order; the input is never written to."""
    for start in range(0, len(rows), size):
        part = slice(start, min(start + size, len(rows)))
        block = np.array(rows[part], dtype=np.float64)
        if scale != "none":
            length = _compute_lengths(block, scale)
            # Squares above or below the range of float64: divide such rows by their largest number first.
            if not (length.min() > _TINY and length.max() < np.inf):
                odd = ~((length > _TINY) & (length < np.inf))
                largest = np.abs(block[odd]).max(axis=1)
                block[odd] /= np.where(largest == 0, 1.0, largest)[:, None]
                length[odd] = _compute_lengths(block[odd], scale)
            block /= np.where(length == 0, 1.0, length)[:, None]
        yield part, block


def _compute_lengths(block: F64, scale: Rows) -> F64:
    with np.errstate(over="ignore"):
        lengths: F64 = np.sqrt(np.einsum("ij,ij->i", block, block)) if scale == "l2" else np.abs(block).sum(axis=1)
    return lengths


def limit_magnitude(*, human: Floats, model: Floats) -> tuple[Floats, Floats]:
    """Divide both sides by one power of two if their squares would overflow float64."""
    largest = max(_find_largest(human), _find_largest(model))
    if largest <= _LARGEST:
        return human, model
    scale = 2.0 ** -float(np.ceil(np.log2(largest)))
    return human * scale, model * scale


def _find_largest(rows: Floats) -> float:
    if rows.dtype != np.float64:  # float32 cannot hold numbers that matter here
        return 0.0
    return max((float(np.abs(rows[i : i + _BLOCK]).max()) for i in range(0, len(rows), _BLOCK)), default=0.0)


def check_range(*, human: Floats, model: Floats) -> None:
    """Raise if products of features would overflow float64; for metrics that depend on their scale."""
    for name, side in (("human", human), ("model", model)):
        if (largest := _find_largest(side)) > _LARGEST:
            raise ValueError(
                f"{name}: features of up to {largest:.3g} leave the range of float64 when they are multiplied; "
                "divide both sides by one number"
            )


def find_equal_rows(sides: Sequence[Floats]) -> I64:
    """Return for each row of all sides the first row equal to it, shape (sum of n,).

    Matrix products may give equal rows different last bits; taking the first one's result keeps them equal.
    """
    first: dict[bytes, int] = {}
    out = np.empty(n_rows(sides), dtype=np.int64)
    at = 0
    for side in sides:
        for row in side:
            out[at] = first.setdefault(hashlib.blake2b(np.ascontiguousarray(row), digest_size=16).digest(), at)
            at += 1
    return out


def n_rows(sides: Sequence[Floats]) -> int:
    """Return the number of rows of all sides together."""
    return sum(len(s) for s in sides)
