"""Copies between the host and an accelerator for which the host waits as rarely as possible."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

if TYPE_CHECKING:
    import torch


def copy_to_device(values: ArrayLike, device: "torch.device", dtype: DTypeLike | None = None) -> "torch.Tensor":
    """Return numbers as a tensor; the host does not wait for the copy. On a CPU an array shares its memory."""
    import torch

    tensor = torch.from_numpy(np.asarray(values, dtype))
    if device.type == "cpu":
        return tensor
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=device.type != "mps")


def copy_to_host(*tensors: "torch.Tensor") -> list[NDArray[Any]]:
    """Return tensors of one device as arrays; the host waits once for all. On a CPU they share their memory."""
    import torch

    if tensors[0].device.type == "cpu":
        return [tensor.numpy() for tensor in tensors]
    if tensors[0].device.type == "mps":  # it has no float64
        return [tensor.cpu().numpy() for tensor in tensors]
    whole = torch.cat([tensor.reshape(-1).double() for tensor in tensors]).cpu().numpy()
    ends = np.cumsum([tensor.numel() for tensor in tensors])
    return [
        part.reshape(tensor.shape).astype(str(tensor.dtype).removeprefix("torch."))
        for part, tensor in zip(np.split(whole, ends[:-1]), tensors, strict=True)
    ]
