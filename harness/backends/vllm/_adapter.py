"""What vLLM's worker process loads from the harness: the logits processor, and methods of the worker.

The name keeps the registry from importing it, for vLLM need not be installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, process_dict_updates

from openended.harness.backends.vllm.rows import KEY, BatchRows, TextInBatch
from openended.harness.core import HarnessError
from openended.harness.decoders import parse_q_decoder

if TYPE_CHECKING:
    from torch import Tensor, device
    from vllm.config import VllmConfig


class V1Processor(LogitsProcessor):  # type: ignore[misc] # vLLM need not be installed
    """Chooses the tokens of requests that carry an order of the harness, or rewrites logits as log Q."""

    def __init__(self, vllm_config: VllmConfig, device: device, is_pin_memory: bool) -> None:  # noqa: ARG002
        self.rows = BatchRows(device)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:  # noqa: ANN401 - vLLM's own class
        """Refuse a request whose decoder in words cannot be built."""
        if isinstance(words := (sampling_params.extra_args or {}).get(KEY), str):
            try:
                parse_q_decoder(words)
            except HarnessError as err:
                raise ValueError(str(err)) from err

    def is_argmax_invariant(self) -> bool:
        """Return False: the processor chooses which token is the best."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        def begin(params: Any, prompt_ids: Sequence[int] | None, output_ids: Sequence[int]) -> TextInBatch | None:  # noqa: ANN401
            return self.rows.begin((params.extra_args or {}).get(KEY), output_ids, prompt_ids)

        process_dict_updates(self.rows.rows, batch_update, begin)

    def apply(self, logits: Tensor) -> Tensor:
        return self.rows.choose_tokens(logits)


class WorkerExtension:
    """Mixed into vLLM's worker class, whose attributes it reads."""

    model_runner: Any

    def take_openended_results(self, group: str, finished: Sequence[tuple[str, int, int]]) -> list[Any]:
        """Return the results of finished texts; see `BatchRows.take_results`."""
        return self._find_openended_rows()[0].take_results(group, finished)

    def forget_openended_texts(self) -> None:
        """Drop the texts of a call that failed."""
        for rows in self._find_openended_rows():
            rows.forget()

    def describe_openended_worker(self) -> dict[str, str]:
        """Return which attention kernels compute, for the record."""
        groups = getattr(self.model_runner, "attn_groups", ())
        names = {group.backend.get_name() for per_cache in groups for group in per_cache}
        return {"attention": ", ".join(sorted(names)), "runner": type(self.model_runner).__name__}

    def _find_openended_rows(self) -> list[BatchRows]:
        return [p.rows for p in self.model_runner.input_batch.logitsprocs.all if isinstance(p, V1Processor)]
