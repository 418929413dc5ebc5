"""The model card of a trained model, with everything needed to reproduce the weights."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Mapping
from typing import Any

from docs_lm.data import END, MASK, POSITIONS, SIZES, VOCAB_SIZE, Progress
from docs_lm.masked import EVALUATION_LEVELS

_FAMILIES = {"causal": "GPT-2", "masked": "ModernBERT"}
_EVALUATIONS = {
    "causal": f"Perplexity is over the whole validation split, each passage alone after `{END}`.",
    "masked": f"""The bound is MDLM's (Sahoo et al. 2024), over the whole validation split in pieces of 256 tokens with
`{END}` after each passage, {EVALUATION_LEVELS} random masks per piece. It is not comparable with the
perplexity of docs-s and docs-m, which is exact and of single passages.

Objective: pieces of 64, 128, 256 or 512 tokens; of L tokens, k random ones are replaced by `{MASK}`, with k
uniform over 1 to L, and the loss of each has the weight L / k. The model has no time input. It was trained for
minutes on one core: it writes local phrases and no coherent text.""",
}


def format_card(options: argparse.Namespace, facts: Mapping[str, Any], done: Progress, parameters: int) -> str:
    """Format the model card of a model with a number of parameters."""
    size = SIZES[options.model]
    rows = {"parameters": f"{parameters:,}", **_collect_rows(options, facts, done)}
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    splits = "\n".join(
        f"| {name} | {facts[name]['passages']:,} | {facts[name]['words']:,} |" for name in ("train", "valid", "test")
    )
    return f"""---
license: apache-2.0
language: en
library_name: transformers
pipeline_tag: {"fill-mask" if size.kind == "masked" else "text-generation"}
---

# {options.model}

A small {_FAMILIES[size.kind]} trained from scratch on the prose of Python docstrings: the {size.role} of the
`docs` task. It is a measuring instrument for offline runs, not a model to get text from.

| | |
| --- | --- |
{table}

{_EVALUATIONS[size.kind]}

## Data

Fingerprint `{facts["fingerprint"]}`; versions: {versions}.

| split | passages | words |
| --- | --- | --- |
{splits}

Splits are a hash of package and module path; no paragraph occurs in two of them. The models have seen
the train split only; validation chose the checkpoint.

## License

Weights and tokenizer: Apache-2.0. The source texts keep their own licenses (PSF for the standard
library; BSD, Apache-2.0, PSF-like for the packages) and are not redistributed here.
"""


def _collect_rows(options: argparse.Namespace, facts: Mapping[str, Any], done: Progress) -> dict[str, str]:
    size = SIZES[options.model]
    command = ["python", "scripts/train_docs_lm.py", "--model", options.model]
    for name in ("tokens", "batch_tokens", "lr", "decay", "dropout", "seed"):
        command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    command += ["--bfloat16"] * options.bfloat16
    # A run continued with other options says so: its command gives a similar model, not the same one.
    changes = "; ".join(
        f"from step {segment['step']}: " + ", ".join(f"{k} {v:,}" for k, v in segment.items() if k != "step")
        for segment in done.segments
    )
    layers, rest = f"{size.layers} layers", f"width {size.width}, {size.heads} heads, {POSITIONS}"
    if size.kind == "masked":
        bound = done.best_ppl_with_end
        rows = {
            "architecture": f"ModernBERT, {layers} with full attention, {rest} rotary positions, tied embeddings",
            "vocabulary": f"{VOCAB_SIZE:,} byte-level BPE tokens, those of docs-s and docs-m, and `{MASK}` "
            f"(id {VOCAB_SIZE})",
            "validation bound": f"negative log-likelihood at most {math.log(bound):.3f} nats per token "
            f"(perplexity at most {bound:.1f}), end tokens counted",
        }
    else:
        rows = {
            "architecture": f"GPT-2, {layers}, {rest} positions, tied embeddings",
            "vocabulary": f"{VOCAB_SIZE:,} byte-level BPE tokens, shared by all bundled models",
            "validation perplexity": f"{done.best_ppl:.2f} per token of text; "
            f"{done.best_ppl_with_end:.2f} with the end of text counted",
            "calibration": f"logits divided by {done.temperature:g}, fitted to half of the validation split",
        }
    return {
        **rows,
        "weights": "stored as float16, to be loaded and computed with as float32",
        "training": f"{done.best_step:,} steps, {done.best_tokens:,} tokens "
        f"({done.best_tokens / facts['train_tokens']:.1f} epochs of {facts['train_tokens']:,})",
        "optimizer": f"Muon (hidden matrices) and AdamW (the rest), peak {options.lr:g}, dropout {options.dropout:g}",
        "command": f"`{shlex.join(command)}`" + (", then again with `--calibrate`" if done.temperature != 1 else ""),
        "options, as they changed": changes,
    }
