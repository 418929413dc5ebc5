"""The interface of backends, which run a model, and what is checked of requests for new texts, for all of them."""

from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import Advance, NextToken, SpecError
from openended.harness.decoders import Emit, GenerationRequest
from openended.harness.models.forward import ForwardRequest
from openended.harness.models.requests import GradientRequest, QStatisticsRequest
from openended.harness.models.tokenizer import TextTokenizer


class Backend:
    """A model that is ready: transformers in this process or in Ray's workers, vLLM, a denoiser or a server.

    It overrides the methods of the `abilities` that its spec declares. `advance` gets what was just done.
    """

    spec: Any  # a `BackendSpec`
    tokenizer: Any  # a `TextTokenizer`; None for a server that reads text
    device: Any  # torch's, or a stand-in for a remote device; its `type` is `cpu` where the batch size changes digits
    eos_ids: tuple[int, ...]  # tokens that end a text
    context_length: int | None  # positions of a text that is given; None: no limit

    def provenance(self) -> dict[str, Any]:
        """Return facts about the backend for the manifests of artifacts.

        Tables show its `notes`, and its `faults`: why nobody should report what is computed of its texts.
        """
        return {}

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        """Continue every prompt; `emit` gets each finished row once, in any order."""
        self._refuse_call(request, emit, advance)

    def forward(self, request: ForwardRequest, advance: Advance | None = None) -> None:
        """Read texts: fill the request's arrays."""
        self._refuse_call(request, advance)

    def q_statistics(self, request: QStatisticsRequest, advance: Advance | None = None) -> list[NextToken]:
        """Compute the statistics of each decoder's Q on the continuations."""
        self._refuse_call(request, advance)

    def sketch_gradients(self, request: GradientRequest, advance: Advance | None = None) -> NDArray[np.float32]:
        """Sketch the gradient of each text's mean token loss, shape (texts, size)."""
        self._refuse_call(request, advance)

    def _refuse_call(self, *_: object) -> NoReturn:
        raise SpecError(f"model {self.spec.title}: the backend {self.spec.name} cannot do this")


def prepare_request(
    request: GenerationRequest, tokenizer: TextTokenizer | None, positions: int | None
) -> GenerationRequest:
    """Refuse lengths that a model of so many positions cannot hold; return prompts with what precedes them."""
    decoder, prompts = request.decoder, request.prompts
    if decoder.needs_human_ppl:
        raise SpecError(f"decoder.{decoder.name} needs the human perplexity; call set_human_ppl(human_ppl) first")
    if tokenizer is not None:
        prompts = [replace(p, token_ids=(*tokenizer.find_prefix(p.token_ids), *p.token_ids)) for p in prompts]
    longest = max((len(p.token_ids) for p in prompts), default=0)
    decoder.check_context_length(positions, request.max_new_tokens, longest)
    return replace(request, prompts=prompts)
