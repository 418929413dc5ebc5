"""Muon, the optimizer of the hidden matrices."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch


class Muon(torch.optim.Optimizer):
    """Momentum whose update is replaced by its nearest semi-orthogonal matrix (Jordan et al. 2024).

    In float32, unlike `torch.optim.Muon`: bfloat16 is several times slower on a CPU without AMX.
    """

    def __init__(self, params: Iterable[torch.Tensor], lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update all matrices from their gradients."""
        for group in self.param_groups:
            for matrix in group["params"]:
                state = self.state[matrix]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(matrix)
                buffer = state["momentum"]
                buffer.lerp_(matrix.grad, 1 - group["momentum"])
                update = _orthogonalize(matrix.grad.lerp(buffer, group["momentum"]))
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                # An update with root-mean-square 0.2, like AdamW's, allows one learning rate for both.
                matrix.add_(update, alpha=-0.2 * group["lr"] * math.sqrt(max(matrix.shape)))


def _orthogonalize(matrix: torch.Tensor) -> torch.Tensor:
    """Push all singular values toward one by the quintic Newton-Schulz iteration of Muon."""
    flat = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    flat = flat / (flat.norm() + 1e-7)
    # Each iteration multiplies by a polynomial of the Gram matrix: iterating on that small square
    # and multiplying once at the end halves the work on wide matrices.
    gram = flat @ flat.T
    product = torch.eye(len(gram))
    for _ in range(5):
        factor = torch.addmm(gram, gram, gram, beta=-4.775, alpha=2.0315)
        factor.diagonal().add_(3.4445)
        product = factor @ product
        gram = factor @ gram @ factor
    flat = product @ flat
    return flat if matrix.shape[0] <= matrix.shape[1] else flat.T
