"""Choose a model's runner: the first kind whose steps agree with the model's full forward pass.

A model reads a few tokens step by step, and its logits are compared with those of one pass over all tokens. A family
whose keys and values can be cached runs with the harness's own KV cache. A family with another kind of state (recurrent
and hybrid models, custom caches) reads the whole text again at each step: slower, with the same result. A family that
agrees in neither way is refused. docs/families.md lists the result for all families in transformers.
"""

import logging
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from openended.harness.core import DataError, shorten_error
from openended.harness.generation.kv_cache.base import CacheRunner
from openended.harness.generation.kv_cache.general import GeneralRunner, takes_ragged_rows
from openended.harness.models import (
    LanguageModel,
    check_device,
    describe_broken_weights,
    is_batch_invariant,
    is_out_of_memory,
)

log = logging.getLogger(__name__)

Kind = Literal["fixed", "equal", "reread"]
KINDS: tuple[Kind, ...] = get_args(Kind)
RUNNER_KINDS: WeakKeyDictionary[Any, Kind] = WeakKeyDictionary()
"""Model of transformers → the kind of its runner, once it was found."""
# Largest relative difference between steps and full pass (`measure_difference`); float noise is far smaller.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.2, "float16": 0.1}
# Tokens of the check: _FIRST are read at once, then _STEPS one by one.
_FIRST, _STEPS = 6, 4
CHECKED = 16  # room for the check of a model before it is first run
TRIED = (3, 40)  # rows with which the logits of one alone are compared


def make_runner(lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> CacheRunner:
    """Make a runner for `rows` sequences of at most `length` positions; with `once` they are never extended."""
    return _make_runner_of_kind(choose_runner_kind(lm), lm, rows, length, once=once)


def choose_runner_kind(lm: LanguageModel) -> Kind:
    """Return the first kind of runner whose steps agree with the model's full pass; the answer is cached."""
    if lm.model in RUNNER_KINDS:
        return RUNNER_KINDS[lm.model]
    family = str(lm.model.config.model_type)
    ids, full_logits = _run_full_pass(lm)
    reasons = []
    for kind in KINDS:
        # Recurrent and hybrid models: their past is more than keys and values by position.
        if kind != "reread" and getattr(lm.model, "_is_stateful", False):
            continue
        try:
            difference = measure_difference(lm, _make_runner_of_kind(kind, lm, 1, CHECKED), ids, full_logits)
        except Exception as err:
            check_device(err)
            if is_out_of_memory(err):
                raise
            log.debug("model %s, %s: %s", lm.spec.title, kind, shorten_error(err))
            reasons.append(shorten_error(err))
            continue
        if difference <= TOLERANCE[lm.spec.dtype]:
            if kind == "reread":
                log.warning(
                    "model %s: the family %s has a cache of its own kind: each step reads the whole text again",
                    lm.spec.title, family,
                )  # fmt: skip
            RUNNER_KINDS[lm.model] = kind
            return kind
        reasons.append(f"logits of single steps differ from those of one pass by {difference:.2g} of their norm")
    raise DataError(f"model {lm.spec.title}: the family {family} cannot be run from left to right: {reasons[-1]}")


def _make_runner_of_kind(kind: Kind, lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> CacheRunner:
    if kind == "fixed" and takes_ragged_rows(lm.model):
        return GeneralRunner(lm, rows, length, once=once)
    from openended.harness.generation.kv_cache.same_length import RereadRunner, SameLengthRunner

    if kind == "reread":
        return RereadRunner(lm, rows, length)
    return SameLengthRunner(lm, rows, length, once=once)


def _run_full_pass(lm: LanguageModel) -> tuple[Tensor, Tensor]:
    """Return test tokens (1, t) and the float32 logits of the model's own forward pass over them (t, V)."""
    size = _FIRST + _STEPS if lm.context_length is None else min(_FIRST + _STEPS, lm.context_length)
    # Distinct tokens across the vocabulary; the first ids are often special tokens.
    ids = (torch.arange(1, size + 1) * max(1, lm.vocab_size // (size + 2)) + 1).clamp(max=lm.vocab_size - 1)
    ids = ids[None].to(lm.device)
    with torch.inference_mode():
        logits: Tensor = lm.model(input_ids=ids, use_cache=False).logits[0].float()
    if not bool(torch.isfinite(logits).all()):
        raise DataError(describe_broken_weights(lm, "its logits are not finite"))
    return ids, logits


def measure_difference(lm: LanguageModel, runner: CacheRunner, ids: Tensor, full_logits: Tensor) -> float:
    """Return the distance between logits of single steps and of one pass, relative to the norm of the centered logits.

    Float32 uses the maximum over positions. In half precision, rounding can flip a near-tie (for example of a router)
    at a single position, so the median is used.
    """
    first = min(_FIRST, ids.shape[1] - 1)
    logits = [runner.logits(runner.start([0], [ids[0, :first].tolist()])[0])]
    logits += [runner.logits(runner.extend(ids[0, t : t + 1], [0])) for t in range(first, ids.shape[1])]
    step_logits = torch.cat(logits).float()
    norms = (full_logits - full_logits.mean(-1, keepdim=True)).norm(dim=-1)
    differences = (step_logits - full_logits).norm(dim=-1) / norms.clamp_min(1e-12)
    value = differences.max() if lm.spec.dtype == "float32" else differences.median()
    return float(value) if bool(torch.isfinite(differences).all()) else float("inf")


def depends_on_batch(lm: LanguageModel) -> bool:
    """Return whether a text can depend on the other texts of its batch.

    On an accelerator always: attention is padded, and its kernels change with the number of rows. On a CPU never where
    all layers are packed; elsewhere by a trial, because kernels differ between processors.
    """
    if lm.device.type != "cpu" or is_batch_invariant(lm):
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
