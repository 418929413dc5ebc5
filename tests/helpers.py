"""Small builders that several tests share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.contract import Features, Metric, Need, Side
from harness.types import Ragged


def ragged(rows: Sequence[Sequence[Any]], dtype: Any = np.int64) -> Ragged:
    return Ragged.from_rows(rows, dtype)


def side(system: str, n: int, data: Mapping[Need, Any]) -> Side:
    return Side(system, tuple(f"t/{i:06d}" for i in range(n)), dict(data))


def features(metric: Metric, *, human: Any, model: Any, n_human: int, n_model: int) -> Features:
    """Give every need of a metric the same value on each side."""
    needs = metric.needs()
    facts = {"n": f"{n_human}/{n_model}", "task": "t@000000"}
    return Features(
        side("human", n_human, dict.fromkeys(needs, human)), side("model", n_model, dict.fromkeys(needs, model)), facts
    )
