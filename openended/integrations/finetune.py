"""`openended finetune`: one epoch of a causal model on a task's training texts, as for the stories of the MAUVE paper.

    openended finetune task=writing_prompts model=gpt2-medium output=outputs/models/gpt2-medium-stories

Documents are joined by the end token and cut into blocks (1,024 tokens, the context of GPT-2); what does not fill the
last block is dropped. Batch size and learning rate are defaults of transformers, not of the paper; what was used is in
`finetune.json` beside the weights. An interrupted run goes on from its last checkpoint.
"""

import dataclasses
import logging
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from hydra.types import RunMode
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from openended.harness import core
from openended.harness.app import Composer, run_hydra, to_plain
from openended.harness.models import (
    LanguageModel,
    ModelSpec,
    load_model,
    load_transformers_tokenizer,
    pick_device,
    require_model,
    tokenize_texts,
)

log = logging.getLogger(__name__)
_TEXTS = 1024
_BLOCK = 1024  # GPT-2's context


@dataclass(frozen=True, kw_only=True)
class FinetuneSpec(core.Spec):
    """How a model is fine-tuned."""

    group: ClassVar[str] = "finetune"
    name: ClassVar[str] = "finetune"

    epochs: int = core.ranged(1, "[1, inf)", "1 or more")  # MAUVE: one epoch
    # null: the model's context, at most GPT-2's 1,024
    block_size: int | None = core.ranged(None, "[2, inf)", "2 or more, or null")
    batch_size: int = core.ranged(1, "[1, inf)", "1 or more")  # blocks at once
    accumulation: int = core.ranged(8, "[1, inf)", "1 or more")  # batches a step: the effective batch is their product
    learning_rate: float = core.ranged(5e-5, "(0, inf)", "more than 0")  # transformers' default for AdamW
    warmup_steps: int = 0
    weight_decay: float = 0.0
    seed: int = 0
    save_steps: int = core.ranged(500, "[1, inf)", "1 or more")
    max_texts: int | None = core.ranged(None, "[1, inf)", "1 or more, or null")  # for a try; null: all
    dtype: Literal["float32", "bfloat16"] = "float32"  # of the arithmetic; weights stay float32
    # steps between evaluations of the model's texts; null: none
    evaluate_steps: int | None = core.ranged(None, "[1, inf)", "1 or more, or null")
    evaluate_options: tuple[str, ...] = ()  # of their runs, as in num_examples=500
    stop_if: str | None = None  # when an evaluation ends the training, as in loop_rate > 0.2

    def check(self) -> None:
        self.require(self.stop_if is None or self.evaluate_steps is not None, "stop_if", "null without evaluate_steps")


def cut_into_blocks(tokenizer: core.Tokenizer, texts: Iterable[str], *, end_id: int, size: int) -> NDArray[np.int32]:
    """Join documents by the end token and cut them into blocks."""
    parts: list[NDArray[np.int32]] = []
    rest = np.zeros(0, dtype=np.int32)
    stream = iter(texts)
    while batch := list(islice(stream, _TEXTS)):
        rows = [np.append(row, end_id).astype(np.int32) for row in tokenize_texts(tokenizer, batch)]
        joined = np.concatenate([rest, *rows])
        end = len(joined) // size * size
        parts.append(joined[:end].reshape(-1, size))
        rest = joined[end:].copy()
    return np.concatenate(parts) if parts else np.zeros((0, size), dtype=np.int32)


def iterate_documents(task: core.Task, skipped: Counter[str]) -> Iterator[str]:
    """Yield a task's `documents` if it has them, else each prompt joined with its human continuation."""
    documents = getattr(task, "documents", None)
    if documents is not None:
        yield from (text for _, text in documents(skipped))
        return
    if task.needs_tokenizer():
        raise core.SpecError(f"task {task.name}: set task.prompt_unit=words; fine-tuning takes whole documents")
    yield from (example.prompt + example.human for example in task.examples(None, skipped))


def finetune(model: ModelSpec, texts: Iterable[str], spec: FinetuneSpec, output: Path, *, device: str) -> Path:
    """Fine-tune a model and write it, with `finetune.json`, as a folder that `model.path` accepts."""
    core.require_package("accelerate", "finetune")
    lm = load_model(model, device=device)
    context, size = lm.context_length, spec.block_size
    if size is None:
        size = min(_BLOCK, context or _BLOCK)
    elif context is not None and size > context:
        raise core.SpecError(f"finetune.block_size: expected at most the context, {context}, got {size}")
    data = cut_into_blocks(lm.tokenizer, texts, end_id=next(iter(lm.eos_ids), lm.tokenizer.start_id), size=size)
    if not len(data):
        raise core.DataError(f"the texts do not fill one block of {size} tokens; set block_size")
    log.info("%d blocks of %d tokens", len(data), size)
    loss = _train(lm, model, data, spec, output, device)
    lm.model.eval().save_pretrained(output)
    load_transformers_tokenizer(model).save_pretrained(output)
    facts = {"blocks": len(data), "block_size": size, "loss": loss}
    record = {"model": model.identity(), "finetune": core.canonicalize(spec), **facts}
    core.write_json(output / "finetune.json", record)
    shutil.rmtree(output / "checkpoints", ignore_errors=True)
    return output


