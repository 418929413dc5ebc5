"""Detect NaN and infinity in model outputs, caused by broken weights or a dtype with too small a range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import DataError, Floats

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


def check_logits(logits: Tensor, lm: CausalModel) -> Tensor:
    """Return the logits (…, V) as they are.

    The sum of a row is not finite where any of its logits is not, and costs far less than the output layer; where the
    sum of finite logits itself overflows they are of no use either.
    """
    if bool(logits.sum(-1).isfinite().all()):
        return logits
    raise DataError(describe_broken_weights(lm, "its logits are not finite"))


def describe_broken_weights(lm: CausalModel, what: str) -> str:
    """Return an error message with what is wrong and what to do."""
    advice = "its weights are broken" if lm.spec.dtype == "float32" else "its weights are broken, or try dtype=float32"
    return f"model {lm.spec.title}: {what} in {lm.spec.dtype}; {advice}"


def check_finite(values: Floats, what: str) -> None:
    """Raise `DataError` if values of a model are NaN or infinite."""
    if values.size and not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).reshape(len(values), -1).any(axis=1).sum())
        raise DataError(f"{what}: {bad} of {len(values)} are not finite; try dtype=float32")
