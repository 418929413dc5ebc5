"""What all metrics share: checked arguments, dict-like results and the size of random subsets."""

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import Ragged, Replicates, Spec, SpecError, coerce, read_option

P = ParamSpec("P")
T = TypeVar("T")
Mask = NDArray[np.bool_]
Losses = Ragged | Sequence[NDArray[Any]] | Sequence[Sequence[float]]
"""One row of numbers per text, as -log p of each token."""
ReplicatesByName = Mapping[str, Replicates]  # name of a value → its replicates

SUBSET_SHARE = 0.6
"""Share of the prompts in a subset.

Removing few texts spreads counts of distinct n-grams and balls of nearest neighbors too far; halves miss the part of
the variance that pairs of texts contribute together. `docs/statistics.md` has the measured coverage.
"""


def check_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Check the arguments of a public function as the options of its module's metric, or by their `Literal`."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        signature, spec, options, choices = _read_declarations(function)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            value = value.item() if isinstance(value, np.generic) else value
            try:
                if name in choices:
                    coerce(value, choices[name], name)
                elif name in options:
                    read_option(spec, name, tuple(map(int, value)) if isinstance(value, range) else value, name)
            except SpecError as err:
                raise ValueError(str(err)) from None
        return function(*args, **kwargs)

    return call


@functools.cache
def _read_declarations(function: Callable[..., Any]) -> tuple[inspect.Signature, Any, set[str], dict[str, Any]]:
    """Return the signature, the metric of the module, and the arguments that are its options or one of some words."""
    members = vars(sys.modules[function.__module__]).values()
    specs = (m for m in members if isinstance(m, type) and issubclass(m, Spec) and m.__module__ == function.__module__)
    hints, signature = typing.get_type_hints(function).items(), inspect.signature(function)
    choices = {name: hint for name, hint in hints if typing.get_origin(hint) is Literal}
    spec = next(specs, None)
    # Data may have the name of an option, but no default.
    named = {name for name, p in signature.parameters.items() if p.default is not p.empty}
    return signature, spec, named & set(getattr(spec, "__dataclass_fields__", ())), choices


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
