"""Train the bundled language models on the train split of the `docs` corpus: `--model docs-s|docs-m|docs-mlm`.

Hidden matrices are updated by Muon, which needs about half the tokens of AdamW at this size, the rest by AdamW. The
learning rate warms up, stays constant, and falls linearly to zero, so the budget may be changed during a run. Batches
and dropout are functions of seed and step: an interrupted run resumes from its last checkpoint with the same result.
The weights with the best validation perplexity are exported as float16 into the assets folder, with a model card.
"""

import argparse
import json
import logging
import math
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from docs_lm import causal, data, masked  # noqa: E402
from docs_lm.data import SIZES, Batch, Progress  # noqa: E402

LOG = logging.getLogger("train_docs_lm")
OBJECTIVES: dict[str, Any] = {"causal": causal, "masked": masked}
CALIBRATION_GRID = (1.0, 1.04, 1.08, 1.12, 1.16, 1.2)  # temperatures
CARD = ROOT / "scripts/docs_lm/card.md"


def format_card(options: argparse.Namespace, facts: Mapping[str, Any], done: Progress, parameters: int) -> str:
    """Format the model card of a model with a number of parameters."""
    size, objective = SIZES[options.model], OBJECTIVES[SIZES[options.model].kind]
    command = ["python", "scripts/train_docs_lm.py", "--model", options.model]
    for name in ("tokens", "batch_tokens", "lr", "decay", "dropout", "seed"):
        command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    command += ["--bfloat16"] * options.bfloat16
    # A run continued with other options says so: its command gives a similar model, not the same one.
    changes = "; ".join(
        f"from step {segment['step']}: " + ", ".join(f"{k} {v:,}" for k, v in segment.items() if k != "step")
        for segment in done.segments
    )
    rows = {
        "parameters": f"{parameters:,}",
        **objective.describe_model(size, done),
        "weights": "stored as float16, to be loaded and computed with as float32",
        "training": f"{done.best_step:,} steps, {done.best_tokens:,} tokens "
        f"({done.best_tokens / facts['train_tokens']:.1f} epochs of {facts['train_tokens']:,})",
        "optimizer": f"Muon (hidden matrices) and AdamW (the rest), peak {options.lr:g}, dropout {options.dropout:g}",
        "command": f"`{shlex.join(command)}`" + (", then again with `--calibrate`" if done.temperature != 1 else ""),
        "options, as they changed": changes,
    }
    splits = {name: facts[name] for name in ("train", "valid", "test")}
    return CARD.read_text(encoding="utf-8").format(
        pipeline=objective.PIPELINE, model=options.model, family=objective.FAMILY, role=size.role,
        table="\n".join(f"| {name} | {value} |" for name, value in rows.items()), evaluation=objective.EVALUATION,
        fingerprint=facts["fingerprint"],
        versions=", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
        splits="\n".join(f"| {name} | {of['passages']:,} | {of['words']:,} |" for name, of in splits.items()),
    )  # fmt: skip


