"""A forward pass and KV cache of GPT-2, without masks and with keys and values written in place."""

from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as nn
from torch import Tensor

from openended.harness.core import CausalModel
from openended.harness.generation.kv_cache.base import (
    TILE,
    ForwardPass,
    KeyValueRunner,
    KeyValues,
    attend_one_token,
    round_up_to_tiles,
)
from openended.harness.models import apply_packed_layer, has_many_devices

SAFE = 64  # up to this number of rows, in whole tiles, every tested BLAS sums each row in the same order
LARGE = (256, 128)  # sizes that are faster, tried before they are used: a BLAS may split long sums there


def is_plain_gpt2(model: Any) -> bool:  # noqa: ANN401 - a transformers model
    """Return whether the model does exactly what `Gpt2Runner` does."""
    config = model.config
    return (
        config.model_type == "gpt2"
        and not has_many_devices(model)
        and type(model).__name__ == "GPT2LMHeadModel"
        and config.activation_function in ("gelu_new", "gelu_pytorch_tanh")
        and config.scale_attn_weights
        and not config.scale_attn_by_inverse_layer_idx
        and not config.add_cross_attention
    )


class Gpt2Runner(KeyValueRunner):
    """Runs a plain GPT-2 by its weights."""

    def __init__(self, lm: CausalModel, rows: int, length: int, *, once: bool = False) -> None:
        self.weights = Gpt2Weights.get(lm.model)
        super().__init__(lm, KeyValues(self.weights.layers, rows, length, padded=lm.device.type != "cpu", once=once))
        self._steady = self._steady and not once
        self._tile = TILE if self._steady else 1

    def _round_up_count(self, count: int) -> int:
        return round_up_to_tiles(count, self._tile)

    def _run(self, batch: ForwardPass, *, every: bool = True) -> Tensor:
        w = self.weights
        with torch.inference_mode():
            x = nn.embedding(batch.ids, w.tokens).add_(nn.embedding(batch.positions, w.positions))
            for depth, (norm_1, attention, projection, norm_2, inner, outer) in enumerate(w.blocks):
                qkv = self._multiply(norm_1(x), attention).view(len(x), 3, w.heads, w.head_size)
                query, key, value = qkv.unbind(1)
                h = self.keys.attend(depth, query, key, value, batch, _attend)
                if not every and depth == w.layers - 1:  # only the last position is needed in the last layer
                    last = batch.last(self._tile)
                    x, h = x[last], h[last]
                x.add_(self._multiply(h, projection))
                h = nn.gelu(self._multiply(norm_2(x), inner), approximate="tanh")
                x.add_(self._multiply(h, outer))
            size = batch.size if every else len(batch.rows)
            last_states: Tensor = w.last_norm(x[:size])
            return last_states

    def _multiply(self, rows: Tensor, layer: Any) -> Tensor:  # noqa: ANN401 - a linear layer
        """Apply a linear layer; on CPU a row gets the same bits in any company."""
        packed = apply_packed_layer(layer, rows)
        if packed is not None:
            return packed
        if not self._steady:
            plain: Tensor = layer(rows)
            return plain
        matrix, bias = self.weights.get_matrix(layer), layer.bias
        output = rows.new_empty((len(rows), matrix.shape[1]))
        sizes = self.weights.products.parts(len(rows), matrix)
        for part, out in zip(torch.split(rows, sizes), torch.split(output, sizes), strict=True):
            if bias is None:
                torch.mm(part, matrix, out=out)
            else:
                torch.addmm(bias, part, matrix, out=out)
        return output

    def _project(self, hidden: Tensor) -> Tensor:
        return self._multiply(hidden, self.weights.head)


def _attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """See `Kernel` in `base`."""
    t = query.shape[2]
    if t == 1 and query.device.type == "cpu":
        return attend_one_token(query, keys, values, mask)
    return nn.scaled_dot_product_attention(query, keys, values, attn_mask=mask, is_causal=t > 1 and mask is None)


class Gpt2Weights:
    """Layers of a GPT-2, shared with the transformers module."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401
        body = model.transformer
        self.tokens, self.positions = body.wte.weight, body.wpe.weight
        self.blocks = [(b.ln_1, b.attn.c_attn, b.attn.c_proj, b.ln_2, b.mlp.c_fc, b.mlp.c_proj) for b in body.h]
        self.layers = len(self.blocks)
        self.heads = int(model.config.n_head)
        self.head_size = int(self.tokens.shape[1]) // self.heads
        self.last_norm, self.head = body.ln_f, model.lm_head
        self.products = RowSplitter()

    def get_matrix(self, layer: Any) -> Tensor:  # noqa: ANN401
        """Return the weights of a linear layer, laid row-major, (inputs, outputs)."""
        matrix: Tensor = self._head_matrix if layer is self.head else layer.weight
        return matrix

    @cached_property
    def _head_matrix(self) -> Tensor:
        matrix: Tensor = self.head.weight.detach().t().contiguous()
        return matrix

    @classmethod
    def get(cls, model: Any) -> "Gpt2Weights":  # noqa: ANN401
        """Return the weights of a model, laid out once."""
        if model not in _WEIGHTS:
            _WEIGHTS[model] = cls(model)
        return _WEIGHTS[model]


_WEIGHTS: WeakKeyDictionary[Any, Gpt2Weights] = WeakKeyDictionary()


class RowSplitter:
    """Sizes of the parts in which rows meet a weight matrix, so that a row's result does not depend on the others."""

    def __init__(self) -> None:
        self._large: dict[tuple[int, int, int], tuple[int, ...]] = {}

    def parts(self, rows: int, weight: Tensor) -> list[int]:
        """Sizes of parts of `rows` rows, a number of whole tiles."""
        sizes: list[int] = []
        if rows > SAFE:
            for size in self._find_exact_sizes(weight):
                sizes += [size] * (rows // size)
                rows %= size
        if rows:
            each = round_up_to_tiles(-(-rows // -(-rows // SAFE)), TILE)  # nearly equal ones
            sizes += [each] * (rows // each)
            sizes += [rows % each] if rows % each else []
        return sizes

    def _find_exact_sizes(self, weight: Tensor) -> tuple[int, ...]:
        """Large sizes that give the same bits as small ones, tried once for a shape and a number of threads."""
        key = (*weight.shape, torch.get_num_threads())
        if key not in self._large:
            generator = torch.Generator().manual_seed(0)
            rows = torch.randn(max(LARGE), weight.shape[0], generator=generator, dtype=weight.dtype)
            want = torch.cat([torch.mm(part, weight) for part in torch.split(rows, SAFE)])
            same = [torch.equal(torch.cat([torch.mm(p, weight) for p in torch.split(rows, n)]), want) for n in LARGE]
            self._large[key] = tuple(n for n, is_same in zip(LARGE, same, strict=True) if is_same)
        return self._large[key]
