"""Rows of numbers and dict-like results, for metrics of all families."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import Ragged, Replicates

Mask = NDArray[np.bool_]
Losses = Ragged | Sequence[NDArray[Any]] | Sequence[Sequence[float]]
"""One row of numbers per text, as -log p of each token."""
ReplicatesByName = Mapping[str, Replicates]  # name of a value → its replicates


def pack_losses(rows: Losses, name: str) -> Ragged:
    """Pack one row of numbers per text; NaN is refused."""
    packed = rows if isinstance(rows, Ragged) else Ragged.from_rows(rows, np.float64)
    if (is_nan := np.isnan(packed.values)).any():
        row = int(np.searchsorted(packed.offsets, int(is_nan.argmax()), side="right")) - 1
        raise ValueError(f"{name}: text {row} has a NaN")
    return packed


class Values(dict[str, Any]):
    """Named results of a function: `r["huse"]` or `r.huse`."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - numbers and arrays
        if name not in self:
            raise AttributeError(f"no value {name!r}; there are {', '.join(self)}")
        return self[name]

    def __repr__(self) -> str:
        return f"Values({', '.join(f'{name}={_format_value(value)}' for name, value in self.items())})"


def _format_value(value: Any) -> str:  # noqa: ANN401
    if shape := getattr(value, "shape", ()):
        return f"<array {'×'.join(map(str, shape))}>"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
