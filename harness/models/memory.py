"""Handle running out of memory: detect it, free cached blocks, continue with half as many rows."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from openended.harness.core import I64, Advance

log = logging.getLogger(__name__)

_SAID = ("out of memory", "not enough memory", "can't allocate memory")


def is_out_of_memory(err: BaseException) -> bool:
    """Return whether an error means that memory ran out, on a GPU or on the CPU."""
    text = str(err).lower()
    return isinstance(err, MemoryError) or any(words in text for words in _SAID)


def free_memory() -> None:
    """Free cached blocks; call it outside the handler, where the failed call's tensors are no longer held."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def run_in_batches(lengths: I64, batch_size: int, step: Callable[[I64], None], advance: Advance | None = None) -> None:
    """Call `step` on parts of the rows, longest first; a part that runs out of memory is halved and tried again.

    The new size is kept for the rest: rows that follow are no longer than the ones that failed.
    """
    order = np.argsort(-lengths, kind="stable")
    start, size = 0, batch_size
    while start < len(order):
        part = order[start : start + size]
        try:
            step(part)
        except (RuntimeError, MemoryError) as err:
            if not is_out_of_memory(err) or len(part) == 1:
                raise
            size = len(part) // 2
            longest = lengths[part[0]]
            log.warning("out of memory at %d rows of up to %d tokens; continuing with %d", len(part), longest, size)
        else:
            start += len(part)
            if advance is not None:
                advance(len(part))
            continue
        free_memory()
