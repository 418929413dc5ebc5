"""Masked diffusion models: a ModernBERT that is trained with the objective of MDLM (Sahoo et al. 2024).

Of a piece of L tokens, k are masked, with k uniform over 1 to L, and the loss of each masked token has the weight
L / k: MDLM's bound in expectation (mask ratio t uniform, weight 1 / t), with lower variance.
"""

import argparse
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.random import Generator
from transformers import ModernBertConfig, ModernBertForMaskedLM, PreTrainedTokenizerFast

from scripts.docs_lm.data import END, IGNORED, MASK, POSITIONS, SIZES, VOCAB_SIZE, Batch, Best, Size, TokenLosses

ARCHITECTURE, FAMILY, PIPELINE = "ModernBertForMaskedLM", "ModernBERT", "fill-mask"
EVALUATION_LEVELS = 2  # random masks of each piece; their numbers of tokens are equally spaced
EVALUATION = f"""The bound is MDLM's (Sahoo et al. 2024), over the whole validation split in pieces of 256 tokens with
`{END}` after each passage, {EVALUATION_LEVELS} random masks per piece. It is not comparable with the
perplexity of docs-s and docs-m, which is exact and of single passages.

Objective: pieces of 64, 128, 256 or 512 tokens; of L tokens, k random ones are replaced by `{MASK}`, with k
uniform over 1 to L, and the loss of each has the weight L / k. The model has no time input. It was trained for
minutes on one core: it writes local phrases and no coherent text."""
# Lengths of the pieces in training, and in the evaluation: that of the `unconditional` task.
_LENGTHS = (64, 128, 256, 512)
_EVALUATION_LENGTH = 256
# Distances to which the heads of a layer attend before training, and how sharply.
_OFFSETS = (-1, 1, -2, 2)
_SHARP_FREQUENCIES, _SHARPNESS = 10, 4.0


def build_model(options: argparse.Namespace, tokenizer: PreTrainedTokenizerFast) -> ModernBertForMaskedLM:
    """Build a ModernBERT with random weights and full attention in every layer."""
    size, end = SIZES[options.model], tokenizer.eos_token_id
    rope = {"rope_type": "default", "rope_theta": 1_000.0}
    shape = {"hidden_size": size.width, "intermediate_size": 2 * size.width, "num_hidden_layers": size.layers}
    shape |= {"num_attention_heads": size.heads, "max_position_embeddings": POSITIONS}
    attention = {"layer_types": ["full_attention"] * size.layers, "attention_bias": True}
    attention |= {"rope_parameters": {"full_attention": rope, "sliding_attention": dict(rope)}}
    dropout = {"embedding_dropout": options.dropout, "mlp_dropout": options.dropout}
    tokens = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id"), end)
    tokens |= {"vocab_size": len(tokenizer), "mask_token_id": tokenizer.mask_token_id}
    config = ModernBertConfig(**shape, **attention, **dropout, **tokens, tie_word_embeddings=True)
    model = ModernBertForMaskedLM(config)
    # The embedding of the padding token would never be updated, and the end token is also the padding token.
    model.model.embeddings.tok_embeddings.padding_idx = None
    _point_heads_at_neighbors(model)
    return model


