"""Every decoder with a Q as a logits processor of transformers' `generate`, of what calls it, and of vLLM.

    from openended.processors import make_processor

    model.generate(**inputs, do_sample=True, top_k=0, logits_processor=[make_processor("min_p", p=0.1)])

vLLM: `vllm serve MODEL --logits-processors openended.processors:VllmProcessor`, and in a request
`"vllm_xargs": {"openended": "min_p,p=0.1"}`, in Python `SamplingParams(extra_args={"openended": "min_p,p=0.1"})`.

A processor returns log Q, so the engine's own sampler has to be left at temperature 1 without truncation.
"""

from typing import TYPE_CHECKING, Any

from openended.harness.decoders.processor import QProcessor, build_q_decoder

if TYPE_CHECKING:
    from openended.harness.backends.vllm._adapter import V1Processor as VllmProcessor

__all__ = ["VllmProcessor", "make_processor"]


def make_processor(decoder: str, *, pad_id: int | None = None, **options: Any) -> QProcessor:  # noqa: ANN401
    """Return a decoder as a logits processor of `generate`.

    Args:
        decoder: Its name, as on the command line.
        pad_id: The token that fills shorter prompts on the left, where penalties must not count it; None: none.
        options: Of the decoder.

    Raises:
        SpecError: If there is no such decoder or option, or it has no Q.
    """
    return QProcessor(build_q_decoder(decoder, options), pad_id)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's own
    if name == "VllmProcessor":  # needs vLLM
        from openended.harness.backends.vllm._adapter import V1Processor

        return V1Processor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
