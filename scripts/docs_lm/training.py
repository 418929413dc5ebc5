"""A training run with steps, checkpoints, evaluations and export."""

from __future__ import annotations

import argparse
import json
import logging
import math
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from docs_lm import causal, masked
from docs_lm.card import format_card
from docs_lm.data import SIZES, Batch, Progress
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast

LOG = logging.getLogger("train_docs_lm")
# Temperatures that calibration tries.
CALIBRATION_GRID = (1.0, 1.04, 1.08, 1.12, 1.16, 1.2)


class TrainingRun:
    """A training run: model, optimizers, progress and files."""

    def __init__(
        self,
        options: argparse.Namespace,
        tokenizer: PreTrainedTokenizerFast,
        train: list[np.ndarray],
        valid: list[np.ndarray],
        facts: dict[str, Any],
    ) -> None:
        self.options, self.tokenizer, self.facts = options, tokenizer, facts
        self.train_data, self.valid_data = train, valid
        self.folder = options.workdir / f"{options.model}-{facts['fingerprint'][:12]}"
        self.folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(options.seed)
        self.objective = masked if SIZES[options.model].kind == "masked" else causal
        self.model: torch.nn.Module = self.objective.build_model(options, tokenizer)
        matrices = [p for n, p in self.model.named_parameters() if self.objective.is_hidden_matrix(n, p)]
        chosen = {id(p) for p in matrices}
        others = [p for p in self.model.parameters() if id(p) not in chosen]
        self.optimizers: tuple[torch.optim.Optimizer, ...] = (
            torch.optim.Muon(matrices, options.lr, options.weight_decay, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, options.lr, betas=(0.9, 0.95), weight_decay=0.01),
        )
        self.progress = Progress()
        self._resume()
        self._note_options()

    def train(self) -> None:
        """Train until the budget is spent or validation stops improving."""
        self.model.train()
        stale, next_eval = 0, self.progress.tokens + self.options.eval_tokens
        begun = time.monotonic() - self.progress.seconds
        for batch in self._iterate_batches():
            loss = self._run_step(batch)
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
        """Yield the batches of all epochs from the current step on."""
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

    def _run_step(self, batch: Batch) -> float:
        # Dropout depends only on the step, so a resumed run uses the same random numbers.
        torch.manual_seed(self.options.seed * 1_000_003 + self.progress.step)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.options.bfloat16):
            losses = self.objective.compute_losses(self.model, batch)
        loss = (losses.nll * losses.weights).sum() / losses.weights.sum()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._compute_lr()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.progress.step += 1
        self.progress.tokens += round(float(losses.weights.sum()))
        return float(loss.item())

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
        """Write the checkpoint atomically, so an interruption leaves the previous one."""
        state = [optimizer.state_dict() for optimizer in self.optimizers]
        path = self.folder / "checkpoint.pt"
        content = {"progress": asdict(self.progress), "model": self.model.state_dict(), "optimizers": state}
        torch.save(content, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").replace(path)

    def _resume(self) -> None:
        """Resume from the checkpoint, if there is one."""
        path = self.folder / "checkpoint.pt"
        if not path.is_file():
            return
        content = torch.load(path, weights_only=True)
        self.model.load_state_dict(content["model"])
        for optimizer, state in zip(self.optimizers, content["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        self.progress = Progress(**content["progress"])
        LOG.info("resumed at step %d", self.progress.step)

    def _note_options(self) -> None:
        """Record the options and the step from which they apply."""
        names = ("tokens", "batch_tokens", "lr", "decay", "dropout")
        chosen = {name: getattr(self.options, name) for name in names}
        past = self.progress.segments
        if not past or {**past[-1], "step": 0} != {**chosen, "step": 0}:
            past.append({"step": self.progress.step, **chosen})

    def _export(self) -> None:
        """Replace the asset folder with the current weights, tokenizer and card."""
        assets = self.options.assets
        assets.mkdir(parents=True, exist_ok=True)
        final = assets / self.options.model
        fresh = assets / f".{self.options.model}.new"
        old = assets / f".{self.options.model}.old"
        for stale in (fresh, old):
            shutil.rmtree(stale, ignore_errors=True)
        fresh.mkdir()
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
        if final.exists():
            final.rename(old)
        fresh.rename(final)
        shutil.rmtree(old, ignore_errors=True)
