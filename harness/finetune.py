"""`openended-finetune`: one epoch of a causal model on a task's training texts, as for the stories of the MAUVE paper.

    openended-finetune task=writing_prompts model=gpt2-medium output=outputs/models/gpt2-medium-stories

The paper fine-tunes GPT-2 medium on WritingPrompts for one epoch; the block is GPT-2's context, 1,024. Batch size and
learning rate are options, whose defaults are transformers' own (8 sequences a step, AdamW at 5e-5 with linear decay),
not the paper's. What was used is written beside the weights (`finetune.json`). Documents are joined by the end token
and cut into blocks; what does not fill the last block is dropped.

An interrupted run goes on from its last checkpoint.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.contract import Spec, Task, Tokenizer
from openended.harness.errors import DataError, HarnessError, MissingExtra, SpecError
from openended.harness.io import read_json, write_json
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import token_ids
from openended.harness.models.transformers import LanguageModel, load_model
from openended.harness.registry import build
from openended.harness.signature import canonical

log = logging.getLogger(__name__)
_TEXTS = 1024
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


@dataclass(frozen=True, kw_only=True)
class FinetuneSpec(Spec):
    """How a model is fine-tuned."""

    name: ClassVar[str] = "finetune"

    epochs: int = 1  # MAUVE: one epoch
    block_size: int = 1024  # GPT-2's context
    batch_size: int = 1  # blocks at once
    accumulation: int = 8  # batches a step: the effective batch is their product
    learning_rate: float = 5e-5  # transformers' default for AdamW
    warmup_steps: int = 0
    weight_decay: float = 0.0
    seed: int = 0
    save_steps: int = 500
    max_texts: int | None = None  # for a try; null: all
    dtype: Literal["float32", "bfloat16"] = "float32"  # of the arithmetic; weights stay float32

    def check(self) -> None:
        """Counts are positive."""
        for name in ("epochs", "batch_size", "accumulation", "save_steps"):
            self.require(getattr(self, name) >= 1, name, "1 or more")
        self.require(self.block_size >= 2, "block_size", "2 or more")
        self.require(self.learning_rate > 0, "learning_rate", "more than 0")
        self.require(self.max_texts is None or self.max_texts >= 1, "max_texts", "1 or more, or null")


def blocks(tokenizer: Tokenizer, texts: Iterable[str], *, end_id: int, size: int) -> NDArray[np.int32]:
    """Join documents by the end token and cut them into blocks.

    Returns:
        Shape (blocks, size); what does not fill the last block is dropped.
    """
    parts: list[NDArray[np.int32]] = []
    rest = np.zeros(0, dtype=np.int32)
    stream = iter(texts)
    while some := list(islice(stream, _TEXTS)):
        rows = [np.append(row, end_id).astype(np.int32) for row in token_ids(tokenizer, some)]
        joined = np.concatenate([rest, *rows])
        whole = len(joined) // size * size
        parts.append(joined[:whole].reshape(-1, size))
        rest = joined[whole:].copy()
    return np.concatenate(parts) if parts else np.zeros((0, size), dtype=np.int32)


def task_texts(task: Task, skipped: Counter[str]) -> Iterator[str]:
    """Yield whole documents of a task: its own where it has them, else prompt and human side."""
    documents = getattr(task, "documents", None)
    if documents is not None:
        yield from (text for _, text in documents(skipped))
        return
    if task.needs_tokenizer():
        raise SpecError(f"task {task.name}: set task.prompt_unit=words; fine-tuning takes whole documents")
    yield from (example.prompt + example.human for example in task.examples(None, skipped))


def finetune(model: ModelSpec, texts: Iterable[str], spec: FinetuneSpec, output: Path, *, device: str) -> Path:
    """Fine-tune a model and write it as a folder that `model.path` accepts.

    Args:
        model: The model to begin with.
        texts: Documents.
        spec: Options.
        output: Folder of the result; checkpoints lie in it while training.
        device: `cpu`, `cuda` or `mps`.

    Raises:
        DataError: If the texts do not fill one block.
        MissingExtra: If accelerate is not installed.
    """
    try:
        import accelerate  # noqa: F401
    except ImportError as err:
        raise MissingExtra("accelerate", "finetune") from err
    lm = load_model(model, device=device)
    if lm.context_length is not None and spec.block_size > lm.context_length:
        raise SpecError(
            f"finetune.block_size: expected at most the context, {lm.context_length}, got {spec.block_size}"
        )
    data = blocks(lm.tokenizer, texts, end_id=next(iter(lm.eos_ids), lm.start_id), size=spec.block_size)
    if not len(data):
        raise DataError(f"the texts do not fill one block of {spec.block_size} tokens; set finetune.block_size")
    log.info("%d blocks of %d tokens", len(data), spec.block_size)
    loss = _train(lm, data, spec, output, device)
    _save(lm, model, spec, output, {"blocks": len(data), "loss": loss})
    return output


def _train(lm: LanguageModel, data: NDArray[np.int32], spec: FinetuneSpec, output: Path, device: str) -> float:
    import torch
    from transformers import Trainer, TrainingArguments
    from transformers.trainer_utils import get_last_checkpoint

    class Blocks(torch.utils.data.Dataset[dict[str, Any]]):
        def __len__(self) -> int:
            return len(data)

        def __getitem__(self, index: int) -> dict[str, Any]:
            ids = torch.from_numpy(data[index].astype(np.int64))
            return {"input_ids": ids, "labels": ids.clone()}

    lm.model.requires_grad_(requires_grad=True).train()
    folder = output / "checkpoints"
    arguments = TrainingArguments(
        output_dir=str(folder), num_train_epochs=spec.epochs, per_device_train_batch_size=spec.batch_size,
        gradient_accumulation_steps=spec.accumulation, learning_rate=spec.learning_rate,
        warmup_steps=spec.warmup_steps, weight_decay=spec.weight_decay, seed=spec.seed, save_steps=spec.save_steps,
        save_total_limit=1, logging_steps=50, report_to=[], use_cpu=device == "cpu", bf16=spec.dtype == "bfloat16",
        dataloader_pin_memory=device.startswith("cuda"), disable_tqdm=not sys.stderr.isatty(),
    )  # fmt: skip
    trainer = Trainer(model=lm.model, args=arguments, train_dataset=Blocks())
    last = get_last_checkpoint(str(folder)) if folder.is_dir() else None
    return float(trainer.train(resume_from_checkpoint=last).training_loss)


def _save(lm: LanguageModel, model: ModelSpec, spec: FinetuneSpec, output: Path, facts: Mapping[str, Any]) -> None:
    """Write weights, tokenizer and what made them; the checkpoints have done their work."""
    import shutil

    from transformers import AutoTokenizer

    lm.model.eval().save_pretrained(output)
    where = str(model.folder or model.path)
    revision = None if model.folder else model.revision
    AutoTokenizer.from_pretrained(where, revision=revision, trust_remote_code=False).save_pretrained(output)
    record = {"model": model.identity(), "finetune": canonical(spec), **facts}
    write_json(output / "finetune.json", record)
    shutil.rmtree(output / "checkpoints", ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="openended-finetune", description="Fine-tune a causal model on a task's texts."
    )
    parser.add_argument("options", nargs="+", metavar="KEY=VALUE", help="task=…, task.<option>=…, model=…, output=…, "
                        "device=…, and the options of the fine-tuning: learning_rate=…, accumulation=…, …")  # fmt: skip
    asked = parser.parse_args(arguments).options
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        _run(_parsed(asked))
    except HarnessError as err:
        parser.exit(2, f"{parser.prog}: {err}\n")
    return 0


def _parsed(asked: Iterable[str]) -> dict[str, Any]:
    """Turn KEY=VALUE pairs into options; values as YAML reads them."""
    import yaml

    options: dict[str, Any] = {}
    for one in asked:
        key, mark, value = one.partition("=")
        if not mark or not key:
            raise SpecError(f"expected KEY=VALUE, got {one!r}")
        try:
            # YAML 1.1 reads 5e-5 as text.
            options[key] = float(value) if _EXPONENT.fullmatch(value) else yaml.safe_load(value)
        except yaml.YAMLError as err:
            raise SpecError(f"{key}: not a value: {value!r}") from err
    return options


def _run(options: dict[str, Any]) -> None:
    task_name = str(options.pop("task", "writing_prompts"))
    model_name = str(options.pop("model", "gpt2-medium"))
    device, output = str(options.pop("device", "cpu")), options.pop("output", None)
    if not isinstance(output, str):
        raise SpecError("output: expected the folder to write, for example output=outputs/models/stories")
    own = {f.name for f in dataclasses.fields(FinetuneSpec)}
    given = {key.removeprefix("task."): options.pop(key) for key in list(options) if key.startswith("task.")}
    for key in options:
        if key not in own:
            raise SpecError(f"no option {key!r}; known: task, model, output, device, {', '.join(sorted(own))}")
    spec = FinetuneSpec(**options)
    node = _node("task", task_name)
    if "split" in node:
        node["split"] = "train"
    task = build("task", {**node, **given})
    if not isinstance(task, Task):
        raise SpecError(f"task: {task_name!r} is no task")
    model = _model(model_name)
    task.fetch()
    skipped: Counter[str] = Counter()
    texts = islice(task_texts(task, skipped), spec.max_texts)
    folder = finetune(model, texts, spec, Path(output).expanduser(), device=device)
    for reason, count in sorted(skipped.items()):
        log.info("passed over: %d texts, %s", count, reason)
    loss = read_json(folder / "finetune.json")["loss"]
    log.info("wrote %s (training loss %.3f); use it with model.path=%s", folder, loss, folder)


def _node(group: str, name: str) -> dict[str, Any]:
    """Return the options of a YAML of the configuration."""
    from importlib.resources import files

    import yaml

    home = files("openended.conf").joinpath(group)
    place = home.joinpath(f"{name}.yaml")
    if not place.is_file():
        known = sorted(p.name.removesuffix(".yaml") for p in home.iterdir() if p.name.endswith(".yaml"))
        raise SpecError(f"{group}: no {name!r}; known: {', '.join(known)}")
    node = yaml.safe_load(place.read_text(encoding="utf-8"))
    return {key: value for key, value in node.items() if value != "???"}


def _model(name: str) -> ModelSpec:
    """Return a model of the configuration by name, or any by hub id or folder."""
    try:
        node = _node("model", name)
    except SpecError:
        return ModelSpec(path=name)
    options = {key: value for key, value in node.items() if key != "_target_"}
    return ModelSpec(**options)
