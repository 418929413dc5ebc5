"""Generation of all prompts, and the retreat when memory runs out."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from openended.harness.core.errors import SpecError, first_line
from openended.harness.core.types import Generation
from openended.harness.decoders.base import Advance, Decoder, Emit, Prompt, QDecoder, Work
from openended.harness.generation.draw_from_q import sample
from openended.harness.models.memory import free_memory, out_of_memory

if TYPE_CHECKING:
    from openended.harness.core.causal_model import CausalModel

__all__ = ["Prompt", "generate"]

_log = logging.getLogger(__name__)


def generate(
    lm: CausalModel,
    decoder: Decoder,
    prompts: Sequence[Prompt],
    *,
    seed: int,
    max_new_tokens: int,
    min_new_tokens: int = 0,
    batch_size: int,
    emit: Emit,
    advance: Advance | None = None,
    companions: Mapping[str, CausalModel] | None = None,
) -> None:
    """Continue every prompt.

    A text depends on (seed, example id, sample), prompt, decoder and model alone: not on the batch size, the order of
    the prompts or which of them are left after a resume (exact on CPU in float32).

    Args:
        lm: The model.
        decoder: A resolved decoder.
        prompts: Rows to make, in any order.
        seed: The run's seed.
        max_new_tokens: Length limit.
        min_new_tokens: The end of text is forbidden before; 0: it may come at once.
        batch_size: Texts at once: one that ends gives its place to the next; halved where they do not fit into memory.
        emit: Gets rows as soon as they are finished, in any order, each once.
        advance: Gets the number of tokens just made.
        companions: The models that the decoder needs beside this one (`Decoder.companions`), loaded.

    Raises:
        SpecError: If the lengths do not fit the model or the decoder is not resolved.
    """
    if batch_size < 1:
        raise SpecError(f"runtime.batch_size: expected at least 1, got {batch_size}")
    if decoder.needs_human_ppl:
        raise SpecError(f"decoder.{decoder.name} needs the human perplexity; call resolve(human_ppl) first")
    prompts = [replace(p, token_ids=(*lm.lead(p.token_ids), *p.token_ids)) for p in prompts]
    longest = max((len(p.token_ids) for p in prompts), default=0)
    decoder.plan_check(lm.context_length, max_new_tokens, longest)
    job = Work(seed, max_new_tokens, emit, advance or (lambda _: None), min_new_tokens, batch_size, companions or {})
    _run_or_halve(lm, decoder, list(prompts), job)


def _emit(emit: Emit, done: set[tuple[str, int]], rows: list[Generation]) -> None:
    """Pass rows on and note them."""
    done.update((g.example_id, g.sample) for g in rows)
    emit(rows)


def _run_or_halve(lm: CausalModel, decoder: Decoder, left: list[Prompt], job: Work) -> None:
    """Run all prompts; where memory runs out, begin those that are not finished again with half as many at once."""
    while left:
        done: set[tuple[str, int]] = set()

        places = min(job.places, len(left))
        now = replace(job, emit=partial(_emit, job.emit, done), places=places)
        try:
            if isinstance(decoder, QDecoder):
                sample(lm, decoder, left, now)
            else:
                decoder.run(lm, left, now)
        except (RuntimeError, MemoryError) as err:
            if places == 1 or not out_of_memory(err):
                raise
            message = first_line(err)
        else:
            return
        free_memory()
        left = [p for p in left if (p.example_id, p.sample) not in done]
        job = replace(job, places=max(places // 2, 1))
        _log.warning("out of memory with %d rows, going on with %d: %s", places, job.places, message)