def _train(
    lm: LanguageModel, model: ModelSpec, data: NDArray[np.int32], spec: FinetuneSpec, output: Path, device: str
) -> float:
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
    steps: dict[str, Any] = {"num_train_epochs": spec.epochs, "per_device_train_batch_size": spec.batch_size}
    steps |= {"gradient_accumulation_steps": spec.accumulation, "save_steps": spec.save_steps, "save_total_limit": 1}
    rates = {"learning_rate": spec.learning_rate, "warmup_steps": spec.warmup_steps, "weight_decay": spec.weight_decay}
    machine = {"use_cpu": device == "cpu", "dataloader_pin_memory": device.startswith("cuda")}
    machine |= {"bf16": spec.dtype == "bfloat16", "disable_tqdm": not sys.stderr.isatty()}
    printed: dict[str, Any] = {"logging_steps": 50, "report_to": []}
    arguments = TrainingArguments(output_dir=str(folder), seed=spec.seed, **steps, **rates, **machine, **printed)
    trainer = Trainer(model=lm.model, args=arguments, train_dataset=Blocks())
    if spec.evaluate_steps is not None:
        from openended.integrations.trainer import TrainerCallback

        options = [f"runtime.device={device}", *spec.evaluate_options]
        tokenizer, rules = load_transformers_tokenizer(model), {"every": spec.evaluate_steps, "stop_if": spec.stop_if}
        callback = TrainerCallback(trainer, tokenizer=tokenizer, options=options, name=output.name, **rules)
        trainer.add_callback(callback)
    last = get_last_checkpoint(str(folder)) if folder.is_dir() else None
    return float(trainer.train(resume_from_checkpoint=last).training_loss)


def main(words: Sequence[str] | None = None) -> None:
    """Run `openended finetune` with `words`, by default the process's arguments."""
    words = sys.argv[1:] if words is None else words
    if {"-h", "--help"} & {*words}:
        options = (files("openended.conf") / "finetune.yaml").read_text(encoding="utf-8")
        sys.stdout.write(f"{__doc__}\nOptions, as option=value, and their defaults:\n\n{options}")
        return
    run_hydra("openended finetune", words, _run, "finetune")


def _run(_: Composer, config: DictConfig) -> None:
    if config.hydra.mode == RunMode.MULTIRUN:
        raise core.SpecError("one model per command, got a grid (-m)")
    names = {f.name for f in dataclasses.fields(FinetuneSpec)}
    spec = core.construct(FinetuneSpec, to_plain(OmegaConf.masked_copy(config, sorted(names))), "finetune")
    output = to_plain(OmegaConf.masked_copy(config, ["output"]))["output"]
    if not isinstance(output, str) or not output.strip() or Path(output).is_file():
        raise core.SpecError(f"output: expected the folder to write, got {output!r}")
    node = to_plain(config.task)
    if "split" in node and not any(word.startswith("task.split=") for word in config.hydra.overrides.task):
        node["split"] = "train"  # a task's own default is the split that models are tested on
    task = core.build("task", node)
    if not isinstance(task, core.Task):
        raise core.SpecError(f"task: {node['name']} is no task")
    model = require_model(core.build("model", to_plain(config.model)), "model")
    if type(model) is not ModelSpec:
        raise core.SpecError(f"model {model.title}: expected a causal language model in transformers, as model=gpt2")
    if spec.evaluate_steps is not None:  # evaluated on the split that models are tested on
        task_words = [word for word in config.hydra.overrides.task if re.match(r"task\.(?!split=)", word)]
        options = (f"task={config.hydra.runtime.choices.task}", *task_words, *spec.evaluate_options)
        spec = dataclasses.replace(spec, evaluate_options=options)
    model.demand("score")
    device = pick_device(core.construct(core.Runtime, {"device": config.device}, "finetune").device)
    task.fetch()
    skipped: Counter[str] = Counter()
    texts = islice(iterate_documents(task, skipped), spec.max_texts)
    folder = finetune(model, texts, spec, Path(output).expanduser(), device=device)
    for reason, count in sorted(skipped.items()):
        log.info("%d texts skipped (%s)", count, reason)
    loss = core.read_json(folder / "finetune.json")["loss"]
    log.info("wrote %s (training loss %.3f); use it with model=folder model.path=%s", folder, loss, folder)
