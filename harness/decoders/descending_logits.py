"""Logits in descending order, and the part of that order that a truncation keeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    Given = Tensor | None

_TOPK = 1024  # values of a row that PyTorch finds as fast as NumPy on a CPU


@dataclass
class DescendingLogits:
    """Rows in descending order, whole or only their head."""

    z: Tensor  # descending logits after penalties and temperature, shape (n, k), float64
    log_z: Tensor  # log of the full row's sum of exponentials, shape (n, 1), float64
    p: Tensor  # softmax over the full row at these positions, shape (n, k), float64
    mass_before: Tensor  # mass strictly before each position, shape (n, k + 1), float64; starts with 0
    logits: Tensor  # the full rows in token order, shape (n, V), float32
    state: Tensor | None = None  # state of decoders that have one, shape (n, s), float64

    @property
    def complete(self) -> bool:
        """True where `z` holds the whole row."""
        return self.z.shape[1] == self.logits.shape[1]

    @property
    def vocab_size(self) -> int:
        return self.logits.shape[1]

    @cached_property
    def surprisal(self) -> Tensor:
        """-log p in nats, ascending, shape (n, k)."""
        return self.log_z - self.z

    @cached_property
    def squares_before(self) -> Tensor:
        """Sum of p squared strictly before each position, shape (n, k + 1)."""
        return sum_before(self.p * self.p)

    @cached_property
    def entropy(self) -> Tensor:
        """Entropy of the full softmax in nats, shape (n, 1), float64."""
        if self.complete:
            return (self.p * self.surprisal.clamp(max=1e30)).sum(-1, keepdim=True)
        surprisal = (self.log_z - self.logits.double()).clamp_(max=1e30)
        return (-surprisal).exp_().mul_(surprisal).sum(-1, keepdim=True)

    @cached_property
    def collision(self) -> Tensor:
        """Sum of the squares of the full softmax, shape (n, 1), float64: the chance that two draws agree."""
        if self.complete:
            return self.squares_before[:, -1:]
        return (2 * (self.logits.double() - self.log_z)).exp_().sum(-1, keepdim=True)

    def lowest(self) -> Tensor:
        """Return the smallest finite logit of the full row, shape (n, 1), float64."""
        finite = self.logits.masked_fill(~self.logits.isfinite(), float("inf"))
        return finite.amin(-1, keepdim=True).double()

    def sigma(self) -> Tensor:
        """Standard deviation (n - 1) of the finite logits of the full row, shape (n, 1), float64."""
        logits = self.logits.double()
        finite = logits.isfinite()
        count = finite.sum(-1, keepdim=True)
        logits = logits.masked_fill(~finite, 0.0)
        mean = logits.sum(-1, keepdim=True) / count
        spread = ((logits - mean) ** 2).masked_fill(~finite, 0.0).sum(-1, keepdim=True)
        return (spread / (count - 1).clamp_min(1)).sqrt()

    def count_within(self, limit: Tensor) -> Tensor:
        """Number of positions with surprisal <= limit (n, 1); shape (n,); k means `perhaps more`."""
        import torch

        return torch.searchsorted(self.surprisal, limit.contiguous(), right=True).squeeze(-1)

    def mass(self, position: Tensor) -> Tensor:
        """Mass strictly before `position` (n,), shape (n,)."""
        return self.mass_before.gather(1, position.clamp(max=self.z.shape[1])[:, None]).squeeze(1)


@dataclass(slots=True)
class Truncation:
    """The part of each row's descending order that Q keeps."""

    lo: Tensor | None  # first position kept, shape (n,), int64; None: 0
    hi: Tensor | None
    """First position after it, shape (n,), int64; None: all. From the end of a head on, the whole row is cut."""
    weights: Tensor | None = None
    """Unnormalized Q of the first positions, shape (n, w), where it is not the softmax's; without `hi`, Q itself."""
    peak: Tensor | None = None  # first position of the largest weight, shape (n,), int64; None: `lo`


def sort_logits(
    logits: Tensor, head: int | None, state: Given = None, ordered: Given = None, log_z: Given = None
) -> DescendingLogits:
    """Sort rows of logits after penalties and temperature; `ordered` and `log_z` are given where they are known."""
    import torch

    k = logits.shape[1] if head is None else min(head, logits.shape[1])
    z = (take_largest(logits, k) if ordered is None else ordered).double()
    if log_z is None:
        p = torch.softmax(logits, dim=-1)
        # Over 50,000 columns softmax's own sum is off by about 1e-6; the sum of its result shows by how much.
        log_z = z[:, :1] - (p.amax(-1, keepdim=True).double() / p.sum(-1, keepdim=True).double()).log()
    return build_descending_logits(z, log_z, logits, state)


def build_descending_logits(z: Tensor, log_z: Tensor, logits: Tensor, state: Tensor | None = None) -> DescendingLogits:
    """Build `DescendingLogits` from sorted logits and the log-sum-exp of each row."""
    p = (z - log_z).exp_()
    return DescendingLogits(z, log_z, p, sum_before(p), logits, state)


def take_largest(logits: Tensor, k: int) -> Tensor:
    """Return the k largest values of each row, descending; many on a CPU by NumPy, whose sort is vectorized."""
    import numpy as np
    import torch

    size = logits.shape[1]
    if k < size and (k <= _TOPK or logits.device.type != "cpu"):
        return torch.topk(logits, k).values
    if logits.device.type != "cpu":
        return torch.sort(logits, descending=True).values
    rows = logits.numpy()
    largest = rows if k == size else np.partition(rows, size - k, axis=-1)[:, size - k :]
    return torch.from_numpy(np.sort(largest, axis=-1)[:, ::-1].copy())


def find_argmax(logits: Tensor) -> Tensor:
    """Return the lowest id of the largest logit of each row, shape (n,); on CPU by NumPy, which is far faster."""
    import torch

    if logits.device.type != "cpu":
        return logits.argmax(-1)
    return torch.from_numpy(logits.numpy().argmax(-1))


def sum_before(weights: Tensor) -> Tensor:
    """Return the sum of weights (n, w) strictly before each position, shape (n, w + 1), float64."""
    import torch

    out = torch.empty((len(weights), weights.shape[1] + 1), dtype=torch.float64, device=weights.device)
    out[:, 0] = 0
    torch.cumsum(weights, dim=-1, out=out[:, 1:])
    return out
