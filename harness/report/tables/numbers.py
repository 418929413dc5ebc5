"""How numbers are printed."""

from __future__ import annotations

import math
from collections.abc import Iterable

DASH = "–"
RULE = (
    "Decimals of a column: 3 where its largest value is below 2, 2 below 100, 1 below 1,000, else 0; fewer where the "
    "typical standard deviation would show more than two significant digits."
)


def decimals(values: Iterable[float], spreads: Iterable[float] = ()) -> int:
    """Return the number of decimals of a column (see `RULE`)."""
    size = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    by_size = 3 if size < 2 else 2 if size < 100 else 1 if size < 1000 else 0
    known = sorted(s for s in spreads if math.isfinite(s) and s > 0)
    if not known:
        return by_size
    typical = known[len(known) // 2]
    return min(by_size, max(0, 1 - math.floor(math.log10(typical))))


def fixed(value: float, places: int) -> str:
    """Write a finite number with a fixed number of decimals, thousands separated, never as minus zero."""
    text = f"{value:,.{places}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text


def printed(value: float, places: int) -> float:
    """Return the number that is printed: two values are tied if these are equal."""
    return float(fixed(value, places).replace(",", ""))
