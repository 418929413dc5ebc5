"""Adapter to the logits processors of vLLM's second model runner, which needs a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext, LogitsProcessor, LogitsProcRequestState

from openended.harness.backends.vllm.processor.batch import BatchRows
from openended.harness.backends.vllm.processor.orders import KEY, TextOrder

if TYPE_CHECKING:
    from torch import Tensor
    from vllm import SamplingParams
    from vllm.config import VllmConfig


class V2Processor(LogitsProcessor):  # type: ignore[misc] # vLLM need not be installed
    """Chooses the tokens of requests that carry an order of the harness."""

    def __init__(self, vllm_config: VllmConfig, req_states: LogitsProcRequestState) -> None:
        super().__init__(vllm_config, req_states)
        self.rows = BatchRows(req_states.device)
        self._prompt_lengths: dict[int, int] = {}

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        """Put a text into a slot, replacing any text there."""
        order: TextOrder | None = (sampling_params.extra_args or {}).get(KEY)
        self.rows.add(req_idx, order)
        self._prompt_lengths[req_idx] = len(order["prompt"]) if order is not None else 0
        return order is not None

    def apply(self, logits: Tensor, ctx: LogitsContext) -> Tensor:
        """Mask each row except for the chosen token; each request has one row, as nothing is drafted."""
        slots = ctx.idx_mapping_np.tolist()
        seen = ctx.seq_lens_upper_bound_np.tolist()
        steps = [max(length - self._prompt_lengths.get(slot, 0), 0) for slot, length in zip(slots, seen, strict=True)]
        return self.rows.choose_tokens(logits, slots, steps)
