"""A device for tests that behaves like an accelerator and computes on the CPU.

A tensor on `sim` wraps a CPU tensor. As on CUDA, an operation on tensors of both devices raises, and so does `numpy()`. Every
copy between the devices is counted. Uninitialized memory holds NaN or the largest integer, so that reads of it show.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._device import _device_constructors
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

INDEXING = frozenset({"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"})
READS_VALUES = frozenset({
    "_local_scalar_dense", "equal", "is_nonzero", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive",
    "bincount", "repeat_interleave",
})  # fmt: skip
"""Operations that wait for the device, because the host needs a value or a size."""
MADE_BY_HOST = {"tensor": False, "as_tensor": False, "arange": True, "linspace": True}
"""Functions that PyTorch's Python backends cannot run: made on the CPU and moved; True: an accelerator makes them itself."""


class SimulatedTensor(torch.Tensor):
    """A tensor that reports the device `sim:<index>` and computes on the CPU."""

    on_cpu: torch.Tensor

    @staticmethod
    def __new__(cls, on_cpu: torch.Tensor, index: int = 0) -> SimulatedTensor:
        return torch.Tensor._make_wrapper_subclass(
            cls, on_cpu.size(), strides=on_cpu.stride(), storage_offset=on_cpu.storage_offset(), dtype=on_cpu.dtype,
            device=torch.device("sim", index), requires_grad=on_cpu.requires_grad,
        )  # fmt: skip

    def __init__(self, on_cpu: torch.Tensor, index: int = 0) -> None:
        self.on_cpu = on_cpu

    def __repr__(self) -> str:
        return f"{self.device}: {self.on_cpu!r}"

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(operation, args, kwargs or {})

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.tolist:
            COUNTS["to host"] += 1
            COUNTS["waits"] += 1
            return args[0].on_cpu.tolist()
        if function is torch.Tensor.numpy:
            raise TypeError("can't convert sim device type tensor to numpy; use Tensor.cpu() first")
        if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            args = (args[0], _move_index(args[0].device, args[1]), *args[2:])
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


COUNTS: Counter[str] = Counter()
"""Copies `to host` and `to device`, `operations`, and `waits`: how often the host waits for the device, as on CUDA.

Every copy to the host waits, and every copy to the device that is not `non_blocking`.
"""
_FAULTS: list[Callable[[str], None]] = []
"""Called with the name of each operation; may raise what a device raises."""


def _move_index(device: torch.device, index: Any) -> Any:
    """Make an index of a list or an array on the device; PyTorch does so for its own devices."""
    if isinstance(index, tuple):
        return tuple(_move_index(device, part) for part in index)
    return torch.tensor(index, device=device) if isinstance(index, list | np.ndarray) else index


@functools.cache
def _name(operation: Any) -> str:
    return operation._schema.name.split("::")[1]


