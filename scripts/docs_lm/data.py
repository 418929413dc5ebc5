"""Convert the passages of the `docs` task to sequences of tokens."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from docs_lm.sizes import END, MASK, POSITIONS, VOCAB_SIZE
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from openended.tasks._docstrings import Passage, fingerprint, load_passages, package_versions

IGNORED = -100


class Batch(NamedTuple):
    """Rows of token ids and what to predict at each position, `IGNORED` for nothing."""

    inputs: torch.Tensor
    targets: torch.Tensor


class TokenLosses(NamedTuple):
    """Negative log-likelihoods of predicted tokens; the loss per token of text is the weighted mean."""

    nll: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor


def load_corpus(workdir: Path, workers: int) -> tuple[list[Passage], dict[str, Any]]:
    """Load the passages, from the working folder if package versions are unchanged."""
    cache, versions = workdir / "passages.json", package_versions()
    if cache.is_file():
        stored = json.loads(cache.read_text())
        if stored["facts"]["versions"] == versions:
            return [Passage(**row) for row in stored["passages"]], stored["facts"]
    passages = load_passages(workers=workers)
    facts: dict[str, Any] = {"fingerprint": fingerprint(passages), "versions": versions}
    for split in ("train", "valid", "test"):
        chosen = [p for p in passages if p.split == split]
        facts[split] = {"passages": len(chosen), "words": sum(len(p.text.split()) for p in chosen)}
    rows = [asdict(passage) for passage in passages]
    write_atomically(cache, json.dumps({"facts": facts, "passages": rows}))
    return passages, facts


def train_tokenizer(workdir: Path, passages: Sequence[Passage], mark: str) -> PreTrainedTokenizerFast:
    """Train the shared tokenizer on the train split, or load it if it exists."""
    folder = workdir / f"tokenizer-{mark[:12]}"
    if not (folder / "tokenizer.json").is_file():
        raw = Tokenizer(models.BPE())
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        raw.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=VOCAB_SIZE,
            special_tokens=[END],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        raw.train_from_iterator((p.text for p in passages if p.split == "train"), trainer)
        fast = PreTrainedTokenizerFast(
            tokenizer_object=raw,
            bos_token=END,
            eos_token=END,
            pad_token=END,
            unk_token=END,
            model_max_length=POSITIONS,
            clean_up_tokenization_spaces=False,
        )
        temporary = folder.with_name(f"{folder.name}.{os.getpid()}")
        fast.save_pretrained(temporary)
        temporary.rename(folder)
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
    sequences = []
    for ids in tokenizer(list(texts))["input_ids"]:
        closed = [*ids, end]
        sequences += [
            np.array([end, *closed[start : start + room]], dtype=np.int64) for start in range(0, len(closed), room)
        ]
    return sequences


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically, by renaming."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)
