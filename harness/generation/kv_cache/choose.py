"""Which runner a model gets, once its steps were found to agree with its own pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openended.harness.models import Kind, settle

if TYPE_CHECKING:
    from openended.harness.core import CausalModel
    from openended.harness.generation.kv_cache.base import Runner

CHECKED = 16
"""Room for the check of a model before it is first run."""


def runner(lm: CausalModel, rows: int, length: int, *, once: bool = False) -> Runner:
    """Make a runner for `rows` sequences of at most `length` positions; `once`: they are started, never extended."""
    return _runner(check(lm), lm, rows, length, once=once)


def check(lm: CausalModel) -> Kind:
    """Return the kind of runner whose steps agree with the model's own pass; see `families.settle`."""
    return settle(lm, lambda kind: _runner(kind, lm, 1, CHECKED))


def _runner(kind: Kind, lm: CausalModel, rows: int, length: int, *, once: bool = False) -> Runner:
    from openended.harness.generation.kv_cache.general import GeneralRunner, takes_ragged_rows
    from openended.harness.generation.kv_cache.gpt2 import Gpt2Runner, is_plain_gpt2
    from openended.harness.generation.kv_cache.no_cache import RereadRunner
    from openended.harness.generation.kv_cache.same_length import EqualRunner

    if kind == "reread":
        return RereadRunner(lm, rows)
    if kind == "equal":
        return EqualRunner(lm, rows, length, once=once)
    if is_plain_gpt2(lm.model):
        return Gpt2Runner(lm, rows, length, once=once)
    if takes_ragged_rows(lm.model):
        return GeneralRunner(lm, rows, length, once=once)
    return EqualRunner(lm, rows, length, once=once)
