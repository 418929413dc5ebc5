"""Choose a model's runner: the first one whose steps agree with the model's full forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openended.harness.models import Kind, choose_kind

if TYPE_CHECKING:
    from openended.harness.core import CausalModel
    from openended.harness.generation.kv_cache.base import CacheRunner

CHECKED = 16
"""Room for the check of a model before it is first run."""


def make_runner(lm: CausalModel, rows: int, length: int, *, once: bool = False) -> CacheRunner:
    """Make a runner for `rows` sequences of at most `length` positions; with `once` they are never extended."""
    return _make_runner_of_kind(choose_runner_kind(lm), lm, rows, length, once=once)


def choose_runner_kind(lm: CausalModel) -> Kind:
    """Return the kind of runner whose steps agree with the model's own pass; see `families.choose_kind`."""
    return choose_kind(lm, lambda kind: _make_runner_of_kind(kind, lm, 1, CHECKED))


def _make_runner_of_kind(kind: Kind, lm: CausalModel, rows: int, length: int, *, once: bool = False) -> CacheRunner:
    from openended.harness.generation.kv_cache.general import GeneralRunner, takes_ragged_rows
    from openended.harness.generation.kv_cache.gpt2 import Gpt2Runner, is_plain_gpt2
    from openended.harness.generation.kv_cache.no_cache import RereadRunner
    from openended.harness.generation.kv_cache.same_length import SameLengthRunner

    if kind == "reread":
        return RereadRunner(lm, rows)
    if kind == "equal":
        return SameLengthRunner(lm, rows, length, once=once)
    if is_plain_gpt2(lm.model):
        return Gpt2Runner(lm, rows, length, once=once)
    if takes_ragged_rows(lm.model):
        return GeneralRunner(lm, rows, length, once=once)
    return SameLengthRunner(lm, rows, length, once=once)
