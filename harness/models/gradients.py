"""Sketches of the gradient of each text's loss: random projections that keep inner products in expectation.

A gradient has as many numbers as the model has parameters, so it is projected: parameter i is added to number h(i) of
the sketch with sign s(i), both by a fixed hash of i (a CountSketch). The expectation of the inner product of two
sketches is that of the gradients; its relative error is about sqrt(2 / size).

Source: Charikar, Chen and Farach-Colton 2002, "Finding frequent items in data streams"; Weinberger et al. 2009.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import Advance, DataError
from openended.harness.models.score import join_rows

if TYPE_CHECKING:
    import torch

    from openended.harness.core import CausalModel
    from openended.harness.models.backend import GradientRequest

_CHUNK = 1 << 22  # parameters hashed at once


def sketch_gradients(lm: CausalModel, request: GradientRequest, advance: Advance | None = None) -> NDArray[np.float32]:
    """Sketch the gradient of the mean token loss of each text, one text at a time.

    Returns:
        Shape (texts, size); zero for a text without a scored token.
    """
    import torch

    rows = join_rows(request.prompts, request.continuations, lm.bos_prefix)
    firsts = np.maximum(rows.lengths - request.continuations.lengths, 1)
    out = np.zeros((len(rows), request.size), dtype=np.float32)
    parameters = [p for p in lm.model.parameters() if p.is_floating_point()]
    had = [p.requires_grad for p in parameters]
    try:
        for p in parameters:
            p.requires_grad_(True)
        for i, ids in enumerate(rows):
            read_ids = ids[: lm.context_length]
            if firsts[i] < len(read_ids):
                row = torch.from_numpy(np.asarray(read_ids, dtype=np.int64)).to(lm.device)
                with torch.enable_grad():
                    mask = torch.ones_like(row)[None]
                    logits = lm.model(input_ids=row[None], attention_mask=mask, use_cache=False).logits[0]
                    scored = logits[int(firsts[i]) - 1 : -1].float()
                    loss = torch.nn.functional.cross_entropy(scored, row[int(firsts[i]) :])
                gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
                out[i] = _sketch(gradients, parameters, request.size).cpu().numpy()
            if advance is not None:
                advance(1)
    finally:
        for p, flag in zip(parameters, had, strict=True):
            p.requires_grad_(flag)
    if not np.isfinite(out).all():
        raise DataError(f"gradients of {lm.spec.title}: NaN or infinity; try dtype float32")
    return out


def _sketch(gradients: tuple[torch.Tensor | None, ...], parameters: list[torch.Tensor], size: int) -> torch.Tensor:
    """Add each entry of the gradients, with its sign, to its position in the sketch."""
    import torch

    out = torch.zeros(size, dtype=torch.float32, device=parameters[0].device)
    start = 0
    for gradient, parameter in zip(gradients, parameters, strict=True):
        if gradient is not None:
            flat = gradient.reshape(-1).float().to(out.device)
            for low in range(0, len(flat), _CHUNK):
                part = flat[low : low + _CHUNK]
                hashed = _hash(torch.arange(start + low, start + low + len(part), device=out.device))
                sign = ((hashed >> 40) & 1).float() * 2 - 1
                out.index_add_(0, (hashed & 0xFFFFFFFFFF) % size, part * sign)
        start += parameter.numel()
    return out


def _hash(numbers: torch.Tensor) -> torch.Tensor:
    """Mix whole numbers to 41 bits that look random; the same on every device (splitmix64 by shifts and products)."""
    state = numbers * 0x5851F42D4C957F2D + 0x14057B7EF767814F
    state = (state ^ ((state >> 33) & 0x7FFFFFFF)) * 0x2545F4914F6CDD1D
    state = (state ^ ((state >> 29) & 0x7FFFFFFFF)) * 0x5851F42D4C957F2D
    return (state >> 20) & 0x1FFFFFFFFFF
