"""Linear layers of a float32 model on the CPU, multiplied by oneDNN with weights that are laid out for it once.

At the 8 to 64 rows of a step this is 1.3 to 2 times as fast as the BLAS of PyTorch on an AMD processor, and a row gets
the same bits whatever the other rows are, as a trial for each shape confirms; a layer that fails it keeps the BLAS.
`python scripts/bench.py --only decoding` measures the effect.
"""

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

MOST_WEIGHTS = 1 << 31
"""Numbers in the linear layers of a model; above, a second layout of them would take too much memory."""
_TRIED = (1, 2, 3, 8, 31, 64, 256)  # rows that share a product in the trial
_HINT = 64  # rows that oneDNN lays the weights out for
_TOLERANCE = 1e-4  # of the trial's results, relative to the largest


class OnednnLinear(nn.Linear):
    """A linear layer, packed where no gradient is asked for."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name in PyTorch
        packed = _get_packed_weight(self)
        return super().forward(input) if packed is None else _multiply(input, packed, self.bias)


class OnednnConv1D(Conv1D):  # type: ignore[misc]
    """A linear layer of GPT-2, with weights (inputs, outputs), packed where no gradient is asked for."""

    def forward(self, x: Tensor) -> Tensor:
        packed = _get_packed_weight(self)
        output: Tensor = super().forward(x) if packed is None else _multiply(x, packed, self.bias)
        return output


_KINDS: dict[type[nn.Module], type[nn.Module]] = {nn.Linear: OnednnLinear, Conv1D: OnednnConv1D}
_PACKED: WeakKeyDictionary[nn.Module, tuple[object, Tensor | None]] = WeakKeyDictionary()
"""Layer → what its weights were when they were packed, and the packed ones; None if the trial failed."""
_TRIALS: dict[tuple[int, ...], bool] = {}
"""Outputs, inputs and threads → whether the trial succeeded."""


def pack_layers(model: nn.Module) -> None:
    """Let the linear layers of a model multiply by oneDNN, if its weights are float32 on the CPU and not too many."""
    layers = [layer for layer in model.modules() if type(layer) in _KINDS]
    weights: list[Any] = [layer.weight for layer in layers]
    few = sum(weight.numel() for weight in weights) <= MOST_WEIGHTS
    if few and all(map(_fits, weights)) and hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        for layer in layers:
            layer.__class__ = _KINDS[type(layer)]


def _fits(weight: Tensor) -> bool:
    return weight.dtype == torch.float32 and weight.device.type == "cpu"


def is_packed(model: nn.Module) -> bool:
    """Return whether every weight matrix of a model is packed, or the table of an embedding.

    Then what the model computes of a sequence on the CPU depends, bit for bit, on its padded length and not on others.
    """
    packed: set[int] = set()
    with torch.inference_mode():
        for layer in model.modules():
            if isinstance(layer, nn.Embedding) or _get_packed_weight(layer) is not None:
                packed.add(id(layer.weight))
    return all(p.dim() < 2 or id(p) in packed for p in model.parameters())


def _get_packed_weight(layer: nn.Module) -> Tensor | None:
    """Return the packed weights of a layer; None where gradients are recorded, or the layer is not to be packed.

    Weights that were changed or replaced are packed again. Weights that accelerate loads for one pass are never packed.
    """
    if torch.is_grad_enabled() or type(layer) not in _KINDS.values():
        return None
    weight: Any = layer.weight
    if weight.is_inference() or not _fits(weight):
        return None
    state = (weight.data_ptr(), weight._version, torch.get_num_threads())
    entry = _PACKED.get(layer)
    if entry is None or entry[0] != state:
        matrix = weight.detach() if isinstance(layer, nn.Linear) else weight.detach().t().contiguous()
        entry = _PACKED[layer] = state, _pack(matrix)
    return entry[1]


def _pack(matrix: Tensor) -> Tensor | None:
    """Return a matrix (outputs, inputs) as oneDNN wants it; None where its shape fails the trial."""
    key = (*matrix.shape, torch.get_num_threads())
    if key not in _TRIALS:
        _TRIALS[key] = _passes_trial(*matrix.shape)
    return torch.ops.mkldnn._reorder_linear_weight(matrix, _HINT) if _TRIALS[key] else None


def _passes_trial(outputs: int, inputs: int) -> bool:
    """Return whether a row's result is right, and the same in products of different sizes."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.rand(outputs, inputs, generator=generator, dtype=torch.float32)
    rows = torch.randn(max(_TRIED), inputs, generator=generator, dtype=torch.float32)
    packed = torch.ops.mkldnn._reorder_linear_weight(matrix, _HINT)
    plain = torch.nn.functional.linear(rows, matrix)
    together = _multiply(rows, packed, None)
    near = bool((together - plain).abs().max() <= _TOLERANCE * plain.abs().max())
    return near and all(torch.equal(_multiply(rows[:size], packed, None), together[:size]) for size in _TRIED)


def _multiply(rows: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply rows (…, inputs) by packed weights; one row alone is doubled, because its kernel sums otherwise."""
    alone = rows.numel() == rows.shape[-1]
    filled = rows.expand(*rows.shape[:-2], 2, -1) if alone and rows.dim() > 1 else rows
    output: Tensor = torch.ops.mkldnn._linear_pointwise(filled, packed, bias, "none", [], "")
    return output[..., :1, :] if filled is not rows else output
