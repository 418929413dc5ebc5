"""Run matrix products in one thread, so that results do not depend on the machine's number of threads."""

from __future__ import annotations

from contextlib import AbstractContextManager


def limit_to_one_thread() -> AbstractContextManager[object]:
    """Run a block's matrix products in one thread.

    Products of several threads differ in their last bits from those of one, and a training that goes on for thousands
    of steps, or a row between two cells, turns last bits into other cells.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(limits=1)
    return limits
