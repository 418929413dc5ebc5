"""Train the bundled language models on the train split of the `docs` corpus.

    python scripts/train_docs_lm.py --model docs-s
    python scripts/train_docs_lm.py --model docs-m
    python scripts/train_docs_lm.py --model docs-mlm

They share one byte-level BPE tokenizer of 4,096 tokens; docs-mlm has a mask token in addition. For docs-s and
docs-m, each passage is a separate sequence, `<|endoftext|> text <|endoftext|>`, and batches contain passages of
similar length. For docs-mlm, a masked diffusion model, see `docs_lm/masked.py`. Hidden matrices are
updated by Muon (momentum, orthogonalized by a Newton-Schulz iteration), which needs about half the
tokens of AdamW at this size. Embeddings, biases and norms are updated by AdamW. The learning rate warms
up, stays constant, and falls linearly to zero, so the budget may be changed during a run.

An interrupted run resumes from its last checkpoint. Batches and dropout are functions of seed and step,
so the result equals that of an uninterrupted run up to thread rounding. The weights with the best
validation perplexity are exported as float16 into the assets folder, with a model card.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from docs_lm.data import SIZES, add_mask_token, encode, load_corpus, train_tokenizer  # noqa: E402
from docs_lm.training import LOG, TrainingRun  # noqa: E402


def main() -> None:
    """Train or resume one model."""
    options = _parse_options()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(options.threads)
    # Its warnings on padding and length do not apply: see `token_nll` and `encode`.
    transformers_logging.set_verbosity_error()
    passages, facts = load_corpus(options.workdir, options.workers)
    tokenizer = train_tokenizer(options.workdir, passages, facts["fingerprint"])
    if SIZES[options.model].kind == "masked":
        tokenizer = add_mask_token(tokenizer)
    data = {split: encode(tokenizer, [p.text for p in passages if p.split == split]) for split in ("train", "valid")}
    facts["train_tokens"] = sum(len(sequence) - 1 for sequence in data["train"])
    LOG.info("train %d passages, %d tokens", len(data["train"]), facts["train_tokens"])
    run = TrainingRun(options, tokenizer, data["train"], data["valid"], facts)
    if options.calibrate:
        run.calibrate()
    else:
        run.train()


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", choices=sorted(SIZES), required=True)
    parser.add_argument("--workdir", type=Path, default=ROOT / "outputs" / "train_docs_lm")
    parser.add_argument("--assets", type=Path, default=ROOT / "harness" / "assets")
    parser.add_argument("--tokens", type=int, help="budget of training tokens (default: by model)")
    parser.add_argument("--batch-tokens", type=int, help="padding included (default: by model)")
    parser.add_argument("--lr", type=float, help="peak learning rate (default: by model)")
    parser.add_argument("--warmup", type=int, default=60, help="steps")
    parser.add_argument("--decay", type=float, default=0.5, help="last share of the run, falling to 0")
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--bfloat16", action="store_true", help="matrix products in bfloat16: faster on CPUs with AMX")
    parser.add_argument("--eval-tokens", type=int, default=600_000, help="between two evaluations")
    parser.add_argument("--patience", type=int, default=6, help="evaluations without improvement")
    parser.add_argument("--calibrate", action="store_true", help="train no more: fit the temperature and export")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2, help="processes that read the corpus")
    options = parser.parse_args()
    if options.calibrate and SIZES[options.model].kind == "masked":
        parser.error("--calibrate fits the temperature of an autoregressive model; docs-mlm is exported without it")
    for name in ("tokens", "batch_tokens", "lr"):
        if getattr(options, name) is None:
            setattr(options, name, getattr(SIZES[options.model], name))
    return options


if __name__ == "__main__":
    main()
