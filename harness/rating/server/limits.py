"""Request rate limits by token buckets."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

_MOST_KEPT = 10_000  # buckets; the oldest are dropped


class RateLimit:
    """`burst` requests at once, then `rate` a second, for each name."""

    def __init__(self, *, burst: float, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.burst, self.rate, self.clock = burst, rate, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, name: str) -> float:
        """Take a token and return 0, or return the seconds until one is available."""
        now = self.clock()
        level, then = self._buckets.pop(name, (self.burst, now))
        level = min(self.burst, level + (now - then) * self.rate)
        allowed = level >= 1.0
        self._buckets[name] = (level - 1.0 if allowed else level, now)
        while len(self._buckets) > _MOST_KEPT:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else math.ceil((1.0 - level) / self.rate)
