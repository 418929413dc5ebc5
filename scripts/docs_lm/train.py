"""Train the bundled language models on the train split of the `docs` corpus: `--model docs-s|docs-m|docs-mlm`.

    python -m scripts.docs_lm.train --model docs-s

Hidden matrices are updated by Muon, which needs about half the tokens of AdamW at this size, the rest by AdamW. The
learning rate warms up, stays constant, and falls linearly to zero. Batches and dropout are functions of seed and step.
The weights with the best validation perplexity are exported as float16 into the assets folder, with a model card.
"""

import argparse
import copy
import json
import logging
import math
import shlex
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from scripts.docs_lm import causal, data, masked
from scripts.docs_lm.data import SIZES, Batch, Best
from scripts.pages import ROOT

LOG = logging.getLogger("train_docs_lm")
OBJECTIVES: dict[str, Any] = {"causal": causal, "masked": masked}
CALIBRATION_GRID = (1.0, 1.04, 1.08, 1.12, 1.16, 1.2)  # temperatures
CARD = Path(__file__).with_name("card.md")


@dataclass(frozen=True)
class Training:
    """What a model is trained with."""

    options: argparse.Namespace
    objective: Any  # the module of its kind
    tokenizer: PreTrainedTokenizerFast
    sequences: dict[str, list[np.ndarray]]  # of each split
    facts: dict[str, Any]

    def make_batches(self, split: str, rng: np.random.Generator | None) -> Iterator[Batch]:
        """Yield the batches of a split; shuffled if `rng` is given."""
        batches: Iterator[Batch] = self.objective.make_batches(
            self.sequences[split], self.options.batch_tokens, rng, self.tokenizer
        )
        return batches

    def train(self, model: torch.nn.Module) -> Best:
        """Train until the budget is spent or validation stops improving; leave the best weights in the model."""
        options, objective = self.options, self.objective
        matrices = [p for n, p in model.named_parameters() if objective.is_hidden_matrix(n, p)]
        chosen = {id(p) for p in matrices}
        others = [p for p in model.parameters() if id(p) not in chosen]
        optimizers: tuple[torch.optim.Optimizer, ...] = (
            torch.optim.Muon(matrices, options.lr, options.weight_decay, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, options.lr, betas=(0.9, 0.95), weight_decay=0.01),
        )
        best, weights = Best(), copy.deepcopy(model.state_dict())
        step, tokens, stale, next_evaluation, started = 0, 0, 0, options.eval_tokens, time.monotonic()
        epochs = (np.random.default_rng([options.seed, epoch]) for epoch in range(10_000))
        for batch in (batch for rng in epochs for batch in self.make_batches("train", rng)):
            torch.manual_seed(options.seed * 1_000_003 + step)
            rate = compute_lr(options, step, tokens)
            with torch.autocast("cpu", torch.bfloat16, enabled=options.bfloat16):
                losses = objective.compute_losses(model.train(), batch)
            loss = (losses.nll * losses.weights).sum() / losses.weights.sum()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            step, tokens = step + 1, tokens + round(float(losses.weights.sum()))
            if step % 50 == 0:
                speed = tokens / (time.monotonic() - started)
                LOG.info("step %d tokens %d loss %.3f lr %.2e %.0f tok/s", step, tokens, loss.item(), rate, speed)
            if tokens >= min(next_evaluation, options.tokens):
                next_evaluation += options.eval_tokens
                ppl, ppl_with_end = self.evaluate(model)
                stale += 1
                if ppl < best.ppl:
                    stale, weights = 0, copy.deepcopy(model.state_dict())
                    best = Best(ppl, ppl_with_end, step, tokens)
                if tokens >= options.tokens or stale >= options.patience:
                    break
        model.load_state_dict(weights)
        return best

    @torch.inference_mode()
    def evaluate(self, model: torch.nn.Module) -> tuple[float, float]:
        """Return the perplexity of the validation split per token of text, and with the ends of texts counted."""
        model.eval()
        sums = np.zeros((2, 2))
        for batch in self.make_batches("valid", None):
            losses = self.objective.compute_losses(model, batch)
            is_text = losses.targets != self.tokenizer.eos_token_id
            for row, mask in enumerate((is_text, torch.ones_like(is_text))):
                weights = losses.weights.double()[mask]
                sums[row] += (losses.nll.double()[mask] * weights).sum().item(), weights.sum().item()
        ppl, ppl_with_end = (math.exp(total / count) for total, count in sums)
        LOG.info("valid ppl %.2f (with end of text %.2f)", ppl, ppl_with_end)
        return ppl, ppl_with_end

    @torch.inference_mode()
    def calibrate(self, model: torch.nn.Module) -> float:
        """Fit one temperature to the odd batches of the validation split, write it into the weights and return it.

        A model that has seen its text several times is overconfident (Guo et al. 2017, section 4.2). Scaling the last
        layer norm divides the logits and changes nothing else, including the directions of embeddings.
        """
        model.eval()
        held_out = list(self.make_batches("valid", None))[1::2]
        norm = causal.last_norm(model)
        weight, bias = norm.weight.clone(), norm.bias.clone()

        def measure_loss(temperature: float) -> float:
            norm.weight.copy_(weight / temperature)
            norm.bias.copy_(bias / temperature)
            return sum(causal.compute_losses(model, batch).nll.double().sum().item() for batch in held_out)

        temperature = min(CALIBRATION_GRID, key=measure_loss)
        measure_loss(temperature)
        return temperature

    def export(self, model: Any, best: Best) -> None:  # noqa: ANN401 - a model of transformers
        """Write weights, configuration, tokenizer and model card."""
        final, fresh = (self.options.assets / name for name in (self.options.model, f".{self.options.model}.new"))
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        self.tokenizer.save_pretrained(fresh)
        # The output layer is tied to the embedding, so one copy is stored.
        weights = {n: p.detach().half().contiguous() for n, p in model.named_parameters()}
        save_file(weights, fresh / "model.safetensors", metadata={"format": "pt"})
        # The library makes the file readable only by its owner.
        (fresh / "model.safetensors").chmod(0o644)
        config = model.config.to_diff_dict()
        config.pop("_name_or_path", None)
        # Weights are stored in half precision and computed in single precision.
        config |= {"architectures": [self.objective.ARCHITECTURE], "dtype": "float32"}
        (fresh / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        card = self.format_card(best, sum(p.numel() for p in model.parameters()))
        (fresh / "README.md").write_text(card, encoding="utf-8")
        shutil.rmtree(final, ignore_errors=True)
        fresh.rename(final)

    def format_card(self, best: Best, parameters: int) -> str:
        """Format the model card of a model with a number of parameters."""
        options, objective, size, facts = self.options, self.objective, SIZES[self.options.model], self.facts
        command = ["python", "-m", "scripts.docs_lm.train"]
        for name in ("model", "tokens", "batch_tokens", "lr", "decay", "dropout", "seed"):
            command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
        command += [f"--{name}" for name in ("bfloat16", "calibrate") if getattr(options, name)]
        train_tokens = sum(len(sequence) - 1 for sequence in self.sequences["train"])
        rows = {
            "parameters": f"{parameters:,}",
            **objective.describe_model(size, best),
            "weights": "stored as float16, to be loaded and computed with as float32",
            "training": f"{best.step:,} steps, {best.tokens:,} tokens "
            f"({best.tokens / train_tokens:.1f} epochs of {train_tokens:,})",
            "optimizer": f"Muon (hidden matrices) and AdamW (the rest), peak {options.lr:g}, "
            f"dropout {options.dropout:g}",
            "command": f"`{shlex.join(command)}`",
        }
        splits = {name: facts[name] for name in ("train", "valid", "test")}
        parts = {"pipeline": objective.PIPELINE, "family": objective.FAMILY, "evaluation": objective.EVALUATION}
        parts |= {"model": options.model, "role": size.role, "fingerprint": facts["fingerprint"]}
        parts["table"] = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
        parts["versions"] = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        lines = (f"| {name} | {of['passages']:,} | {of['words']:,} |" for name, of in splits.items())
        return CARD.read_text(encoding="utf-8").format(**parts, splits="\n".join(lines))


def compute_lr(options: argparse.Namespace, step: int, tokens: int) -> float:
    """Compute the learning rate: a trapezoid over the token budget."""
    falling = (1 - tokens / options.tokens) / options.decay
    return float(options.lr * max(0.0, min(1.0, (step + 1) / options.warmup, falling)))


def main() -> None:
    """Train, calibrate and export one model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", choices=sorted(SIZES), required=True)
    parser.add_argument("--assets", type=Path, default=ROOT / "harness/assets")
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
    parser.add_argument("--calibrate", action="store_true", help="fit the temperature at the end")
    parser.add_argument("--seed", type=int, default=20)
    options = parser.parse_args()
    size = SIZES[options.model]
    if options.calibrate and size.kind == "masked":
        parser.error("--calibrate fits the temperature of an autoregressive model; docs-mlm is exported without it")
    for name in ("tokens", "batch_tokens", "lr"):
        if getattr(options, name) is None:
            setattr(options, name, getattr(size, name))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    # Its warnings on padding and length do not apply: see `token_nll` and `encode`.
    transformers_logging.set_verbosity_error()
    passages, facts = data.load_corpus()
    tokenizer = data.train_tokenizer(passages)
    if size.kind == "masked":
        tokenizer = data.add_mask_token(tokenizer)
    sequences = {s: data.encode(tokenizer, [p.text for p in passages if p.split == s]) for s in ("train", "valid")}
    training = Training(options, OBJECTIVES[size.kind], tokenizer, sequences, facts)
    torch.manual_seed(options.seed)
    model = training.objective.build_model(options, tokenizer)
    best = training.train(model)
    if options.calibrate:
        temperature = training.calibrate(model)
        best = Best(*training.evaluate(model), best.step, best.tokens, temperature)
    training.export(model, best)


if __name__ == "__main__":
    main()
