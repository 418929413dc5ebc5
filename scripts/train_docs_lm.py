"""Train the bundled language models on the train split of the `docs` corpus.

    python scripts/train_docs_lm.py --model docs-s
    python scripts/train_docs_lm.py --model docs-m

Both share one byte-level BPE tokenizer of 4,096 tokens. Each passage is a sequence of its own,
`<|endoftext|> text <|endoftext|>`, and batches hold passages of similar length. Hidden matrices are
updated by Muon (momentum, orthogonalised by a Newton-Schulz iteration), which needs about half the
tokens of AdamW at this size; embeddings, biases and norms by AdamW. The learning rate warms up, stays,
and falls linearly to zero, so that the budget of a run may be changed while it is under way.

Killed and started again, a run goes on from its last checkpoint; batches and dropout are functions of
seed and step, so the result is that of an uninterrupted run up to the rounding of threads. The best
weights by validation perplexity are exported, as float16, into the assets folder with a model card.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import shlex
import shutil
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from openended.tasks._docstrings import Passage, fingerprint, load_passages, package_versions  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LOG = logging.getLogger("train_docs_lm")
END = "<|endoftext|>"
VOCAB_SIZE = 4096
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


# Temperatures that calibration tries.
CALIBRATION_GRID = (1.0, 1.04, 1.08, 1.12, 1.16, 1.2)

SIZES = {
    "docs-s": Size(256, 4, 4, 2_800_000, 4096, 4e-3, "generator of the quick start"),
    "docs-m": Size(320, 5, 5, 3_800_000, 3072, 3e-3, "external scorer and embedder"),
}


@dataclass(slots=True)
class Progress:
    """Where a run stands; written beside its weights."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    temperature: float = 1.0
    best_ppl: float = math.inf
    best_ppl_with_end: float = math.inf
    best_step: int = 0
    best_tokens: int = 0
    # One entry for each start with other options than before: a budget may be changed under way.
    segments: list[dict[str, float]] = field(default_factory=list)


