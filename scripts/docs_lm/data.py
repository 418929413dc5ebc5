"""Sizes of the bundled models, and the passages of the `docs` task as sequences of tokens."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from openended.tasks._docstrings import load_passages, package_versions
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


def load_corpus(workdir: Path) -> tuple[list[Passage], dict[str, Any]]:
    """Load the passages, from the working folder if package versions are unchanged."""
    cache, versions = workdir / "passages.json", package_versions()
    if cache.is_file():
        stored = json.loads(cache.read_text())
        if stored["facts"]["versions"] == versions:
            return [Passage(**row) for row in stored["passages"]], stored["facts"]
    passages = load_passages()
    facts: dict[str, Any] = {"fingerprint": fingerprint(passages), "versions": versions}
    for split in ("train", "valid", "test"):
        texts = [p.text for p in passages if p.split == split]
        facts[split] = {"passages": len(texts), "words": sum(len(text.split()) for text in texts)}
    workdir.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps({"facts": facts, "passages": [passage._asdict() for passage in passages]}))
    return passages, facts


def train_tokenizer(workdir: Path, passages: Sequence[Passage], mark: str) -> PreTrainedTokenizerFast:
    """Train the shared tokenizer on the train split, or load it if it exists."""
    folder = workdir / f"tokenizer-{mark[:12]}"
    if not (folder / "tokenizer.json").is_file():
        raw = Tokenizer(models.BPE())
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        raw.decoder = decoders.ByteLevel()
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(
            vocab_size=VOCAB_SIZE, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
        )
        raw.train_from_iterator((p.text for p in passages if p.split == "train"), trainer)
        ends = dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), END)
        fast = PreTrainedTokenizerFast(
            tokenizer_object=raw, model_max_length=POSITIONS, clean_up_tokenization_spaces=False, **ends
        )
        fast.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if len(tokenizer) != VOCAB_SIZE:
        raise ValueError(f"the tokenizer has {len(tokenizer)} tokens instead of {VOCAB_SIZE}")
    return tokenizer  # type: ignore[no-any-return]


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
