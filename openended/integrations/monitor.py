"""Generate with a model while it trains, compute metrics of its texts, and keep records that `openended report` reads.

The callbacks of training frameworks (`trainer`, `lightning`) call a `TrainingMonitor` every few steps. The live weights
generate, so that nothing is copied to the disk; the modes of all modules and all random states are as before.
"""

import copy
import hashlib
import math
import operator
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from openended.harness import run, storage
from openended.harness.app import Composer, Objective
from openended.harness.backends import make_backend
from openended.harness.core import DataError, HarnessError, Json, SpecError, format_error
from openended.harness.models import ModelSpec, wrap_model

# Options of an evaluation where none are given.
OPTIONS = "decoder=nucleus num_examples=200 max_new_tokens=64 runtime.progress=false".split()
OPTIONS += ["metric=[repetition,distinct_n,self_bleu,mauve]"]
_COMPARISONS = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}
_CONDITION = re.compile(r"\s*([\w.@]+)\s*(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True, kw_only=True)
class LiveModel(ModelSpec):
    """A model in training: a folder with config and tokenizer, and a digest of the weights, which are in memory."""

    weights: str
    step: int
    training: str

    def check_ready(self) -> None:
        """Nothing is missing: the weights are in memory."""

    def identity(self) -> dict[str, Json]:
        return {**super().identity(), "weights": self.weights}


class TrainingMonitor:
    """Evaluates the texts of a model in training.

    Args:
        every: Steps from one evaluation to the next.
        options: Options of a run, as on the command line: `["task=docs", "decoder.p=0.9", "num_examples=500"]`.
        stop_if: When the training ends, as `loop_rate > 0.2`; None: never.
        name: Name of the runs and of the training, for `openended report NAME`.
        outputs_dir: Where records and artifacts are kept.
    """

    def __init__(
        self, *, every: int = 100, options: Sequence[str] = (), stop_if: str | None = None, name: str = "training",
        outputs_dir: str | Path = "outputs",
    ) -> None:  # fmt: skip
        if every < 1:
            raise SpecError(f"every: expected 1 or more steps, got {every}")
        self.every, self.name = every, name
        typed = {word.partition("=")[0] for word in options}
        words = [word for word in OPTIONS if word.partition("=")[0] not in typed]
        words += [*options, f"name={name}", f"outputs_dir={outputs_dir}"]
        self._settings = Composer().compose_job(words).settings
        self._condition = condition = _CONDITION.fullmatch(stop_if or "")
        if condition is not None:
            Objective("stop_if", condition[1]).check(self._settings.metrics)
        elif stop_if is not None:
            raise SpecError(f"stop_if: expected a value, > or <, and a number, as loop_rate > 0.2, got {stop_if!r}")
        storage.check_writable(self._settings.outputs_dir)
        self._session = run.Session(storage.Store(self._settings.outputs_dir / "store"))
        self._folder = self._settings.outputs_dir / "trainings" / name  # config and tokenizer
        self._began, self._seconds = 0.0, 0.0
        self._last: int | None = None

    def check_processes(self, count: int) -> None:
        """Refuse `stop_if` where other processes train on: only the first evaluates, and they would wait for it."""
        if self._condition is not None and count > 1:
            raise SpecError(f"stop_if: for a training in one process, not in {count}; leave it out")

    def is_due(self, step: int) -> bool:
        """Return whether the model is to be evaluated after a step; each step is evaluated once."""
        return step % self.every == 0 and step != self._last

    def evaluate(self, model: Any, tokenizer: Any, step: int) -> tuple[dict[str, float], bool]:  # noqa: ANN401
        """Evaluate the live model, and print the values and what they cost.

        An error is raised before the first step. Later it is printed, because a training is worth more than a number.

        Returns:
            `openended/KEY` → first value of each metric, with `openended/KEY_human`; and whether training should stop.
        """
        started = time.monotonic()
        self._began, self._last = self._began or started, step
        try:
            with _keep_training_state(model):
                record = self._run(model, tokenizer, step)
            match = self._condition
            value = Objective("stop_if", match[1]).value(record) if match is not None else math.nan
            stop = match is not None and bool(_COMPARISONS[match[2]](value, float(match[3])))
        except (HarnessError, OSError, RuntimeError) as err:  # the disk or the memory may be full
            if step == 0:
                raise
            sys.stderr.write(f"openended  step {step}: not evaluated: {format_error(err)}\n")
            return {}, False
        now = time.monotonic()
        self._seconds += now - started
        rows = [(row, row.values.get(row.primary, math.nan)) for row in record.results]
        ends = {"model": "", "human": "_human"}
        finite = [(row, value) for row, value in rows if math.isfinite(value)]
        values = {f"{row.primary}{ends[s]}": value for s in ends for row, value in finite if row.system == s}
        texts = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        share = f", {self._seconds / (now - self._began):.0%} of the time since the first" if step else ""
        stopping = "; the training stops" if stop else ""
        sys.stderr.write(f"openended  step {step}: {texts} in {now - started:.1f} s{share}{stopping}\n")
        return {f"openended/{name}": value for name, value in values.items()}, stop

    def _run(self, model: Any, tokenizer: Any, step: int) -> storage.RunRecord:  # noqa: ANN401
        if not self._seconds:  # the first time; an earlier training of this name may have had others
            model.config.save_pretrained(self._folder)
            tokenizer.save_pretrained(self._folder)
        weight = model.get_input_embeddings().weight
        dtype = str(weight.dtype).removeprefix("torch.")
        weights: dict[str, Any] = {"dtype": dtype, "weights": _digest_weights(model)}
        spec = LiveModel(path=str(self._folder), label=f"step-{step}", step=step, training=self.name, **weights)
        # A shallow copy is another key of what is derived from the weights and kept with a model.
        backend = make_backend(wrap_model(copy.copy(model), spec, weight.device))
        settings = replace(self._settings, models=replace(self._settings.models, model=spec))
        with self._session.hold(spec, backend, settings.runtime):
            return storage.read_record(run.run(settings, self._session).folder)


@contextmanager
def _keep_training_state(model: Any) -> Iterator[None]:  # noqa: ANN401 - a module of PyTorch
    """Switch a model to evaluation, and restore the modes of its modules and all random states afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    threads, python_state = torch.get_num_threads(), random.getstate()
    numpy_state = np.random.get_state()  # noqa: NPY002 - the training may use it
    model.eval()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        torch.set_num_threads(threads)
        for module, mode in modes:
            module.training = mode


def _digest_weights(model: Any) -> str:  # noqa: ANN401 - a module of PyTorch
    hasher = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        if not tensor.numel() or type(tensor.data).__name__ == "DTensor":
            raise DataError(
                f"the weights are spread over processes ({name}): evaluate saved checkpoints instead, with "
                "openended -m model.path='…/checkpoint-*'"
            )
        hasher.update(name.encode())
        hasher.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return hasher.hexdigest()[:16]