@torch.no_grad()
def _point_heads_at_neighbors(model: ModernBertForMaskedLM) -> None:
    """Start the heads of each layer with attention to the tokens at `_OFFSETS`.

    A masked position knows nothing of its neighbors until attention has been learned, and training stays at unigram
    frequencies for long. With rotary positions, a constant query and the same key turned by -d positions have a score
    that is highest at distance d; the biases of queries and keys start with these.
    """
    frequencies = model.model.rotary_emb.full_attention_inv_freq[:_SHARP_FREQUENCIES]
    pairs = torch.arange(len(frequencies))
    for layer in model.model.layers:
        query, key, _ = layer.attn.Wqkv.bias.view(3, -1, layer.attn.head_dim)
        for head, offset in enumerate(_OFFSETS[: len(query)]):
            query[head, pairs] = _SHARPNESS
            key[head, pairs] = _SHARPNESS * torch.cos(offset * frequencies)
            key[head, pairs + layer.attn.head_dim // 2] = -_SHARPNESS * torch.sin(offset * frequencies)


def describe_model(size: Size, best: Best) -> dict[str, str]:
    """Return rows of the model card."""
    bound = best.ppl_with_end
    return {
        "architecture": f"ModernBERT, {size.layers} layers with full attention, width {size.width}, "
        f"{size.heads} heads, {POSITIONS} rotary positions, tied embeddings",
        "vocabulary": f"{VOCAB_SIZE:,} byte-level BPE tokens, those of docs-s and docs-m, and `{MASK}` "
        f"(id {VOCAB_SIZE})",
        "validation bound": f"negative log-likelihood at most {math.log(bound):.3f} nats per token "
        f"(perplexity at most {bound:.1f}), end tokens counted",
    }


def is_hidden_matrix(name: str, parameter: torch.Tensor) -> bool:
    """Return whether Muon updates a parameter."""
    return parameter.ndim == 2 and (".layers." in name or name == "head.dense.weight")


def compute_losses(model: ModernBertForMaskedLM, batch: Batch) -> TokenLosses:
    """Return the loss of each masked token with its weight; only masked positions reach the output layer."""
    hidden = model.model(batch.inputs).last_hidden_state
    is_masked = batch.targets != IGNORED
    logits = model.decoder(model.head(hidden[is_masked]))
    # A mask is never predicted.
    logits[:, model.config.mask_token_id] = -torch.inf
    nll = torch.nn.functional.cross_entropy(logits, batch.targets[is_masked], reduction="none")
    counts = is_masked.sum(1)
    weights = (is_masked.shape[1] / counts).repeat_interleave(counts)
    return TokenLosses(nll, batch.targets[is_masked], weights)


def make_batches(
    sequences: Sequence[np.ndarray], batch_tokens: int, rng: Generator | None, tokenizer: PreTrainedTokenizerFast
) -> Iterator[Batch]:
    """Yield batches of pieces; shuffled, with random lengths and masks if `rng` is given."""
    mask_id = tokenizer.mask_token_id
    # A sequence begins with the end token of the one before.
    texts = [sequence[1:] for sequence in sequences]
    if rng is None:
        rng = np.random.default_rng(0)
        pieces = _cut(np.concatenate(texts), _EVALUATION_LENGTH)
        pieces = np.concatenate([pieces] * EVALUATION_LEVELS)
        counts = 1 + rng.permutation(len(pieces)) * _EVALUATION_LENGTH // len(pieces)
        rows = batch_tokens // _EVALUATION_LENGTH
        for start in range(0, len(pieces), rows):
            yield _mask(pieces[start : start + rows], counts[start : start + rows], mask_id, rng)
        return
    stream = np.concatenate([texts[i] for i in rng.permutation(len(sequences))])
    stream = np.roll(stream, rng.integers(len(stream)))
    start = 0
    while start < len(stream) - batch_tokens:
        length = int(rng.choice(_LENGTHS))
        pieces = _cut(stream[start : start + batch_tokens], length)
        start += batch_tokens
        # One random offset and equal distances: the counts of a batch cover the range from 1 to the length.
        shares = (rng.uniform() + np.arange(len(pieces))) / len(pieces) % 1
        yield _mask(pieces, 1 + (shares * length).astype(np.int64), mask_id, rng)


def _cut(stream: np.ndarray, length: int) -> np.ndarray:
    count = len(stream) // length
    return stream[: count * length].reshape(count, length)


def _mask(pieces: np.ndarray, counts: np.ndarray, mask_id: int, rng: Generator) -> Batch:
    """Mask as many random tokens of each piece as `counts` says."""
    ranks = rng.random(pieces.shape).argsort(axis=1).argsort(axis=1)
    is_masked = ranks < counts[:, None]
    inputs = np.where(is_masked, mask_id, pieces)
    targets = np.where(is_masked, pieces, IGNORED)
    return Batch(torch.from_numpy(inputs), torch.from_numpy(targets))
