"""Running a model step by step: a key-value cache allocated once, rows that leave it, and the forward pass on it.

On CPU in float32 a row's logits do not depend on the other rows, bit for bit, because the kernels are chosen for it:
the matrix products run on row-major weights with 4, 8, … 64 rows at a time (the BLAS then treats every row alike, by
whichever of its kernels the processor gets: some treat 1 to 3 rows, or the rows beyond a multiple of 4, in another
way; rows are filled up with copies, many are run in parts), and attention sees equal lengths, hence no padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from openended.harness.decoding.reread import RereadRunner
from openended.harness.models.families import Kind, body_of, rescaled, settle
from openended.harness.models.finite import finite_logits
from openended.harness.models.placement import is_spread

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.models.transformers import LanguageModel

MOST_ROWS = 64
"""Rows of one matrix product at most where rows must not depend on each other: above, the BLAS splits long sums."""
TILE = 4
"""Rows are filled up to a multiple of it on CPU."""
GENERAL_FLOOR = 16
"""Rows that a model of another family is run with at least on CPU: below, BLAS kernels for few rows round otherwise."""
CHECKED = 16
"""Room for the check of a model before it is first run."""


class Runner(Protocol):
    """A model with a cache for a fixed number of rows and positions."""

    rows: int
    """Rows still in use."""

    def feed(self, ids: Tensor, *, every: bool = False) -> Tensor:
        """Run ids (rows, t) after what is cached.

        Returns:
            The last hidden state, shape (rows, d), or with `every` those of all t positions, (rows, t, d).
        """
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (…, V), float32, of hidden states (…, d)."""
        ...

    def keep(self, kept: Sequence[int]) -> list[int]:
        """Drop all rows but these; returns which old row stands at each place now."""
        ...

    def reorder(self, parents: Tensor, since: int = 0) -> None:
        """Row i goes on from row parents[i]; they differ from position `since` on. Sets the number of rows."""
        ...

    def rewind(self, length: int) -> None:
        """Forget the positions from `length` on."""
        ...


