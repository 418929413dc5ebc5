"""When memory runs out, batches are halved; other errors pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openended.harness.models.memory import run_in_batches


def test_out_of_memory_halves_the_batch_and_goes_on() -> None:
    sizes: list[int] = []
    done: list[int] = []

    def step(part: Any) -> None:
        sizes.append(len(part))
        if len(part) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate")
        done.extend(part.tolist())

    run_in_batches(np.array([5, 9, 1, 7, 3]), 5, step)
    assert sizes == [5, 2, 2, 1]
    assert done == [1, 3, 0, 4, 2]  # longest first


def test_memory_that_does_not_suffice_for_one_text_is_an_error() -> None:
    def step(part: Any) -> None:
        raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate")

    with pytest.raises(RuntimeError, match="not enough memory"):
        run_in_batches(np.array([1, 2]), 2, step)


def test_other_errors_are_not_retried() -> None:
    calls: list[int] = []

    def step(part: Any) -> None:
        calls.append(1)
        raise RuntimeError("shapes do not agree")

    with pytest.raises(RuntimeError, match="shapes"):
        run_in_batches(np.array([1, 2]), 2, step)
    assert calls == [1]
