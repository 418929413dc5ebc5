"""What `openended stress` measured on the task `docs`: the table that comes with the package."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

NUM_TEXTS = 500  # a side


@dataclass(frozen=True, slots=True)
class StressRow:
    """One line of `stress.csv`."""

    metric: str  # metric, or `metric.key` for a value of another name
    embedder: str
    perturbation: str
    strength: int
    value: float
    low: float
    high: float
    detected: bool | None

    @property
    def resolution(self) -> float:
        """Smallest difference of two independent values with this interval that is significant at 5 %."""
        return math.sqrt(2) * (self.high - self.low) / 2


@cache
def load_stress_rows() -> tuple[StressRow, ...]:
    """Return all rows, in the order of the file."""
    path = resources.files("openended.harness") / "assets" / "stress_docs.csv"
    rows = csv.reader(path.read_text(encoding="utf-8").splitlines()[1:])  # its columns are the fields of a row
    stress_rows = []
    for metric, embedder, perturbation, strength, value, low, high, detected in rows:
        numbers = int(strength), float(value), float(low or "nan"), float(high or "nan")
        answer = {"true": True, "false": False}.get(detected)
        stress_rows.append(StressRow(metric, embedder, perturbation, *numbers, answer))
    return tuple(stress_rows)


def find_smallest(rows: Sequence[StressRow]) -> dict[tuple[str, str, str], str]:
    """Return (metric, embedder, perturbation) → smallest strength detected in percent, `no`, or `–`: not measured."""
    out: dict[tuple[str, str, str], str] = {}
    for row in sorted((r for r in rows if r.strength), key=lambda r: r.strength):
        key = (row.metric, row.embedder, row.perturbation)
        if row.detected and out.get(key, "no") in ("no", "–"):
            out[key] = str(row.strength)
        elif key not in out or (out[key] == "–" and row.detected is not None):
            out[key] = "no" if row.detected is not None else "–"
    return out


def describe_stress_results(metric: str) -> str:
    """Describe what difference a metric detects and which perturbations it misses on `docs`; empty if not measured."""
    rows = [row for row in load_stress_rows() if row.metric.partition(".")[0] == metric]
    lines = []
    for row in (r for r in rows if r.perturbation == "none"):
        name = f"{row.metric} ({row.embedder})" if row.embedder else row.metric
        smallest = find_smallest([r for r in rows if (r.metric, r.embedder) == (row.metric, row.embedder)])
        blind = [perturbation for (_, _, perturbation), strength in smallest.items() if strength == "no"]
        seen = f"does not see {', '.join(blind)}" if blind else "sees every perturbation"
        is_known = math.isfinite(row.resolution)
        limit = f"minimum detectable difference {row.resolution:.2g}" if is_known else "has no interval"
        lines.append(f"  {name}: {limit}; {seen}")
    if not lines:
        return ""
    head = (
        f"Measured on docs with {NUM_TEXTS} texts per side (openended stress; at 5 %, without pairing; the difference "
        "shrinks as 1/sqrt(n)):"
    )
    return "\n".join([head, "", *lines])
