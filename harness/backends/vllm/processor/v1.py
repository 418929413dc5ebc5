"""Adapter to the logits processors of vLLM's first model runner, which runs on CPUs and on GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from openended.harness.backends.vllm.processor.batch import BatchRows
from openended.harness.backends.vllm.processor.orders import KEY

if TYPE_CHECKING:
    from torch import Tensor, device
    from vllm.config import VllmConfig


class V1Processor(LogitsProcessor):  # type: ignore[misc] # vLLM need not be installed
    """Chooses the tokens of requests that carry an order of the harness."""

    def __init__(self, vllm_config: VllmConfig, device: device, is_pin_memory: bool) -> None:  # noqa: ARG002
        self.rows = BatchRows(device)

    def is_argmax_invariant(self) -> bool:
        """Return False: the processor chooses which token is the best."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the rows of the batch."""
        if batch_update is None:
            return
        for index in batch_update.removed:
            self.rows.remove(index)
        for index, params, _, output_ids in batch_update.added:
            self.rows.add(index, (params.extra_args or {}).get(KEY), output_ids)
        for source, target, direction in batch_update.moved:
            if direction is MoveDirectionality.SWAP:
                self.rows.swap(source, target)
            else:
                self.rows.move(source, target)

    def apply(self, logits: Tensor) -> Tensor:
        """Mask each row except for the chosen token."""
        return self.rows.choose_tokens(logits)