def runner(lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> Runner:
    """Make a runner for `rows` sequences of at most `length` positions; `once`: it is fed once, so nothing is kept."""
    return _runner(check(lm), lm, rows, length, once=once)


def check(lm: LanguageModel) -> Kind:
    """Return the kind of runner whose steps agree with the model's own pass; see `families.settle`."""
    return settle(lm, lambda kind: _runner(kind, lm, 1, CHECKED))


def _runner(kind: Kind, lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> Runner:
    if kind == "reread":
        return RereadRunner(lm, rows, floor=GENERAL_FLOOR)
    if _is_plain_gpt2(lm.model):
        return Gpt2Runner(lm, rows, length, once=once)
    return GeneralRunner(lm, rows, length, once=once)


def _is_plain_gpt2(model: Any) -> bool:  # noqa: ANN401
    config = model.config
    return (
        config.model_type == "gpt2"
        and not is_spread(model)
        and type(model).__name__ == "GPT2LMHeadModel"
        and config.activation_function in ("gelu_new", "gelu_pytorch_tanh")
        and config.scale_attn_weights
        and not config.scale_attn_by_inverse_layer_idx
        and not config.add_cross_attention
    )


def compaction(rows: int, kept: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Plan to close the holes with the rows from the end.

    Returns:
        Places to fill, the rows that fill them, and which old row stands at each place afterwards.
    """
    stay = set(kept)
    size = len(kept)
    holes = [i for i in range(size) if i not in stay]
    movers = [i for i in range(size, rows) if i in stay]
    order = list(range(size))
    for hole, mover in zip(holes, movers, strict=True):
        order[hole] = mover
    return holes, movers, order


def filled(rows: int, tile: int) -> int:
    """Round up to whole tiles."""
    return -(-rows // tile) * tile


class Gpt2Runner:
    """The GPT-2 family, written out: no mask to build, keys and values written in place."""

    def __init__(self, lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> None:
        import torch

        self.weights = lm.memo.get("gpt2") or lm.memo.setdefault("gpt2", Gpt2Weights(lm.model))
        w = self.weights
        self._lm, self.rows, self.length = lm, rows, 0
        self._steady = lm.device.type == "cpu" and not once
        self._tile = TILE if self._steady else 1
        shape = (w.layers if not once else 1, 2, filled(rows, self._tile), w.heads, length, w.head_size)
        self._cache = torch.zeros(shape, dtype=lm.dtype, device=lm.device)

    def feed(self, ids: Tensor, *, every: bool = False) -> Tensor:
        """See `Runner`."""
        import torch
        import torch.nn.functional as nn

        w = self.weights
        n, t = ids.shape
        fed, n = n, filled(n, self._tile)
        if fed < n:
            ids = torch.cat([ids, ids[:1].expand(n - fed, t)])
        start, end = self.length, self.length + t
        with torch.inference_mode():
            x = nn.embedding(ids, w.tokens).add_(w.positions[start:end]).view(n * t, w.width)
            for depth, layer in enumerate(w.blocks):
                cache = self._cache[min(depth, len(self._cache) - 1)]
                keys, values = cache[0, :n, :, :end], cache[1, :n, :, :end]
                h = nn.layer_norm(x, (w.width,), layer.ln_1_w, layer.ln_1_b, w.eps)
                qkv = self._affine(layer.attn_b, h, layer.attn_w).view(n, t, 3, w.heads, w.head_size)
                query, key, value = qkv.transpose(1, 3).unbind(2)
                keys[:, :, start:] = key
                values[:, :, start:] = value
                mixed = _attend(query, keys, values, start)
                h = mixed.transpose(1, 2).reshape(n * t, w.width)
                x.add_(self._affine(layer.proj_b, h, layer.proj_w))
                h = nn.layer_norm(x, (w.width,), layer.ln_2_w, layer.ln_2_b, w.eps)
                h = nn.gelu(self._affine(layer.fc_b, h, layer.fc_w), approximate="tanh")
                x.add_(self._affine(layer.out_b, h, layer.out_w))
            self.length = end
            x = x.view(n, t, w.width)
            x = nn.layer_norm(x if every else x[:, -1], (w.width,), w.ln_f_w, w.ln_f_b, w.eps)
            return x[:fed]

    def _parts(self, rows: Tensor) -> Sequence[Tensor]:
        """Rows in parts that the BLAS treats alike; their number is one of whole tiles."""
        if not self._steady or len(rows) <= MOST_ROWS:
            return [rows]
        return [rows[i : i + MOST_ROWS] for i in range(0, len(rows), MOST_ROWS)]

    def _affine(self, bias: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        import torch

        made = [torch.addmm(bias, part, weight) for part in self._parts(rows)]
        return made[0] if len(made) == 1 else torch.cat(made)

    def logits(self, hidden: Tensor) -> Tensor:
        """See `Runner`."""
        import torch

        flat = hidden.reshape(-1, hidden.shape[-1])
        missing = filled(len(flat), self._tile) - len(flat)
        with torch.inference_mode():
            rows = torch.cat([flat, flat[:1].expand(missing, -1)]) if missing else flat
            parts = [torch.mm(part, self.weights.head) for part in self._parts(rows)]
            made = (parts[0] if len(parts) == 1 else torch.cat(parts))[: len(flat)].float()
        return finite_logits(made, self._lm).view(*hidden.shape[:-1], made.shape[-1])

    def keep(self, kept: Sequence[int]) -> list[int]:
        """See `Runner`."""
        holes, movers, order = compaction(self.rows, kept)
        if holes:
            self._cache[:, :, holes, :, : self.length] = self._cache[:, :, movers, :, : self.length]
        self.rows = len(kept)
        return order

    def reorder(self, parents: Tensor, since: int = 0) -> None:
        """See `Runner`; copies only the rows that change."""
        import torch

        changed = (parents != torch.arange(len(parents), device=parents.device)).nonzero().squeeze(1)
        if len(changed):
            part = self._cache[:, :, :, :, since : self.length]
            part[:, :, changed] = part[:, :, parents[changed]]
        self.rows = len(parents)

    def rewind(self, length: int) -> None:
        """See `Runner`."""
        self.length = length


def _attend(query: Tensor, keys: Tensor, values: Tensor, start: int) -> Tensor:
    """Causal attention of positions start… over all positions so far."""
    import torch
    import torch.nn.functional as nn

    t = query.shape[2]
    if t == 1 and query.device.type == "cpu":  # whole tiles here too: a product with one row depends on its address
        return nn.scaled_dot_product_attention(query.expand(-1, -1, TILE, -1), keys, values)[:, :, :1]
    if t == 1:
        return nn.scaled_dot_product_attention(query, keys, values)
    if start == 0:
        return nn.scaled_dot_product_attention(query, keys, values, is_causal=True)
    mask = torch.ones(t, start + t, dtype=torch.bool, device=query.device).tril_(start)
    return nn.scaled_dot_product_attention(query, keys, values, attn_mask=mask)


class Gpt2Block:
    """Weights of one block."""

    def __init__(self, block: Any) -> None:  # noqa: ANN401 - a transformers module
        self.ln_1_w, self.ln_1_b = block.ln_1.weight, block.ln_1.bias
        self.ln_2_w, self.ln_2_b = block.ln_2.weight, block.ln_2.bias
        self.attn_w, self.attn_b = block.attn.c_attn.weight, block.attn.c_attn.bias
        self.proj_w, self.proj_b = block.attn.c_proj.weight, block.attn.c_proj.bias
        self.fc_w, self.fc_b = block.mlp.c_fc.weight, block.mlp.c_fc.bias
        self.out_w, self.out_b = block.mlp.c_proj.weight, block.mlp.c_proj.bias


class Gpt2Weights:
    """Weights of a GPT-2, shared with the transformers module but for the output matrix, which is laid row-major."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401
        body = model.transformer
        self.tokens, self.positions = body.wte.weight, body.wpe.weight
        self.blocks = [Gpt2Block(b) for b in body.h]
        self.layers, self.width = len(self.blocks), int(self.tokens.shape[1])
        self.heads = int(model.config.n_head)
        self.head_size = self.width // self.heads
        self.ln_f_w, self.ln_f_b = body.ln_f.weight, body.ln_f.bias
        self.eps = float(model.config.layer_norm_epsilon)
        head = model.lm_head.weight.detach().t()
        self.head = head.contiguous() if head.device.type == "cpu" else head


class GeneralRunner:
    """Any other causal LM of transformers, with the same kind of cache."""

    def __init__(self, lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> None:
        self._lm = lm
        self._model, self._body, self._head = lm.model, body_of(lm.model), lm.model.get_output_embeddings()
        self._steady = lm.device.type == "cpu"
        self._room, self.length, self.rows = length, 0, rows
        self._cache = None if once else _fixed_cache(self._model.config, self._full(rows), length)

    def _full(self, rows: int) -> int:
        """Rows to run for so many."""
        return max(filled(rows, TILE), GENERAL_FLOOR) if self._steady else rows

    def feed(self, ids: Tensor, *, every: bool = False) -> Tensor:
        """See `Runner`."""
        import torch

        n, t = ids.shape
        missing = self._full(n) - n
        if missing:
            ids = torch.cat([ids, ids[:1].expand(missing, t)])
        at = torch.arange(self.length, self.length + t, device=ids.device)
        with torch.inference_mode():
            out = self._body(
                input_ids=ids,
                past_key_values=self._cache,
                use_cache=self._cache is not None,
                cache_position=at,
                position_ids=at.expand(len(ids), t),
            )
        self.length += t
        hidden: Tensor = out.last_hidden_state
        return hidden[:n] if every else hidden[:n, -1]

    def logits(self, hidden: Tensor) -> Tensor:
        """See `Runner`."""
        import torch

        flat = hidden.reshape(-1, hidden.shape[-1])
        size = len(flat)
        missing = self._full(size) - size
        if missing:
            flat = torch.cat([flat, flat[:1].expand(missing, -1)])
        with torch.inference_mode():
            made = rescaled(self._model.config, self._head(flat)[:size].float())
        return finite_logits(made, self._lm).view(*hidden.shape[:-1], made.shape[-1])

    def keep(self, kept: Sequence[int]) -> list[int]:
        """See `Runner`."""
        holes, movers, order = compaction(self.rows, kept)
        if holes:
            for layer in self._layers():
                layer.move(holes, movers)
        self.rows = len(kept)
        return order

    def reorder(self, parents: Tensor, since: int = 0) -> None:
        """See `Runner`."""
        for layer in self._layers():
            layer.move(slice(0, len(parents)), parents, since)
        self.rows = len(parents)

    def rewind(self, length: int) -> None:
        """See `Runner`."""
        for layer in self._layers():
            layer.used = length
        self.length = length

    def _layers(self) -> list[Any]:
        return [] if self._cache is None else list(self._cache.layers)


def _fixed_cache(config: Any, rows: int, length: int) -> Any:  # noqa: ANN401
    """A transformers cache whose layers are allocated once for `rows` and `length` positions."""
    import torch
    from transformers.cache_utils import Cache, DynamicLayer

    class FixedLayer(DynamicLayer):  # type: ignore[misc]
        """Keys and values in a buffer of the final length."""

        used = 0

        def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:  # noqa: ANN401
            if not self.used:
                self.dtype, self.device = key_states.dtype, key_states.device
                self.is_initialized: bool = True
                self.keys, self.values = (_room(states, rows, length) for states in (key_states, value_states))
            n, end = len(key_states), self.used + key_states.shape[2]
            self.keys[:n, :, self.used : end] = key_states
            self.values[:n, :, self.used : end] = value_states
            self.used = end
            return self.keys[:n, :, :end], self.values[:n, :, :end]

        def get_seq_length(self) -> int:
            return self.used

        def get_mask_sizes(self, query: Any) -> tuple[int, int]:  # noqa: ANN401 - an int or positions, by version
            return self.used + (query if isinstance(query, int) else query.shape[0]), 0

        def move(self, to: Any, source: Any, since: int = 0) -> None:  # noqa: ANN401 - row indices
            with torch.inference_mode():
                if isinstance(source, torch.Tensor):
                    source = source.to(self.keys.device)  # of a model on several devices, another than that of the ids
                for kept in (self.keys, self.values):
                    kept[to, :, since : self.used] = kept[source, :, since : self.used]

    text = config.get_text_config(decoder=True)
    return Cache(layers=[FixedLayer() for _ in range(text.num_hidden_layers)])


def _room(states: Tensor, rows: int, length: int) -> Tensor:
    """Zeros for the final length; they must be finite, for rows beside the live ones are run along."""
    return states.new_zeros((rows, states.shape[1], length, states.shape[3]))
