"""Failures of a pass: outputs that are NaN or infinite, and memory that runs out, after which fewer rows are tried."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import I64, Advance, DataError, Floats, shorten_error

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.models.backend import Backend


log = logging.getLogger(__name__)
_SAID = ("out of memory", "not enough memory", "can't allocate memory", "alloc_failed")
_LOST = ("cuda error", "hip error", "device-side assert", "cublas_status", "cudnn_status", "device is lost")


def check_logits(logits: "Tensor", lm: "Backend") -> "Tensor":
    """Return the logits (…, V) as they are."""
    if not bool(are_finite(logits)):
        raise DataError(describe_broken_weights(lm))
    return logits


def are_finite(logits: "Tensor") -> "Tensor":
    """Return whether all logits (…, V) are finite, shape ().

    The sum of a row is not finite where any of its logits is not, and costs far less than the output layer; where the
    sum of finite logits itself overflows they are of no use either.
    """
    return logits.sum(-1).isfinite().all()


def describe_broken_weights(lm: "Backend") -> str:
    """Return the message of an error about logits that are not finite, with what to do."""
    advice = "its weights are broken" if lm.spec.dtype == "float32" else "its weights are broken, or try dtype=float32"
    return f"model {lm.spec.title}: its logits are not finite in {lm.spec.dtype}; {advice}"


def check_finite(values: Floats, what: str) -> None:
    """Raise `DataError` if values of a model are NaN or infinite."""
    if values.size and not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).reshape(len(values), -1).any(axis=1).sum())
        raise DataError(f"{what}: {bad} of {len(values)} are not finite; try dtype=float32")


def is_out_of_memory(err: BaseException) -> bool:
    """Return whether an error means that memory ran out, on a GPU or on the CPU."""
    text = str(err).lower()
    return isinstance(err, MemoryError) or any(words in text for words in _SAID)


def check_cuda(device: str) -> None:
    """Raise `DataError` if a CUDA device is asked for and there is none."""
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise DataError(f"device {device}: no CUDA device is visible; choose cpu or auto")


def check_device(err: BaseException) -> None:
    """Raise `DataError` if an error means that the device itself failed, so that every later operation fails too."""
    if not is_out_of_memory(err) and any(words in str(err).lower() for words in _LOST):
        message = f"the device failed: {shorten_error(err)}; finished texts are kept, run the command again"
        raise DataError(message) from err


def check_retry(err: BaseException, rows: int) -> None:
    """Raise the error of a batch of so many rows, unless memory ran out and fewer rows may avoid it."""
    check_device(err)
    if not is_out_of_memory(err):
        raise err
    if rows == 1:
        raise MemoryError(shorten_error(err)) from err


def free_memory() -> None:
    """Free cached blocks; call it outside the handler, where the failed call's tensors are no longer held."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def run_in_batches(
    lengths: I64, batch_size: int, step: Callable[[I64], None], advance: Advance | None, most_tokens: int | None
) -> None:
    """Call `step` on parts of the rows, longest first; a part that runs out of memory is halved and tried again.

    A part has at most `batch_size` rows, and no more of them than have `most_tokens` tokens with their padding.
    The new size is kept for the rest: rows that follow are no longer than the ones that failed.
    """
    order = np.argsort(-lengths, kind="stable")
    start, size = 0, batch_size
    while start < len(order):
        fitting = size if most_tokens is None else max(1, most_tokens // max(1, int(lengths[order[start]])))
        part = order[start : start + min(size, fitting)]
        try:
            step(part)
        except (RuntimeError, MemoryError) as err:
            check_retry(err, len(part))
            size = len(part) // 2
            longest = lengths[part[0]]
            log.warning("out of memory at %d rows of up to %d tokens; continuing with %d", len(part), longest, size)
        else:
            start += len(part)
            if advance is not None:
                advance(len(part))
            continue
        free_memory()
