"""Number formatting in tables."""

from __future__ import annotations

import math
from collections.abc import Iterable

DASH = "–"
RULE = (
    "Decimals of a column: 3 if its largest value is below 2, 2 below 100, 1 below 1,000, else 0; fewer if the "
    "typical standard deviation would show more than two significant digits."
)


def choose_decimals(values: Iterable[float], spreads: Iterable[float] = ()) -> int:
    """Return the number of decimals of a column (see `RULE`)."""
    size = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    by_size = 3 if size < 2 else 2 if size < 100 else 1 if size < 1000 else 0
    finite = sorted(s for s in spreads if math.isfinite(s) and s > 0)
    if not finite:
        return by_size
    typical = finite[len(finite) // 2]
    return min(by_size, max(0, 1 - math.floor(math.log10(typical))))


def format_fixed(value: float, digits: int) -> str:
    """Format a finite number with fixed decimals and thousands separators, never as minus zero."""
    text = f"{value:,.{digits}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text


def round_as_printed(value: float, digits: int) -> float:
    """Round a number to the printed decimals; values with equal results are ties."""
    return float(format_fixed(value, digits).replace(",", ""))