class Muon(torch.optim.Optimizer):
    """Momentum whose update is replaced by its nearest semi-orthogonal matrix (Jordan et al. 2024).

    In float32, unlike `torch.optim.Muon`: bfloat16 is several times slower on a CPU without AMX.
    """

    def __init__(self, params: Iterable[torch.Tensor], lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update all matrices from their gradients."""
        for group in self.param_groups:
            for matrix in group["params"]:
                state = self.state[matrix]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(matrix)
                buffer = state["momentum"]
                buffer.lerp_(matrix.grad, 1 - group["momentum"])
                update = _orthogonalise(matrix.grad.lerp(buffer, group["momentum"]))
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                # An update of root-mean-square 0.2, as AdamW's, lets both share one learning rate.
                matrix.add_(update, alpha=-0.2 * group["lr"] * math.sqrt(max(matrix.shape)))


def _orthogonalise(matrix: torch.Tensor) -> torch.Tensor:
    """Push all singular values towards one by the quintic Newton-Schulz iteration of Muon."""
    flat = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    flat = flat / (flat.norm() + 1e-7)
    # Each iteration multiplies by a polynomial of the Gram matrix: iterating on that small square
    # and multiplying once at the end halves the work on wide matrices.
    gram = flat @ flat.T
    product = torch.eye(len(gram))
    for _ in range(5):
        factor = torch.addmm(gram, gram, gram, beta=-4.775, alpha=2.0315)
        factor.diagonal().add_(3.4445)
        product = factor @ product
        gram = factor @ gram @ factor
    flat = product @ flat
    return flat if matrix.shape[0] <= matrix.shape[1] else flat.T


def main() -> None:
    """Train or resume one model."""
    options = _options()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(options.threads)
    # Its warnings on padding and length do not apply: see `_token_nll` and `_encode`.
    transformers_logging.set_verbosity_error()
    passages, facts = _corpus(options.workdir, options.workers)
    tokenizer = _tokenizer(options.workdir, passages, facts["fingerprint"])
    data = {split: _encode(tokenizer, [p.text for p in passages if p.split == split]) for split in ("train", "valid")}
    facts["train_tokens"] = sum(len(sequence) - 1 for sequence in data["train"])
    LOG.info("train %d passages, %d tokens", len(data["train"]), facts["train_tokens"])
    run = Run(options, tokenizer, data["train"], data["valid"], facts)
    if options.calibrate:
        run.calibrate()
    else:
        run.train()


def _options() -> argparse.Namespace:
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
    parser.add_argument("--eval-tokens", type=int, default=600_000, help="between two evaluations")
    parser.add_argument("--patience", type=int, default=6, help="evaluations without improvement")
    parser.add_argument("--calibrate", action="store_true", help="train no more: fit the temperature and export")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2, help="processes that read the corpus")
    options = parser.parse_args()
    for name in ("tokens", "batch_tokens", "lr"):
        if getattr(options, name) is None:
            setattr(options, name, getattr(SIZES[options.model], name))
    return options


def _corpus(workdir: Path, workers: int) -> tuple[list[Passage], dict[str, Any]]:
    """Load the passages, from the working folder if they were extracted under the same versions."""
    cache, versions = workdir / "passages.json", package_versions()
    if cache.is_file():
        stored = json.loads(cache.read_text())
        if stored["facts"]["versions"] == versions:
            return [Passage(**row) for row in stored["passages"]], stored["facts"]
    passages = load_passages(workers=workers)
    facts: dict[str, Any] = {"fingerprint": fingerprint(passages), "versions": versions}
    for split in ("train", "valid", "test"):
        chosen = [p for p in passages if p.split == split]
        facts[split] = {
            "passages": len(chosen),
            "words": sum(len(p.text.split()) for p in chosen),
        }
    rows = [asdict(passage) for passage in passages]
    _write(cache, json.dumps({"facts": facts, "passages": rows}))
    return passages, facts


def _tokenizer(workdir: Path, passages: Sequence[Passage], mark: str) -> PreTrainedTokenizerFast:
    """Train the shared tokenizer once on the train split, or load it."""
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


def _encode(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> list[np.ndarray]:
    """Encode passages as `end text end`; a longer one becomes several, each opened by `end`."""
    end, room = tokenizer.eos_token_id, POSITIONS - 1
    sequences = []
    for ids in tokenizer(list(texts))["input_ids"]:
        closed = [*ids, end]
        sequences += [
            np.array([end, *closed[start : start + room]], dtype=np.int64) for start in range(0, len(closed), room)
        ]
    return sequences


def _batches(
    sequences: Sequence[np.ndarray], batch_tokens: int, rng: np.random.Generator | None
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield (inputs, targets) of similar lengths, padded on the right; shuffled if `rng` is given."""
    lengths = np.array([len(sequence) for sequence in sequences])
    # Noise on the sort key makes each epoch group the passages anew.
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
        inputs = np.zeros((len(rows), width), dtype=np.int64)
        targets = np.full((len(rows), width), IGNORED, dtype=np.int64)
        for line, row in enumerate(rows):
            inputs[line, : len(row) - 1] = row[:-1]
            targets[line, : len(row) - 1] = row[1:]
        yield torch.from_numpy(inputs), torch.from_numpy(targets)


def _token_nll(
    model: GPT2LMHeadModel, inputs: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss of each real target, and the targets; padding never reaches the output layer."""
    # Padding stands on the right, where causal attention hides it: no mask is needed.
    hidden = model.transformer(inputs, use_cache=False).last_hidden_state
    real = targets != IGNORED
    logits = hidden[real] @ model.transformer.wte.weight.T
    return torch.nn.functional.cross_entropy(logits, targets[real], reduction="none"), targets[real]


class Run:
    """One training run: model, optimisers, progress and what they leave on disk."""

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
        self.model = GPT2LMHeadModel(_config(options, tokenizer))
        matrices = [p for n, p in self.model.named_parameters() if p.ndim == 2 and ".h." in n]
        chosen = {id(p) for p in matrices}
        others = [p for p in self.model.parameters() if id(p) not in chosen]
        self.optimizers: tuple[torch.optim.Optimizer, ...] = (
            Muon(matrices, options.lr, momentum=0.95, weight_decay=options.weight_decay),
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
        for inputs, targets in self._schedule():
            loss = self._step(inputs, targets)
            self.progress.seconds = time.monotonic() - begun
            if self.progress.step % 50 == 0:
                LOG.info("step %d tokens %d loss %.3f lr %.2e %.0f tok/s", self.progress.step,
                         self.progress.tokens, loss, self._lr(),
                         self.progress.tokens / self.progress.seconds)  # fmt: skip
                self._save()
            finished = self.progress.tokens >= self.options.tokens
            if self.progress.tokens >= next_eval or finished:
                next_eval += self.options.eval_tokens
                stale = 0 if self._evaluate(loss) else stale + 1
                self._save()
                if finished or stale >= self.options.patience:
                    break

    def _schedule(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the batches of all epochs from the current step on."""
        step = 0
        for epoch in range(10_000):
            rng = np.random.default_rng([self.options.seed, epoch])
            for batch in _batches(self.train_data, self.options.batch_tokens, rng):
                if step >= self.progress.step:
                    yield batch
                step += 1

    def _lr(self) -> float:
        """Trapezoid over the token budget."""
        done = self.progress.tokens / self.options.tokens
        falling = (1 - done) / self.options.decay
        warm = (self.progress.step + 1) / self.options.warmup
        return float(self.options.lr * max(0.0, min(1.0, warm, falling)))

    def _step(self, inputs: torch.Tensor, targets: torch.Tensor) -> float:
        # Dropout depends on the step alone, so a resumed run draws what the first would have drawn.
        torch.manual_seed(self.options.seed * 1_000_003 + self.progress.step)
        nll, gold = _token_nll(self.model, inputs, targets)
        loss = nll.mean()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._lr()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.progress.step += 1
        self.progress.tokens += len(gold)
        return float(loss.item())

    @torch.inference_mode()
    def _evaluate(self, loss: float | None) -> bool:
        """Measure validation perplexity, log it, and export the weights if they are the best yet."""
        self.model.eval()
        total, count, total_end, count_end = 0.0, 0, 0.0, 0
        for inputs, targets in _batches(self.valid_data, self.options.batch_tokens, None):
            nll, gold = _token_nll(self.model, inputs, targets)
            text = gold != self.tokenizer.eos_token_id
            total += nll[text].double().sum().item()
            count += int(text.sum())
            total_end += nll.double().sum().item()
            count_end += len(gold)
        self.model.train()
        ppl, ppl_with_end = math.exp(total / count), math.exp(total_end / count_end)
        row = {**asdict(self.progress), "train_loss": loss, "lr": self._lr(),
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

        A model that has seen its text several times is too sure of itself (Guo et al. 2017, section 4.2). Scaling the
        last layer norm divides the logits and leaves everything else as it is: directions of embeddings included.
        """
        self.model.eval()
        batches = list(_batches(self.valid_data, self.options.batch_tokens, None))[1::2]
        norm = self.model.transformer.ln_f
        start = norm.weight.clone(), norm.bias.clone()
        found: dict[float, float] = {}
        for temperature in CALIBRATION_GRID:
            norm.weight.copy_(start[0] / temperature)
            norm.bias.copy_(start[1] / temperature)
            losses = [_token_nll(self.model, *batch)[0].double().sum().item() for batch in batches]
            found[temperature] = sum(losses)
        best = min(found, key=lambda t: found[t])
        norm.weight.copy_(start[0] / best)
        norm.bias.copy_(start[1] / best)
        self.progress.temperature = best
        LOG.info("calibrated with temperature %.2f", best)
        self._evaluate(None)

    def _save(self) -> None:
        """Write the checkpoint, progress last and by renaming: a kill leaves the previous one."""
        state = [optimizer.state_dict() for optimizer in self.optimizers]
        path = self.folder / "checkpoint.pt"
        content = {
            "progress": asdict(self.progress), "model": self.model.state_dict(), "optimizers": state
        }  # fmt: skip
        torch.save(content, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").replace(path)

    def _resume(self) -> None:
        """Go on from the checkpoint, if there is one."""
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
        """Remember from which step on which options hold."""
        names = ("tokens", "batch_tokens", "lr", "decay", "dropout")
        chosen = {name: getattr(self.options, name) for name in names}
        past = self.progress.segments
        if not past or {**past[-1], "step": 0} != {**chosen, "step": 0}:
            past.append({"step": self.progress.step, **chosen})

    def _export(self) -> None:
        """Replace the asset folder by the current weights, tokenizer and card."""
        assets = self.options.assets
        assets.mkdir(parents=True, exist_ok=True)
        final = assets / self.options.model
        fresh = assets / f".{self.options.model}.new"
        old = assets / f".{self.options.model}.old"
        for stale in (fresh, old):
            shutil.rmtree(stale, ignore_errors=True)
        fresh.mkdir()
        self.tokenizer.save_pretrained(fresh)
        # The output layer is the embedding: one copy is stored, and tied again by loading.
        weights = {n: p.detach().half().contiguous() for n, p in self.model.named_parameters()}
        save_file(weights, fresh / "model.safetensors", metadata={"format": "pt"})
        # The library makes it readable by its owner alone.
        (fresh / "model.safetensors").chmod(0o644)
        config = self.model.config.to_diff_dict()
        config.pop("_name_or_path", None)
        # Weights are stored in half precision but meant to be computed with in single.
        config |= {"architectures": ["GPT2LMHeadModel"], "dtype": "float32"}
        (fresh / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        (fresh / "README.md").write_text(_card(self))
        if final.exists():
            final.rename(old)
        fresh.rename(final)
        shutil.rmtree(old, ignore_errors=True)


def _config(options: argparse.Namespace, tokenizer: PreTrainedTokenizerFast) -> GPT2Config:
    size, end = SIZES[options.model], tokenizer.eos_token_id
    return GPT2Config(
        vocab_size=VOCAB_SIZE,
        n_positions=POSITIONS,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=size.heads,
        # The function that GPT-2 calls gelu_new, in one kernel instead of eight.
        activation_function="gelu_pytorch_tanh",
        embd_pdrop=options.dropout,
        resid_pdrop=options.dropout,
        attn_pdrop=0.0,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        tie_word_embeddings=True,
    )


def _card(run: Run) -> str:
    """Return the model card: everything needed to make the weights again."""
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
    rows = {
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
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
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


def _write(path: Path, text: str) -> None:
    """Write a file by renaming, so that it is either absent or whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)


if __name__ == "__main__":
    main()
