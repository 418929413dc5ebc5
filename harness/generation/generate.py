"""Generate all texts of a request, with smaller batches when memory runs out."""

import logging
from dataclasses import replace
from typing import Any

from openended.harness.core import Advance, Generation, SpecError, shorten_error
from openended.harness.decoders import Emit, GenerationRequest, QDecoder
from openended.harness.generation.token_loop import QChooser, decode_rows
from openended.harness.models import check_retry, free_memory

_log = logging.getLogger(__name__)


def generate_texts(lm: Any, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:  # noqa: ANN401
    """Continue every prompt of a request.

    A text depends only on (seed, example id, sample), prompt, decoder and model: not on the batch size, the order of
    the prompts or which of them are left after a resume (exact on CPU in float32).

    Args:
        lm: The model: one of transformers, or what the decoder runs on.
        request: What to make. A finished text frees its slot for the next; the batch size is halved when memory runs
            out.
        emit: Gets rows as soon as they are finished, in any order, each once.
        advance: Gets the number of tokens just made.
    """
    decoder = request.decoder
    if request.batch_size < 1:
        raise SpecError(f"runtime.batch_size: expected at least 1, got {request.batch_size}")
    request = lm.check_request(request, lm.context_length)
    advance = advance or (lambda _: None)
    done: set[tuple[str, int]] = set()

    def note(rows: list[Generation]) -> None:
        done.update((g.example_id, g.sample) for g in rows)
        emit(rows)

    while request.prompts:
        size = min(request.batch_size, len(request.prompts))
        try:
            if isinstance(decoder, QDecoder):
                decode_rows([lm], request, note, advance, QChooser(lm, decoder, request))
            else:
                decoder.run(lm, request, note, advance)
            return
        except (RuntimeError, MemoryError) as err:
            check_retry(err, size)
            message = shorten_error(err)
        free_memory()
        left = [p for p in request.prompts if (p.example_id, p.sample) not in done]
        request = replace(request, prompts=left, batch_size=max(size // 2, 1))
        _log.warning("out of memory with %d rows; continuing with %d: %s", size, request.batch_size, message)
