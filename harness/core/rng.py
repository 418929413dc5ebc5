"""Random streams keyed by names, independent of batch, order and worker.

Philox is counter-based (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a key names the stream, the
counter the draw.
"""

from __future__ import annotations

import hashlib

import numpy as np

from openended.harness.core.types import F64


def derive_seed(seed: int, *names: str | int) -> int:
    """Derive a 64-bit seed from `seed` and names."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def make_random_stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random generator for (seed, names)."""
    text = "\x1f".join([str(seed), *map(str, names)])
    key = np.frombuffer(hashlib.sha256(text.encode()).digest()[:16], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def row_uniforms(seed: int, example_id: str, sample: int, length: int, lane: str = "token") -> F64:
    """Return the uniforms in [0, 1) of one generation; step t uses the t-th.

    A longer `length` extends the same sequence, so draws do not depend on the length limit.
    """
    return make_random_stream(seed, lane, example_id, sample).random(length)
