"""The interface of engines, which run a model, and what every model can do because of it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, Advance, NextToken, SpecError
from openended.harness.decoders import Emit, GenerationRequest
from openended.harness.models.forward import ForwardRow, Pool
from openended.harness.models.requests import GradientRequest, QStatisticsRequest
from openended.harness.models.score import compute_token_nll, embed_and_score, embed_rows
from openended.harness.models.tokenizer import decode_continuation


class Engine:
    """A model that is ready: transformers in this process or in Ray's workers, vLLM, or a server.

    It overrides the methods of the `abilities` that its spec declares. `advance` gets what was just done.
    """

    spec: Any  # a `BackendSpec`
    tokenizer: Any  # a `TextTokenizer`; None for a server that reads text
    device: Any  # torch's, or a stand-in for a remote device; its `type` is `cpu` where the batch size changes digits
    eos_ids: tuple[int, ...]  # tokens that end a text
    context_length: int | None  # positions of a text that is given; None: no limit

    def provenance(self) -> dict[str, Any]:
        """Return facts about the engine for the manifests of artifacts.

        Tables show its `notes`, and its `faults`: why nobody should report what is computed of its texts.
        """
        return {}

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        """Continue every prompt; `emit` gets each finished row once, in any order."""
        self._refuse_call(request, emit, advance)

    def forward(
        self, jobs: Sequence[ForwardRow], *, pool: Pool | None, nll: F64 | None, batch_size: int,
        advance: Advance | None = None,
    ) -> None:  # fmt: skip
        """Read texts: fill `nll` with -log p of tokens in nats, under the full softmax, and `pool.vectors`."""
        self._refuse_call(jobs, pool, nll, batch_size, advance)

    def q_statistics(self, request: QStatisticsRequest, advance: Advance | None = None) -> list[NextToken]:
        """Compute the statistics of each decoder's Q on the continuations."""
        self._refuse_call(request, advance)

    def sketch_gradients(self, request: GradientRequest, advance: Advance | None = None) -> NDArray[np.float32]:
        """Sketch the gradient of each text's mean token loss, shape (texts, size)."""
        self._refuse_call(request, advance)

    def _refuse_call(self, *_: object) -> NoReturn:
        raise SpecError(f"model {self.spec.title}: the backend {self.spec.name} cannot do this")


class Backend(Engine):
    """The rules of a prompt, and reading of texts, the same for every engine."""

    score = compute_token_nll
    embed = embed_rows
    embed_and_score = embed_and_score

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(ids))

    def continuation(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """Return the text that `ids` add after `prompt`: keeps the space that some tokenizers drop at a start."""
        return decode_continuation(self.tokenizer, prompt, ids)

    def bos_prefix(self, ids: Sequence[int] | NDArray[Any]) -> tuple[int, ...]:
        """Return the tokens that precede a text of these ids: the beginning-of-text token, unless the text has it."""
        prefix: tuple[int, ...] = self.tokenizer.bos_prefix if self.tokenizer is not None else ()
        return () if tuple(ids[: len(prefix)]) == prefix else prefix

    @property
    def start_id(self) -> int:
        """The token before an empty prompt: the beginning-of-text token, else the end-of-text token, else 0."""
        bos: int | None = self.tokenizer.bos_id
        return next(iter(self.eos_ids), 0) if bos is None else bos

    def read_ids(self, ids: Sequence[int] | NDArray[Any]) -> tuple[int, ...]:
        """Return what the model reads for a prompt: its ids with the beginning-of-text token; never empty."""
        return (*self.bos_prefix(ids), *map(int, ids)) or (self.start_id,)

    def check_request(self, request: GenerationRequest, positions: int | None) -> GenerationRequest:
        """Refuse lengths that a model of so many positions cannot hold; return prompts with what precedes them."""
        decoder = request.decoder
        if decoder.needs_human_ppl:
            raise SpecError(f"decoder.{decoder.name} needs the human perplexity; call resolve(human_ppl) first")
        prompts = [replace(p, token_ids=(*self.bos_prefix(p.token_ids), *p.token_ids)) for p in request.prompts]
        longest = max((len(p.token_ids) for p in prompts), default=0)
        decoder.check_context_length(positions, request.max_new_tokens, longest)
        return replace(request, prompts=prompts)
