"""Checks, row normalization and PCA of embeddings; rows are read in blocks, for memory maps."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Floats, UndefinedMetric

Rows = Literal["l2", "l1", "none"]
"""How each row is scaled: to unit L2 norm, to unit L1 norm, or not at all; an all-zero row stays zero."""

_BLOCK = 4096
_PCA_BLOCK = 1024  # few enough rows for a cache, enough for the products
_TINY = 1e-140  # below, squares of a row's numbers lose digits
_LARGEST = 1e45  # the cube of a product of two rows stays below 1e308


def check_sides(*, human: Floats, model: Floats, least: int = 2, multiplied: bool = False) -> tuple[Floats, Floats]:
    """Return both sides as float arrays of shape (n, d), whose products stay in range if they are `multiplied`."""
    human, model = check_side(human, "human"), check_side(model, "model")
    if human.shape[1] != model.shape[1]:
        raise ValueError(f"expected one dimension on both sides, got human {human.shape} and model {model.shape}")
    for name, side in (("human", human), ("model", model)):
        if len(side) < least:
            raise UndefinedMetric(f"needs at least {least} texts per side; the {name} side has {len(side)}")
    if multiplied:
        check_range(human=human, model=model)
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


def scale_rows(rows: Floats, scale: Rows = "l2") -> F64:
    """Return all rows as float64, scaled."""
    return np.concatenate([np.zeros((0, rows.shape[1])), *(block for _, block in blocks(rows, scale))])


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


def compute_squared_distances(a: F64, b: F64) -> F64:
    """Return the squared distance of each row of one array to each of another, shape (len(a), len(b))."""
    table: F64 = a @ (-2 * b.T)
    table += np.einsum("ij,ij->i", a, a)[:, None]
    table += np.einsum("ij,ij->i", b, b)
    return np.maximum(table, 0.0, out=table)


def find_equal_rows(sides: Sequence[Floats]) -> I64:
    """Return for each row of all sides the first equal one: products may give equal rows different last bits."""
    first: dict[bytes, int] = {}
    out = np.empty(n_rows(sides), dtype=np.int64)
    at = 0
    for side in sides:
        for row in side:
            out[at] = first.setdefault(hashlib.blake2b(np.ascontiguousarray(row), digest_size=16).digest(), at)
            at += 1
    return out


def n_rows(sides: Sequence[Floats]) -> int:
    return sum(len(s) for s in sides)


# Principal components through the d × d covariance in float64.


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """A centered linear map fitted on some rows."""

    mean: F64  # shape (d,), of the scaled rows
    axes: F64  # shape (d, m), one component a column
    rows: Rows  # how rows are scaled before they are centered

    def apply(self, sides: Sequence[Floats]) -> NDArray[np.float32]:
        """Return the projected rows of all sides one below the other, float32, shape (sum of n, m)."""
        out = np.empty((n_rows(sides), self.axes.shape[1]), dtype=np.float32)
        at = 0
        for side in sides:
            for part, block in blocks(side, self.rows, _PCA_BLOCK):
                block -= self.mean
                out[at + part.start : at + part.stop] = block @ self.axes
            at += len(side)
        return out


def fit_pca(sides: Sequence[Floats], *, share: float, rows: Rows = "l2", whiten: bool = False) -> Projection:
    """Fit PCA on the rows of all sides together."""
    mean, covariance = moments(sides, rows)  # only the lower triangle is filled
    dim, total = len(covariance), float(np.trace(covariance))
    if total <= 1e-28 * dim:  # rounding of equal rows leaves a trace of about 1e-32 a dimension, not 0
        values, axes = np.zeros(1), np.eye(dim, 1)
    else:
        values, vectors = _compute_eigenvectors(covariance)
        values = values[::-1]
        reached = np.cumsum(values / total) >= share
        keep = int(np.argmax(reached)) + 1 if reached.any() else int((values > 1e-15 * values[0]).sum())
        values, axes = values[:keep], np.ascontiguousarray(vectors(keep)[:, ::-1])
    if whiten:
        safe = np.where(values > 0, values, 1.0)
        axes = axes / np.sqrt(safe)
    return Projection(mean, axes, rows)


def project_pair(
    *, human: Floats, model: Floats, share: float, rows: Rows
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return both sides after a joint PCA; rows that are equal stay equal."""
    if rows == "none":
        check_range(human=human, model=model)
    first, second = project_together([human, model], share, rows)
    return first, second


def project_together(sides: Sequence[Floats], share: float, rows: Rows) -> list[NDArray[np.float32]]:
    """Return the rows of each side after a PCA of all of them; rows that are equal stay equal."""
    points = fit_pca(sides, share=share, rows=rows).apply(sides)
    return np.split(points[find_equal_rows(sides)], np.cumsum([len(side) for side in sides])[:-1])


def moments(sides: Sequence[Floats], rows: Rows) -> tuple[F64, F64]:
    """Return mean and covariance (divisor n - 1) of the rows of all sides together, float64, in one pass."""
    from scipy.linalg import blas

    dim, total = sides[0].shape[1], n_rows(sides)
    shift, sums = np.zeros(dim), np.zeros(dim)
    products = np.zeros((dim, dim), order="F")
    first = True
    for side in sides:
        for _, block in blocks(side, rows, _PCA_BLOCK):
            if first:
                # Any vector near the mean will do: its error is subtracted below, without canceling large numbers.
                shift, first = block.mean(axis=0), False
            block -= shift
            sums += block.sum(axis=0)
            products = blas.dsyrk(1.0, block.T, beta=1.0, c=products, lower=1, overwrite_c=1)
    off = sums / total
    products = blas.dsyr(-float(total), off, a=products, lower=1, overwrite_a=1)
    products /= max(total - 1, 1)
    return shift + off, products


def _compute_eigenvectors(lower: F64) -> tuple[F64, Callable[[int], F64]]:
    """Return the ascending eigenvalues and a function for the last eigenvectors: LAPACK's dsyevd, step by step."""
    from scipy.linalg import eigh_tridiagonal, lapack

    dim = len(lower)
    if dim == 1:
        return lower[0], lambda last: np.ones((1, last))
    work, _ = lapack.dsytrd_lwork(dim, lower=1)
    reflectors, diagonal, off_diagonal, scales, _ = lapack.dsytrd(lower, lower=1, lwork=int(work))
    solved = eigh_tridiagonal(diagonal, off_diagonal)
    values, inner = (np.asarray(part, dtype=np.float64) for part in solved)

    def vectors(last: int) -> F64:
        out = np.asfortranarray(inner[:, dim - last :])
        # The first row and column of the reduction's rotation are those of the identity.
        rotation = np.asfortranarray(reflectors[1:, :-1])
        work = lapack.dormqr("L", "N", rotation, scales, out[1:], -1)[1]
        out[1:] = lapack.dormqr("L", "N", rotation, scales, out[1:], int(work[0]))[0]
        return out

    return values, vectors
