"""Autoregressive models: a GPT-2 that is trained on one passage per sequence."""

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.random import Generator
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from scripts.docs_lm.data import END, IGNORED, POSITIONS, SIZES, VOCAB_SIZE, Batch, Best, Size, TokenLosses

ARCHITECTURE, FAMILY, PIPELINE = "GPT2LMHeadModel", "GPT-2", "text-generation"
EVALUATION = f"Perplexity is over the whole validation split, each passage alone after `{END}`."


def build_model(options: argparse.Namespace, tokenizer: PreTrainedTokenizerFast) -> GPT2LMHeadModel:
    """Build a GPT-2 with random weights."""
    size, end = SIZES[options.model], tokenizer.eos_token_id
    shape = {"n_positions": POSITIONS, "n_embd": size.width, "n_layer": size.layers, "n_head": size.heads}
    dropout = {"embd_pdrop": options.dropout, "resid_pdrop": options.dropout, "attn_pdrop": 0.0}
    tokens = {"vocab_size": VOCAB_SIZE, "bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
    activation = "gelu_pytorch_tanh"  # the same as GPT-2's gelu_new, in one kernel instead of eight
    return GPT2LMHeadModel(GPT2Config(activation_function=activation, **shape, **dropout, **tokens))


def describe_model(size: Size, best: Best) -> dict[str, str]:
    """Return rows of the model card."""
    return {
        "architecture": f"GPT-2, {size.layers} layers, width {size.width}, {size.heads} heads, {POSITIONS} positions, "
        "tied embeddings",
        "vocabulary": f"{VOCAB_SIZE:,} byte-level BPE tokens, shared by all bundled models",
        "validation perplexity": f"{best.ppl:.2f} per token of text; "
        f"{best.ppl_with_end:.2f} with the end of text counted",
        "calibration": f"logits divided by {best.temperature:g}, fitted to half of the validation split",
    }


def is_hidden_matrix(name: str, parameter: torch.Tensor) -> bool:
    """Return whether Muon updates a parameter."""
    return parameter.ndim == 2 and ".h." in name


def last_norm(model: GPT2LMHeadModel) -> torch.nn.LayerNorm:
    """Return the layer norm before the output layer."""
    return model.transformer.ln_f


def compute_losses(model: GPT2LMHeadModel, batch: Batch) -> TokenLosses:
    """Return the loss of each real target; padding never reaches the output layer."""
    # Padding is on the right, where causal attention hides it, so no mask is needed.
    hidden = model.transformer(batch.inputs, use_cache=False).last_hidden_state
    real = batch.targets != IGNORED
    logits = hidden[real] @ model.transformer.wte.weight.T
    nll = torch.nn.functional.cross_entropy(logits, batch.targets[real], reduction="none")
    return TokenLosses(nll, batch.targets[real], torch.ones_like(nll))


def make_batches(
    sequences: Sequence[np.ndarray], batch_tokens: int, rng: Generator | None, tokenizer: PreTrainedTokenizerFast
) -> Iterator[Batch]:
    """Yield passages of similar lengths, padded on the right; shuffled if `rng` is given."""
    lengths = np.array([len(sequence) for sequence in sequences])
    # Noise on the sort key gives each epoch different groups.
    key = lengths if rng is None else lengths * rng.uniform(0.9, 1.1, len(lengths))
    groups: list[list[int]] = [[]]
    for index in np.argsort(key, kind="stable"):
        longest = max(lengths[[*groups[-1], index]])
        if groups[-1] and longest * (len(groups[-1]) + 1) > batch_tokens:
            groups.append([])
        groups[-1].append(int(index))
    order = range(len(groups)) if rng is None else rng.permutation(len(groups))
    for position in order:
        rows = [sequences[i] for i in groups[position]]
        width = max(len(row) for row in rows) - 1
        inputs = np.full((len(rows), width), tokenizer.pad_token_id, dtype=np.int64)
        targets = np.full((len(rows), width), IGNORED, dtype=np.int64)
        for line, row in enumerate(rows):
            inputs[line, : len(row) - 1] = row[:-1]
            targets[line, : len(row) - 1] = row[1:]
        yield Batch(torch.from_numpy(inputs), torch.from_numpy(targets))
