"""What all metrics share: checked options, dict-like results and the size of random subsets."""

import difflib
import typing
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import Replicates

Mask = NDArray[np.bool_]
ReplicatesByName = Mapping[str, Replicates]  # name of a value → its replicates

SUBSET_SHARE = 0.6
"""Share of the prompts in a subset.

Removing few texts spreads counts of distinct n-grams and balls of nearest neighbors too far; halves miss the part of
the variance that pairs of texts contribute together. `docs/statistics.md` has the measured coverage.
"""


def check_choice(option: str, value: object, kind: Any) -> None:  # noqa: ANN401 - a `Literal`
    """Raise if a value is not one of a `Literal`'s."""
    names = typing.get_args(kind)
    if value not in names:
        close = difflib.get_close_matches(str(value), names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{option}: expected one of {', '.join(names)}, got {value!r}{hint}")


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