class TrainingRun:
    """A training run: model, optimizers, progress and files."""

    def __init__(
        self, options: argparse.Namespace, tokenizer: PreTrainedTokenizerFast, train: list[np.ndarray],
        valid: list[np.ndarray], facts: dict[str, Any],
    ) -> None:  # fmt: skip
        self.options, self.tokenizer, self.facts = options, tokenizer, facts
        self.train_data, self.valid_data = train, valid
        self.folder = options.workdir / f"{options.model}-{facts['fingerprint'][:12]}"
        self.folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(options.seed)
        self.objective = OBJECTIVES[SIZES[options.model].kind]
        self.model: torch.nn.Module = self.objective.build_model(options, tokenizer)
        matrices = [p for n, p in self.model.named_parameters() if self.objective.is_hidden_matrix(n, p)]
        chosen = {id(p) for p in matrices}
        others = [p for p in self.model.parameters() if id(p) not in chosen]
        self.optimizers: tuple[torch.optim.Optimizer, ...] = (
            torch.optim.Muon(matrices, options.lr, options.weight_decay, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, options.lr, betas=(0.9, 0.95), weight_decay=0.01),
        )
        self.progress = Progress()
        checkpoint = self.folder / "checkpoint.pt"
        if checkpoint.is_file():
            content = torch.load(checkpoint, weights_only=True)
            self.model.load_state_dict(content["model"])
            for optimizer, state in zip(self.optimizers, content["optimizers"], strict=True):
                optimizer.load_state_dict(state)
            self.progress = Progress(**content["progress"])
            LOG.info("resumed at step %d", self.progress.step)
        # The options, and the step from which they apply.
        chosen_options = {name: getattr(options, name) for name in ("tokens", "batch_tokens", "lr", "decay", "dropout")}
        past = self.progress.segments
        if not past or {**past[-1], "step": 0} != {**chosen_options, "step": 0}:
            past.append({"step": self.progress.step, **chosen_options})

    def train(self) -> None:
        """Train until the budget is spent or validation stops improving."""
        self.model.train()
        stale, next_eval = 0, self.progress.tokens + self.options.eval_tokens
        begun = time.monotonic() - self.progress.seconds
        for batch in self._iterate_batches():
            # Dropout depends only on the step, so a resumed run uses the same random numbers.
            torch.manual_seed(self.options.seed * 1_000_003 + self.progress.step)
            with torch.autocast("cpu", torch.bfloat16, enabled=self.options.bfloat16):
                losses = self.objective.compute_losses(self.model, batch)
            mean_loss = (losses.nll * losses.weights).sum() / losses.weights.sum()
            mean_loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            for optimizer in self.optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = self._compute_lr()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            self.progress.step += 1
            self.progress.tokens += round(float(losses.weights.sum()))
            loss = float(mean_loss.item())
            self.progress.seconds = time.monotonic() - begun
            if self.progress.step % 50 == 0:
                LOG.info("step %d tokens %d loss %.3f lr %.2e %.0f tok/s", self.progress.step,
                         self.progress.tokens, loss, self._compute_lr(),
                         self.progress.tokens / self.progress.seconds)  # fmt: skip
                self._save()
            finished = self.progress.tokens >= self.options.tokens
            if self.progress.tokens >= next_eval or finished:
                next_eval += self.options.eval_tokens
                stale = 0 if self._evaluate(loss) else stale + 1
                self._save()
                if finished or stale >= self.options.patience:
                    break

    def _iterate_batches(self) -> Iterator[Batch]:
        step = 0
        for epoch in range(10_000):
            rng = np.random.default_rng([self.options.seed, epoch])
            for batch in self._make_batches(self.train_data, rng):
                if step >= self.progress.step:
                    yield batch
                step += 1

    def _make_batches(self, sequences: list[np.ndarray], rng: np.random.Generator | None) -> Iterator[Batch]:
        return self.objective.make_batches(sequences, self.options.batch_tokens, rng, self.tokenizer)

    def _compute_lr(self) -> float:
        """Compute the learning rate: a trapezoid over the token budget."""
        done = self.progress.tokens / self.options.tokens
        falling = (1 - done) / self.options.decay
        warm = (self.progress.step + 1) / self.options.warmup
        return float(self.options.lr * max(0.0, min(1.0, warm, falling)))

    @torch.inference_mode()
    def _evaluate(self, loss: float | None) -> bool:
        """Measure validation perplexity, log it, and export the weights if they are the best yet."""
        self.model.eval()
        total, count, total_end, count_end = 0.0, 0.0, 0.0, 0.0
        for batch in self._make_batches(self.valid_data, None):
            losses = self.objective.compute_losses(self.model, batch)
            text = losses.targets != self.tokenizer.eos_token_id
            weights, weighted = losses.weights.double(), losses.nll.double() * losses.weights
            total += weighted[text].sum().item()
            count += weights[text].sum().item()
            total_end += weighted.sum().item()
            count_end += weights.sum().item()
        self.model.train()
        ppl, ppl_with_end = math.exp(total / count), math.exp(total_end / count_end)
        row = {**asdict(self.progress), "train_loss": loss, "lr": self._compute_lr(),
               "valid_ppl": ppl, "valid_ppl_with_end": ppl_with_end}  # fmt: skip
        row = {key: value for key, value in row.items() if not key.startswith(("best", "segments"))}
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps(row) + "\n")
        LOG.info("valid ppl %.2f (with end of text %.2f)", ppl, ppl_with_end)
        if ppl >= self.progress.best_ppl:
            return False
        self.progress.best_ppl, self.progress.best_ppl_with_end = ppl, ppl_with_end
        self.progress.best_step, self.progress.best_tokens = self.progress.step, self.progress.tokens
        self._export()
        return True

    @torch.inference_mode()
    def calibrate(self) -> None:
        """Fit one temperature to the odd batches of the validation split and write it into the weights.

        A model that has seen its text several times is overconfident (Guo et al. 2017, section 4.2). Scaling the last
        layer norm divides the logits and changes nothing else, including the directions of embeddings.
        """
        self.model.eval()
        held_out = list(self._make_batches(self.valid_data, None))[1::2]
        norm = causal.last_norm(self.model)
        weight, bias = norm.weight.clone(), norm.bias.clone()

        def measure_loss(temperature: float) -> float:
            norm.weight.copy_(weight / temperature)
            norm.bias.copy_(bias / temperature)
            return sum(causal.compute_losses(self.model, batch).nll.double().sum().item() for batch in held_out)

        self.progress.temperature = min(CALIBRATION_GRID, key=measure_loss)
        measure_loss(self.progress.temperature)
        LOG.info("calibrated with temperature %.2f", self.progress.temperature)
        self._evaluate(None)

    def _save(self) -> None:
        state = [optimizer.state_dict() for optimizer in self.optimizers]
        path = self.folder / "checkpoint.pt"
        content = {"progress": asdict(self.progress), "model": self.model.state_dict(), "optimizers": state}
        torch.save(content, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").replace(path)

    def _export(self) -> None:
        final = self.options.assets / self.options.model
        fresh = self.options.assets / f".{self.options.model}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        self.tokenizer.save_pretrained(fresh)
        # The output layer is tied to the embedding, so one copy is stored.
        weights = {n: p.detach().half().contiguous() for n, p in self.model.named_parameters()}
        save_file(weights, fresh / "model.safetensors", metadata={"format": "pt"})
        # The library makes the file readable only by its owner.
        (fresh / "model.safetensors").chmod(0o644)
        config = self.model.config.to_diff_dict()
        config.pop("_name_or_path", None)
        # Weights are stored in half precision and computed in single precision.
        config |= {"architectures": [self.objective.ARCHITECTURE], "dtype": "float32"}
        (fresh / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        parameters = sum(p.numel() for p in self.model.parameters())
        (fresh / "README.md").write_text(format_card(self.options, self.facts, self.progress, parameters))
        shutil.rmtree(final, ignore_errors=True)
        fresh.rename(final)


def main() -> None:
    """Train or resume one model."""
    options = _parse_options()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(options.threads)
    # Its warnings on padding and length do not apply: see `token_nll` and `encode`.
    transformers_logging.set_verbosity_error()
    passages, facts = data.load_corpus(options.workdir, options.workers)
    tokenizer = data.train_tokenizer(options.workdir, passages, facts["fingerprint"])
    if SIZES[options.model].kind == "masked":
        tokenizer = data.add_mask_token(tokenizer)
    train, valid = (data.encode(tokenizer, [p.text for p in passages if p.split == s]) for s in ("train", "valid"))
    facts["train_tokens"] = sum(len(sequence) - 1 for sequence in train)
    LOG.info("train %d passages, %d tokens", len(train), facts["train_tokens"])
    run = TrainingRun(options, tokenizer, train, valid, facts)
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
