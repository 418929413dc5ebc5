"""Sizes of the bundled models, and the passages of the `docs` task as sequences of tokens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from openended.tasks import docs
from openended.tasks._docstrings import package_versions
from openended.tasks._passages import Passage, fingerprint

END, MASK = "<|endoftext|>", "[MASK]"
VOCAB_SIZE = 4096  # tokens without `MASK`, which only a masked model has
POSITIONS = 512
IGNORED = -100


@dataclass(frozen=True, slots=True)
class Size:
    """Architecture and budget of one bundled model."""

    width: int
    layers: int
    heads: int
    tokens: int
    batch_tokens: int
    lr: float
    role: str
    kind: Literal["causal", "masked"] = "causal"


SIZES = {
    "docs-s": Size(256, 4, 4, 2_800_000, 4096, 4e-3, "generator of the quick start"),
    "docs-m": Size(320, 5, 5, 3_800_000, 3072, 3e-3, "external scorer and embedder"),
    "docs-mlm": Size(256, 4, 4, 2_300_000, 4096, 4e-3, "masked diffusion model and embedder", "masked"),
}


@dataclass(frozen=True, slots=True)
class Best:
    """The weights with the lowest validation perplexity."""

    ppl: float = math.inf
    ppl_with_end: float = math.inf
    step: int = 0
    tokens: int = 0
    temperature: float = 1.0


class Batch(NamedTuple):
    """Rows of token ids and what to predict at each position, `IGNORED` for nothing."""

    inputs: torch.Tensor
    targets: torch.Tensor


class TokenLosses(NamedTuple):
    """Negative log-likelihoods of predicted tokens; the loss per token of text is the weighted mean."""

    nll: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor


def load_corpus() -> tuple[list[Passage], dict[str, Any]]:
    """Load the passages, as the task `docs` does, and what the model card says about them."""
    passages = docs.load_corpus(docs.Docs().fingerprint())
    facts: dict[str, Any] = {"fingerprint": fingerprint(passages), "versions": package_versions()}
    for split in ("train", "valid", "test"):
        texts = [p.text for p in passages if p.split == split]
        facts[split] = {"passages": len(texts), "words": sum(len(text.split()) for text in texts)}
    return passages, facts


def train_tokenizer(passages: Sequence[Passage]) -> PreTrainedTokenizerFast:
    """Train the shared tokenizer on the train split."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator((p.text for p in passages if p.split == "train"), trainer)
    ends = dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), END)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, model_max_length=POSITIONS, clean_up_tokenization_spaces=False, **ends
    )
    if len(tokenizer) != VOCAB_SIZE:
        raise ValueError(f"the tokenizer has {len(tokenizer)} tokens instead of {VOCAB_SIZE}")
    return tokenizer


def add_mask_token(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """Add the mask token, whose id follows those of the shared vocabulary."""
    tokenizer.add_special_tokens({"mask_token": MASK})
    return tokenizer


def encode(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> list[np.ndarray]:
    """Encode passages as `end text end`; longer ones are split, and each part begins with `end`."""
    end, room = tokenizer.eos_token_id, POSITIONS - 1
    closed = [[*ids, end] for ids in tokenizer(list(texts))["input_ids"]]
    parts = (ids[start : start + room] for ids in closed for start in range(0, len(ids), room))
    return [np.array([end, *part], dtype=np.int64) for part in parts]
