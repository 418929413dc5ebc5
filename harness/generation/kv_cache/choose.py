"""Choose a model's runner: the first one whose steps agree with the model's full forward pass."""

import torch
from torch import Tensor

from openended.harness.core import CausalModel
from openended.harness.generation.kv_cache.base import CacheRunner
from openended.harness.models import Kind, choose_kind

CHECKED = 16  # room for the check of a model before it is first run
TRIED = (3, 40)  # rows with which the logits of one alone are compared


def make_runner(lm: CausalModel, rows: int, length: int, *, once: bool = False) -> CacheRunner:
    """Make a runner for `rows` sequences of at most `length` positions; with `once` they are never extended."""
    return _make_runner_of_kind(choose_runner_kind(lm), lm, rows, length, once=once)


def choose_runner_kind(lm: CausalModel) -> Kind:
    """Return the kind of runner whose steps agree with the model's own pass; see `families.choose_kind`."""
    return choose_kind(lm, lambda kind: _make_runner_of_kind(kind, lm, 1, CHECKED))


def depends_on_batch(lm: CausalModel) -> bool:
    """Return whether a text can depend on the other texts of its batch.

    On an accelerator always: attention is padded, and its kernels change with the number of rows. On a CPU never in
    float32; in reduced precision by a trial, because kernels differ between processors.
    """
    if lm.device.type != "cpu" or lm.spec.dtype == "float32":
        return lm.device.type != "cpu"
    prompts = (torch.arange(max(TRIED) * 5) * 7 % lm.vocab_size).view(-1, 5)

    def compute_first_row(count: int) -> Tensor:
        """Return the logits of the first row after its prompt and after one more token."""
        with torch.inference_mode():
            runner = make_runner(lm, count, CHECKED)
            hidden = torch.stack([states[-1] for states in runner.start(range(count), prompts[:count].tolist())])
            more = runner.extend(prompts[:count, 0], range(count))
            return torch.cat([runner.logits(hidden)[:1], runner.logits(more)[:1]])

    alone = compute_first_row(1)
    return not all(torch.equal(compute_first_row(count), alone) for count in TRIED)


def _make_runner_of_kind(kind: Kind, lm: CausalModel, rows: int, length: int, *, once: bool = False) -> CacheRunner:
    from openended.harness.generation.kv_cache.general import GeneralRunner, takes_ragged_rows
    from openended.harness.generation.kv_cache.same_length import RereadRunner, SameLengthRunner

    if kind == "reread":
        return RereadRunner(lm, rows, length)
    if kind == "fixed" and takes_ragged_rows(lm.model):
        return GeneralRunner(lm, rows, length, once=once)
    return SameLengthRunner(lm, rows, length, once=once)
