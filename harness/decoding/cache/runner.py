"""A model on a fixed number of rows, each with a length of its own: prompts go in, one token a row follows.

On CPU in float32 a row's result does not depend on the other rows, bit for bit, because the kernels are chosen for it.
Every matrix product sees the tokens of all rows as one tall matrix and runs on 4, 8, … 64 of them at a time: the BLAS
then treats every row alike, by whichever of its kernels the processor gets (some treat 1 to 3 rows, or the rows beyond
a multiple of 4, in another way; above 64 it may split long sums), and what is missing to a multiple of 4 is filled up.
Attention alone sees lengths; it runs on rows of one length at a time, without padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from openended.harness.models.families import Kind, settle
from openended.harness.types import I64

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.models.transformers import LanguageModel

MOST_ROWS = 64
"""Rows of one matrix product at most where rows must not depend on each other: above, the BLAS splits long sums."""
TILE = 4
"""Rows are filled up to a multiple of it on CPU."""
CHECKED = 16
"""Room for the check of a model before it is first run."""
PREFILL = 1024
"""Prompt tokens of one pass, if there is more than one prompt: what a layer makes of them stays in the cache."""


class Runner(Protocol):
    """A model with a cache for a fixed number of rows and positions."""

    ragged: bool
    """True where rows may have different lengths; else all rows are started together, with prompts of one length."""
    lengths: I64
    """Positions that each row holds, shape (rows,)."""

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]]) -> list[Tensor]:
        """Run prompts of at least one token in rows, whatever these held before.

        Returns:
            The last hidden states of all positions of each prompt, (t, d) each.
        """
        ...

    def extend(self, ids: Tensor, rows: Sequence[int]) -> Tensor:
        """Run one token more, ids (n,), in each of the rows, which ascend; returns hidden states (n, d)."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits (…, V), float32, of hidden states (…, d)."""
        ...

    def copy(self, source: Sequence[int], target: Sequence[int], since: int = 0, length: int | None = None) -> None:
        """Rows `target` become what rows `source` are, or their first `length` positions; alike before `since`."""
        ...


def runner(lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> Runner:
    """Make a runner for `rows` sequences of at most `length` positions; `once`: they are started, never extended."""
    return _runner(check(lm), lm, rows, length, once=once)


def check(lm: LanguageModel) -> Kind:
    """Return the kind of runner whose steps agree with the model's own pass; see `families.settle`."""
    return settle(lm, lambda kind: _runner(kind, lm, 1, CHECKED))


def _runner(kind: Kind, lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> Runner:
    from openended.harness.decoding.cache.equal import EqualRunner
    from openended.harness.decoding.cache.general import GeneralRunner, takes_ragged_rows
    from openended.harness.decoding.cache.gpt2 import Gpt2Runner, is_plain_gpt2
    from openended.harness.decoding.cache.reread import RereadRunner

    if kind == "reread":
        return RereadRunner(lm, rows)
    if kind == "equal":
        return EqualRunner(lm, rows, length, once=once)
    if is_plain_gpt2(lm.model):
        return Gpt2Runner(lm, rows, length, once=once)
    if takes_ragged_rows(lm.model):
        return GeneralRunner(lm, rows, length, once=once)
    return EqualRunner(lm, rows, length, once=once)


def filled(rows: int, tile: int) -> int:
    """Round up to whole tiles."""
    return -(-rows // tile) * tile


def part_size(rows: int) -> int:
    """Size of parts, nearly equal, that the BLAS treats alike; `rows` is one of whole tiles."""
    return filled(-(-rows // -(-rows // MOST_ROWS)), TILE)


def prompt_parts(prompts: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Which prompts go through together: longest first, `PREFILL` tokens at most or one prompt."""
    part: list[int] = []
    size = 0
    for i in sorted(range(len(prompts)), key=lambda i: -len(prompts[i])):
        if part and size + len(prompts[i]) > PREFILL:
            yield part
            part, size = [], 0
        part.append(i)
        size += len(prompts[i])
    if part:
        yield part
