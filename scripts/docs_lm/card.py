"""The model card of a trained model, with everything needed to reproduce the weights."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from docs_lm.sizes import END, POSITIONS, SIZES, VOCAB_SIZE

if TYPE_CHECKING:
    from docs_lm.training import Run


def format_card(run: Run) -> str:
    """Format the model card, with everything needed to reproduce the weights."""
    options, facts, size = run.options, run.facts, SIZES[run.options.model]
    table = "\n".join(f"| {name} | {value} |" for name, value in _rows(run).items())
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    splits = "\n".join(
        f"| {name} | {facts[name]['passages']:,} | {facts[name]['words']:,} |" for name in ("train", "valid", "test")
    )
    return f"""---
license: apache-2.0
language: en
library_name: transformers
pipeline_tag: text-generation
---

# {options.model}

A small GPT-2 trained from scratch on the prose of Python docstrings: the {size.role} of the
`docs` task. It is a measuring instrument for offline runs, not a model to get text from.

| | |
| --- | --- |
{table}

Perplexity is over the whole validation split, each passage alone after `{END}`.

## Data

Fingerprint `{facts["fingerprint"]}`; versions: {versions}.

| split | passages | words |
| --- | --- | --- |
{splits}

Splits are a hash of package and module path; no paragraph occurs in two of them. The models have seen
the train split only; validation chose the checkpoint.

## Licence

Weights and tokenizer: Apache-2.0. The source texts keep their own licences (PSF for the standard
library; BSD, Apache-2.0, PSF-like for the packages) and are not redistributed here.
"""


def _rows(run: Run) -> dict[str, str]:
    options, facts, size, done = run.options, run.facts, SIZES[run.options.model], run.progress
    parameters = sum(p.numel() for p in run.model.parameters())
    command = ["python", "scripts/train_docs_lm.py", "--model", options.model]
    for name in ("tokens", "batch_tokens", "lr", "decay", "dropout", "seed"):
        command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    # A run that was continued with other options says so: its command makes a like model, not the same.
    changes = "; ".join(
        f"from step {segment['step']}: " + ", ".join(f"{k} {v:,}" for k, v in segment.items() if k != "step")
        for segment in done.segments
    )
    return {
        "architecture": f"GPT-2, {size.layers} layers, width {size.width}, {size.heads} heads, "
        f"{POSITIONS} positions, tied embeddings",
        "parameters": f"{parameters:,}",
        "vocabulary": f"{VOCAB_SIZE:,} byte-level BPE tokens, shared by docs-s and docs-m",
        "weights": "stored as float16, to be loaded and computed with as float32",
        "validation perplexity": f"{done.best_ppl:.2f} per token of text; "
        f"{done.best_ppl_with_end:.2f} with the end of text counted",
        "calibration": f"logits divided by {done.temperature:g}, fitted to half of the validation split",
        "training": f"{done.best_step:,} steps, {done.best_tokens:,} tokens "
        f"({done.best_tokens / facts['train_tokens']:.1f} epochs of {facts['train_tokens']:,})",
        "optimiser": f"Muon (hidden matrices) and AdamW (the rest), peak {options.lr:g}, dropout {options.dropout:g}",
        "command": f"`{shlex.join(command)}`" + (", then again with `--calibrate`" if done.temperature != 1 else ""),
        "options, as they changed": changes,
    }
