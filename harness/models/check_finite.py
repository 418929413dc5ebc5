"""Numbers that are none, from broken weights or a dtype too small, are errors before they become a text or a score."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import DataError, Floats

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


def finite_logits(logits: Tensor, lm: CausalModel) -> Tensor:
    """Return the logits (…, V) as they are.

    One sum a row sees each that is not finite, at a cost far below that of the output layer; where the sum of finite
    logits itself overflows they are of no use either.

    Raises:
        DataError: If a logit is infinite or no number; names the model and its dtype.
    """
    if bool(logits.sum(-1).isfinite().all()):
        return logits
    raise DataError(broken(lm, "its logits are not finite"))


def broken(lm: CausalModel, what: str) -> str:
    """The line that says so, and what to do."""
    advice = "its weights are broken" if lm.spec.dtype == "float32" else "its weights are broken, or try dtype=float32"
    return f"model {lm.spec.title}: {what} in {lm.spec.dtype}; {advice}"


def check_finite(values: Floats, what: str) -> None:
    """Raise `DataError` if a model gave numbers that are none: broken weights or a dtype too small."""
    if values.size and not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).reshape(len(values), -1).any(axis=1).sum())
        raise DataError(f"{what}: {bad} of {len(values)} are not finite; try dtype=float32")