def _run(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the CPU; its results are on the device of its arguments or on the one it names."""
    name = _name(operation)
    for fault in _FAULTS:
        fault(name)
    tensors: list[torch.Tensor] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, list | tuple):
            tensors += [leaf for leaf in value if isinstance(leaf, torch.Tensor)]
    simulated = [tensor for tensor in tensors if isinstance(tensor, SimulatedTensor)]
    device = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
    target = device or (simulated[0].device if simulated else torch.device("cpu"))
    copies = name in ("_to_copy", "copy_", "_copy_from")
    if not copies and len(tensors) > 1:
        _check_devices(name, args, tensors)
    COUNTS["operations"] += 1
    if copies:
        source, into = (args[1], args[0].device) if name == "copy_" else (args[0], target)
        if name == "_copy_from":
            into = args[1].device
        if source.device.type != into.type:
            COUNTS["to host" if into.type == "cpu" else "to device"] += 1
            is_async = kwargs.get("non_blocking") or (name != "_to_copy" and len(args) > 2 and args[2])
            COUNTS["waits"] += into.type == "cpu" or not is_async
    elif simulated and (name in READS_VALUES or (name in INDEXING and _has_mask(args))):
        COUNTS["to host"] += 1
        COUNTS["waits"] += 1
    if name == "histc":  # of integers, which the CPU does not have
        args = (args[0].float(), *args[1:])
    if name == "_copy_from":
        name, operation, args, kwargs = "copy_", torch.ops.aten.copy_.default, (args[1], args[0]), {}
    plain = {key: _unwrap(value) for key, value in kwargs.items() if key != "pin_memory"}
    if device is not None:
        plain["device"] = torch.device("cpu")
    results = operation(*map(_unwrap, args), **plain)
    for tensor in simulated:
        assert tensor.shape == tensor.on_cpu.shape, f"{name} resized a tensor: the simulated device cannot"
    if target.type == "cpu":
        return results
    if "empty" in name:
        results.fill_(_poison(results.dtype))
    wrapped = {id(tensor.on_cpu): tensor for tensor in simulated}

    def wrap(result: Any) -> Any:
        if isinstance(result, list | tuple):
            return type(result)(map(wrap, result))
        same = wrapped.get(id(result), result)  # an operation in place returns its argument
        return (
            SimulatedTensor(result, target.index or 0) if same is result and isinstance(result, torch.Tensor) else same
        )

    return wrap(results)


def _unwrap(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_unwrap, value))
    return value.on_cpu if isinstance(value, SimulatedTensor) else value


def _has_mask(args: Any) -> bool:
    """Return whether an index is a mask; to write one value there is no need to know how many they are."""
    is_mask = any(isinstance(index, torch.Tensor) and index.dtype == torch.bool for index in args[1])
    return is_mask and (len(args) < 3 or args[2].numel() != 1)


def _poison(dtype: torch.dtype) -> Any:
    if dtype.is_floating_point or dtype.is_complex:
        return float("nan")
    return True if dtype == torch.bool else torch.iinfo(dtype).max


def _check_devices(name: str, args: Any, tensors: list[torch.Tensor]) -> None:
    """Raise as CUDA does if tensors of several devices meet; scalars and indices on the CPU are fine."""
    if name in INDEXING and args[0].device.type == "sim":
        tensors = [tensor for tensor in tensors if tensor.dtype not in (torch.int64, torch.bool)]
    devices = {tensor.device for tensor in tensors if tensor.dim() or tensor.device.type != "cpu"}
    if len(devices) > 1:
        found = sorted(map(str, devices))
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, but found {found}")


@functools.cache
def _register() -> torch.library.Library:
    module = types.SimpleNamespace(
        device_count=lambda: 1, is_available=lambda: True, current_device=lambda: 0, is_initialized=lambda: True,
        _is_in_bad_fork=lambda: False, manual_seed_all=lambda _: None, get_rng_state=lambda *_: torch.zeros(1),
        set_rng_state=lambda *_: None, get_amp_supported_dtype=lambda: [torch.bfloat16],
    )  # fmt: skip
    _setup_privateuseone_for_python_backend("sim", module)
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda operation, *args, **kwargs: _run(operation, args, kwargs), "PrivateUse1")
    return library


@contextlib.contextmanager
def simulate_device() -> Iterator[Counter[str]]:
    """Make the device `sim` known; yields the counts of what crosses between it and the host."""
    _register()
    _device_constructors()  # cached with PyTorch's own functions, which `with torch.device("meta")` has to recognize

    def make_by_host(make: Callable[..., Any], non_blocking: bool) -> Callable[..., Any]:
        def call(*args: Any, device: Any = None, **options: Any) -> Any:
            made = make(*args, **options)
            return made if device is None else made.to(device, non_blocking=non_blocking)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name, non_blocking in MADE_BY_HOST.items():
            patch.setattr(torch, name, make_by_host(getattr(torch, name), non_blocking))
        patch.setattr(torch, "inference_mode", lambda *_: torch.no_grad())  # its tensors have no version counter
        COUNTS.clear()
        yield COUNTS


@contextlib.contextmanager
def fail_at(operation: str, call: int, message: str) -> Iterator[None]:
    """Raise at one call of an operation, counted from 1, as a device does that has no memory left or is gone."""
    calls = 0

    def count(name: str) -> None:
        nonlocal calls
        calls += name == operation
        if name == operation and calls == call:
            raise RuntimeError(message)

    _FAULTS.append(count)
    try:
        yield
    finally:
        _FAULTS.remove(count)
